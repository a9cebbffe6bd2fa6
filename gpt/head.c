/* Final norm, head and loss. */
#include "gpt/layer_shared.h"

#include <string.h>

dt_status layer_final_norm_forward(const struct layer_run *r)
{
    DT_TRY(layer_keep_norm_input(r));
    DT_TRY(layer_allocate_stream(r, DT_ACTIVATIONS, &r->stash->x));
    return layer_normalize(r, r->kept->input.data, r->stash->x.data);
}

dt_status layer_final_norm_backward(const struct layer_run *r)
{
    struct dt_buffer dnormed;
    if (!inputs_now(r))
        return DT_OK; /* a norm's gradients are all made in the first half */
    dt_buffer_move(&dnormed, &r->stash->dx);
    DT_TRY(layer_allocate_stream(r, DT_ACTIVATIONS, &r->stash->dx));
    DT_TRY(layer_normalize_backward(r, dnormed.data, r->stash->dx.data, true, NULL));
    dt_free(r->stream, &dnormed);
    layer_free_norm_input(r);
    return DT_OK;
}

/* The rows of the vocabulary for which this rank has logits. */
static struct gpt_part vocab_of(const struct layer_run *r)
{
    return gpt_cut_table(r->stage->cut, gpt_of(r->stage->base.model)->vocab_size);
}

/* As loss(), if each rank has the logits of its part of the vocabulary. The ranks exchange three
 * numbers for each row. */
static dt_status shared_loss(const struct layer_run *r, void *logits, const int32_t *targets)
{
    size_t parts = (size_t)r->stage->cut.size, floats = r->rows * sizeof(struct gpt_logit_row) / sizeof(float);
    struct dt_exchange *x = &r->stage->exchange;
    struct dt_buffer own, all;
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, floats * sizeof(float), &own));
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, parts * floats * sizeof(float), &all));
    struct gpt_loss_part part = {
        .logits = logits, .targets = targets, .out = own.data, .rows = r->rows, .vocab = vocab_of(r), .sum = r->stage->base.sum_loss};
    DT_TRY(r->k->loss_part(r->kernels, r->stream, &part));
    DT_TRY(dt_all_gather_begin(x, x->group.comm, DT_EXCHANGE_INPUT, r->stream, own.data, all.data, floats, DT_FP32));
    DT_TRY(dt_exchange_wait(x, DT_EXCHANGE_INPUT));
    struct gpt_loss_gradient gradient = {
        .logits = logits,
        .targets = targets,
        .all = all.data,
        .loss = r->stage->base.loss.data,
        .rows = r->rows,
        .parts = parts,
        .vocab = part.vocab,
        .gradient_scale = r->scales.gradient,
        .loss_scale = r->scales.loss,
        .sum = r->stage->base.sum_loss,
    };
    DT_TRY(r->k->loss_gradient(r->kernels, r->stream, &gradient));
    dt_free(r->stream, &own);
    dt_free(r->stream, &all);
    return DT_OK;
}

/* logits [rows, V] of the rows from `first_row` on become their gradient. */
static dt_status loss(const struct layer_run *r, void *logits, size_t first_row)
{
    const int32_t *targets = (const int32_t *)r->stash->targets.data + first_row;
    if (shared(r))
        return shared_loss(r, logits, targets);
    struct gpt_loss a = {
        .logits = logits,
        .targets = targets,
        .loss = r->stage->base.loss.data,
        .rows = r->rows,
        .gradient_scale = r->scales.gradient,
        .loss_scale = r->scales.loss,
        .sum = r->stage->base.sum_loss,
    };
    return r->k->loss(r->kernels, r->stream, &a);
}

/* The head's weight: its own, or a copy of the token table, or the embedding's table itself, which
 * is in the stage's first group. */
struct head_weight {
    struct layer_run run; /* of the layer that owns the weight */
    enum gpt_tensor_name name;
};

static struct head_weight weight_of(const struct layer_run *r)
{
    struct head_weight weight = {*r, GPT_WEIGHT};
    if (gpt_has_tensor(r->layer, weight.name))
        return weight;
    weight.run.group = &r->stage->base.groups[0];
    weight.run.layer = &r->stage->layers[0];
    weight.run.accumulate = weight.run.group->accumulate;
    weight.name = GPT_TOKEN_WEIGHT;
    return weight;
}

dt_status layer_head_forward(const struct layer_run *r)
{
    size_t V = vocab_of(r).count;
    struct head_weight w = weight_of(r);
    struct dt_buffer all = {0};
    dt_buffer_move(&r->kept->input, &r->stash->x);
    DT_TRY(layer_allocate(r, DT_ACTIVATIONS, V, &r->kept->logits));
    if (r->stage->sliced) {
        DT_TRY(layer_gather_begin(r, &r->kept->input, DT_WORKSPACE, &all));
        DT_TRY(dt_exchange_wait(&r->stage->exchange, DT_EXCHANGE_INPUT));
    }
    DT_TRY(layer_linear(&w.run, r->kept->logits.data, r->stage->sliced ? all.data : r->kept->input.data, w.name, GPT_NO_TENSOR, V, r->d));
    dt_free(r->stream, &all);
    return loss(r, r->kept->logits.data, 0);
}

static dt_status head_input_gradient(const struct layer_run *r)
{
    struct head_weight w = weight_of(r);
    DT_TRY(layer_allocate_summand(r, DT_ACTIVATIONS, &r->stash->dx));
    return layer_input_gradient(&w.run, r->stash->dx.data, r->kept->logits.data, w.name, vocab_of(r).count, r->d);
}

/* Begin the gradients of the group that a tied head shares with the embedding, whose backward adds
 * to all of them. The head writes only those of the token table, so without older gradients to add
 * to, the others (positions) become zero. */
static dt_status begin_table_gradients(const struct layer_run *table)
{
    for (int i = 0; i < table->layer->tensor_count && table->layer->kind == GPT_EMBEDDING && !table->accumulate; i++) {
        const struct gpt_tensor *tensor = &table->layer->tensors[i];
        if (tensor->name != GPT_TOKEN_WEIGHT && tensor->count_elems > 0)
            DT_TRY(dt_zero(table->stream, layer_grad(table, tensor->name), tensor->count_elems * table->element_bytes));
    }
    return DT_OK;
}

static dt_status head_weight_gradient(const struct layer_run *r, const struct dt_buffer *input)
{
    struct head_weight w = weight_of(r);
    DT_TRY(begin_table_gradients(&w.run));
    return layer_weight_gradients(&w.run, r->kept->logits.data, input->data, w.name, GPT_NO_TENSOR, vocab_of(r).count, r->d);
}

/* The gradient of the input is summed over ranks while the weight gradient's product runs, and the
 * input that the weight gradient reads is gathered while the other product runs. */
static dt_status head_backward_shared(const struct layer_run *r)
{
    struct dt_buffer all = {0}, sum;
    if (weights_now(r) && r->stage->sliced)
        DT_TRY(layer_gather_begin(r, &r->kept->input, DT_WORKSPACE, &all));
    DT_TRY(head_input_gradient(r));
    DT_TRY(layer_sum_begin(r, DT_ACTIVATIONS, &r->stash->dx, &sum));
    DT_TRY(layer_sum_in_turn(r, &r->stash->dx, 1));
    if (weights_now(r) && r->stage->sliced)
        DT_TRY(dt_exchange_wait(&r->stage->exchange, DT_EXCHANGE_INPUT));
    if (weights_now(r))
        DT_TRY(head_weight_gradient(r, r->stage->sliced ? &all : &r->kept->input));
    dt_free(r->stream, &all);
    return layer_sum_end(r, &r->stash->dx, &sum);
}

dt_status layer_head_backward(const struct layer_run *r)
{
    if (r->kept->logits.bytes == 0)
        return DT_OK; /* layer_head_in_pieces has computed all of it */
    if (shared(r) && inputs_now(r)) {
        DT_TRY(head_backward_shared(r));
    } else if (weights_now(r)) {
        if (!inputs_now(r))
            DT_TRY(layer_gather(r, DT_WORKSPACE, &r->kept->input));
        DT_TRY(head_weight_gradient(r, &r->kept->input));
    }
    if (!shared(r) && inputs_now(r))
        DT_TRY(head_input_gradient(r));
    if (weights_now(r)) {
        dt_free(r->stream, &r->kept->logits);
        dt_free(r->stream, &r->kept->besides);
        dt_free(r->stream, &r->kept->input);
    }
    return DT_OK;
}

dt_status layer_head_in_pieces(const struct layer_run *r, size_t piece_rows)
{
    size_t V = vocab_of(r).count, row_bytes = r->d * r->element_bytes;
    struct dt_stash *stash = r->stash;
    struct head_weight w = weight_of(r);
    struct layer_run piece = w.run;
    struct dt_buffer logits;
    DT_TRY(begin_table_gradients(&w.run));
    DT_TRY(layer_gather(r, DT_WORKSPACE, &stash->x));
    DT_TRY(layer_allocate_summand(r, DT_ACTIVATIONS, &stash->dx));
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, piece_rows * V * r->element_bytes, &logits));
    for (size_t row = 0; row < r->rows; row += piece_rows) {
        const char *input = (const char *)stash->x.data + row * row_bytes;
        piece.rows = r->rows - row < piece_rows ? r->rows - row : piece_rows;
        piece.accumulate = w.run.accumulate || row > 0;
        DT_TRY(layer_linear(&piece, logits.data, input, w.name, GPT_NO_TENSOR, V, r->d));
        DT_TRY(loss(&piece, logits.data, row));
        DT_TRY(layer_weight_gradients(&piece, logits.data, input, w.name, GPT_NO_TENSOR, V, r->d));
        DT_TRY(layer_input_gradient(&piece, (char *)stash->dx.data + row * row_bytes, logits.data, w.name, V, r->d));
    }
    dt_free(r->stream, &logits);
    dt_free(r->stream, &stash->x);
    return layer_sum_up(r, DT_ACTIVATIONS, &stash->dx);
}

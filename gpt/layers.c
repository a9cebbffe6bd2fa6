/* Forward and backward of each kind of layer, and the pieces that several of them share. */
#include "gpt/layers.h"

#include <string.h>

/* ---- the halves of backward ---- */

static bool inputs_now(const struct layer_run *r)
{
    return r->part & DT_BACKWARD_INPUT;
}

static bool weights_now(const struct layer_run *r)
{
    return r->part & DT_BACKWARD_WEIGHTS;
}

/* Of gradients that both halves read: in a whole backward they live for a moment, otherwise until the second half. */
static enum dt_category gradient_category(const struct layer_run *r)
{
    return r->part == DT_BACKWARD_WHOLE ? DT_WORKSPACE : DT_ACTIVATIONS;
}

/* ---- the group's parameters, memory, dropout ---- */

static size_t tensor_bytes(const struct layer_run *r, const char *name)
{
    size_t offset_elems = gpt_tensor_offset(r->layer, name);
    for (const struct gpt_layer *l = &r->stage->layers[r->group->first_layer]; l != r->layer; l++)
        offset_elems += l->param_elems;
    return offset_elems * r->element_bytes;
}

static void *param(const struct layer_run *r, const char *name)
{
    return (char *)r->group->params + tensor_bytes(r, name);
}

static void *grad(const struct layer_run *r, const char *name)
{
    return (char *)r->group->grads + tensor_bytes(r, name);
}

static struct gpt_dropout dropout(const struct layer_run *r)
{
    return (struct gpt_dropout){
        .seed = r->stage->seed,
        .layer = (uint32_t)r->layer->index,
        .first_sample = r->stash->first_sample,
        .first_row = 0,
        .probability = r->stage->base.model->dropout,
    };
}

/* The same for this rank's rows of the residual stream. */
static struct gpt_dropout stream_dropout(const struct layer_run *r)
{
    struct gpt_dropout all = dropout(r);
    all.first_row = r->stage->sliced ? (uint32_t)((size_t)r->stage->cut.rank * r->stream_rows) : 0;
    return all;
}

/* [M, columns] */
static dt_status allocate(const struct layer_run *r, enum dt_category category, size_t columns, struct dt_buffer *out)
{
    return dt_alloc(r->stream, category, r->rows * columns * r->element_bytes, out);
}

/* [R, d] */
static dt_status allocate_stream(const struct layer_run *r, enum dt_category category, struct dt_buffer *out)
{
    return dt_alloc(r->stream, category, r->stream_rows * r->d * r->element_bytes, out);
}

static enum dt_dtype dtype_of(const struct layer_run *r)
{
    return r->stage->base.model->dtype;
}

static void take(struct dt_buffer *to, struct dt_buffer *from)
{
    *to = *from;
    *from = (struct dt_buffer){0};
}

/* What a simulated framework keeps of a layer of this kind. */
static dt_status keep_framework(const struct layer_run *r, enum gpt_layer_kind kind)
{
    size_t bytes = r->k->kept_bytes(r->kernels, kind, r->stash->samples, r->stage->cut.size, r->stage->sliced);
    return dt_alloc(r->stream, DT_ACTIVATIONS, bytes, &r->kept->framework);
}

static dt_status norm(const struct layer_run *r, void *normed)
{
    struct gpt_layer_norm a = {
        .x = r->kept->input.data,
        .gain = param(r, "norm.gain"),
        .bias = param(r, "norm.bias"),
        .y = normed,
        .mean = r->kept->mean.data,
        .rstd = r->kept->rstd.data,
        .rows = r->stream_rows,
        .d = r->d,
    };
    return r->k->layer_norm(r->kernels, r->stream, &a);
}

static dt_status keep_norm_input(const struct layer_run *r)
{
    take(&r->kept->input, &r->stash->x);
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, r->stream_rows * sizeof(float), &r->kept->mean));
    return dt_alloc(r->stream, DT_ACTIVATIONS, r->stream_rows * sizeof(float), &r->kept->rstd);
}

static void free_norm_input(const struct layer_run *r)
{
    dt_free(r->stream, &r->kept->input);
    dt_free(r->stream, &r->kept->mean);
    dt_free(r->stream, &r->kept->rstd);
}

/* dgain and dbias lie one behind the other. Where each rank has its part of the rows they are summed up beside what follows, and
 * layers_finish_norms waits. */
static dt_status norm_gradient(const struct layer_run *r, const void *dy, void *dx, bool overwrite)
{
    void *sums = grad(r, "norm.gain");
    bool apart = r->stage->sliced && r->accumulate; /* the sum over the ranks must not count what is there once for each */
    if (apart) {
        DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, 2 * r->d * r->element_bytes, &r->kept->dnorm));
        sums = r->kept->dnorm.data;
    }
    struct gpt_layer_norm_gradient a = {
        .dy = dy,
        .x = r->kept->input.data,
        .gain = param(r, "norm.gain"),
        .mean = r->kept->mean.data,
        .rstd = r->kept->rstd.data,
        .dx = dx,
        .dgain = sums,
        .dbias = (char *)sums + r->d * r->element_bytes,
        .rows = r->stream_rows,
        .d = r->d,
        .overwrite = overwrite,
        .accumulate = r->accumulate && !apart,
    };
    DT_TRY(r->k->layer_norm_gradient(r->kernels, r->stream, &a));
    if (!r->stage->sliced)
        return DT_OK;
    return gpt_all_reduce_begin(&r->stage->exchange, GPT_EXCHANGE_NORMS, r->stream, sums, 2 * r->d, dtype_of(r));
}

static bool has_norm(const struct gpt_layer *layer)
{
    return layer->kind == GPT_ATTENTION || layer->kind == GPT_MLP_UP || layer->kind == GPT_FINAL_NORM;
}

dt_status layers_finish_norms(const struct layer_run *r)
{
    struct layer_run at = *r;
    bool waited = false;
    for (int i = r->group->first_layer; r->stage->sliced && inputs_now(r) && i < r->group->first_layer + r->group->layer_count; i++) {
        at.layer = &r->stage->layers[i];
        at.kept = &r->stash->layers[i];
        if (!has_norm(at.layer))
            continue;
        if (!waited)
            DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_NORMS));
        waited = true;
        if (at.kept->dnorm.bytes == 0)
            continue;
        DT_TRY(r->k->add(r->kernels, r->stream, &(struct gpt_add){grad(&at, "norm.gain"), at.kept->dnorm.data, 2 * r->d}));
        dt_free(r->stream, &at.kept->dnorm);
    }
    return DT_OK;
}

/* k and v lie behind q: one product. */
static int joined(const char *weight)
{
    return strcmp(weight, "q.weight") == 0 ? 3 : 1;
}

static dt_status linear(const struct layer_run *r, void *y, const void *x, const char *weight, const char *bias, size_t out, size_t in)
{
    struct gpt_linear a = {.x = x,
                           .w = param(r, weight),
                           .b = bias ? param(r, bias) : NULL,
                           .y = y,
                           .rows = r->rows,
                           .in = in,
                           .out = out,
                           .joined = joined(weight)};
    return r->k->linear(r->kernels, r->stream, &a);
}

static dt_status linear_gradients(const struct layer_run *r, const void *dy, const void *x, const char *weight, const char *bias,
                                  size_t out, size_t in)
{
    struct gpt_linear_weight_gradient a = {
        .dy = dy,
        .x = x,
        .dw = grad(r, weight),
        .db = bias ? grad(r, bias) : NULL,
        .rows = r->rows,
        .in = in,
        .out = out,
        .joined = joined(weight),
        .accumulate = r->accumulate,
    };
    return r->k->linear_weight_gradient(r->kernels, r->stream, &a);
}

static dt_status linear_input_gradient(const struct layer_run *r, void *dx, const void *dy, const char *weight, size_t out, size_t in)
{
    struct gpt_linear_input_gradient a = {
        .dy = dy, .w = param(r, weight), .dx = dx, .rows = r->rows, .in = in, .out = out, .joined = joined(weight)};
    return r->k->linear_input_gradient(r->kernels, r->stream, &a);
}

/* ---- between the residual stream and the products of a layer ---- */

static bool shared(const struct layer_run *r)
{
    return r->stage->cut.size > 1;
}

/* Begin to make all rows [M, d] of every rank's own [R, d]; only where the ranks have different ones. */
static dt_status gather_begin(const struct layer_run *r, const struct dt_buffer *own, enum dt_category category, struct dt_buffer *all)
{
    DT_TRY(allocate(r, category, r->d, all));
    return gpt_all_gather_begin(&r->stage->exchange, GPT_EXCHANGE_INPUT, r->stream, own->data, all->data, r->stream_rows * r->d,
                                dtype_of(r));
}

/* All rows [M, d] in the place of this rank's [R, d]. */
static dt_status gather(const struct layer_run *r, enum dt_category category, struct dt_buffer *rows)
{
    struct dt_buffer all;
    if (!r->stage->sliced)
        return DT_OK;
    DT_TRY(gather_begin(r, rows, category, &all));
    DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_INPUT));
    dt_free(r->stream, rows);
    *rows = all;
    return DT_OK;
}

/* Where a product of which each rank makes a summand goes: [M, d], which turns into the sum's [R, d]. */
static dt_status allocate_summand(const struct layer_run *r, enum dt_category category, struct dt_buffer *out)
{
    return allocate(r, r->stage->sliced ? DT_WORKSPACE : category, r->d, out);
}

/* Begin to sum up the ranks' summands. sum: [R, d], allocated where that is not all of it. */
static dt_status sum_begin(const struct layer_run *r, enum dt_category category, const struct dt_buffer *summand, struct dt_buffer *sum)
{
    struct gpt_exchange *x = &r->stage->exchange;
    *sum = (struct dt_buffer){0};
    if (!shared(r))
        return DT_OK;
    if (!r->stage->sliced)
        return gpt_all_reduce_begin(x, GPT_EXCHANGE_SUM, r->stream, summand->data, r->rows * r->d, dtype_of(r));
    DT_TRY(allocate_stream(r, category, sum));
    return gpt_reduce_scatter_begin(x, GPT_EXCHANGE_SUM, r->stream, summand->data, sum->data, r->stream_rows * r->d, dtype_of(r));
}

/* The sum is there, in the summand's place. */
static dt_status sum_end(const struct layer_run *r, struct dt_buffer *summand, const struct dt_buffer *sum)
{
    if (!shared(r))
        return DT_OK;
    DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_SUM));
    if (r->stage->sliced) {
        dt_free(r->stream, summand);
        *summand = *sum;
    }
    return DT_OK;
}

static dt_status sum_up(const struct layer_run *r, enum dt_category category, struct dt_buffer *summand)
{
    struct dt_buffer sum;
    DT_TRY(sum_begin(r, category, summand, &sum));
    return sum_end(r, summand, &sum);
}

/* A bias behind a sum over the ranks is added by one of them. */
static const char *bias_of_sum(const struct layer_run *r, const char *bias)
{
    return r->stage->cut.rank == 0 ? bias : NULL;
}

/* ---- pieces that attention and MLP share ---- */

/* stash->x [R, d] = residual + dropout(branch), where the branch is stash->x itself. */
static dt_status add_residual(const struct layer_run *r, const void *residual)
{
    struct gpt_dropout_residual a = {
        .residual = residual,
        .branch = r->stash->x.data,
        .out = r->stash->x.data,
        .rows = r->stream_rows,
        .dropout = stream_dropout(r),
    };
    return r->k->dropout_residual(r->kernels, r->stream, &a);
}

/* stash->x = residual + dropout(y), y [M, d] the product of x [M, in] that every rank makes a summand of. */
static dt_status project_to_stream(const struct layer_run *r, const void *x, const char *weight, const char *bias, size_t in,
                                   const void *residual)
{
    DT_TRY(allocate_summand(r, DT_ACTIVATIONS, &r->stash->x));
    DT_TRY(linear(r, r->stash->x.data, x, weight, bias_of_sum(r, bias), r->d, in));
    DT_TRY(sum_up(r, DT_ACTIVATIONS, &r->stash->x));
    return add_residual(r, residual);
}

/* dbranch [M, d]: the residual stream's gradient through the branch's dropout. */
static dt_status branch_gradient(const struct layer_run *r, struct dt_buffer *dbranch)
{
    enum dt_category category = gradient_category(r);
    DT_TRY(allocate_stream(r, r->stage->sliced ? DT_WORKSPACE : category, dbranch));
    struct gpt_dropout_gradient a = {
        .dout = r->stash->dx.data, .dbranch = dbranch->data, .rows = r->stream_rows, .dropout = stream_dropout(r)};
    DT_TRY(r->k->dropout_gradient(r->kernels, r->stream, &a));
    return gather(r, category, dbranch);
}

/* The norm's output, as the product behind it reads it: all rows. */
static dt_status normed_rows(const struct layer_run *r, struct dt_buffer *normed)
{
    DT_TRY(allocate_stream(r, DT_WORKSPACE, normed));
    DT_TRY(norm(r, normed->data));
    return gather(r, DT_WORKSPACE, normed);
}

/* The input half of backward_through_norm where ranks share the layer: the gradient of the product's input is summed up while the weight
 * gradients, if they come now, are computed; and what these read is gathered while the first product is. Weight gradients free dy. */
static dt_status backward_shared(const struct layer_run *r, struct dt_buffer *dy, const char *weight, const char *bias, size_t out)
{
    struct dt_buffer normed = {0}, all = {0}, dnormed, sum;
    if (weights_now(r)) {
        DT_TRY(allocate_stream(r, DT_WORKSPACE, &normed));
        DT_TRY(norm(r, normed.data));
        if (r->stage->sliced)
            DT_TRY(gather_begin(r, &normed, DT_WORKSPACE, &all));
    }
    DT_TRY(allocate(r, DT_WORKSPACE, r->d, &dnormed));
    DT_TRY(linear_input_gradient(r, dnormed.data, dy->data, weight, out, r->d));
    DT_TRY(sum_begin(r, DT_WORKSPACE, &dnormed, &sum));
    if (weights_now(r)) {
        if (r->stage->sliced)
            DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_INPUT));
        DT_TRY(linear_gradients(r, dy->data, r->stage->sliced ? all.data : normed.data, weight, bias, out, r->d));
        dt_free(r->stream, dy);
    }
    dt_free(r->stream, &normed);
    dt_free(r->stream, &all);
    DT_TRY(sum_end(r, &dnormed, &sum));
    DT_TRY(norm_gradient(r, dnormed.data, r->stash->dx.data, false));
    dt_free(r->stream, &dnormed);
    return DT_OK;
}

/* The same, and the whole of it, where a rank has whole layers. */
static dt_status backward_alone(const struct layer_run *r, struct dt_buffer *dy, const char *weight, const char *bias, size_t out)
{
    struct dt_buffer normed;
    DT_TRY(allocate(r, DT_WORKSPACE, r->d, &normed));
    if (weights_now(r)) {
        DT_TRY(norm(r, normed.data));
        DT_TRY(linear_gradients(r, dy->data, normed.data, weight, bias, out, r->d));
    }
    if (inputs_now(r)) /* nobody reads the norm's output any more: its memory takes its gradient */
        DT_TRY(linear_input_gradient(r, normed.data, dy->data, weight, out, r->d));
    if (weights_now(r))
        dt_free(r->stream, dy);
    if (inputs_now(r))
        DT_TRY(norm_gradient(r, normed.data, r->stash->dx.data, false));
    dt_free(r->stream, &normed);
    return DT_OK;
}

static dt_status weights_behind_norm(const struct layer_run *r, struct dt_buffer *dy, const char *weight, const char *bias, size_t out)
{
    struct dt_buffer normed;
    DT_TRY(normed_rows(r, &normed));
    DT_TRY(linear_gradients(r, dy->data, normed.data, weight, bias, out, r->d));
    dt_free(r->stream, dy);
    dt_free(r->stream, &normed);
    return DT_OK;
}

/* The end of attention's and mlp_up's backward: dy [M, out] is the gradient of product(norm(input)). Weight gradients with the norm's
 * output computed again; through product and norm into stash->dx. Frees dy behind the weight gradients. */
static dt_status backward_through_norm(const struct layer_run *r, struct dt_buffer *dy, const char *weight, const char *bias, size_t out)
{
    if (!shared(r))
        DT_TRY(backward_alone(r, dy, weight, bias, out));
    else if (inputs_now(r))
        DT_TRY(backward_shared(r, dy, weight, bias, out));
    else
        DT_TRY(weights_behind_norm(r, dy, weight, bias, out));
    if (weights_now(r))
        free_norm_input(r);
    return DT_OK;
}

/* ---- embedding ---- */

/* The summands of the ranks that share it are rows of the tables: where a rank has none of them, zeros. Dropout is behind their sum. */
static dt_status embedding_forward(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    struct gpt_dropout none = dropout(r);
    none.probability = 0;
    DT_TRY(allocate_summand(r, DT_ACTIVATIONS, &r->stash->x));
    struct gpt_embedding a = {
        .tokens = r->stash->tokens.data,
        .token_table = param(r, "token.weight"),
        .position_table = param(r, "position.weight"),
        .out = r->stash->x.data,
        .samples = r->stash->samples,
        .vocab = gpt_cut_table(r->stage->cut, model->vocab_size),
        .positions = gpt_cut_table(r->stage->cut, model->block_size),
        .dropout = shared(r) ? none : dropout(r),
    };
    DT_TRY(r->k->embedding(r->kernels, r->stream, &a));
    if (!shared(r))
        return DT_OK;
    DT_TRY(sum_up(r, DT_ACTIVATIONS, &r->stash->x));
    if (model->dropout == 0)
        return DT_OK;
    struct gpt_dropout_gradient mask = {
        .dout = r->stash->x.data, .dbranch = r->stash->x.data, .rows = r->stream_rows, .dropout = stream_dropout(r)};
    return r->k->dropout_gradient(r->kernels, r->stream, &mask);
}

static dt_status embedding_backward(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    if (inputs_now(r))
        take(&r->kept->dout, &r->stash->dx);
    if (!weights_now(r))
        return DT_OK;
    DT_TRY(gather(r, DT_WORKSPACE, &r->kept->dout));
    struct gpt_embedding_gradient a = {
        .tokens = r->stash->tokens.data,
        .dout = r->kept->dout.data,
        .dtoken_table = grad(r, "token.weight"),
        .dposition_table = grad(r, "position.weight"),
        .samples = r->stash->samples,
        .vocab = gpt_cut_table(r->stage->cut, model->vocab_size),
        .positions = gpt_cut_table(r->stage->cut, model->block_size),
        .accumulate = r->accumulate,
        .dropout = dropout(r),
    };
    DT_TRY(r->k->embedding_gradient(r->kernels, r->stream, &a));
    dt_free(r->stream, &r->kept->dout);
    return DT_OK;
}

/* ---- attention: x + dropout(projection(attention(norm(x)))) ---- */

/* The heads' outputs from kept->qkv, and what the backward of that reads. */
static dt_status attend(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    struct gpt_part heads = gpt_cut_heads(r->stage->cut, model);
    size_t T = (size_t)model->block_size, samples = r->stash->samples;

    if (model->attention == DT_ATTENTION_FUSED)
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, samples * heads.count * T * sizeof(float), &r->kept->lse));
    else
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, samples * heads.count * T * T * r->element_bytes, &r->kept->weights));
    DT_TRY(allocate(r, DT_ACTIVATIONS, r->e, &r->kept->mixed));
    DT_TRY(keep_framework(r, r->layer->kind));
    struct gpt_attention_forward a = {
        .qkv = r->kept->qkv.data,
        .out = r->kept->mixed.data,
        .lse = r->kept->lse.data,
        .weights = r->kept->weights.data,
        .samples = samples,
        .heads = heads,
        .dropout = dropout(r),
    };
    return r->k->attention(r->kernels, r->stream, &a);
}

/* What is computed again from q, k and v is forgotten. Without the weights a simulated framework keeps as much of attention as of mlp_up. */
static dt_status forget_attention(const struct layer_run *r)
{
    dt_free(r->stream, &r->kept->mixed);
    dt_free(r->stream, &r->kept->lse);
    dt_free(r->stream, &r->kept->weights);
    dt_free(r->stream, &r->kept->framework);
    return keep_framework(r, GPT_MLP_UP);
}

static dt_status attend_again(const struct layer_run *r)
{
    dt_free(r->stream, &r->kept->framework);
    return attend(r);
}

static dt_status attention_forward(const struct layer_run *r)
{
    struct dt_buffer normed;
    DT_TRY(keep_norm_input(r));
    DT_TRY(normed_rows(r, &normed));
    DT_TRY(allocate(r, DT_ACTIVATIONS, 3 * r->e, &r->kept->qkv));
    DT_TRY(linear(r, r->kept->qkv.data, normed.data, "q.weight", "q.bias", 3 * r->e, r->d)); /* k and v lie behind q */
    dt_free(r->stream, &normed);

    DT_TRY(attend(r));
    DT_TRY(project_to_stream(r, r->kept->mixed.data, "projection.weight", "projection.bias", r->e, r->kept->input.data));
    return r->stage->attention_again ? forget_attention(r) : DT_OK;
}

/* From dmixed [M, e], which it frees, to kept->dqkv. */
static dt_status through_attention(const struct layer_run *r, struct dt_buffer *dmixed)
{
    DT_TRY(allocate(r, gradient_category(r), 3 * r->e, &r->kept->dqkv));
    struct gpt_attention_backward a = {
        .dout = dmixed->data,
        .out = r->kept->mixed.data,
        .qkv = r->kept->qkv.data,
        .lse = r->kept->lse.data,
        .weights = r->kept->weights.data,
        .dqkv = r->kept->dqkv.data,
        .samples = r->stash->samples,
        .heads = gpt_cut_heads(r->stage->cut, r->stage->base.model),
        .dropout = dropout(r),
    };
    DT_TRY(r->k->attention_gradient(r->kernels, r->stream, &a));
    dt_free(r->stream, dmixed);
    dt_free(r->stream, &r->kept->qkv);
    dt_free(r->stream, &r->kept->lse);
    dt_free(r->stream, &r->kept->weights);
    dt_free(r->stream, &r->kept->framework);
    return DT_OK;
}

static dt_status attention_backward(const struct layer_run *r)
{
    struct dt_layer_stash *kept = r->kept;
    struct dt_buffer dmixed;

    if (r->stage->attention_again && inputs_now(r))
        DT_TRY(attend_again(r));
    if (inputs_now(r))
        DT_TRY(branch_gradient(r, &kept->dbranch));
    if (weights_now(r))
        DT_TRY(linear_gradients(r, kept->dbranch.data, kept->mixed.data, "projection.weight", "projection.bias", r->d, r->e));
    if (inputs_now(r)) {
        DT_TRY(allocate(r, DT_WORKSPACE, r->e, &dmixed));
        DT_TRY(linear_input_gradient(r, dmixed.data, kept->dbranch.data, "projection.weight", r->d, r->e));
    }
    if (weights_now(r))
        dt_free(r->stream, &kept->dbranch);
    if (inputs_now(r))
        DT_TRY(through_attention(r, &dmixed));
    if (weights_now(r))
        dt_free(r->stream, &kept->mixed);
    return backward_through_norm(r, &kept->dqkv, "q.weight", "q.bias", 3 * r->e);
}

/* ---- MLP: x + dropout(down(gelu(up(norm(x))))), in two layers so that each can be gathered alone ---- */

static dt_status mlp_up_forward(const struct layer_run *r)
{
    struct dt_buffer normed;
    DT_TRY(keep_norm_input(r));
    DT_TRY(normed_rows(r, &normed));
    DT_TRY(allocate(r, DT_ACTIVATIONS, 4 * r->e, &r->kept->hidden));
    DT_TRY(keep_framework(r, r->layer->kind));
    DT_TRY(linear(r, r->kept->hidden.data, normed.data, "weight", "bias", 4 * r->e, r->d));
    dt_free(r->stream, &normed);
    return DT_OK;
}

static dt_status mlp_down_forward(const struct layer_run *r)
{
    const struct dt_layer_stash *up = r->kept - 1; /* mlp_up of the same block is always in the same stage */
    struct dt_buffer active;
    DT_TRY(allocate(r, DT_WORKSPACE, 4 * r->e, &active));
    DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active.data, up->hidden.data, r->rows * 4 * r->e}));
    DT_TRY(project_to_stream(r, active.data, "weight", "bias", 4 * r->e, up->input.data));
    dt_free(r->stream, &active);
    return DT_OK;
}

/* dw, db from dbranch and gelu(hidden), which is computed again to active [M, 4e]. */
static dt_status mlp_down_weight_gradients(const struct layer_run *r, const struct dt_layer_stash *up, void *active)
{
    DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active, up->hidden.data, r->rows * 4 * r->e}));
    return linear_gradients(r, r->kept->dbranch.data, active, "weight", "bias", r->d, 4 * r->e);
}

/* The gradient of mlp_up's output, up->dhidden, through product and GELU. */
static dt_status mlp_down_input_gradient(const struct layer_run *r, const struct dt_layer_stash *up)
{
    struct gpt_linear_gelu_input_gradient a = {
        .dy = r->kept->dbranch.data,
        .w = param(r, "weight"),
        .hidden = up->hidden.data,
        .dx = up->dhidden.data,
        .rows = r->rows,
        .in = 4 * r->e,
        .out = r->d,
    };
    return r->k->linear_gelu_input_gradient(r->kernels, r->stream, &a);
}

static dt_status mlp_down_backward(const struct layer_run *r)
{
    struct dt_layer_stash *up = r->kept - 1;
    struct dt_buffer active;

    if (inputs_now(r)) {
        DT_TRY(branch_gradient(r, &r->kept->dbranch));
        DT_TRY(allocate(r, gradient_category(r), 4 * r->e, &up->dhidden));
        if (weights_now(r)) /* gelu(hidden) is read before its memory takes the gradient of hidden */
            DT_TRY(mlp_down_weight_gradients(r, up, up->dhidden.data));
        DT_TRY(mlp_down_input_gradient(r, up));
    } else {
        DT_TRY(allocate(r, DT_WORKSPACE, 4 * r->e, &active));
        DT_TRY(mlp_down_weight_gradients(r, up, active.data));
        dt_free(r->stream, &active);
    }
    if (weights_now(r)) {
        dt_free(r->stream, &r->kept->dbranch);
        dt_free(r->stream, &up->hidden);
        dt_free(r->stream, &up->framework);
    }
    return DT_OK;
}

static dt_status mlp_up_backward(const struct layer_run *r)
{
    return backward_through_norm(r, &r->kept->dhidden, "weight", "bias", 4 * r->e);
}

/* ---- final norm, head and loss ---- */

static dt_status final_norm_forward(const struct layer_run *r)
{
    DT_TRY(keep_norm_input(r));
    DT_TRY(allocate_stream(r, DT_ACTIVATIONS, &r->stash->x));
    return norm(r, r->stash->x.data);
}

static dt_status final_norm_backward(const struct layer_run *r)
{
    struct dt_buffer dnormed;
    if (!inputs_now(r))
        return DT_OK; /* a norm's gradients all belong to the first half */
    take(&dnormed, &r->stash->dx);
    DT_TRY(allocate_stream(r, DT_ACTIVATIONS, &r->stash->dx));
    DT_TRY(norm_gradient(r, dnormed.data, r->stash->dx.data, true));
    dt_free(r->stream, &dnormed);
    free_norm_input(r);
    return DT_OK;
}

/* The rows of the vocabulary whose logits this rank has. */
static struct gpt_part vocab_of(const struct layer_run *r)
{
    return gpt_cut_table(r->stage->cut, r->stage->base.model->vocab_size);
}

/* As loss(), where each rank has the logits of its part of the vocabulary: three numbers a row tell the others what they need of them. */
static dt_status shared_loss(const struct layer_run *r, void *logits, const int32_t *targets)
{
    size_t parts = (size_t)r->stage->cut.size, floats = r->rows * sizeof(struct gpt_logit_row) / sizeof(float);
    struct gpt_exchange *x = &r->stage->exchange;
    struct dt_buffer own, all;
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, floats * sizeof(float), &own));
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, parts * floats * sizeof(float), &all));
    struct gpt_loss_part part = {
        .logits = logits, .targets = targets, .out = own.data, .rows = r->rows, .vocab = vocab_of(r), .sum = r->stage->sum_loss};
    DT_TRY(r->k->loss_part(r->kernels, r->stream, &part));
    DT_TRY(gpt_all_gather_begin(x, GPT_EXCHANGE_INPUT, r->stream, own.data, all.data, floats, DT_FP32));
    DT_TRY(gpt_exchange_wait(x, GPT_EXCHANGE_INPUT));
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
        .sum = r->stage->sum_loss,
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
        .sum = r->stage->sum_loss,
    };
    return r->k->loss(r->kernels, r->stream, &a);
}

static dt_status head_forward(const struct layer_run *r)
{
    size_t V = vocab_of(r).count;
    struct dt_buffer all = {0};
    take(&r->kept->input, &r->stash->x);
    DT_TRY(allocate(r, DT_ACTIVATIONS, V, &r->kept->logits));
    if (r->recompute) /* a simulated framework holds the model's output besides */
        DT_TRY(keep_framework(r, r->layer->kind));
    if (r->stage->sliced) {
        DT_TRY(gather_begin(r, &r->kept->input, DT_WORKSPACE, &all));
        DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_INPUT));
    }
    DT_TRY(linear(r, r->kept->logits.data, r->stage->sliced ? all.data : r->kept->input.data, "weight", NULL, V, r->d));
    dt_free(r->stream, &all);
    return loss(r, r->kept->logits.data, 0);
}

static dt_status head_input_gradient(const struct layer_run *r)
{
    DT_TRY(allocate_summand(r, DT_ACTIVATIONS, &r->stash->dx));
    return linear_input_gradient(r, r->stash->dx.data, r->kept->logits.data, "weight", vocab_of(r).count, r->d);
}

static dt_status head_weight_gradient(const struct layer_run *r, const struct dt_buffer *input)
{
    return linear_gradients(r, r->kept->logits.data, input->data, "weight", NULL, vocab_of(r).count, r->d);
}

/* The input's gradient is summed up beside the weight gradient's product, and what that one reads is gathered beside the other's. */
static dt_status head_backward_shared(const struct layer_run *r)
{
    struct dt_buffer all = {0}, sum;
    if (weights_now(r) && r->stage->sliced)
        DT_TRY(gather_begin(r, &r->kept->input, DT_WORKSPACE, &all));
    DT_TRY(head_input_gradient(r));
    DT_TRY(sum_begin(r, DT_ACTIVATIONS, &r->stash->dx, &sum));
    if (weights_now(r) && r->stage->sliced)
        DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_INPUT));
    if (weights_now(r))
        DT_TRY(head_weight_gradient(r, r->stage->sliced ? &all : &r->kept->input));
    dt_free(r->stream, &all);
    return sum_end(r, &r->stash->dx, &sum);
}

static dt_status head_backward(const struct layer_run *r)
{
    if (r->kept->logits.bytes == 0)
        return DT_OK; /* computed in pieces, all of it */
    if (shared(r) && inputs_now(r)) {
        DT_TRY(head_backward_shared(r));
    } else if (weights_now(r)) {
        if (!inputs_now(r))
            DT_TRY(gather(r, DT_WORKSPACE, &r->kept->input));
        DT_TRY(head_weight_gradient(r, &r->kept->input));
    }
    if (!shared(r) && inputs_now(r))
        DT_TRY(head_input_gradient(r));
    if (weights_now(r)) {
        dt_free(r->stream, &r->kept->logits);
        dt_free(r->stream, &r->kept->framework);
        dt_free(r->stream, &r->kept->input);
    }
    return DT_OK;
}

dt_status layer_head_in_pieces(const struct layer_run *r, size_t piece_rows)
{
    size_t V = vocab_of(r).count, row_bytes = r->d * r->element_bytes;
    struct dt_stash *stash = r->stash;
    struct layer_run piece = *r;
    struct dt_buffer logits;
    DT_TRY(gather(r, DT_WORKSPACE, &stash->x));
    DT_TRY(allocate_summand(r, DT_ACTIVATIONS, &stash->dx));
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, piece_rows * V * r->element_bytes, &logits));
    for (size_t row = 0; row < r->rows; row += piece_rows) {
        const char *input = (const char *)stash->x.data + row * row_bytes;
        piece.rows = r->rows - row < piece_rows ? r->rows - row : piece_rows;
        piece.accumulate = r->accumulate || row > 0;
        DT_TRY(linear(&piece, logits.data, input, "weight", NULL, V, r->d));
        DT_TRY(loss(&piece, logits.data, row));
        DT_TRY(linear_gradients(&piece, logits.data, input, "weight", NULL, V, r->d));
        DT_TRY(linear_input_gradient(&piece, (char *)stash->dx.data + row * row_bytes, logits.data, "weight", V, r->d));
    }
    dt_free(r->stream, &logits);
    dt_free(r->stream, &stash->x);
    return sum_up(r, DT_ACTIVATIONS, &stash->dx);
}

const struct layer_passes layer_passes[] = {
    [GPT_EMBEDDING] = {embedding_forward, embedding_backward},
    [GPT_ATTENTION] = {attention_forward, attention_backward},
    [GPT_MLP_UP] = {mlp_up_forward, mlp_up_backward},
    [GPT_MLP_DOWN] = {mlp_down_forward, mlp_down_backward},
    [GPT_FINAL_NORM] = {final_norm_forward, final_norm_backward},
    [GPT_HEAD] = {head_forward, head_backward},
};

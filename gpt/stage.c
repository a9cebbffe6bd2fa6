/* A stage: how it is created, its parameters are initialised, and groups of layers run. */
#include "gpt/stage.h"
#include "gpt/layer_shared.h"

#include <stdlib.h>

static struct gpt_stage *own(struct dt_stage *stage)
{
    return (struct gpt_stage *)stage;
}

static const struct gpt_stage *own_const(const struct dt_stage *stage)
{
    return (const struct gpt_stage *)stage;
}

/* ---- a stage ---- */

/* Whether the embedding and the tied head are in two parts of the model, and this layer has one of
 * the two copies of the table. */
static bool has_copy(const struct gpt_layer *layer, const struct dt_part *part)
{
    return layer->kind == GPT_EMBEDDING ? !part->last : layer->kind == GPT_HEAD && !part->first;
}

dt_status gpt_stage_begin(struct dt_stage *stage, const struct dt_stage_options *options, int layers, struct dt_stream *stream)
{
    struct gpt_stage *s = own(stage);
    s->cut = (struct gpt_cut){0, 1};
    if (options->tensor.comm)
        s->cut = (struct gpt_cut){dt_comm_rank(options->tensor.comm), dt_comm_size(options->tensor.comm)};
    if (options->context.comm)
        s->where =
            gpt_positions_of(stage->model, dt_comm_rank(options->context.comm), dt_comm_size(options->context.comm), options->context.kind);
    s->sliced = s->cut.size > 1 && options->tensor.sequence_parallel;
    s->layers = calloc((size_t)layers, sizeof *s->layers);
    DT_TRY(dt_allocated(s->layers, "no host memory for a stage of %d layers", layers));
    return dt_exchange_init(&s->exchange, &options->tensor, &options->context, dt_stream_device(stream));
}

void gpt_stage_end(struct dt_stage *stage)
{
    dt_exchange_finish(&own(stage)->exchange);
    free(own(stage)->layers);
}

void gpt_describe_group(struct dt_stage *stage, const struct dt_part *part, struct dt_group *group)
{
    const struct dt_model *model = stage->model;
    struct gpt_layer *first = &own(stage)->layers[group->first_layer], *last = first + group->layer_count - 1;
    for (struct gpt_layer *layer = first; layer <= last; layer++) {
        gpt_describe_layer(model, own(stage)->cut, group->model_layer + (int)(layer - first), layer);
        bool copy = gpt_of(model)->tied && has_copy(layer, part);
        if (copy && layer->kind == GPT_HEAD)
            gpt_add_table_copy(model, own(stage)->cut, layer);
        if (copy) {
            group->copy_first_elem = group->param_elems; /* the table is the layer's first tensor */
            group->copy_elems = layer->tensors[0].count_elems;
        }
        group->param_elems += layer->param_elems;
    }
    group->backward_reads_params = first != last || first->kind != GPT_EMBEDDING;
    group->kept_with_next = last->kind == GPT_MLP_UP; /* mlp_down reads what mlp_up keeps */
    group->reads_first = gpt_of(model)->tied && last->kind == GPT_HEAD && part->first;
}

/* M, the number of rows. */
static size_t stage_rows(const struct dt_stage *stage, size_t samples)
{
    return samples * gpt_positions_count(&own_const(stage)->where, stage->model);
}

/* Elements of the residual stream, the same for all layers: M rows of d elements; with sequence
 * parallelism M / N rows, for rank r of N those from r M / N on. */
static size_t stream_elems(const struct dt_stage *stage, size_t samples)
{
    size_t rows = stage_rows(stage, samples);
    return (own_const(stage)->sliced ? rows / (size_t)own_const(stage)->cut.size : rows) * (size_t)gpt_of(stage->model)->hidden;
}

size_t gpt_boundary_elems(const struct dt_stage *stage, int part, bool output, size_t samples)
{
    return stream_elems(stage, samples);
}

/* ---- a stash's samples ---- */

/* Copy this rank's positions of the stash's samples from the batch, which has all positions. */
static dt_status copy_ids(const struct dt_stage *stage, const struct dt_stash *stash, const int32_t *batch, int32_t *to,
                          struct dt_stream *stream)
{
    const struct gpt_positions *where = &own_const(stage)->where;
    size_t T = (size_t)gpt_of(stage->model)->block_size, half = where->count / 2;
    if (!where->count)
        return dt_copy_from_host(stream, to, batch + stash->first_sample * T, stash->samples * T * sizeof *to);
    for (size_t sample = stash->first_sample; sample < stash->first_sample + stash->samples; sample++, to += where->count) {
        DT_TRY(dt_copy_from_host(stream, to, batch + sample * T + where->first[0], half * sizeof *to));
        DT_TRY(dt_copy_from_host(stream, to + half, batch + sample * T + where->first[1], (where->count - half) * sizeof *to));
    }
    return DT_OK;
}

dt_status gpt_begin_samples(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream)
{
    const struct gpt_kernel_set *k = gpt_kernel_set(stage->kernels);
    size_t bytes = stage_rows(stage, stash->samples) * sizeof(int32_t);
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, bytes, &stash->inputs));
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, bytes, &stash->targets));
    if (stage->batch.inputs) {
        DT_TRY(copy_ids(stage, stash, stage->batch.inputs, stash->inputs.data, stream));
        return copy_ids(stage, stash, stage->batch.targets, stash->targets.data, stream);
    }
    struct gpt_tokens a = {
        .inputs = stash->inputs.data,
        .targets = stash->targets.data,
        .samples = stash->samples,
        .positions = own_const(stage)->where,
        .seed = stage->seed,
        .first_sample = stash->first_sample,
    };
    return k->table->tokens(k->state, stream, &a);
}

/* ---- a group of layers, one after the other ---- */

/* Columns of q, k and v together. */
static size_t qkv_columns(const struct gpt_stage *s)
{
    const struct dt_model *model = s->base.model;
    return (gpt_cut_heads(s->cut, model).count + 2 * gpt_cut_kv_heads(s->cut, model).count) * (size_t)gpt_head_width(model);
}

static struct layer_run run_of(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_stream *stream)
{
    return (struct layer_run){
        .stage = own(stage),
        .group = &stage->groups[g],
        .accumulate = stage->groups[g].accumulate,
        .stash = stash,
        .stream = stream,
        .k = gpt_kernel_set(stage->kernels)->table,
        .kernels = gpt_kernel_set(stage->kernels)->state,
        .rows = stage_rows(stage, stash->samples),
        .stream_rows = stream_elems(stage, stash->samples) / (size_t)gpt_of(stage->model)->hidden,
        .d = (size_t)gpt_of(stage->model)->hidden,
        .e = (size_t)gpt_of(stage->model)->hidden / (size_t)own(stage)->cut.size,
        .c = qkv_columns(own(stage)),
        .u = (size_t)gpt_mlp_features(stage->model) / (size_t)own(stage)->cut.size,
        .f = (size_t)gpt_ffn(stage->model) / (size_t)own(stage)->cut.size,
        .element_bytes = dt_dtype_bytes(stage->model->dtype),
        .part = DT_BACKWARD_WHOLE,
    };
}

static const struct layer_passes {
    dt_status (*forward)(const struct layer_run *r);
    dt_status (*backward)(const struct layer_run *r);
} layer_passes[] = {
    [GPT_EMBEDDING] = {layer_embedding_forward, layer_embedding_backward},
    [GPT_ATTENTION] = {layer_attention_forward, layer_attention_backward},
    [GPT_MLP_UP] = {layer_mlp_up_forward, layer_mlp_up_backward},
    [GPT_MLP_DOWN] = {layer_mlp_down_forward, layer_mlp_down_backward},
    [GPT_FINAL_NORM] = {layer_final_norm_forward, layer_final_norm_backward},
    [GPT_HEAD] = {layer_head_forward, layer_head_backward},
};

/* Set the run's layer to layer `i` of the stage. */
static const struct layer_passes *at_layer(struct layer_run *r, int i)
{
    r->layer = &r->stage->layers[i];
    r->kept = &r->stash->layers[i];
    return &layer_passes[r->layer->kind];
}

/* Bytes that the stage keeps of the layer only because of DT_KEEP_NORMS and DT_KEEP_MLP. */
static size_t kept_cheaply_bytes(const struct layer_run *r)
{
    enum gpt_layer_kind kind = r->layer->kind;
    bool of_block = kind == GPT_ATTENTION || kind == GPT_MLP_UP;
    size_t elems = of_block && keeps(r, DT_KEEP_NORMS) ? r->stream_rows * r->d : 0;
    if (kind == GPT_MLP_UP && keeps(r, DT_KEEP_MLP))
        elems += r->rows * r->f;
    return elems * r->element_bytes;
}

/* Allocate what the kernels keep of a layer of this kind in addition; for the head only if its
 * forward runs as part of backward. */
static dt_status keep_besides(const struct layer_run *r, enum gpt_layer_kind kind)
{
    const struct gpt_kernel_set *kernels = gpt_kernel_set(r->stage->base.kernels);
    if (!kernels->plain.table->besides_bytes || (kind == GPT_HEAD && !r->recompute))
        return DT_OK;
    double samples = (double)r->rows / gpt_of(r->stage->base.model)->block_size;
    size_t bytes = kernels->plain.table->besides_bytes(kernels->plain.state, kind, samples, r->stage->cut.size, r->stage->sliced);
    size_t own_bytes = kept_cheaply_bytes(r);
    return bytes > own_bytes ? dt_alloc(r->stream, DT_ACTIVATIONS, bytes - own_bytes, &r->kept->besides) : DT_OK;
}

static dt_status keep_besides_instead(const struct layer_run *r, enum gpt_layer_kind kind)
{
    dt_free(r->stream, &r->kept->besides);
    return keep_besides(r, kind);
}

/* Whether every second product of the layer is recomputed; then nothing is kept in addition, except
 * of the last product. */
static bool forgets(const struct layer_run *r)
{
    return r->layer->block >= 0 && makes_again(r, DT_AGAIN_PRODUCTS);
}

/* If backward recomputes attention's weights, attention keeps as much in addition as the first half
 * of the MLP. */
static dt_status forward(const struct layer_run *r, const struct layer_passes *passes)
{
    if (!forgets(r) || r->layer->kind == GPT_MLP_DOWN)
        DT_TRY(keep_besides(r, r->layer->kind));
    DT_TRY(passes->forward(r));
    return attends_again(r) ? keep_besides_instead(r, GPT_MLP_UP) : DT_OK;
}

static dt_status backward(const struct layer_run *r, const struct layer_passes *passes)
{
    if (attends_again(r) && inputs_now(r))
        DT_TRY(keep_besides_instead(r, r->layer->kind));
    if (forgets(r) && r->layer->kind == GPT_MLP_DOWN && inputs_now(r)) { /* the whole block, at once */
        struct layer_run up = layer_one_before(r), attention = layer_one_before(&up);
        DT_TRY(keep_besides(&up, GPT_MLP_UP));
        DT_TRY(keep_besides(&attention, GPT_ATTENTION));
    }
    return passes->backward(r);
}

dt_status gpt_forward(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_loss_scales scales, struct dt_stream *stream)
{
    struct layer_run r = run_of(stage, g, stash, stream);
    r.scales = scales;
    for (int i = r.group->first_layer; i < r.group->first_layer + r.group->layer_count; i++)
        DT_TRY(forward(&r, at_layer(&r, i)));
    return DT_OK;
}

dt_status gpt_backward(struct dt_stage *stage, int g, struct dt_stash *stash, enum dt_backward part, struct dt_stream *stream)
{
    struct layer_run r = run_of(stage, g, stash, stream);
    r.part = part;
    for (int i = r.group->first_layer + r.group->layer_count - 1; i >= r.group->first_layer; i--)
        DT_TRY(backward(&r, at_layer(&r, i)));
    return layer_finish_gradients(&r);
}

dt_status gpt_recompute(struct dt_stage *stage, int g, struct dt_stash *stash, bool ends_here, struct dt_stream *stream)
{
    struct layer_run r = run_of(stage, g, stash, stream);
    int end = r.group->first_layer + r.group->layer_count;
    r.recompute = true;
    for (int i = r.group->first_layer; i < end; i++) {
        const struct layer_passes *passes = at_layer(&r, i);
        if (r.layer->kind == GPT_MLP_DOWN && ends_here && i == end - 1)
            return DT_OK; /* the layer keeps nothing for its backward */
        DT_TRY(forward(&r, passes));
    }
    return DT_OK;
}

dt_status gpt_forward_backward(struct dt_stage *stage, int g, struct dt_stash *stash, int blocks, struct dt_loss_scales scales,
                               struct dt_stream *stream)
{
    struct layer_run norm = run_of(stage, g, stash, stream), head = norm;
    bool with_norm = norm.group->layer_count > 1;
    if (with_norm)
        DT_TRY(at_layer(&norm, norm.group->first_layer)->forward(&norm));

    head.layer = &own(stage)->layers[stage->layer_count - 1];
    head.scales = scales;
    DT_TRY(layer_head_in_pieces(&head, gpt_logit_rows(stage->model, blocks, head.rows)));
    if (with_norm)
        DT_TRY(layer_passes[GPT_FINAL_NORM].backward(&norm));
    return layer_finish_gradients(&norm);
}

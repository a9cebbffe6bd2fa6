/* A stage: created, initialised, and run a group of layers at a time. */
#include "gpt/stage.h"
#include "gpt/layer_parts.h"

#include <stdlib.h>

static const float INITIAL_STANDARD_DEVIATION = 0.02f; /* GPT-2's, and minGPT's */

static struct gpt_stage *own(struct dt_stage *stage)
{
    return (struct gpt_stage *)stage;
}

static const struct gpt_stage *own_const(const struct dt_stage *stage)
{
    return (const struct gpt_stage *)stage;
}

/* ---- a stage ---- */

/* Whether the embedding and the tied head are in two parts, and this layer has one of the two copies of the table. */
static bool has_copy(const struct gpt_layer *layer, const struct dt_part *part)
{
    return layer->kind == GPT_EMBEDDING ? !part->last : layer->kind == GPT_HEAD && !part->first;
}

static struct dt_group describe_group(const struct gpt_stage *s, const struct dt_part *part, int g, int first_layer, int end_layer)
{
    const struct gpt_layer *first = &s->layers[first_layer], *last = &s->layers[end_layer - 1];
    struct dt_group group = {
        .index = g,
        .first_layer = first_layer,
        .layer_count = end_layer - first_layer,
        .block = first->block,
        .backward_reads_params = first != last || first->kind != GPT_EMBEDDING,
        .kept_with_next = last->kind == GPT_MLP_UP, /* mlp_down reads what mlp_up keeps */
        .reads_first = gpt_of(s->base.model)->tied && last->kind == GPT_HEAD && part->first,
    };
    for (const struct gpt_layer *layer = first; layer <= last; layer++) {
        if (gpt_of(s->base.model)->tied && has_copy(layer, part)) {
            group.copy_first_elem = group.param_elems; /* the table is the layer's first tensor */
            group.copy_elems = layer->tensors[0].count_elems;
        }
        group.param_elems += layer->param_elems;
    }
    return group;
}

static int count_layers(const struct dt_stage_options *options)
{
    int count = 0;
    for (int i = 0; i < options->part_count; i++)
        count += options->parts[i].end - options->parts[i].first;
    return count;
}

/* Layers and groups of one part, after those that the stage has. group_first: room for the part's groups. */
static void add_part(struct gpt_stage *s, const struct dt_layers *from, enum dt_unit unit, int *group_first)
{
    struct dt_stage *base = &s->base;
    int before = s->layer_count - from->first, groups = gpt_group_layers(base->model, from->first, from->end, unit, group_first);
    struct dt_part *part = &base->parts[base->part_count++];
    *part = (struct dt_part){.first_group = base->group_count,
                             .end_group = base->group_count + groups,
                             .first = from->first == 0,
                             .last = from->end == gpt_layer_count(base->model),
                             .again = from->again};
    for (int layer = from->first; layer < from->end; layer++) {
        struct gpt_layer *out = &s->layers[s->layer_count++];
        gpt_describe_layer(base->model, s->cut, layer, out);
        if (gpt_of(base->model)->tied && out->kind == GPT_HEAD && has_copy(out, part))
            gpt_add_table_copy(base->model, s->cut, out);
        base->param_elems += out->param_elems;
    }
    for (int g = 0; g < groups; g++, base->group_count++)
        base->groups[base->group_count] = describe_group(s, part, base->group_count, before + group_first[g], before + group_first[g + 1]);
    base->first |= part->first;
    base->last |= part->last;
}

dt_status gpt_stage_create(const struct dt_model *model, const struct dt_stage_options *options, struct dt_kernels *kernels,
                           struct dt_stream *stream, struct dt_stage **out)
{
    dt_status status = DT_ERR_HOST_MEMORY;
    int layer_count = count_layers(options);
    int *group_first = calloc((size_t)layer_count + 1, sizeof *group_first);
    struct gpt_stage *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s || !group_first)
        goto fail;
    *s = (struct gpt_stage){
        .base = {.model = model, .kernels = kernels},
        .cut = {0, 1},
        .keep = options->keep,
        .separate_kernels = options->separate_kernels,
        .seed = options->seed,
        .sum_loss = options->sum_loss,
    };
    if (options->tensor.comm)
        s->cut = (struct gpt_cut){dt_comm_rank(options->tensor.comm), dt_comm_size(options->tensor.comm)};
    if (options->context.comm)
        s->where = gpt_positions_of(model, dt_comm_rank(options->context.comm), dt_comm_size(options->context.comm), options->context.kind);
    s->sliced = s->cut.size > 1 && options->tensor.sequence_parallel;
    s->layers = calloc((size_t)layer_count, sizeof *s->layers);
    s->base.groups = calloc((size_t)layer_count, sizeof *s->base.groups);
    s->base.parts = calloc((size_t)options->part_count, sizeof *s->base.parts);
    if (!s->layers || !s->base.groups || !s->base.parts)
        goto fail;
    DT_TRY_ELSE(fail, status, gpt_exchange_init(&s->exchange, &options->tensor, &options->context, dt_stream_device(stream)));

    for (int i = 0; i < options->part_count; i++)
        add_part(s, &options->parts[i], options->unit, group_first);
    if (s->base.last) {
        DT_TRY_ELSE(fail, status, dt_alloc(stream, DT_ACTIVATIONS, sizeof(double), &s->base.loss));
    }
    free(group_first);
    *out = &s->base;
    return DT_OK;

fail:
    free(group_first);
    gpt_stage_destroy(s ? &s->base : NULL, stream);
    return status == DT_ERR_HOST_MEMORY ? dt_fail(status, "no host memory for a stage of %d layers", layer_count) : status;
}

void gpt_stage_destroy(struct dt_stage *stage, struct dt_stream *stream)
{
    if (!stage)
        return;
    dt_free(stream, &stage->loss);
    gpt_exchange_finish(&own(stage)->exchange);
    free(own(stage)->layers);
    free(stage->parts);
    free(stage->groups);
    free(stage);
}

/* M rows. */
static size_t stage_rows(const struct dt_stage *stage, size_t samples)
{
    return samples * gpt_positions_count(&own_const(stage)->where, stage->model);
}

/* Of the residual stream, which is as large everywhere: M rows of d elements; with sequence parallelism M / N rows, on rank r of N those from
 * r M / N on. */
static size_t stream_elems(const struct dt_stage *stage, size_t samples)
{
    size_t rows = stage_rows(stage, samples);
    return (own_const(stage)->sliced ? rows / (size_t)own_const(stage)->cut.size : rows) * (size_t)gpt_of(stage->model)->hidden;
}

size_t gpt_boundary_elems(const struct dt_stage *stage, int part, bool output, size_t samples)
{
    return stream_elems(stage, samples);
}

/* Write elements [from, until) of this rank's part of a tensor to `to`. */
static dt_status init_tensor(const struct gpt_stage *s, const struct gpt_tensor *tensor, size_t from, size_t until, void *to,
                             struct dt_stream *stream)
{
    struct dt_normal normal = {
        .to = to,
        .count = until - from,
        .seed = s->seed,
        .first_element = tensor->first_elem + from / tensor->run_elems * tensor->stride_elems,
        .run_elems = tensor->run_elems,
        .run_done = from % tensor->run_elems,
        .stride_elems = tensor->stride_elems,
        .tensor_id = tensor->id,
        .standard_deviation = INITIAL_STANDARD_DEVIATION,
    };
    if (tensor->init == GPT_INIT_NORMAL)
        return dt_kernels_normal(s->base.kernels, stream, &normal);
    return dt_kernels_fill(s->base.kernels, stream, to, until - from, tensor->init == GPT_INIT_ONE ? 1.0f : 0.0f);
}

dt_status gpt_init_params(const struct dt_stage *stage, const struct dt_group *group, size_t first, size_t count, void *to,
                          struct dt_stream *stream)
{
    const struct gpt_stage *s = own_const(stage);
    size_t element_bytes = dt_dtype_bytes(stage->model->dtype), end = first + count, layer_start = 0;

    for (int i = 0; i < group->layer_count; i++) {
        const struct gpt_layer *layer = &s->layers[group->first_layer + i];
        for (int j = 0; j < layer->tensor_count; j++) {
            const struct gpt_tensor *tensor = &layer->tensors[j];
            size_t start = layer_start + tensor->offset_elems, tensor_end = start + tensor->count_elems;
            size_t from = first > start ? first : start, until = end < tensor_end ? end : tensor_end;
            if (from < until) /* otherwise another rank's part */
                DT_TRY(init_tensor(s, tensor, from - start, until - start, (char *)to + (from - first) * element_bytes, stream));
        }
        layer_start += layer->param_elems;
    }
    return DT_OK;
}

/* ---- a stash ---- */

dt_status gpt_stash_create(const struct dt_stage *stage, int part, struct dt_stash *out)
{
    int layers = own_const(stage)->layer_count;
    *out = (struct dt_stash){.part = part, .layers = calloc((size_t)layers, sizeof *out->layers)};
    return out->layers ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the stash of %d layers", layers);
}

static void free_layer_stash(struct dt_layer_stash *kept, struct dt_stream *stream)
{
    struct dt_buffer *all[] = {&kept->input,    &kept->mean, &kept->rstd,    &kept->normed, &kept->raw,     &kept->qkv,    &kept->mixed,
                               &kept->attended, &kept->lse,  &kept->weights, &kept->hidden, &kept->raised,  &kept->active, &kept->logits,
                               &kept->besides,  &kept->dout, &kept->dbranch, &kept->dqkv,   &kept->dhidden, &kept->dnorm};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        dt_free(stream, all[i]);
}

void gpt_stash_forget(const struct dt_stage *stage, struct dt_stash *stash, int first, int end, struct dt_stream *stream,
                      struct dt_buffer *input)
{
    const struct dt_group *last = &stage->groups[end - 1];
    int first_layer = stage->groups[first].first_layer;
    *input = stash->layers[first_layer].input;
    stash->layers[first_layer].input = (struct dt_buffer){0};
    for (int i = first_layer; i < last->first_layer + last->layer_count; i++)
        free_layer_stash(&stash->layers[i], stream);
}

void gpt_stash_destroy(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream)
{
    for (int i = 0; stash->layers && i < own_const(stage)->layer_count; i++)
        free_layer_stash(&stash->layers[i], stream);
    gpt_stash_end(stash, stream);
    dt_free(stream, &stash->x);
    dt_free(stream, &stash->dx);
    free(stash->layers);
    stash->layers = NULL;
}

/* Of the stash's samples: this rank's positions of what the batch has all of. */
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

dt_status gpt_stash_begin(const struct dt_stage *stage, struct dt_stash *stash, size_t samples, uint32_t first_sample,
                          struct dt_stream *stream)
{
    const struct gpt_kernel_set *k = gpt_kernel_set(stage->kernels);
    stash->samples = samples;
    stash->first_sample = first_sample;
    if (!stage->parts[stash->part].first && !stage->parts[stash->part].last)
        return DT_OK;
    size_t bytes = stage_rows(stage, samples) * sizeof(int32_t);
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, bytes, &stash->inputs));
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, bytes, &stash->targets));
    if (stage->batch.inputs) {
        DT_TRY(copy_ids(stage, stash, stage->batch.inputs, stash->inputs.data, stream));
        return copy_ids(stage, stash, stage->batch.targets, stash->targets.data, stream);
    }
    struct gpt_tokens a = {
        .inputs = stash->inputs.data,
        .targets = stash->targets.data,
        .samples = samples,
        .positions = own_const(stage)->where,
        .seed = own_const(stage)->seed,
        .first_sample = first_sample,
    };
    return k->table->tokens(k->state, stream, &a);
}

void gpt_stash_end(struct dt_stash *stash, struct dt_stream *stream)
{
    dt_free(stream, &stash->inputs);
    dt_free(stream, &stash->targets);
}

/* ---- a group of layers, one after the other ---- */

/* Of q, k and v together. */
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

/* The run's layer is layer `i` of the stage. */
static const struct layer_passes *at_layer(struct layer_run *r, int i)
{
    r->layer = &r->stage->layers[i];
    r->kept = &r->stash->layers[i];
    return &layer_passes[r->layer->kind];
}

/* Bytes that the stage keeps of the layer with DT_KEEP_NORMS and DT_KEEP_MLP alone. */
static size_t kept_cheaply_bytes(const struct layer_run *r)
{
    enum gpt_layer_kind kind = r->layer->kind;
    bool of_block = kind == GPT_ATTENTION || kind == GPT_MLP_UP;
    size_t elems = of_block && keeps(r, DT_KEEP_NORMS) ? r->stream_rows * r->d : 0;
    if (kind == GPT_MLP_UP && keeps(r, DT_KEEP_MLP))
        elems += r->rows * r->f;
    return elems * r->element_bytes;
}

/* What the kernels keep in addition of a layer of this kind; of the head if its forward is run for
 * the backward that follows. */
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

/* For a layer whose every second product is recomputed, nothing additional is kept. */
static bool forgets(const struct layer_run *r)
{
    return r->layer->block >= 0 && makes_again(r, DT_AGAIN_PRODUCTS);
}

/* Of attention whose weights are forgotten as much is kept as of the first half of the MLP. */
static dt_status forward(const struct layer_run *r, const struct layer_passes *passes)
{
    if (!forgets(r))
        DT_TRY(keep_besides(r, r->layer->kind));
    DT_TRY(passes->forward(r));
    return attends_again(r) ? keep_besides_instead(r, GPT_MLP_UP) : DT_OK;
}

static dt_status backward(const struct layer_run *r, const struct layer_passes *passes)
{
    if (attends_again(r) && inputs_now(r))
        DT_TRY(keep_besides_instead(r, r->layer->kind));
    if (forgets(r) && r->layer->kind == GPT_MLP_DOWN && inputs_now(r)) { /* the block's, all at once */
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
            return DT_OK; /* it keeps nothing for its backward */
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

    head.layer = &own(stage)->layers[own(stage)->layer_count - 1];
    head.scales = scales;
    DT_TRY(layer_head_in_pieces(&head, gpt_logit_rows(stage->model, blocks, head.rows)));
    if (with_norm)
        DT_TRY(layer_passes[GPT_FINAL_NORM].backward(&norm));
    return layer_finish_gradients(&norm);
}

/* Making and unmaking a stage, its stashes and its initial parameters; the passes themselves are in stage.c and the layers behind it. */
#include "gpt/stage.h"
#include "gpt/stage_layers.h"

#include <stdlib.h>

static const float INITIAL_STANDARD_DEVIATION = 0.02f; /* GPT-2's, and minGPT's */

dt_status gpt_stage_create(const struct gpt_model *model, int first_layer, int end_layer, enum gpt_unit unit, uint64_t seed, bool sum_loss,
                           const struct gpt_kernel_table *table, struct gpt_kernels *kernels, struct dt_stream *stream,
                           struct gpt_stage **out)
{
    dt_status status = DT_ERR_HOST_MEMORY;
    int layer_count = end_layer - first_layer;
    int *group_first = calloc((size_t)layer_count + 1, sizeof *group_first);
    struct gpt_stage *stage = calloc(1, sizeof *stage);
    *out = NULL;
    if (!stage || !group_first)
        goto fail;
    *stage = (struct gpt_stage){
        .model = model,
        .table = table,
        .kernels = kernels,
        .layer_count = layer_count,
        .seed = seed,
        .first = first_layer == 0,
        .last = end_layer == gpt_layer_count(model),
        .sum_loss = sum_loss,
    };
    stage->layers = calloc((size_t)layer_count, sizeof *stage->layers);
    stage->groups = calloc((size_t)layer_count, sizeof *stage->groups);
    if (!stage->layers || !stage->groups)
        goto fail;

    for (int i = 0; i < layer_count; i++) {
        gpt_describe_layer(model, first_layer + i, &stage->layers[i]);
        stage->param_elems += stage->layers[i].param_elems;
    }
    stage->group_count = gpt_group_layers(model, first_layer, end_layer, unit, group_first);
    for (int g = 0; g < stage->group_count; g++) {
        struct gpt_group *group = &stage->groups[g];
        *group =
            (struct gpt_group){.index = g, .first_layer = group_first[g] - first_layer, .layer_count = group_first[g + 1] - group_first[g]};
        for (int i = 0; i < group->layer_count; i++)
            group->param_elems += stage->layers[group->first_layer + i].param_elems;
    }
    if (stage->last && (status = dt_alloc(stream, DT_ACTIVATIONS, sizeof(double), &stage->loss)) < 0)
        goto fail;
    free(group_first);
    *out = stage;
    return DT_OK;

fail:
    free(group_first);
    gpt_stage_destroy(stage, stream);
    return status == DT_ERR_HOST_MEMORY ? dt_fail(status, "no host memory for a stage of %d layers", layer_count) : status;
}

void gpt_stage_destroy(struct gpt_stage *stage, struct dt_stream *stream)
{
    if (!stage)
        return;
    dt_free(stream, &stage->loss);
    free(stage->layers);
    free(stage->groups);
    free(stage);
}

dt_status gpt_init_params(const struct gpt_stage *stage, const struct gpt_group *group, size_t first, size_t count, void *to,
                          struct dt_stream *stream)
{
    size_t element_bytes = dt_dtype_bytes(stage->model->dtype), end = first + count, layer_start = 0;

    for (int i = 0; i < group->layer_count; i++) {
        const struct gpt_layer *layer = &stage->layers[group->first_layer + i];
        for (int j = 0; j < layer->tensor_count; j++) {
            const struct gpt_tensor *tensor = &layer->tensors[j];
            size_t tensor_start = layer_start + tensor->offset_elems, tensor_end = tensor_start + tensor->count_elems;
            size_t from = first > tensor_start ? first : tensor_start, until = end < tensor_end ? end : tensor_end;
            if (from >= until)
                continue; /* another rank's part */
            void *at = (char *)to + (from - first) * element_bytes;
            const struct gpt_fill constant = {at, until - from, tensor->init == GPT_INIT_ONE ? 1.0f : 0.0f};
            const struct gpt_init_normal normal = {
                .to = at,
                .count = until - from,
                .seed = stage->seed,
                .first_element = from - tensor_start,
                .tensor_id = tensor->id,
                .standard_deviation = INITIAL_STANDARD_DEVIATION,
            };
            if (tensor->init == GPT_INIT_NORMAL)
                DT_TRY(stage->table->init_normal(stage->kernels, stream, &normal));
            else
                DT_TRY(stage->table->fill(stage->kernels, stream, &constant));
        }
        layer_start += layer->param_elems;
    }
    return DT_OK;
}

dt_status gpt_stash_create(const struct gpt_stage *stage, struct gpt_stash *out)
{
    *out = (struct gpt_stash){.layers = calloc((size_t)stage->layer_count, sizeof *out->layers)};
    return out->layers ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the stash of %d layers", stage->layer_count);
}

static void free_layer_stash(struct gpt_layer_stash *kept, struct dt_stream *stream)
{
    struct dt_buffer *all[] = {&kept->input, &kept->mean,    &kept->rstd,   &kept->qkv,    &kept->mixed,
                               &kept->lse,   &kept->weights, &kept->hidden, &kept->logits, &kept->framework};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        dt_free(stream, all[i]);
}

void gpt_stash_forget(const struct gpt_stage *stage, struct gpt_stash *stash, int first, int end, struct dt_stream *stream,
                      struct dt_buffer *input)
{
    int first_layer = stage->groups[first].first_layer, last_layer = stage->groups[end - 1].first_layer;
    *input = stash->layers[first_layer].input;
    stash->layers[first_layer].input = (struct dt_buffer){0};
    for (int i = first_layer; i < last_layer + stage->groups[end - 1].layer_count; i++)
        free_layer_stash(&stash->layers[i], stream);
}

void gpt_stash_destroy(const struct gpt_stage *stage, struct gpt_stash *stash, struct dt_stream *stream)
{
    for (int i = 0; stash->layers && i < stage->layer_count; i++)
        free_layer_stash(&stash->layers[i], stream);
    gpt_stash_end(stash, stream);
    dt_free(stream, &stash->x);
    dt_free(stream, &stash->dx);
    dt_free(stream, &stash->dh);
    dt_free(stream, &stash->output);
    free(stash->layers);
    stash->layers = NULL;
}

dt_status gpt_stash_begin(const struct gpt_stage *stage, struct gpt_stash *stash, size_t samples, uint32_t first_sample,
                          struct dt_stream *stream)
{
    stash->samples = samples;
    stash->first_sample = first_sample;
    dt_free(stream, &stash->output);
    if (!stage->first && !stage->last)
        return DT_OK;
    size_t bytes = samples * (size_t)stage->model->block_size * sizeof(int32_t);
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, bytes, &stash->tokens));
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, bytes, &stash->targets));
    const struct gpt_tokens a = {stash->tokens.data, stash->targets.data, samples, stage->seed, first_sample};
    return stage->table->tokens(stage->kernels, stream, &a);
}

void gpt_stash_end(struct gpt_stash *stash, struct dt_stream *stream)
{
    dt_free(stream, &stash->tokens);
    dt_free(stream, &stash->targets);
}

#include "lib/base/text.h"
#include "lib/model/model.h"
#include "lib/model/split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int count_names(const char *const *names)
{
    int count = 0;
    while (names && names[count])
        count++;
    return count;
}

int dt_block_layer(const struct dt_model_family *family, int block)
{
    return count_names(family->before) + block * family->block_layers;
}

int dt_layer_count(const struct dt_model *model)
{
    return dt_block_layer(model->family, dt_model_blocks(model)) + count_names(model->family->after);
}

int dt_unit_end(const struct dt_model *model, int first, enum dt_unit unit)
{
    int begin = dt_block_layer(model->family, 0), end = dt_block_layer(model->family, dt_model_blocks(model));
    if (first >= end)
        return dt_layer_count(model);
    return first < begin || unit == DT_UNIT_LINEAR ? first + 1 : first + model->family->block_layers;
}

/* ---- sizes ---- */

static struct dt_layers_size size_of(const struct dt_model *model, int first, int end)
{
    struct dt_layers_size size;
    model->family->layers_size(model, (struct dt_layers){.first = first, .end = end}, &size);
    return size;
}

uint64_t dt_model_parameter_count(const struct dt_model *model)
{
    return size_of(model, 0, dt_layer_count(model)).parameters;
}

int dt_model_tensor_count(const struct dt_model *model)
{
    return size_of(model, 0, dt_layer_count(model)).tensors;
}

double dt_model_step_flops(const struct dt_model *model, uint64_t units)
{
    return 3 * (double)size_of(model, 0, dt_layer_count(model)).forward_flops * (double)units;
}

double dt_end_elems(const struct dt_model *model, int ranks)
{
    int begin = dt_block_layer(model->family, 0), end = dt_block_layer(model->family, dt_model_blocks(model));
    if (model->family->end_elems)
        return model->family->end_elems(model, ranks);
    return fmax((double)size_of(model, 0, begin).parameters, (double)size_of(model, end, dt_layer_count(model)).parameters);
}

/* ---- stages ---- */

dt_status dt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer)
{
    int blocks = dt_model_blocks(model), layers = dt_layer_count(model), outside = layers - blocks * model->family->block_layers;
    int second = dt_block_layer(model->family, 1), blocks_end = dt_block_layer(model->family, blocks);
    if (stages > blocks + outside)
        return dt_fail(DT_ERR_INVALID,
                       "%d pipeline stages need as many pieces, and the model has %d: %d blocks, and %d layers outside of them", stages,
                       blocks + outside, blocks, outside);
    struct dt_piece *pieces = malloc((size_t)(blocks + outside) * sizeof *pieces);
    DT_TRY(dt_allocated(pieces, "no host memory for %d pieces of a model", blocks + outside));
    for (int i = 0, layer = 0; layer < layers; i++) {
        int end = layer < blocks_end ? dt_unit_end(model, layer, DT_UNIT_BLOCK) : layer + 1;
        bool as_before = model->family->blocks_alike && layer >= second && layer < blocks_end;
        struct dt_layers_size size = as_before ? (struct dt_layers_size){0} : size_of(model, layer, end);
        pieces[i] = as_before ? pieces[i - 1] : (struct dt_piece){.parameters = size.parameters, .cost = size.forward_flops};
        pieces[i].first_layer = layer;
        layer = end;
    }
    dt_split(pieces, blocks + outside, rule, stages, first_layer);
    first_layer[stages] = layers;
    free(pieces);
    return DT_OK;
}

/* ---- names ---- */

void dt_layers_text(const struct dt_model *model, struct dt_layers layers, char *out, size_t out_bytes)
{
    int begin = dt_block_layer(model->family, 0), end = dt_block_layer(model->family, dt_model_blocks(model));
    int of_block = model->family->block_layers;
    int first = ((layers.first > begin ? layers.first : begin) - begin) / of_block;
    int last = ((layers.end < end ? layers.end : end) - 1 - begin) / of_block;
    *out = '\0';
    for (int i = layers.first; i < layers.end && i < begin; i++)
        dt_append(out, out_bytes, ", ", "%s", model->family->before[i]);
    if (layers.first < end && layers.end > begin)
        dt_append(out, out_bytes, ", ", first == last ? "block %d" : "blocks %d to %d", first, last);
    for (int i = layers.first > end ? layers.first : end; i < layers.end; i++)
        dt_append(out, out_bytes, ", ", "%s", model->family->after[i - end]);
}

/* ---- what is optional ---- */

bool dt_kernels_available(const struct dt_model_family *family, const struct dt_device_kind *kind, char *text, size_t text_bytes)
{
    if (family->kernels_available)
        return family->kernels_available(kind, text, text_bytes);
    snprintf(text, text_bytes, "%s", kind->gpus ? "they are for cpu and sim" : "");
    return !kind->gpus;
}

bool dt_cpu_dtype_native(const struct dt_model_family *family, enum dt_dtype dtype, char *advice, size_t advice_bytes)
{
    if (family->cpu_dtype_native)
        return family->cpu_dtype_native(dtype, advice, advice_bytes);
    snprintf(advice, advice_bytes, "%s", dtype == DT_FP32 ? "" : "use fp32");
    return dtype == DT_FP32;
}

double dt_largest_tensor(const struct dt_model *model, double samples, const char **keys)
{
    if (model->family->largest_tensor)
        return model->family->largest_tensor(model, samples, keys);
    *keys = "the model's sizes";
    return samples * dt_model_facts(model).outputs * dt_layer_count(model);
}

void dt_set_blocks(struct dt_model *model, int blocks)
{
    if (model->family->set_blocks)
        model->family->set_blocks(model, blocks);
    else
        *(int *)(void *)(model->own + model->own_at + model->family->blocks_at) = blocks;
}

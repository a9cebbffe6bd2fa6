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

struct dt_blocks dt_blocks_of(const struct dt_model *model)
{
    int first = dt_block_layer(model->family, 0), end = dt_block_layer(model->family, dt_model_blocks(model));
    return (struct dt_blocks){first, end, end + count_names(model->family->after)};
}

int dt_layer_count(const struct dt_model *model)
{
    return dt_blocks_of(model).layers;
}

int dt_unit_end(const struct dt_model_family *family, struct dt_blocks blocks, int first, enum dt_unit unit)
{
    if (first >= blocks.end)
        return blocks.layers;
    return first < blocks.first || unit == DT_UNIT_LINEAR ? first + 1 : first + family->block_layers;
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
    struct dt_blocks blocks = dt_blocks_of(model);
    if (model->family->end_elems)
        return model->family->end_elems(model, ranks);
    return fmax((double)size_of(model, 0, blocks.first).parameters, (double)size_of(model, blocks.end, blocks.layers).parameters);
}

/* ---- stages ---- */

dt_status dt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer)
{
    struct dt_blocks at = dt_blocks_of(model);
    int of_block = model->family->block_layers, blocks = (at.end - at.first) / of_block, outside = at.layers - (at.end - at.first);
    if (stages > blocks + outside)
        return dt_fail(DT_ERR_INVALID,
                       "%d pipeline stages need as many pieces, and the model has %d: %d blocks, and %d layers outside of them", stages,
                       blocks + outside, blocks, outside);
    DT_FREED struct dt_piece *pieces = malloc((size_t)(blocks + outside) * sizeof *pieces);
    DT_TRY(dt_allocated(pieces, "no host memory for %d pieces of a model", blocks + outside));
    for (int i = 0, layer = 0; layer < at.layers; i++) {
        bool in_block = layer >= at.first && layer < at.end;
        int end = in_block ? layer + of_block : layer + 1;
        if (in_block && layer > at.first && model->family->blocks_alike) {
            pieces[i] = pieces[i - 1];
        } else {
            struct dt_layers_size size = size_of(model, layer, end);
            pieces[i] = (struct dt_piece){.parameters = size.parameters - size.copies, .cost = size.forward_flops};
        }
        pieces[i].first_layer = layer;
        layer = end;
    }
    dt_split(pieces, blocks + outside, rule, stages, first_layer);
    first_layer[stages] = at.layers;
    return DT_OK;
}

/* ---- names ---- */

void dt_layers_text(const struct dt_model *model, struct dt_layers layers, char *out, size_t out_bytes)
{
    struct dt_blocks at = dt_blocks_of(model);
    int begin = at.first, end = at.end, of_block = model->family->block_layers;
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

/* ---- optional entries ---- */

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

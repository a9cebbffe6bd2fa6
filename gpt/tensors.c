/* A stage's tensors by their names in the whole model, for files. */
#include "gpt/layer_parts.h"
#include "gpt/stage.h"

#include <stdio.h>

static const float STANDARD_DEVIATION = 0.02f; /* of initial weights, as in GPT-2 and minGPT */

/* Whether the layer is a tied head with a copy of the token table. */
static bool is_table_copy(const struct dt_model *model, const struct gpt_layer *layer)
{
    return layer->kind == GPT_HEAD && gpt_of(model)->tied;
}

static void name_tensor(const struct dt_model *model, const struct gpt_layer *layer, const struct gpt_tensor *tensor, char *out,
                        size_t out_bytes)
{
    const char *kind = gpt_layer_kind_name(is_table_copy(model, layer) ? GPT_EMBEDDING : layer->kind);
    const char *text = gpt_tensor_text(is_table_copy(model, layer) ? GPT_TOKEN_WEIGHT : tensor->name);
    if (layer->block >= 0)
        snprintf(out, out_bytes, "blocks.%d.%s.%s", layer->block, kind, text);
    else
        snprintf(out, out_bytes, "%s.%s", kind, text);
}

static size_t whole_elems(const struct dt_model *model, const struct gpt_layer *layer, int place)
{
    struct gpt_layer whole;
    gpt_describe_layer(model, (struct gpt_cut){0, 1}, is_table_copy(model, layer) ? 0 : layer->index, &whole);
    return whole.tensors[place].count_elems;
}

/* Whether the tensor is a copy. Tensors that are whole on every rank of a tensor group are rank
 * 0's; of ranks with the same heads of keys and values, the first has the original. */
static bool is_copy(const struct gpt_stage *s, const struct gpt_layer *layer, const struct gpt_tensor *tensor, size_t whole)
{
    const struct dt_model *model = s->base.model;
    bool kv = tensor->name == GPT_K_WEIGHT || tensor->name == GPT_V_WEIGHT || tensor->name == GPT_K_BIAS || tensor->name == GPT_V_BIAS;
    if (is_table_copy(model, layer))
        return true;
    return tensor->count_elems == whole ? s->cut.rank > 0 : kv && s->cut.rank % gpt_cut_copies(model, s->cut.size) > 0;
}

bool gpt_tensor(const struct dt_stage *stage, const struct dt_group *group, int index, struct dt_model_tensor *out)
{
    const struct gpt_stage *s = (const struct gpt_stage *)stage;
    const struct gpt_layer *layer = &s->layers[group->first_layer], *end = layer + group->layer_count;
    size_t offset = 0;
    for (; layer < end && index >= layer->tensor_count; layer++) {
        index -= layer->tensor_count;
        offset += layer->param_elems;
    }
    if (layer == end)
        return false;
    const struct gpt_tensor *tensor = &layer->tensors[index];
    size_t whole = whole_elems(stage->model, layer, index), columns = gpt_tensor_columns(stage->model, layer->kind, tensor->name);
    *out = (struct dt_model_tensor){.offset_elems = offset + tensor->offset_elems,
                                    .count_elems = tensor->count_elems,
                                    .first_elem = tensor->first_elem,
                                    .run_elems = tensor->run_elems,
                                    .stride_elems = tensor->stride_elems,
                                    .rows = whole / columns,
                                    .columns = columns,
                                    .id = tensor->id,
                                    .init = tensor->init,
                                    .scale = STANDARD_DEVIATION,
                                    .copy = is_copy(s, layer, tensor, whole)};
    name_tensor(stage->model, layer, tensor, out->name, sizeof out->name);
    return true;
}

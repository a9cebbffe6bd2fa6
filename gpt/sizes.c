#include "gpt/family_parts.h"

#include "gpt/layout.h"

/* Per token, forward. Scores and weighted values have T keys per query each. */
static int64_t layer_flops(const struct dt_model *model, const struct gpt_layer *layer)
{
    int64_t d = gpt_of(model)->hidden;
    switch (layer->kind) {
    case GPT_ATTENTION: return 2 * ((gpt_qkv_features(model) + d) * d + 2 * (int64_t)gpt_of(model)->block_size * d);
    case GPT_MLP_UP: return 2 * gpt_mlp_features(model) * d;
    case GPT_MLP_DOWN: return 2 * gpt_ffn(model) * d;
    case GPT_HEAD: return 2 * (int64_t)gpt_of(model)->vocab_size * d;
    case GPT_EMBEDDING: /* looks rows up and multiplies nothing */
    case GPT_FINAL_NORM: break;
    }
    return 0;
}

/* Blocks are alike: a layer of the first one here stands for the same one of the others. */
void gpt_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out)
{
    int begin = gpt_block_layer(0), end = gpt_block_layer(gpt_of(model)->layers), last = layers.end < end ? layers.end : end;
    int first = layers.first > begin ? layers.first : begin; /* of these in blocks */
    *out = (struct dt_layers_size){0};
    for (int i = layers.first; i < layers.end; i = i + 1 == first + GPT_BLOCK_LAYERS && i + 1 < last ? last : i + 1) {
        struct gpt_layer layer;
        gpt_describe_layer(model, (struct gpt_cut){0, 1}, i, &layer);
        int times = layer.block >= 0 ? (last - i + GPT_BLOCK_LAYERS - 1) / GPT_BLOCK_LAYERS : 1;
        out->parameters += layer.param_elems * (size_t)times;
        out->tensors += layer.tensor_count * times;
        out->forward_flops += layer_flops(model, &layer) * times;
    }
    if (gpt_of(model)->tied && layers.first > 0 && layers.end == gpt_layer_count(model)) /* a copy of the table */
        out->copies = (uint64_t)gpt_of(model)->vocab_size * (uint64_t)gpt_of(model)->hidden;
    out->parameters += out->copies;
}

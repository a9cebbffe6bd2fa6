#include "gpt/family_parts.h"

#include "gpt/layout.h"
#include "lib/model/split.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- sizes ---- */

/* Per token, forward: so that the layers together make gpt_forward_flops_per_token. */
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

struct size {
    uint64_t parameters;
    int64_t flops;
};

static struct size size_of(const struct dt_model *model, int first, int end)
{
    struct size size = {0, 0};
    for (int i = first; i < end; i++) {
        struct gpt_layer layer;
        gpt_describe_layer(model, (struct gpt_cut){0, 1}, i, &layer);
        size.parameters += layer.param_elems;
        size.flops += layer_flops(model, &layer);
    }
    return size;
}

static void add_name(char *text, size_t text_bytes, size_t *used, const char *name)
{
    *used += (size_t)snprintf(text + *used, text_bytes - *used, "%s%s", *used ? ", " : "", name);
}

void gpt_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out)
{
    struct size size = size_of(model, layers.first, layers.end);
    int first_block = -1, last_block = -1, norm = gpt_block_layer(gpt_of(model)->layers);
    char blocks[48];
    size_t used = 0;
    *out = (struct dt_layers_size){.parameters = size.parameters, .flops_per_unit = 3 * (double)size.flops};
    if (gpt_of(model)->tied && layers.first > 0 && layers.end == gpt_layer_count(model)) /* a copy of the table */
        out->parameters += (uint64_t)gpt_of(model)->vocab_size * (uint64_t)gpt_of(model)->hidden;
    for (int i = layers.first; i < layers.end; i++) {
        struct gpt_layer layer;
        gpt_describe_layer(model, (struct gpt_cut){0, 1}, i, &layer);
        first_block = layer.block >= 0 && first_block < 0 ? layer.block : first_block;
        last_block = layer.block >= 0 ? layer.block : last_block;
    }
    if (layers.first == 0)
        add_name(out->text, sizeof out->text, &used, gpt_layer_kind_name(GPT_EMBEDDING));
    snprintf(blocks, sizeof blocks, first_block == last_block ? "block %d" : "blocks %d to %d", first_block, last_block);
    if (first_block >= 0)
        add_name(out->text, sizeof out->text, &used, blocks);
    if (layers.first <= norm && layers.end > norm)
        add_name(out->text, sizeof out->text, &used, gpt_layer_kind_name(GPT_FINAL_NORM));
    if (layers.end > norm + 1)
        add_name(out->text, sizeof out->text, &used, gpt_layer_kind_name(GPT_HEAD));
}

/* ---- pieces ---- */

dt_status gpt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer)
{
    int count = gpt_of(model)->layers + 3;
    if (stages > count)
        return dt_fail(DT_ERR_INVALID, "%d pipeline stages need as many pieces, and %d blocks with embedding, norm and head make %d",
                       stages, gpt_of(model)->layers, count);
    struct dt_piece *pieces = malloc((size_t)count * sizeof *pieces);
    DT_TRY(dt_allocated(pieces, "no host memory for %d pieces of a model", count));
    for (int i = 0, layer = 0; i < count; i++) {
        int end = gpt_piece_end(model, layer);
        bool alike = layer >= gpt_block_layer(1) && end <= gpt_block_layer(gpt_of(model)->layers); /* a block that is not the first */
        struct size size = alike ? (struct size){pieces[i - 1].parameters, pieces[i - 1].cost} : size_of(model, layer, end);
        pieces[i] = (struct dt_piece){.first_layer = layer, .parameters = size.parameters, .cost = size.flops};
        layer = end;
    }
    dt_split(pieces, count, rule, stages, first_layer);
    first_layer[stages] = gpt_layer_count(model);
    free(pieces);
    return DT_OK;
}

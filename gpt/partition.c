#include "gpt/partition.h"

#include "gpt/layout.h"

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

/* ---- the study's rule ---- */

static void split_by_parameters(const struct dt_model *model, int pieces, int stages, int *first_layer)
{
    int layer_count = gpt_layer_count(model), stage = 0, pieces_left = pieces;
    uint64_t total = gpt_parameter_count(model), seen = 0;
    for (int layer = 0; layer < layer_count && stage < stages - 1;) {
        int end = gpt_piece_end(model, layer);
        seen += size_of(model, layer, end).parameters;
        layer = end;
        pieces_left--;
        bool share_passed = seen * (uint64_t)stages > total * (uint64_t)(stage + 1); /* seen > total * (stage + 1) / stages */
        bool rest_needed = pieces_left == stages - 1 - stage;                        /* a heavy head would leave the last stages empty */
        if (share_passed || rest_needed)
            first_layer[++stage] = layer;
    }
}

/* ---- balanced ---- */

struct piece {
    int first_layer;
    int64_t cost;
    int stages; /* that the pieces from here on need, where none costs more than the bound */
};

/* Fill `stages` of all pieces [count] from the back: the fewest runs of which none costs more than `bound`, which no piece exceeds. */
static int stages_needed(struct piece *pieces, int count, int64_t bound)
{
    int64_t cost = 0;
    for (int first = count - 1, end = count; first >= 0; first--) {
        cost += pieces[first].cost;
        for (; cost > bound; end--)
            cost -= pieces[end - 1].cost;
        pieces[first].stages = 1 + (end < count ? pieces[end].stages : 0);
    }
    return pieces[0].stages;
}

/* The least that the slowest of `stages` stages costs. */
static int64_t least_bound(struct piece *pieces, int count, int stages)
{
    int64_t low = 0, high = 0;
    for (int i = 0; i < count; i++) {
        low = pieces[i].cost > low ? pieces[i].cost : low;
        high += pieces[i].cost;
    }
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (stages_needed(pieces, count, middle) <= stages)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Stages from the front, each as near to the mean of what is left as the bound and the stages after it allow. */
static void fill_evenly(struct piece *pieces, int count, int stages, int64_t bound, int *first_layer)
{
    int64_t left = 0;
    stages_needed(pieces, count, bound);
    for (int i = 0; i < count; i++)
        left += pieces[i].cost;
    for (int stage = 0, at = 0; stage < stages; stage++) {
        int behind = stages - 1 - stage;
        int64_t cost = 0;
        first_layer[stage] = pieces[at].first_layer;
        for (bool first = true; at < count && count - at > behind; first = false, at++) {
            int64_t more = cost + pieces[at].cost, parts = behind + 1;
            bool nearer = distance(more * parts, left) < distance(cost * parts, left);
            bool needed = first || behind == 0 || pieces[at].stages > behind;
            if (!needed && (!nearer || more > bound))
                break;
            cost = more;
        }
        left -= cost;
    }
}

static dt_status split_balanced(const struct dt_model *model, int count, int stages, int *first_layer)
{
    struct piece *pieces = malloc((size_t)count * sizeof *pieces);
    if (!pieces)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d pieces of a model", count);
    for (int i = 0, layer = 0; i < count; i++) {
        int end = gpt_piece_end(model, layer);
        bool alike = layer >= gpt_block_layer(1) && end <= gpt_block_layer(gpt_of(model)->layers); /* a block that is not the first */
        int64_t cost = alike ? pieces[i - 1].cost : size_of(model, layer, end).flops;
        pieces[i] = (struct piece){.first_layer = layer, .cost = cost};
        layer = end;
    }
    fill_evenly(pieces, count, stages, least_bound(pieces, count, stages), first_layer);
    free(pieces);
    return DT_OK;
}

dt_status gpt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer)
{
    int pieces = gpt_of(model)->layers + 3;
    if (stages > pieces)
        return dt_fail(DT_ERR_INVALID, "%d pipeline stages need as many pieces, and %d blocks with embedding, norm and head make %d",
                       stages, gpt_of(model)->layers, pieces);
    first_layer[0] = 0;
    first_layer[stages] = gpt_layer_count(model);
    if (rule == DT_SPLIT_BALANCED)
        return split_balanced(model, pieces, stages, first_layer);
    split_by_parameters(model, pieces, stages, first_layer);
    return DT_OK;
}

#include "gpt/layout.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { LAYERS_PER_BLOCK = 3 };

int gpt_layer_count(const struct dt_model *model)
{
    return 1 + LAYERS_PER_BLOCK * model->layers + 2;
}

const char *gpt_layer_kind_name(enum gpt_layer_kind kind)
{
    static const char *const names[] = {
        [GPT_EMBEDDING] = "embedding", [GPT_ATTENTION] = "attention",   [GPT_MLP_UP] = "mlp_up",
        [GPT_MLP_DOWN] = "mlp_down",   [GPT_FINAL_NORM] = "final_norm", [GPT_HEAD] = "head",
    };
    return names[kind];
}

static void add_tensor(struct gpt_layer *layer, const char *name, size_t count_elems, enum gpt_init init)
{
    assert(layer->tensor_count < GPT_MAX_TENSORS);
    int place = layer->tensor_count++;
    layer->tensors[place] = (struct gpt_tensor){
        .name = name,
        .offset_elems = layer->param_elems,
        .count_elems = count_elems,
        .init = init,
        .id = (uint32_t)(layer->index * 16 + place),
    };
    layer->param_elems += count_elems;
}

static void add_norm(struct gpt_layer *layer, size_t d)
{
    add_tensor(layer, "norm.gain", d, GPT_INIT_ONE);
    add_tensor(layer, "norm.bias", d, GPT_INIT_ZERO);
}

void gpt_describe_layer(const struct dt_model *model, int index, struct gpt_layer *out)
{
    size_t d = (size_t)model->hidden, V = (size_t)model->vocab_size, T = (size_t)model->block_size;
    int last_block_layer = LAYERS_PER_BLOCK * model->layers;

    *out = (struct gpt_layer){.index = index, .block = -1};
    if (index == 0) {
        out->kind = GPT_EMBEDDING;
        add_tensor(out, "token.weight", V * d, GPT_INIT_NORMAL);
        add_tensor(out, "position.weight", T * d, GPT_INIT_NORMAL);
        return;
    }
    if (index > last_block_layer) {
        out->kind = index == last_block_layer + 1 ? GPT_FINAL_NORM : GPT_HEAD;
        if (out->kind == GPT_FINAL_NORM)
            add_norm(out, d);
        else
            add_tensor(out, "weight", V * d, GPT_INIT_NORMAL);
        return;
    }

    out->block = (index - 1) / LAYERS_PER_BLOCK;
    switch ((index - 1) % LAYERS_PER_BLOCK) {
    case 0:
        out->kind = GPT_ATTENTION;
        add_norm(out, d);
        add_tensor(out, "q.weight", d * d, GPT_INIT_NORMAL);
        add_tensor(out, "k.weight", d * d, GPT_INIT_NORMAL);
        add_tensor(out, "v.weight", d * d, GPT_INIT_NORMAL);
        add_tensor(out, "q.bias", d, GPT_INIT_ZERO);
        add_tensor(out, "k.bias", d, GPT_INIT_ZERO);
        add_tensor(out, "v.bias", d, GPT_INIT_ZERO);
        add_tensor(out, "projection.weight", d * d, GPT_INIT_NORMAL);
        add_tensor(out, "projection.bias", d, GPT_INIT_ZERO);
        break;
    case 1:
        out->kind = GPT_MLP_UP;
        add_norm(out, d);
        add_tensor(out, "weight", 4 * d * d, GPT_INIT_NORMAL);
        add_tensor(out, "bias", 4 * d, GPT_INIT_ZERO);
        break;
    default:
        out->kind = GPT_MLP_DOWN;
        add_tensor(out, "weight", 4 * d * d, GPT_INIT_NORMAL);
        add_tensor(out, "bias", d, GPT_INIT_ZERO);
        break;
    }
}

size_t gpt_tensor_offset(const struct gpt_layer *layer, const char *name)
{
    for (int i = 0; i < layer->tensor_count; i++)
        if (strcmp(layer->tensors[i].name, name) == 0)
            return layer->tensors[i].offset_elems;
    assert(!"a layer has the tensors its kind says");
    return 0;
}

/* The pieces that the study's partition and FSDP's block units walk: [embedding, blocks..., final norm, head]. Returns the layer after the
 * piece that starts at `layer`. */
static int piece_end(const struct dt_model *model, int layer)
{
    int first_after_blocks = 1 + LAYERS_PER_BLOCK * model->layers;
    return layer >= 1 && layer < first_after_blocks ? layer + LAYERS_PER_BLOCK : layer + 1;
}

static uint64_t layers_params(const struct dt_model *model, int first, int end)
{
    uint64_t total = 0;
    for (int i = first; i < end; i++) {
        struct gpt_layer layer;
        gpt_describe_layer(model, i, &layer);
        total += layer.param_elems;
    }
    return total;
}

dt_status gpt_partition(const struct dt_model *model, int stages, int *first_layer)
{
    int layer_count = gpt_layer_count(model), stage = 0, pieces_left = model->layers + 3;
    uint64_t total = gpt_parameter_count(model), seen = 0;

    if (stages > pieces_left)
        return dt_fail(DT_ERR_INVALID, "%d pipeline stages need as many pieces, and %d blocks with embedding, norm and head make %d",
                       stages, model->layers, pieces_left);
    first_layer[0] = 0;
    for (int layer = 0; layer < layer_count && stage < stages - 1;) {
        int end = piece_end(model, layer);
        seen += layers_params(model, layer, end);
        layer = end;
        pieces_left--;
        bool share_passed = seen * (uint64_t)stages > total * (uint64_t)(stage + 1); /* seen > total * (stage + 1) / stages */
        bool rest_needed = pieces_left == stages - 1 - stage;                        /* a heavy head would leave the last stages empty */
        if (share_passed || rest_needed)
            first_layer[++stage] = layer;
    }
    first_layer[stages] = layer_count;
    return DT_OK;
}

int gpt_group_layers(const struct dt_model *model, int first_layer, int end_layer, enum dt_unit unit, int *group_first)
{
    int final_norm = gpt_layer_count(model) - 2, groups = 0;
    for (int layer = first_layer; layer < end_layer;) {
        int end = unit == DT_UNIT_BLOCK ? piece_end(model, layer) : layer + 1;
        if (layer == final_norm) /* 2d parameters are not worth a collective of their own */
            end = layer + 2;
        group_first[groups++] = layer;
        layer = end < end_layer ? end : end_layer;
    }
    group_first[groups] = end_layer;
    return groups;
}

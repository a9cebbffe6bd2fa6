#include "gpt/layout.h"
#include "gpt/family_parts.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *const gpt_before_blocks[] = {"embedding", NULL}, *const gpt_after_blocks[] = {"final_norm", "head", NULL};

int gpt_layer_count(const struct dt_model *model)
{
    return 1 + GPT_BLOCK_LAYERS * gpt_of(model)->layers + 2;
}

const char *gpt_layer_kind_name(enum gpt_layer_kind kind)
{
    static const char *const names[] = {
        [GPT_EMBEDDING] = "embedding", [GPT_ATTENTION] = "attention",   [GPT_MLP_UP] = "mlp_up",
        [GPT_MLP_DOWN] = "mlp_down",   [GPT_FINAL_NORM] = "final_norm", [GPT_HEAD] = "head",
    };
    return names[kind];
}

struct gpt_part gpt_cut_table(struct gpt_cut cut, int rows)
{
    enum { ALIGNED = 8, LARGE = 64 }; /* rows; 8 are 16 bytes of a row of logits in fp16 and bf16 */
    size_t unit = rows / cut.size >= LARGE ? ALIGNED : 1, units = ((size_t)rows + unit - 1) / unit;
    size_t even = units / (size_t)cut.size, larger = units % (size_t)cut.size, rank = (size_t)cut.rank;
    size_t first = (rank * even + (rank < larger ? rank : larger)) * unit, end = first + (even + (rank < larger)) * unit;
    return (struct gpt_part){first, (end < (size_t)rows ? end : (size_t)rows) - first};
}

struct gpt_part gpt_cut_heads(struct gpt_cut cut, const struct dt_model *model)
{
    size_t count = (size_t)gpt_of(model)->heads / (size_t)cut.size;
    return (struct gpt_part){(size_t)cut.rank * count, count};
}

int gpt_cut_copies(const struct dt_model *model, int size)
{
    int kv_heads = gpt_kv_heads(model);
    return size > kv_heads ? size / kv_heads : 1;
}

bool gpt_cut_alike(const struct dt_model *model, int size, int left, int right)
{
    const int tables[] = {gpt_of(model)->vocab_size, gpt_position_rows(model)};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (gpt_cut_table((struct gpt_cut){left, size}, tables[i]).count != gpt_cut_table((struct gpt_cut){right, size}, tables[i]).count)
            return false;
    return true;
}

struct gpt_part gpt_cut_kv_heads(struct gpt_cut cut, const struct dt_model *model)
{
    size_t copies = (size_t)gpt_cut_copies(model, cut.size), count = (size_t)gpt_kv_heads(model) * copies / (size_t)cut.size;
    return (struct gpt_part){(size_t)cut.rank / copies * count, count};
}

/* Whether every rank has equally many heads of k and v, or every such head is on equally many
 * ranks. */
static bool kv_heads_fit(const struct dt_model *model, int size)
{
    int kv_heads = gpt_kv_heads(model);
    return kv_heads % size == 0 || size % kv_heads == 0;
}

static bool cut_fits(const struct dt_model *model, int size, bool sequence_parallel)
{
    return gpt_of(model)->heads % size == 0 && kv_heads_fit(model, size) && gpt_ffn(model) % size == 0 &&
           size <= gpt_of(model)->vocab_size && size <= gpt_of(model)->block_size &&
           (!sequence_parallel || gpt_of(model)->block_size % size == 0);
}

dt_status gpt_cut_check(const struct dt_model *model, int size, bool sequence_parallel)
{
    char fitting[128] = "1";
    if (cut_fits(model, size, sequence_parallel))
        return DT_OK;
    for (int i = 2; i <= gpt_of(model)->heads; i++)
        if (cut_fits(model, i, sequence_parallel) && strlen(fitting) < sizeof fitting - 16)
            snprintf(fitting + strlen(fitting), 16, ", %d", i);
    if (gpt_of(model)->heads % size != 0)
        return dt_fail(DT_ERR_INVALID, "%d does not divide model.heads %d; possible for this model: %s", size, gpt_of(model)->heads,
                       fitting);
    if (!kv_heads_fit(model, size))
        return dt_fail(DT_ERR_INVALID, "%d neither divides model.kv_heads %d nor is a multiple of it; possible for this model: %s", size,
                       gpt_kv_heads(model), fitting);
    if (gpt_ffn(model) % size != 0)
        return dt_fail(DT_ERR_INVALID, "%d does not divide model.ffn %d; possible for this model: %s", size, gpt_ffn(model), fitting);
    if (size > gpt_of(model)->vocab_size || size > gpt_of(model)->block_size)
        return dt_fail(DT_ERR_INVALID, "%d ranks for model.vocab_size %d and model.block_size %d; possible for this model: %s", size,
                       gpt_of(model)->vocab_size, gpt_of(model)->block_size, fitting);
    return dt_fail(DT_ERR_INVALID,
                   "%d does not divide model.block_size %d, as tensor.sequence_parallel requires; possible for this model: %s", size,
                   gpt_of(model)->block_size, fitting);
}

dt_status gpt_context_check(const struct dt_model *model, int ranks, enum dt_context_kind kind, int tensor_ranks, bool sequence_parallel)
{
    const struct gpt_model *m = gpt_of(model);
    int pieces = kind == DT_CONTEXT_HEADS ? ranks : 2 * ranks;
    if (m->attention == GPT_ATTENTION_UNFUSED)
        return dt_fail(DT_ERR_INVALID, "ranks that share samples need model.attention \"fused\"; \"unfused\" stores all pairs of "
                                       "positions");
    if (m->block_size % pieces != 0)
        return dt_fail(DT_ERR_INVALID, "%d ranks with %d pieces each: their number does not divide model.block_size %d", ranks,
                       pieces / ranks, m->block_size);
    if (sequence_parallel && m->block_size / ranks % tensor_ranks != 0)
        return dt_fail(DT_ERR_INVALID, "model.block_size %d over %d ranks leaves %d positions each, which tensor.size %d does not divide",
                       m->block_size, ranks, m->block_size / ranks, tensor_ranks);
    if (kind == DT_CONTEXT_HEADS && (m->heads / tensor_ranks % ranks != 0 || gpt_kv_heads(model) % (tensor_ranks * ranks) != 0))
        return dt_fail(DT_ERR_INVALID,
                       "%d ranks that exchange heads do not divide model.heads %d and model.kv_heads %d over tensor.size %d; "
                       "use fewer, or context.comm_type \"p2p\" or \"all_gather\"",
                       ranks, m->heads, gpt_kv_heads(model), tensor_ranks);
    return DT_OK;
}

/* ---- tensors ---- */

/* A tensor of which the rank has `runs` of run_elems, from first_elem on. */
static void add_part(struct gpt_layer *layer, enum gpt_tensor_name name, enum dt_init init, size_t first_elem, size_t runs,
                     size_t run_elems, size_t stride_elems)
{
    assert(layer->tensor_count < GPT_MAX_TENSORS);
    int place = layer->tensor_count++;
    layer->tensors[place] = (struct gpt_tensor){
        .name = name,
        .offset_elems = layer->param_elems,
        .count_elems = runs * run_elems,
        .first_elem = first_elem,
        .run_elems = run_elems,
        .stride_elems = stride_elems,
        .init = init,
        .id = (uint32_t)(layer->index * 16 + place),
    };
    layer->param_elems += runs * run_elems;
}

/* A tensor that is whole on every rank. */
static void add_whole(struct gpt_layer *layer, enum gpt_tensor_name name, size_t count_elems, enum dt_init init)
{
    add_part(layer, name, init, 0, 1, count_elems, count_elems);
}

/* Rows `part` of a matrix of width `columns`. */
static void add_rows(struct gpt_layer *layer, enum gpt_tensor_name name, struct gpt_part part, size_t columns, enum dt_init init)
{
    add_part(layer, name, init, part.first * columns, 1, part.count * columns, part.count * columns);
}

/* Columns `part` of a matrix [rows, columns]. */
static void add_columns(struct gpt_layer *layer, enum gpt_tensor_name name, size_t rows, size_t columns, struct gpt_part part)
{
    add_part(layer, name, DT_INIT_NORMAL, part.first, rows, part.count, columns);
}

static struct gpt_part even_part(struct gpt_cut cut, size_t features)
{
    size_t count = features / (size_t)cut.size;
    return (struct gpt_part){(size_t)cut.rank * count, count};
}

static void add_norm(struct gpt_layer *layer, const struct dt_model *model)
{
    size_t d = (size_t)gpt_of(model)->hidden;
    add_whole(layer, GPT_NORM_GAIN, d, DT_INIT_ONE);
    if (gpt_norm_has_bias(model))
        add_whole(layer, GPT_NORM_BIAS, d, DT_INIT_ZERO);
}

static void describe_attention(const struct dt_model *model, struct gpt_cut cut, struct gpt_layer *out)
{
    size_t d = (size_t)gpt_of(model)->hidden, w = (size_t)gpt_head_width(model);
    struct gpt_part heads = gpt_cut_heads(cut, model), kv_heads = gpt_cut_kv_heads(cut, model);
    struct gpt_part q = {heads.first * w, heads.count * w}, kv = {kv_heads.first * w, kv_heads.count * w};
    add_norm(out, model);
    add_rows(out, GPT_Q_WEIGHT, q, d, DT_INIT_NORMAL);
    add_rows(out, GPT_K_WEIGHT, kv, d, DT_INIT_NORMAL);
    add_rows(out, GPT_V_WEIGHT, kv, d, DT_INIT_NORMAL);
    if (gpt_of(model)->bias != GPT_BIAS_NONE) {
        add_rows(out, GPT_Q_BIAS, q, 1, DT_INIT_ZERO);
        add_rows(out, GPT_K_BIAS, kv, 1, DT_INIT_ZERO);
        add_rows(out, GPT_V_BIAS, kv, 1, DT_INIT_ZERO);
    }
    if (gpt_of(model)->qk_norm) {
        add_whole(out, GPT_Q_NORM_GAIN, w, DT_INIT_ONE);
        add_whole(out, GPT_K_NORM_GAIN, w, DT_INIT_ONE);
    }
    add_columns(out, GPT_PROJECTION_WEIGHT, d, d, q);
    if (gpt_of(model)->bias == GPT_BIAS_ALL)
        add_whole(out, GPT_PROJECTION_BIAS, d, DT_INIT_ZERO);
}

/* The weights, and then the biases, of one product. */
static void describe_mlp_up(const struct dt_model *model, struct gpt_cut cut, struct gpt_layer *out)
{
    struct gpt_part features = even_part(cut, (size_t)gpt_ffn(model));
    bool gated = gpt_of(model)->mlp == GPT_MLP_SWIGLU, biased = gpt_of(model)->bias == GPT_BIAS_ALL;
    add_norm(out, model);
    if (gated)
        add_rows(out, GPT_GATE_WEIGHT, features, (size_t)gpt_of(model)->hidden, DT_INIT_NORMAL);
    add_rows(out, GPT_WEIGHT, features, (size_t)gpt_of(model)->hidden, DT_INIT_NORMAL);
    if (gated && biased)
        add_rows(out, GPT_GATE_BIAS, features, 1, DT_INIT_ZERO);
    if (biased)
        add_rows(out, GPT_BIAS, features, 1, DT_INIT_ZERO);
}

static void describe_mlp_down(const struct dt_model *model, struct gpt_cut cut, struct gpt_layer *out)
{
    size_t d = (size_t)gpt_of(model)->hidden, f = (size_t)gpt_ffn(model);
    add_columns(out, GPT_WEIGHT, d, f, even_part(cut, f));
    if (gpt_of(model)->bias == GPT_BIAS_ALL)
        add_whole(out, GPT_BIAS, d, DT_INIT_ZERO);
}

static void describe_embedding(const struct dt_model *model, struct gpt_cut cut, struct gpt_layer *out)
{
    size_t d = (size_t)gpt_of(model)->hidden;
    add_rows(out, GPT_TOKEN_WEIGHT, gpt_cut_table(cut, gpt_of(model)->vocab_size), d, DT_INIT_NORMAL);
    if (gpt_of(model)->position == GPT_POSITION_LEARNED)
        add_rows(out, GPT_POSITION_WEIGHT, gpt_cut_table(cut, gpt_position_rows(model)), d, DT_INIT_NORMAL);
}

static void describe_head(const struct dt_model *model, struct gpt_cut cut, struct gpt_layer *out)
{
    if (!gpt_of(model)->tied)
        add_rows(out, GPT_WEIGHT, gpt_cut_table(cut, gpt_of(model)->vocab_size), (size_t)gpt_of(model)->hidden, DT_INIT_NORMAL);
}

void gpt_add_table_copy(const struct dt_model *model, struct gpt_cut cut, struct gpt_layer *head)
{
    struct gpt_layer embedding;
    gpt_describe_layer(model, cut, 0, &embedding);
    add_rows(head, GPT_WEIGHT, gpt_cut_table(cut, gpt_of(model)->vocab_size), (size_t)gpt_of(model)->hidden, DT_INIT_NORMAL);
    head->tensors[head->tensor_count - 1].id = embedding.tensors[0].id; /* the same random numbers as token.weight */
}

static enum gpt_layer_kind kind_of(const struct dt_model *model, int index)
{
    static const enum gpt_layer_kind of_block[GPT_BLOCK_LAYERS] = {GPT_ATTENTION, GPT_MLP_UP, GPT_MLP_DOWN};
    int after_blocks = gpt_block_layer(gpt_of(model)->layers);
    if (index == 0)
        return GPT_EMBEDDING;
    if (index >= after_blocks)
        return index == after_blocks ? GPT_FINAL_NORM : GPT_HEAD;
    return of_block[(index - 1) % GPT_BLOCK_LAYERS];
}

void gpt_describe_layer(const struct dt_model *model, struct gpt_cut cut, int index, struct gpt_layer *out)
{
    bool in_block = index >= 1 && index < gpt_block_layer(gpt_of(model)->layers);
    *out = (struct gpt_layer){.kind = kind_of(model, index), .index = index, .block = in_block ? (index - 1) / GPT_BLOCK_LAYERS : -1};
    switch (out->kind) {
    case GPT_EMBEDDING: describe_embedding(model, cut, out); break;
    case GPT_ATTENTION: describe_attention(model, cut, out); break;
    case GPT_MLP_UP: describe_mlp_up(model, cut, out); break;
    case GPT_MLP_DOWN: describe_mlp_down(model, cut, out); break;
    case GPT_FINAL_NORM: add_norm(out, model); break;
    case GPT_HEAD: describe_head(model, cut, out); break;
    }
}

bool gpt_layers_divide(const struct dt_model *model, int size, int parts)
{
    for (int rank = 0; rank < size; rank++)
        for (int i = 0; i < gpt_layer_count(model); i = i == GPT_BLOCK_LAYERS ? gpt_block_layer(gpt_of(model)->layers) : i + 1) {
            struct gpt_layer layer; /* of the first block, or of none: all blocks are alike */
            gpt_describe_layer(model, (struct gpt_cut){rank, size}, i, &layer);
            if (gpt_of(model)->tied && layer.kind == GPT_HEAD)
                gpt_add_table_copy(model, (struct gpt_cut){rank, size}, &layer);
            if (layer.param_elems % (size_t)parts != 0)
                return false;
        }
    return true;
}

static const struct {
    const char *text;
    bool is_matrix;
} tensor_names[] = {
    [GPT_NO_TENSOR] = {"none", false},
    [GPT_NORM_GAIN] = {"norm.gain", false},
    [GPT_NORM_BIAS] = {"norm.bias", false},
    [GPT_Q_WEIGHT] = {"q.weight", true},
    [GPT_K_WEIGHT] = {"k.weight", true},
    [GPT_V_WEIGHT] = {"v.weight", true},
    [GPT_Q_BIAS] = {"q.bias", false},
    [GPT_K_BIAS] = {"k.bias", false},
    [GPT_V_BIAS] = {"v.bias", false},
    [GPT_Q_NORM_GAIN] = {"q_norm.gain", false},
    [GPT_K_NORM_GAIN] = {"k_norm.gain", false},
    [GPT_PROJECTION_WEIGHT] = {"projection.weight", true},
    [GPT_PROJECTION_BIAS] = {"projection.bias", false},
    [GPT_GATE_WEIGHT] = {"gate.weight", true},
    [GPT_GATE_BIAS] = {"gate.bias", false},
    [GPT_WEIGHT] = {"weight", true},
    [GPT_BIAS] = {"bias", false},
    [GPT_TOKEN_WEIGHT] = {"token.weight", true},
    [GPT_POSITION_WEIGHT] = {"position.weight", true},
};

const char *gpt_tensor_text(enum gpt_tensor_name name)
{
    return tensor_names[name].text;
}

size_t gpt_tensor_columns(const struct dt_model *model, enum gpt_layer_kind kind, enum gpt_tensor_name name)
{
    if (!tensor_names[name].is_matrix)
        return 1;
    return (size_t)(kind == GPT_MLP_DOWN ? gpt_ffn(model) : gpt_of(model)->hidden);
}

/* NULL: the layer does not have it. */
static const struct gpt_tensor *find_tensor(const struct gpt_layer *layer, enum gpt_tensor_name name)
{
    for (const struct gpt_tensor *t = layer->tensors; t < layer->tensors + layer->tensor_count; t++)
        if (t->name == name)
            return t;
    return NULL;
}

bool gpt_has_tensor(const struct gpt_layer *layer, enum gpt_tensor_name name)
{
    return find_tensor(layer, name) != NULL;
}

size_t gpt_tensor_offset(const struct gpt_layer *layer, enum gpt_tensor_name name)
{
    const struct gpt_tensor *tensor = find_tensor(layer, name);
    assert(tensor && "a layer has the tensors its kind says");
    return tensor->offset_elems;
}

int gpt_block_layer(int block)
{
    return 1 + GPT_BLOCK_LAYERS * block;
}

/* ---- sizes ---- */

/* Operations per token, forward. Scores and weighted values have T keys per query each. */
static int64_t layer_flops(const struct dt_model *model, const struct gpt_layer *layer)
{
    int64_t d = gpt_of(model)->hidden;
    switch (layer->kind) {
    case GPT_ATTENTION: return 2 * ((gpt_qkv_features(model) + d) * d + 2 * (int64_t)gpt_of(model)->block_size * d);
    case GPT_MLP_UP: return 2 * gpt_mlp_features(model) * d;
    case GPT_MLP_DOWN: return 2 * gpt_ffn(model) * d;
    case GPT_HEAD: return 2 * (int64_t)gpt_of(model)->vocab_size * d;
    case GPT_EMBEDDING: /* looks up rows and multiplies nothing */
    case GPT_FINAL_NORM: break;
    }
    return 0;
}

/* All blocks are the same: a layer of the first block here stands for that layer of all others. */
void gpt_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out)
{
    int begin = gpt_block_layer(0), end = gpt_block_layer(gpt_of(model)->layers), last = layers.end < end ? layers.end : end;
    int first = layers.first > begin ? layers.first : begin; /* the part of these layers that is in blocks */
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

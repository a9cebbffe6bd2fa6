/* How the model's parameters are laid out: layers, and the groups that schedules gather and reduce.
 *
 * A layer is the smallest piece that runs by itself. In order:
 *   embedding | per block: attention (norm 1, q k v, projection), mlp_up (norm 2, d -> f), mlp_down
 *   (GELU, f -> d) | final_norm | head
 * A layer's parameters are consecutive, without padding, in the order of its tensors; weights are
 * [out, in] row-major. q, k and v are contiguous, so that they are one matrix product; so are gate
 * and up of swiglu, whose mlp_up makes 2f features. A tied head has no weight of its own, or a copy
 * of the table. A norm belongs to the layer that reads its output, so that backward can recompute
 * it.
 * A group is a number of consecutive layers, whose parameters data-parallel modes gather, reduce
 * and free together. */
#pragma once

#include "gpt/model.h"

/* One rank's part of something that the ranks of a tensor group divide: rows of a table, heads. The
 * whole has first 0 and the full count. */
struct gpt_part {
    size_t first, count;
};

enum gpt_layer_kind { GPT_EMBEDDING, GPT_ATTENTION, GPT_MLP_UP, GPT_MLP_DOWN, GPT_FINAL_NORM, GPT_HEAD };

/* The part of each layer that one rank of a tensor group has. Divided evenly are the output
 * features of q, k, v and mlp_up, and so the heads, and the input features of the projection and of
 * mlp_down. The rows of the embedding's two tables and of the head may divide unevenly: the first
 * ranks have more. Norms, including those of heads, and the biases after the sum over the ranks
 * (projection, mlp_down), are whole on every rank.
 * Source  Shoeybi et al., "Megatron-LM", 2019, section 3. Differs: there the vocabulary is padded
 *         until it divides evenly, and positions are whole. */
struct gpt_cut {
    int rank, size; /* 0 and 1: the whole layer */
};

enum gpt_tensor_name {
    GPT_NO_TENSOR, /* no layer has it */
    GPT_NORM_GAIN,
    GPT_NORM_BIAS,
    GPT_Q_WEIGHT,
    GPT_K_WEIGHT,
    GPT_V_WEIGHT,
    GPT_Q_BIAS,
    GPT_K_BIAS,
    GPT_V_BIAS,
    GPT_Q_NORM_GAIN,
    GPT_K_NORM_GAIN,
    GPT_PROJECTION_WEIGHT,
    GPT_PROJECTION_BIAS,
    GPT_GATE_WEIGHT,
    GPT_GATE_BIAS,
    GPT_WEIGHT,
    GPT_BIAS,
    GPT_TOKEN_WEIGHT,
    GPT_POSITION_WEIGHT,
};

struct gpt_tensor {
    enum gpt_tensor_name name;
    size_t offset_elems, count_elems; /* of this rank's part, within the layer */
    /* The place of the part in the whole tensor: from first_elem on, in runs of run_elems, which
     * start stride_elems apart. */
    size_t first_elem, run_elems, stride_elems;
    enum dt_init init;
    uint32_t id; /* selects the random numbers of its weights: layer index in the whole model * 16 + place in the layer */
};

enum { GPT_MAX_TENSORS = 12 };

struct gpt_layer {
    enum gpt_layer_kind kind;
    int index; /* in the whole model, 0 for the embedding */
    int block; /* transformer block, -1 outside */
    size_t param_elems;
    int tensor_count;
    struct gpt_tensor tensors[GPT_MAX_TENSORS];
};

/* 1 + 3L + 2 */
int gpt_layer_count(const struct dt_model *model);
/* Describe this rank's part of layer `index` in [0, gpt_layer_count). */
void gpt_describe_layer(const struct dt_model *model, struct gpt_cut cut, int index, struct gpt_layer *out);
/* Give a tied head that was described as above a copy of the token table, because the embedding is
 * in another part of the model. The copy's initial values are the table's. */
void gpt_add_table_copy(const struct dt_model *model, struct gpt_cut cut, struct gpt_layer *head);
/* Whether the parameters of every layer, and a tied head's copy, divide evenly into `parts` on each
 * of `size` ranks that share the layers. */
bool gpt_layers_divide(const struct dt_model *model, int size, int parts);
/* The rows that this rank has of a table of `rows`. In a large table a part begins at a multiple of
 * 8 rows, so that rows of logits are aligned. */
struct gpt_part gpt_cut_table(struct gpt_cut cut, int rows);
/* This rank's heads. They divide evenly. */
struct gpt_part gpt_cut_heads(struct gpt_cut cut, const struct dt_model *model);
/* The number of adjacent ranks that have the same heads of keys and values: 1 if the heads divide
 * evenly, more if there are fewer heads than ranks. Each rank computes gradients of its copy from
 * its own heads of q; the sum over the copies is the gradient. */
int gpt_cut_copies(const struct dt_model *model, int size);
/* Whether ranks `left` and `right` of a group of `size` have equally many rows of each table. All
 * else is divided evenly, or copied. */
bool gpt_cut_alike(const struct dt_model *model, int size, int left, int right);
/* This rank's heads of keys and values: its part of them, or a copy of one. */
struct gpt_part gpt_cut_kv_heads(struct gpt_cut cut, const struct dt_model *model);
/* Whether `size` ranks can share each layer. Heads and the MLP's features must divide by size;
 * heads of keys and values must divide by it or divide it; with sequence parallelism the rows of a
 * sample must divide; every rank needs a row of each table. DT_ERR_INVALID names what does not
 * divide, and the sizes that are possible. */
dt_status gpt_cut_check(const struct dt_model *model, int size, bool sequence_parallel);
/* Whether `ranks` can share the positions of each sample. T must divide by ranks, or by twice as
 * many if each rank has two pieces for a causal mask; with sequence parallelism a rank's positions
 * must divide by tensor_ranks; if heads are exchanged, those of a tensor rank must divide by ranks;
 * and attention must be fused. */
dt_status gpt_context_check(const struct dt_model *model, int ranks, enum dt_context_kind kind, int tensor_ranks, bool sequence_parallel);
/* The layers of each block: attention, mlp_up, mlp_down; and the names of the layers before and
 * after the blocks, NULL-terminated. */
enum { GPT_BLOCK_LAYERS = 3 };
extern const char *const gpt_before_blocks[], *const gpt_after_blocks[];
const char *gpt_layer_kind_name(enum gpt_layer_kind kind);
const char *gpt_tensor_text(enum gpt_tensor_name name); /* "norm.gain" */
/* Input features of a weight, or the width of a table's rows; 1 for a vector. */
size_t gpt_tensor_columns(const struct dt_model *model, enum gpt_layer_kind kind, enum gpt_tensor_name name);
bool gpt_has_tensor(const struct gpt_layer *layer, enum gpt_tensor_name name);
/* Offset of the tensor `name` in `layer`; it must exist. */
size_t gpt_tensor_offset(const struct gpt_layer *layer, enum gpt_tensor_name name);

/* The first layer of `block`. For the number after the last block: the final norm. */
int gpt_block_layer(int block);

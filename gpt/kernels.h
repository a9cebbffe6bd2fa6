/* gpt's table of kernels. First the arguments of each kernel with its formula and shapes, then one
 * list of all kernels (GPT_KERNELS), then the table that is made from it.
 *
 * Backends, one folder each: cpu, cuda, and cost (computes nothing, for sim). All calls queue on
 * `stream` and return; pointers are device memory in the model's dtype unless said otherwise; M =
 * samples * T rows, row-major. Arithmetic is fp32 inside, rounded to the dtype once at the end.
 * Outputs are overwritten without being read, unless a comment says "accumulate" or "adds". Outputs
 * do not overlap inputs unless a comment says so. Argument structures are copied. Errors: those of
 * queueing; dt_stream_synchronize returns failures of the work itself. */
#pragma once

#include "gpt/layout.h"
#include "gpt/model.h"
#include "gpt/position.h"
#include "lib/cost/priced.h"
#include "lib/device/device.h"
#include "lib/kernels/kernels.h"
#include "lib/model/tuning.h"

#include <stdbool.h>

/* The random bits of a dropout (lib/base/random.h). probability 0: nothing is dropped. */
struct gpt_dropout {
    uint64_t seed;
    uint32_t layer;        /* a different number for each dropout of the model, below 2^24 */
    uint32_t first_sample; /* number of the call's first sample, counted from the step's first one (struct dt_kernels) */
    uint32_t first_row;    /* number of the call's first row, among the rows [samples * positions] that begin with first_sample */
    float probability;
    struct gpt_positions positions; /* the positions of these rows */
};

/* inputs, targets [samples * positions] int32: a sample is T + 1 random tokens; targets are the
 * inputs one position later. */
struct gpt_tokens {
    int32_t *inputs, *targets;
    size_t samples;
    struct gpt_positions positions;
    uint64_t seed;
    uint32_t first_sample;
};

/* y [rows, out] = x [rows, in] * w [out, in]^T + b [out]; b may be NULL. */
struct gpt_linear {
    const void *x, *w, *b;
    void *y;
    size_t rows, in, out;
    /* number of weights that w contains one after the other (q, k and v; gate and up), which other
     * software may multiply one by one; 0: the head's weight, which is never in FP8 */
    int joined;
};

/* y = residual [rows, out] + dropout(y of `linear`): the end of a branch. active: NULL, or memory
 * [rows, in], which a backend may leave undefined, for GELU of x, which is then multiplied instead
 * of x, rounded to the dtype. A backend that fuses all operations rounds only y; others also round
 * the input of the dropout. */
struct gpt_linear_residual {
    struct gpt_linear linear;
    const void *residual;
    void *active;
    struct gpt_dropout dropout;
};

/* dx [rows, in] = dy [rows, out] * w [out, in] */
struct gpt_linear_input_gradient {
    const void *dy, *w;
    void *dx;
    size_t rows, in, out;
    int joined; /* as in gpt_linear */
};

/* dx [rows, in] = gelu'(hidden [rows, in]) * (dx of `linear`): backward through a linear layer and
 * the GELU before it. A backend that fuses both may use GELU's tanh form if the
 * difference is well below the dtype's rounding; one that computes them separately also rounds the
 * product. */
struct gpt_linear_gelu_input_gradient {
    struct gpt_linear_input_gradient linear;
    const void *hidden;
};

/* dw [out, in] = dy [rows, out]^T * x [rows, in]; db [out] = column sums of dy, or NULL.
 * accumulate: added to the old dw and db. */
struct gpt_linear_weight_gradient {
    const void *dy, *x;
    void *dw, *db;
    size_t rows, in, out;
    int joined; /* as in gpt_linear */
    bool accumulate;
};

/* dw and db of `linear`, with GELU of its x, rounded to the dtype, in place of x. active: memory
 * [rows, in] for that, which a backend may leave undefined. */
struct gpt_linear_gelu_weight_gradient {
    struct gpt_linear_weight_gradient linear;
    void *active;
};

/* y[i] = x[i] * Phi(x[i]), exact. With model.mlp gelu_new it is GELU's tanh form, with relu
 * max(x[i], 0), whose derivative at 0 is 0; the same holds wherever a comment says GELU. If ranks
 * do not share a layer, training uses linear_residual and linear_gelu_weight_gradient, which
 * include it. */
struct gpt_gelu {
    void *y;
    const void *x;
    size_t count;
};

/* dy_to_dx[i] *= gelu'(x[i]). Training uses linear_gelu_input_gradient, which includes it. It is a
 * separate entry to be timed (gpt/cost/probe.c). */
struct gpt_gelu_gradient {
    void *dy_to_dx;
    const void *x;
    size_t count;
};

/* Layer norm: y [rows, d] = (x - mean) * rstd * gain + bias, rstd = 1 / sqrt(variance + epsilon).
 * RMS norm: y = x * rstd * gain, rstd = 1 / sqrt(mean of x^2 + epsilon), without mean and bias.
 * mean and rstd [rows] fp32 are written.
 * Source  Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019. */
struct gpt_norm {
    const void *x, *gain, *bias; /* gain, bias [d]; bias may be NULL */
    void *y;
    float *mean, *rstd;
    size_t rows, d;
    float epsilon;
};

/* dx [rows, d] adds the gradient through the norm to the residual stream's gradient, or with
 * overwrite becomes it. dgain, dbias [d]: dbias may be NULL; accumulate: added to the old ones. An
 * RMS norm has neither mean nor dbias. */
struct gpt_norm_gradient {
    const void *dy, *x, *gain;
    const float *mean, *rstd;
    void *dx, *dgain, *dbias;
    size_t rows, d;
    bool overwrite, accumulate;
};

/* out [rows, (heads + 2 kv_heads) w] = qkv, with an rms norm of w elements applied to each head of
 * q and k; v is copied. Gains [w]: one for q's heads and one for k's. out may be qkv.
 * Source  Henry et al., "Query-Key Normalization for Transformers", 2020; with rms norms and gains
 *         as in Qwen3. */
struct gpt_head_norm {
    const void *qkv, *q_gain, *k_gain;
    void *out;
    size_t rows, heads, kv_heads;
    float epsilon;
};

/* dqkv, the gradient of `out`, becomes the gradient of qkv, the norm's input; v's part does not
 * change. dq_gain, dk_gain [w]; accumulate: added to the old ones. */
struct gpt_head_norm_gradient {
    const void *qkv, *q_gain, *k_gain;
    void *dqkv, *dq_gain, *dk_gain;
    size_t rows, heads, kv_heads;
    float epsilon;
    bool accumulate;
};

/* y [rows, f] = silu(gate) * up, where silu(x) = x / (1 + exp(-x)). hidden contains gate and up in
 * each row [rows, 2f]; or it contains only gate [rows, f], and up is a separate array [rows, f].
 * Source  Shazeer, "GLU Variants Improve Transformer", 2020. */
struct gpt_swiglu {
    void *y;
    const void *hidden;
    size_t rows, f;
    const void *up; /* NULL: up is in hidden */
};

/* dhidden [rows, 2f] from dy [rows, f] and hidden; dhidden may be hidden. y, if not NULL, becomes
 * silu(gate) * up again, which the gradient of the weight after it needs; y may be dy. */
struct gpt_swiglu_gradient {
    const void *dy, *hidden;
    void *dhidden, *y;
    size_t rows, f;
    const void *up; /* as in gpt_swiglu */
};

/* Rotary position embedding, in place, of the first `heads` heads of each row of x [rows, columns]:
 * elements i and i + w / 2 of a head are rotated by position * gpt_rope_frequency(i), with the
 * position of the row. inverse: rotated back, which is the gradient.
 * Source  Su et al., "RoFormer", 2021. Differs: pairs are elements of both halves of a head, as in
 *         Hugging Face's Llama; in the paper they are adjacent elements. */
struct gpt_rope {
    void *x;
    size_t rows, heads, columns;
    bool inverse;
    struct gpt_positions positions; /* of each sample */
};

/* to [rows, columns] = from. The rows of `from` start from_stride elements apart, those of `to`
 * to_stride. */
struct gpt_move {
    const void *from;
    void *to;
    size_t rows, columns, from_stride, to_stride;
};

/* If ranks share samples: the positions of each sample that are queries, and those that are keys.
 * sim assumes that the causal mask leaves half of the pairs, which is true for all pieces of a rank
 * together. */
struct gpt_piece {
    const void *keys;               /* k | v of key_ranks ranks from key_rank on, [key_ranks, samples, queries.count, 2Kw] */
    struct gpt_positions queries;   /* the positions of the rows of q and out, and of lse. count 0: all T, whose k and v are in qkv */
    int ranks, key_rank, key_ranks; /* ranks: number of ranks that share samples */
    bool joins;                     /* combine with the results for other keys that out and lse contain: more passes over out */
};

/* Bytes of the keys and values of all T positions, in their order, of `heads` heads of keys: what a
 * kernel on a GPU allocates as workspace, and in backward once more for their gradients, if a piece
 * has the keys of all ranks. 0: the piece has not. */
static inline size_t gpt_ordered_bytes(const struct dt_model *model, const struct gpt_piece *piece, size_t samples, size_t heads)
{
    if (!piece->queries.count || piece->key_ranks < piece->ranks)
        return 0;
    return samples * (size_t)gpt_of(model)->block_size * 2 * heads * (size_t)gpt_head_width(model) * dt_dtype_bytes(model->dtype);
}

/* Causal self-attention of `heads`, H of the model's heads. kv_heads are K of the model's heads of
 * keys and values. Each of these serves (model's heads / model's kv_heads) consecutive heads of q,
 * and every head of q needs its own among them. qkv [M, (H + 2K) w]: q | k | v, head a of each at
 * columns a*w to (a+1)*w, w = d / the model's heads; scores scaled by 1/sqrt(w), and with alibi
 * plus gpt_alibi_slope * (key - query); dropout on the weights after the softmax. out [M, Hw].
 * Source  Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
 *         Checkpoints", 2023 (kv_heads).
 * fused: lse [samples, H, T] fp32 becomes log(sum(exp(scaled scores))) of each row; nothing of size
 * T*T is stored; weights is NULL. unfused: weights [samples, H, T, T] becomes the softmax before
 * dropout, with zeros above the diagonal; lse is NULL. */
struct gpt_attention_forward {
    const void *qkv;
    void *out;
    float *lse;
    void *weights;
    size_t samples;
    struct gpt_part heads, kv_heads;
    struct gpt_dropout dropout; /* its samples are whole: first_row is 0 */
    struct gpt_piece piece;
};

/* dqkv [M, (H + 2K) w] from dout [M, Hw] and what forward left. The gradients of k and v are sums
 * over the heads that they serve. */
struct gpt_attention_backward {
    const void *dout, *out, *qkv;
    const float *lse;
    const void *weights;
    void *dqkv;
    size_t samples;
    struct gpt_part heads, kv_heads;
    struct gpt_dropout dropout;
    struct gpt_piece piece;
    void *dkeys; /* if piece.keys is given: the gradients of these keys, in their shape; dqkv then contains only dq */
};

/* out [M, d] = dropout(token_table[token] + position_table[t]); tokens [M] int32. This rank's part
 * of the tables are the rows `vocab` of V and `positions` of model.position_rows, [count, d] each.
 * Rows in another rank's part count as zero; rows of positions from T on are not read. A model
 * without learned positions has count 0 of them. */
struct gpt_embedding {
    const int32_t *tokens;
    const void *token_table, *position_table;
    void *out;
    size_t samples;
    struct gpt_part vocab, positions;
    struct gpt_dropout dropout; /* its samples are whole: first_row is 0. Its positions are those of the tokens, also if probability is 0 */
};

/* Both tables' gradients from dout [M, d]. Without accumulate both tables are written completely;
 * rows of unused tokens and positions become zero. */
struct gpt_embedding_gradient {
    const int32_t *tokens;
    const void *dout;
    void *dtoken_table, *dposition_table;
    size_t samples;
    struct gpt_part vocab, positions;
    bool accumulate;
    struct gpt_dropout dropout;
};

/* out [rows, d] = residual + dropout(branch). out may be branch. */
struct gpt_dropout_residual {
    const void *residual, *branch;
    void *out;
    size_t rows;
    struct gpt_dropout dropout;
};

/* dbranch [rows, d] = dropout mask * scale * dout. dbranch may be dout, for a dropout without
 * branch. */
struct gpt_dropout_gradient {
    const void *dout;
    void *dbranch;
    size_t rows;
    struct gpt_dropout dropout;
};

/* Softmax cross-entropy, in place: logits [rows, V] become their gradient (softmax -
 * onehot(target)) * gradient_scale. The sum over the rows of -log softmax[target], times
 * loss_scale, is added to *loss (one fp64 in device memory). targets [rows] int32.
 * sum: the study's loss instead, which is the sum of the logits. Gradients are gradient_scale, and
 * the sum times loss_scale is added to *loss. */
struct gpt_loss {
    void *logits;
    const int32_t *targets;
    double *loss;
    size_t rows;
    float gradient_scale, loss_scale;
    bool sum;
};

/* The same if the ranks of a tensor group have a part of the vocabulary each: two kernels, so that
 * logits are not sent.
 * Source  Shoeybi et al., "Megatron-LM", 2019, section 3: the cross-entropy is fused with the
 *         product that makes the logits. */

/* Numbers of one row of a rank's logits [rows, vocab.count]. sum: `exponentials` is the sum of the
 * logits, the others are 0. */
struct gpt_logit_row {
    float largest;      /* the largest logit */
    float exponentials; /* sum of exp(logit - largest) */
    float at_target;    /* the target's logit; 0 if another rank has it */
};

struct gpt_loss_part {
    const void *logits;
    const int32_t *targets;
    struct gpt_logit_row *out; /* [rows] */
    size_t rows;
    struct gpt_part vocab;
    bool sum;
};

/* The second kernel, from the numbers of all ranks [parts, rows]. Each rank adds the whole loss to
 * its *loss. */
struct gpt_loss_gradient {
    void *logits;
    const int32_t *targets;
    const struct gpt_logit_row *all;
    double *loss;
    size_t rows, parts;
    struct gpt_part vocab;
    float gradient_scale, loss_scale;
    bool sum;
};

/* ---- several kernels in one ----
 *
 * The same results with fewer passes over memory. A backend may lack these entries; callers then
 * run the kernels named in the comment, one after the other. */

/* dropout_residual, and the norm of the next layer that reads its output: layer_norm, or rms_norm
 * if mean is NULL. */
struct gpt_residual_norm {
    struct gpt_dropout_residual sum;
    struct gpt_norm norm; /* its x is the sum's out */
};

/* Three kernels: layer_norm_gradient (rms_norm_gradient if mean is NULL), which adds to dx;
 * dropout_gradient of dx, for the branch whose sum the norm reads; and, if y is not NULL, the
 * norm's output once more, in y. mean and rstd may be written again. */
struct gpt_norm_branch_gradient {
    struct gpt_norm norm; /* bias and epsilon are read only for y, which may be dy */
    const void *dy;
    void *dx, *dgain, *dbias, *dbranch; /* dbranch [rows, d], or NULL */
    bool accumulate;
    struct gpt_dropout dropout;
};

/* linear with output `hidden`, and active [rows, out] = gelu(hidden). Only with relu may active be
 * hidden, because relu of relu's output, and its derivative, are the same. A backend that fuses
 * both may apply GELU to unrounded values, and use a tanh in its tanh form that is as exact as 16
 * bits need. */
struct gpt_linear_gelu {
    struct gpt_linear linear;
    void *active;
};

/* linear_gelu_input_gradient, and two results from the same inputs: db [in], or NULL, the column
 * sums of its dx, which are the gradient of the bias before the GELU (accumulate: db adds); and
 * active [rows, in], or NULL, which becomes gelu(hidden) once more, and may be hidden. */
struct gpt_gelu_gradient_sums {
    struct gpt_linear_gelu_input_gradient product;
    void *db, *active;
    bool accumulate;
};

#define GPT_FUSED_KERNELS(ROW)                                                                                                             \
    ROW(residual_norm, gpt_residual_norm)                                                                                                  \
    ROW(norm_branch_gradient, gpt_norm_branch_gradient)                                                                                    \
    ROW(linear_gelu, gpt_linear_gelu)                                                                                                      \
    ROW(gelu_gradient_sums, gpt_gelu_gradient_sums)                                                                                        \
    ROW(attention_rope_gradient, gpt_attention_backward) /* attention_gradient, which also applies rope's inverse to those of q and k */

/* ---- the list ----
 *
 * Every kernel that all backends have, once. The list makes the entries of struct gpt_kernel_table,
 * the functions gpt_cpu_<entry> and gpt_cuda_<entry> with their rows, cost_<entry>, the spans of a
 * trace, enum gpt_kernel_kind with its names, and the keys "kernels.<entry>" of a profile. After
 * adding a row, the compiler or linker names what is missing; gpt/README.md lists what they cannot
 * notice.
 *
 *   COSTED(entry, struct of its arguments, KIND, phase, shape, element of its passes, passes)
 *       a kernel for which profiles give launches, passes over memory, and measured times. passes:
 *       dtbench's own passes, in one launch, for older profiles that lack the kernel; NULL: a
 *       profile must have it
 *   OTHER_PASSES(entry, KIND, key, their element)
 *       more passes of the kernel in the row before, over memory of another size
 *   UNCOSTED(entry, struct of its arguments, why it has no separate cost) */
/* clang-format off */
#define GPT_KERNELS(COSTED, OTHER_PASSES, UNCOSTED)                                                                                   \
    UNCOSTED(tokens, gpt_tokens, "small, and a trainer makes them before the step")                                                   \
    COSTED(embedding, gpt_embedding, EMBEDDING, FORWARD, LOOKUP, "rows x d", NULL)                                                    \
    COSTED(embedding_gradient, gpt_embedding_gradient, EMBEDDING_GRADIENT, BACKWARD, LOOKUP_GRADIENT, "rows x d", NULL)               \
    OTHER_PASSES(embedding_gradient, EMBEDDING_GRADIENT, weight_passes, "Of each of both tables' elements.")                          \
    COSTED(layer_norm, gpt_norm, LAYER_NORM, FORWARD, ROWS, "rows x d", NULL)                                                         \
    COSTED(layer_norm_gradient, gpt_norm_gradient, LAYER_NORM_GRADIENT, BACKWARD, ROWS, "rows x d", NULL)                             \
    COSTED(rms_norm, gpt_norm, RMS_NORM, FORWARD, ROWS, "rows x d", "2")                                                              \
    COSTED(rms_norm_gradient, gpt_norm_gradient, RMS_NORM_GRADIENT, BACKWARD, ROWS, "rows x d", "4")                                  \
    COSTED(head_norm, gpt_head_norm, HEAD_NORM, FORWARD, ROWS, "rows x columns of q, k and v", "2")                                   \
    COSTED(head_norm_gradient, gpt_head_norm_gradient, HEAD_NORM_GRADIENT, BACKWARD, ROWS, "rows x columns of q, k and v", "3")       \
    COSTED(linear, gpt_linear, LINEAR, FORWARD, PRODUCT, "rows x out, besides the product", NULL)                                     \
    UNCOSTED(linear_residual, gpt_linear_residual, "gelu, linear and dropout_residual")                                               \
    COSTED(linear_input_gradient, gpt_linear_input_gradient, LINEAR_INPUT_GRADIENT, BACKWARD, PRODUCT,                                \
           "rows x in, besides the product", NULL)                                                                                    \
    UNCOSTED(linear_gelu_input_gradient, gpt_linear_gelu_input_gradient, "linear_input_gradient and gelu_gradient")                   \
    COSTED(linear_weight_gradient, gpt_linear_weight_gradient, LINEAR_WEIGHT_GRADIENT, BACKWARD, PRODUCT,                             \
           "rows x out, besides the product", NULL)                                                                                   \
    OTHER_PASSES(linear_weight_gradient, LINEAR_WEIGHT_GRADIENT, weight_passes, "Of each of out x in, besides the product.")          \
    UNCOSTED(linear_gelu_weight_gradient, gpt_linear_gelu_weight_gradient, "gelu and linear_weight_gradient")                         \
    COSTED(gelu, gpt_gelu, GELU, FORWARD, FLAT, "rows x 4d", NULL)                                                                    \
    COSTED(gelu_gradient, gpt_gelu_gradient, GELU_GRADIENT, BACKWARD, FLAT, "rows x 4d", NULL)                                        \
    COSTED(swiglu, gpt_swiglu, SWIGLU, FORWARD, ROWS, "rows x f", "3")                                                                \
    COSTED(swiglu_gradient, gpt_swiglu_gradient, SWIGLU_GRADIENT, BACKWARD, ROWS, "rows x f", "6")                                    \
    UNCOSTED(move, gpt_move, "other software keeps what it sends contiguous")                                                         \
    COSTED(rope, gpt_rope, ROPE, FORWARD, ROWS, "rows x columns that are rotated", "2")                                               \
    COSTED(attention, gpt_attention_forward, ATTENTION, FORWARD, HEADS, "rows x d", NULL)                                             \
    OTHER_PASSES(attention, ATTENTION, square_passes, "Of each of samples x heads x T x T, besides the products; unfused only.")      \
    COSTED(attention_gradient, gpt_attention_backward, ATTENTION_GRADIENT, BACKWARD, HEADS, "rows x d", NULL)                         \
    OTHER_PASSES(attention_gradient, ATTENTION_GRADIENT, square_passes, "As in attention.")                                           \
    COSTED(dropout_residual, gpt_dropout_residual, DROPOUT_RESIDUAL, FORWARD, ROWS, "rows x d", NULL)                                 \
    COSTED(dropout_gradient, gpt_dropout_gradient, DROPOUT_GRADIENT, BACKWARD, ROWS, "rows x d", NULL)                                \
    COSTED(loss, gpt_loss, LOSS, FORWARD, ROWS, "rows x V", NULL)                                                                     \
    UNCOSTED(loss_part, gpt_loss_part, "half of loss")                                                                                \
    UNCOSTED(loss_gradient, gpt_loss_gradient, "half of loss")
/* clang-format on */
#define GPT_NO_KERNEL_ROW(...) /* for uses of the list that skip one of its three kinds of rows */

/* The signature of all kernels: GPT_KERNEL_FUNCTION(gpt_cpu_gelu, gpt_gelu) declares gpt_cpu_gelu,
 * or begins its definition. */
#define GPT_KERNEL_FUNCTION(name, arguments) dt_status name(struct gpt_kernels *k, struct dt_stream *stream, const struct arguments *a)

/* ---- kinds: kernels by number, for profiles and measurements (gpt/cost/backend.c) ---- */

#define GPT_KERNEL_ENUM(entry, arguments, kind, ...) GPT_KERNEL_##kind,
enum gpt_kernel_kind {
    GPT_KERNEL_BEFORE = DT_PRICED_SHARED - 1,
    GPT_KERNELS(GPT_KERNEL_ENUM, GPT_NO_KERNEL_ROW, GPT_NO_KERNEL_ROW) GPT_KERNEL_END
};
#undef GPT_KERNEL_ENUM

/* ---- the table ---- */

struct gpt_kernels;

struct gpt_kernel_table {
    const char *name; /* "cpu", "cost", "cuda" */
    /* base: the kernels of all families, which must outlive these; they know the device and the
     * step. */
    dt_status (*create)(struct dt_kernels *base, const struct dt_model *model, struct gpt_kernels **out);
    void (*destroy)(struct gpt_kernels *kernels); /* streams must be synchronized; takes NULL */

#define GPT_KERNEL_ENTRY(entry, arguments, ...) GPT_KERNEL_FUNCTION((*entry), arguments);
    GPT_KERNELS(GPT_KERNEL_ENTRY, GPT_NO_KERNEL_ROW, GPT_KERNEL_ENTRY)
#undef GPT_KERNEL_ENTRY

    /* ---- optional from here on: each comment says what NULL means ---- */

    bool (*available)(char *text, size_t text_bytes); /* gpt_kernels_available. NULL: they need no library */
    const char
        /* for kernels that are not in this build: what is missing and which build option adds it;
         * nothing else is read then. Otherwise NULL */
        *missing;
    /* The library or unit that computes the products of a linear layer ("amx", "onednn"), if it is
     * chosen at run time. NULL: there is no choice. */
    const char *(*products)(const struct gpt_kernels *k);
    /* As in struct dt_tuner. NULL: the kernels' library has no choice. */
    dt_status (*use_tuning)(struct gpt_kernels *k, const struct dt_tuning *tuning);
    void (*tuned)(const struct gpt_kernels *k, struct dt_tuned *out);
    /* Bytes that the kernels keep for a layer's backward, in addition to the stage. NULL: none.
     * `samples` may be a part of one. `ranks` share the layer; sequence_parallel: they also share
     * the residual stream. */
    size_t (*besides_bytes)(const struct gpt_kernels *k, enum gpt_layer_kind layer, double samples, int ranks, bool sequence_parallel);

    /* NULL: callers use the kernels that it combines. */
#define GPT_FUSED_ENTRY(entry, arguments) GPT_KERNEL_FUNCTION((*entry), arguments);
    GPT_FUSED_KERNELS(GPT_FUSED_ENTRY)
#undef GPT_FUSED_ENTRY
};

const struct gpt_kernel_table *gpt_kernels_for(const struct dt_device_kind *kind);

/* Whether these kernels have all that they need next to a device of this kind. `text` becomes the
 * libraries that they use ("cuBLASLt 13.1.0"; "" for none), or, if something is missing, what it is
 * and how to get it. */
bool gpt_kernels_available(const struct dt_device_kind *kind, char *text, size_t text_bytes);

extern const struct gpt_kernel_table gpt_kernels_cpu; /* gpt/cpu/backend.c, or none.c */
extern const struct gpt_kernel_table gpt_kernels_cost;
extern const struct gpt_kernel_table gpt_kernels_cuda; /* gpt/cuda/backend.c, or none.c */

/* gpt/cuda/listing.c: kernels that compute nothing, and add the products that they are called for
 * to the list that `to` is to measure; `to` must outlive them. Use this create, not the table's.
 * Errors: DT_ERR_HOST_MEMORY. */
extern const struct gpt_kernel_table gpt_kernels_listing;
dt_status gpt_kernels_listing_create(struct dt_tuning *to, const struct dt_model *model, struct gpt_kernels **out);

extern const struct dt_tuner gpt_tuner;     /* gpt/cuda/tuner.c */
extern const struct dt_pricing gpt_pricing; /* gpt/cost/backend.c */
extern const struct dt_prober gpt_prober;   /* gpt/cost/probe.c */

/* gpt's own table of kernels: what a layer needs computed. First the arguments of each kernel with its formula and shapes, then one list of
 * all kernels (GPT_KERNELS), then the table that follows from it.
 *
 * Backends, one folder each: cpu, cuda, and cost (computes nothing, for sim). All calls queue on `stream` and return; pointers are device
 * memory in the model's dtype unless said otherwise; M = samples * T rows, row-major. Arithmetic is fp32 inside, rounded to the dtype once
 * at the end. Unless "accumulate" or "adds" is said, outputs are overwritten without being read. Outputs do not overlap inputs unless said.
 * Argument structures are copied. Errors: what queueing can return; failures of the work itself come from dt_stream_synchronize. */
#ifndef GPT_KERNELS_H
#define GPT_KERNELS_H

#include "gpt/layout.h"
#include "gpt/model.h"
#include "gpt/position.h"
#include "lib/cost/priced.h"
#include "lib/device/device.h"
#include "lib/kernels/kernels.h"
#include "lib/model/tuning.h"

#include <stdbool.h>

/* Which random bits a dropout uses (lib/base/random.h). probability 0 turns it off. */
struct gpt_dropout {
    uint64_t seed;
    uint32_t layer;        /* a different number for each dropout of the model, below 2^24 */
    uint32_t first_sample; /* number of the first of the call's samples, from the step's first one (struct dt_kernels) */
    uint32_t first_row;    /* the call's first row among the rows [samples * positions] that begin with first_sample's */
    float probability;
    struct gpt_positions positions; /* that these rows are of */
};

/* inputs, targets [samples * positions] int32: a sample is T + 1 random tokens; targets are the inputs one position later. */
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
    int joined; /* the number of weights that w holds one after the other (q, k and v; gate and up), which other software may multiply one by one; 0: the head's one, which is never in FP8 */
};

/* y [rows, out] = residual [rows, out] + dropout(x [rows, in] * w [out, in]^T + b [out]): the end of a branch; b may be NULL. gelu: x goes
 * through GELU first, rounded to the dtype; `active` [rows, in] is room for that, which a backend may leave undefined; else it is NULL. A
 * backend that does all at once rounds y alone, others also what is dropped out. */
struct gpt_linear_residual {
    const void *x, *w, *b, *residual;
    void *active, *y;
    size_t rows, in, out;
    bool gelu;
    struct gpt_dropout dropout;
};

/* dx [rows, in] = dy [rows, out] * w [out, in] */
struct gpt_linear_input_gradient {
    const void *dy, *w;
    void *dx;
    size_t rows, in, out;
    int joined; /* as in gpt_linear */
};

/* dx [rows, in] = gelu'(hidden [rows, in]) * (dy [rows, out] * w [out, in]): back through a linear and the GELU in front of it. A backend
 * that does both at once may take GELU's tanh form where that lies well inside the dtype's own rounding; one that does them one after the
 * other rounds the product, too. */
struct gpt_linear_gelu_input_gradient {
    const void *dy, *w, *hidden;
    void *dx;
    size_t rows, in, out;
};

/* dw [out, in] = dy [rows, out]^T * x [rows, in]; db [out] = column sums of dy, or NULL.
 * accumulate: added to the existing dw and db. */
struct gpt_linear_weight_gradient {
    const void *dy, *x;
    void *dw, *db;
    size_t rows, in, out;
    int joined; /* as in gpt_linear */
    bool accumulate;
};

/* dw and db as in gpt_linear_weight_gradient of x = gelu(hidden [rows, in]), rounded to the dtype. active: as in gpt_linear_residual. */
struct gpt_linear_gelu_weight_gradient {
    const void *dy, *hidden;
    void *active, *dw, *db;
    size_t rows, in, out;
    bool accumulate;
};

/* y[i] = x[i] * Phi(x[i]), exact; with model.mlp gelu_new the tanh form of it, with relu max(x[i], 0), whose derivative at 0 is 0: so wherever GELU
 * is said. Training uses it through linear_residual and linear_gelu_weight_gradient, where ranks do not share a layer. */
struct gpt_gelu {
    void *y;
    const void *x;
    size_t count;
};

/* dy_to_dx[i] *= gelu'(x[i]). Training uses it through linear_gelu_input_gradient; as an entry of its own it is timed (gpt/cost/probe.c). */
struct gpt_gelu_gradient {
    void *dy_to_dx;
    const void *x;
    size_t count;
};

/* Layer norm: y [rows, d] = (x - mean) * rstd * gain + bias, rstd = 1 / sqrt(variance + epsilon). RMS norm: y = x * rstd * gain, rstd = 1 /
 * sqrt(mean of x^2 + epsilon), without mean and bias. mean and rstd [rows] fp32 are written.
 * Source  Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019. */
struct gpt_norm {
    const void *x, *gain, *bias; /* gain, bias [d]; bias may be NULL */
    void *y;
    float *mean, *rstd;
    size_t rows, d;
    float epsilon;
};

/* dx [rows, d] adds the gradient through the norm (the residual stream's gradient is already there) or, with overwrite, becomes it.
 * dgain, dbias [d]: dbias may be NULL; accumulate: added to the existing ones. An RMS norm has
 * neither mean nor dbias. */
struct gpt_norm_gradient {
    const void *dy, *x, *gain;
    const float *mean, *rstd;
    void *dx, *dgain, *dbias;
    size_t rows, d;
    bool overwrite, accumulate;
};

/* out [rows, (heads + 2 kv_heads) w] = qkv with each head of q and k through an rms norm of its own w elements; v is copied. Gains [w]: one
 * for q's heads and one for k's. out may be qkv. Source  Henry et al., "Query-Key Normalization for Transformers", 2020; with rms norms
 * and gains as Qwen3 has it. */
struct gpt_head_norm {
    const void *qkv, *q_gain, *k_gain;
    void *out;
    size_t rows, heads, kv_heads;
    float epsilon;
};

/* dqkv, the gradient of `out`, becomes that of qkv, which is what the norm has read; v's part
 * stays. dq_gain, dk_gain [w]: accumulate: added to the existing ones. */
struct gpt_head_norm_gradient {
    const void *qkv, *q_gain, *k_gain;
    void *dqkv, *dq_gain, *dk_gain;
    size_t rows, heads, kv_heads;
    float epsilon;
    bool accumulate;
};

/* y [rows, f] = silu(gate) * up, where silu(x) = x / (1 + exp(-x)). hidden has gate and up in each row [rows, 2f]; or it has gate alone
 * [rows, f], and up is an array of its own [rows, f].
 * Source  Shazeer, "GLU Variants Improve Transformer", 2020. */
struct gpt_swiglu {
    void *y;
    const void *hidden;
    size_t rows, f;
    const void *up; /* NULL: in hidden */
};

/* dhidden [rows, 2f] from dy [rows, f] and hidden; dhidden may be hidden. y, or NULL, gets silu(gate) * up again, which the gradient of
 * the weight after it needs; it may be dy. */
struct gpt_swiglu_gradient {
    const void *dy, *hidden;
    void *dhidden, *y;
    size_t rows, f;
    const void *up; /* as in gpt_swiglu */
};

/* Rotary position embedding, in place, of the first `heads` heads of each row of x [rows, columns]: elements i and i + w / 2 of a head turn by
 * position * gpt_rope_frequency(i), whose position is that of the row. inverse: back, which is the gradient.
 * Source  Su et al., "RoFormer", 2021. Differs: pairs are the halves of a head, as in Hugging Face's Llama; there they are neighbours. */
struct gpt_rope {
    void *x;
    size_t rows, heads, columns;
    bool inverse;
    struct gpt_positions positions; /* of each sample */
};

/* to [rows, columns] = from, whose rows begin from_stride elements apart, and those of `to` to_stride. */
struct gpt_move {
    const void *from;
    void *to;
    size_t rows, columns, from_stride, to_stride;
};

/* If ranks share samples: which positions of each sample are the queries, and which the keys. On
 * sim the causal mask is taken to leave half of the pairs, which is true for a rank's pieces
 * together. */
struct gpt_piece {
    const void *keys;               /* k | v of the ranks from key_rank on, [key_ranks, samples, queries.count, 2Kw] */
    struct gpt_positions queries;   /* rows of q and out, and elements of lse. count 0: all T, whose k and v are in qkv */
    int ranks, key_rank, key_ranks; /* ranks: that share samples */
    bool joins;                     /* into what out and lse have from other keys: passes over out more */
};

/* Causal self-attention of `heads`, H of them, some or all of the model's. Each of kv_heads, K of them, serves a run of model heads / model
 * kv_heads of the heads of q; every head finds its own among them. qkv [M, (H + 2K) w]: q | k | v, head a of each at columns a*w to (a+1)*w,
 * w = d / the model's heads; scores scaled by 1/sqrt(w), and with alibi plus gpt_alibi_slope * (key - query); dropout on the weights after
 * the softmax. out [M, Hw].
 * Source  Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", 2023 (kv_heads).
 * fused: lse [samples, H, T] fp32 gets log(sum(exp(scaled scores))) of each row; nothing of size T*T is stored; weights is NULL.
 * unfused: weights [samples, H, T, T] gets the softmax before dropout, zeros above the diagonal; lse is NULL. */
struct gpt_attention_forward {
    const void *qkv;
    void *out;
    float *lse;
    void *weights;
    size_t samples;
    struct gpt_part heads, kv_heads;
    struct gpt_dropout dropout; /* of whole samples: first_row is 0 */
    struct gpt_piece piece;
};

/* dqkv [M, (H + 2K) w] from dout [M, Hw] and what forward left; k's and v's are sums over the heads that they serve. */
struct gpt_attention_backward {
    const void *dout, *out, *qkv;
    const float *lse;
    const void *weights;
    void *dqkv;
    size_t samples;
    struct gpt_part heads, kv_heads;
    struct gpt_dropout dropout;
    struct gpt_piece piece;
    void *dkeys; /* with piece.keys: of these, in their shape; dqkv then gets dq alone */
};

/* out [M, d] = dropout(token_table[token] + position_table[t]); tokens [M] int32. The tables have rows `vocab` of V and `positions` of
 * model.position_rows, [count, d] each: what another part of a table has counts as zero, and rows from T on are not read. A model without learned
 * positions has none of them: count 0. */
struct gpt_embedding {
    const int32_t *tokens;
    const void *token_table, *position_table;
    void *out;
    size_t samples;
    struct gpt_part vocab, positions;
    struct gpt_dropout dropout; /* of whole samples: first_row is 0. Its positions are those of the tokens, whatever its probability */
};

/* Both tables' gradients from dout [M, d]. Without accumulate all of both tables is written (rows of unused tokens and positions with zeros). */
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

/* dbranch [rows, d] = dropout mask * scale * dout. dbranch may be dout: dropout alone. */
struct gpt_dropout_gradient {
    const void *dout;
    void *dbranch;
    size_t rows;
    struct gpt_dropout dropout;
};

/* Softmax cross-entropy, in place: logits [rows, V] becomes its own gradient (softmax - onehot(target)) * gradient_scale, and the sum over
 * the rows of -log softmax[target], times loss_scale, is added to *loss (one fp64 in device memory). targets [rows] int32.
 * sum: the study's loss instead, the plain sum of the logits: gradients are gradient_scale, *loss gets the sum times loss_scale. */
struct gpt_loss {
    void *logits;
    const int32_t *targets;
    double *loss;
    size_t rows;
    float gradient_scale, loss_scale;
    bool sum;
};

/* The same where the vocabulary is divided over the ranks of a tensor group, in two kernels, so that logits never leave their rank.
 * Source  Shoeybi et al., "Megatron-LM", 2019, section 3: the cross-entropy is fused with the product that makes the logits. */

/* What one rank's logits [rows, vocab.count] say of a row. sum: `exponentials` is the sum of the logits, the others are 0. */
struct gpt_logit_row {
    float largest;      /* logit */
    float exponentials; /* sum of exp(logit - largest) */
    float at_target;    /* the target's logit; 0 where another rank has it */
};

struct gpt_loss_part {
    const void *logits;
    const int32_t *targets;
    struct gpt_logit_row *out; /* [rows] */
    size_t rows;
    struct gpt_part vocab;
    bool sum;
};

/* The rest of gpt_loss, from every rank's rows [parts, rows]: each adds the whole loss to its *loss. */
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
 * The same results in fewer passes over memory. These are entries that a backend may lack: callers then run the kernels named, one after the
 * other. */

/* dropout_residual, whose output the next layer's norm reads: layer_norm, or rms_norm where mean is NULL. */
struct gpt_residual_norm {
    struct gpt_dropout_residual sum;
    const void *gain, *bias; /* [d]; bias may be NULL */
    void *y;                 /* [rows, d] */
    float *mean, *rstd;      /* [rows] */
    size_t d;
    float epsilon;
};

/* layer_norm_gradient, or rms_norm_gradient where mean is NULL, that adds to dx; and dropout_gradient of dx, of the branch that the norm
 * reads the sum of. y: NULL, or it becomes the norm's output once more; mean and rstd may then be written again, too. */
struct gpt_norm_branch_gradient {
    const void *dy, *x, *gain, *bias; /* bias is read for y alone, and may be NULL */
    float *mean, *rstd;
    void *dx, *dgain, *dbias, *dbranch, *y; /* dbranch, y [rows, d]; dbranch may be NULL, and y dy */
    float epsilon;
    size_t rows, d;
    bool accumulate;
    struct gpt_dropout dropout;
};

/* linear, whose y is `hidden`, and active [rows, out] = gelu(hidden). With relu, and only then, active may be
 * hidden: relu of it, and relu's derivative, are those of what was there. A backend that does both at once may take GELU of what is not
 * rounded yet, and tanh of its tanh form as exactly as 16 bits need it. */
struct gpt_linear_gelu {
    struct gpt_linear linear;
    void *active;
};

/* linear_gelu_input_gradient, and what reads the same: db [in], or NULL, the column sums of its dx, which are the gradient of the bias in front
 * of the GELU (accumulate: db adds); active [rows, in], or NULL, becomes gelu(hidden) once more, and may be hidden. */
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
    ROW(attention_rope_gradient, gpt_attention_backward) /* attention_gradient, and rope back of q's and k's gradients as they are stored */

/* ---- the list ----
 *
 * Every kernel that all backends have, once. From it follow the entries of struct gpt_kernel_table, the functions gpt_cpu_<entry> and gpt_cuda_<entry> with their
 * rows, cost_<entry>, the spans of a trace, enum gpt_kernel_kind with its names, and the keys "kernels.<entry>" of a profile. Whatever is
 * still missing after a new row does not compile or link, and the error names it; what no compiler sees is in gpt/README.md.
 *
 *   COSTED(entry, struct of its arguments, KIND, phase, shape, what an element of its passes is, passes)
 *       a kernel that profiles know: its launches and passes over memory, and its measured times. passes: dtbench's own, in one launch, for
 *       profiles that do not name the kernel because they are older; NULL: they must
 *   OTHER_PASSES(entry, KIND, key, what its element is)
 *       passes of the kernel before it over memory of another size
 *   UNCOSTED(entry, struct of its arguments, why it has no costs of its own) */
/* clang-format off */
#define GPT_KERNELS(COSTED, OTHER_PASSES, UNCOSTED)                                                                                       \
    UNCOSTED(tokens, gpt_tokens, "small, and a trainer has them ready")                                                                   \
    COSTED(embedding, gpt_embedding, EMBEDDING, FORWARD, LOOKUP, "rows x d", NULL)                                                        \
    COSTED(embedding_gradient, gpt_embedding_gradient, EMBEDDING_GRADIENT, BACKWARD, LOOKUP_GRADIENT, "rows x d", NULL)                   \
    OTHER_PASSES(embedding_gradient, EMBEDDING_GRADIENT, weight_passes, "Of each of both tables' elements.")                              \
    COSTED(layer_norm, gpt_norm, LAYER_NORM, FORWARD, ROWS, "rows x d", NULL)                                                             \
    COSTED(layer_norm_gradient, gpt_norm_gradient, LAYER_NORM_GRADIENT, BACKWARD, ROWS, "rows x d", NULL)                                 \
    COSTED(rms_norm, gpt_norm, RMS_NORM, FORWARD, ROWS, "rows x d", "2")                                                                  \
    COSTED(rms_norm_gradient, gpt_norm_gradient, RMS_NORM_GRADIENT, BACKWARD, ROWS, "rows x d", "4")                                      \
    COSTED(head_norm, gpt_head_norm, HEAD_NORM, FORWARD, ROWS, "rows x columns of q, k and v", "2")                                       \
    COSTED(head_norm_gradient, gpt_head_norm_gradient, HEAD_NORM_GRADIENT, BACKWARD, ROWS, "rows x columns of q, k and v", "3")           \
    COSTED(linear, gpt_linear, LINEAR, FORWARD, PRODUCT, "rows x out, beside the product", NULL)                                          \
    UNCOSTED(linear_residual, gpt_linear_residual, "gelu, linear and dropout_residual")                                                    \
    COSTED(linear_input_gradient, gpt_linear_input_gradient, LINEAR_INPUT_GRADIENT, BACKWARD, PRODUCT, "rows x in, beside the product", NULL) \
    UNCOSTED(linear_gelu_input_gradient, gpt_linear_gelu_input_gradient, "linear_input_gradient and gelu_gradient")                       \
    COSTED(linear_weight_gradient, gpt_linear_weight_gradient, LINEAR_WEIGHT_GRADIENT, BACKWARD, PRODUCT, "rows x out, beside the product", NULL) \
    OTHER_PASSES(linear_weight_gradient, LINEAR_WEIGHT_GRADIENT, weight_passes, "Of each of out x in, beside the product.")               \
    UNCOSTED(linear_gelu_weight_gradient, gpt_linear_gelu_weight_gradient, "gelu and linear_weight_gradient")                             \
    COSTED(gelu, gpt_gelu, GELU, FORWARD, FLAT, "rows x 4d", NULL)                                                                        \
    COSTED(gelu_gradient, gpt_gelu_gradient, GELU_GRADIENT, BACKWARD, FLAT, "rows x 4d", NULL)                                            \
    COSTED(swiglu, gpt_swiglu, SWIGLU, FORWARD, ROWS, "rows x f", "3")                                                                    \
    COSTED(swiglu_gradient, gpt_swiglu_gradient, SWIGLU_GRADIENT, BACKWARD, ROWS, "rows x f", "6")                                        \
    UNCOSTED(move, gpt_move, "other software keeps what is sent in one piece")                                                            \
    COSTED(rope, gpt_rope, ROPE, FORWARD, ROWS, "rows x columns that turn", "2")                                                          \
    COSTED(attention, gpt_attention_forward, ATTENTION, FORWARD, HEADS, "rows x d", NULL)                                                 \
    OTHER_PASSES(attention, ATTENTION, square_passes, "Of each of samples x heads x T x T, beside the products; unfused only.")           \
    COSTED(attention_gradient, gpt_attention_backward, ATTENTION_GRADIENT, BACKWARD, HEADS, "rows x d", NULL)                             \
    OTHER_PASSES(attention_gradient, ATTENTION_GRADIENT, square_passes, "As in attention.")                                               \
    COSTED(dropout_residual, gpt_dropout_residual, DROPOUT_RESIDUAL, FORWARD, ROWS, "rows x d", NULL)                                     \
    COSTED(dropout_gradient, gpt_dropout_gradient, DROPOUT_GRADIENT, BACKWARD, ROWS, "rows x d", NULL)                                    \
    COSTED(loss, gpt_loss, LOSS, FORWARD, ROWS, "rows x V", NULL)                                                                         \
    UNCOSTED(loss_part, gpt_loss_part, "half of loss")                                                                                    \
    UNCOSTED(loss_gradient, gpt_loss_gradient, "half of loss")
/* clang-format on */

#define GPT_NO_KERNEL_ROW(...) /* for uses of the list that need nothing of one of its three forms */

/* The one signature: GPT_KERNEL_FUNCTION(gpt_cpu_gelu, gpt_gelu) declares or begins gpt_cpu_gelu. */
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
    /* base: the kernels of all families, which outlive these, and know device and step. */
    dt_status (*create)(struct dt_kernels *base, const struct dt_model *model, struct gpt_kernels **out);
    void (*destroy)(struct gpt_kernels *kernels); /* streams must be synchronized; takes NULL */

#define GPT_KERNEL_ENTRY(entry, arguments, ...) GPT_KERNEL_FUNCTION((*entry), arguments);
    GPT_KERNELS(GPT_KERNEL_ENTRY, GPT_NO_KERNEL_ROW, GPT_KERNEL_ENTRY)
#undef GPT_KERNEL_ENTRY

    /* ---- optional, from here on: what NULL means is said of each ---- */

    bool (*available)(char *text, size_t text_bytes); /* gpt_kernels_available. NULL: they need no library */
    const char
        *missing; /* of kernels that are not in this build: what it is and what brings it, and nothing else is looked at. Else NULL */
    /* What computes the products of a linear layer ("amx", "onednn"), where that is chosen as the program runs. NULL: there is no choice. */
    const char *(*products)(const struct gpt_kernels *k);
    /* As in struct dt_tuner. NULL: the kernels' library offers no choice. */
    dt_status (*use_tuning)(struct gpt_kernels *k, const struct dt_tuning *tuning);
    void (*tuned)(const struct gpt_kernels *k, struct dt_tuned *out);
    /* Bytes that the kernels keep of a layer for its backward, in addition to the stage. NULL:
     * none. For these samples, or a part of one, on one of `ranks` ranks that share the layer;
     * sequence_parallel: they share the residual stream, too. */
    size_t (*besides_bytes)(const struct gpt_kernels *k, enum gpt_layer_kind layer, double samples, int ranks, bool sequence_parallel);

    /* NULL: there are only the kernels that it stands for. */
#define GPT_FUSED_ENTRY(entry, arguments) GPT_KERNEL_FUNCTION((*entry), arguments);
    GPT_FUSED_KERNELS(GPT_FUSED_ENTRY)
#undef GPT_FUSED_ENTRY
};

const struct gpt_kernel_table *gpt_kernels_for(const struct dt_device_kind *kind);

/* Whether the kernels find what they need beside a device of this kind. `text` gets the libraries that they bring with them
 * ("cuBLASLt 13.1.0"; "" for none), or where there are none what is missing and what brings it. */
bool gpt_kernels_available(const struct dt_device_kind *kind, char *text, size_t text_bytes);

extern const struct gpt_kernel_table gpt_kernels_cpu; /* gpt/cpu/backend.c, or none.c */
extern const struct gpt_kernel_table gpt_kernels_cost;
extern const struct gpt_kernel_table gpt_kernels_cuda; /* gpt/cuda/backend.c, or none.c */

/* gpt/cuda/listing.c: kernels that compute nothing, and add the products that they are asked for to those that `to`, which outlives them,
 * is to measure. Without the table's own create: use this one. Errors: DT_ERR_HOST_MEMORY. */
extern const struct gpt_kernel_table gpt_kernels_listing;
dt_status gpt_kernels_listing_create(struct dt_tuning *to, const struct dt_model *model, struct gpt_kernels **out);

extern const struct dt_tuner gpt_tuner;     /* gpt/cuda/tuner.c */
extern const struct dt_pricing gpt_pricing; /* gpt/cost/backend.c */
extern const struct dt_prober gpt_prober;   /* gpt/cost/probe.c */

#endif

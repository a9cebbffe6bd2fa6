/* gpt's own table of kernels: what a layer needs computed.
 *
 * Backends: cpu (gpt/kernels_cpu*.c, attention in gpt/cpu/attention.c), cost (gpt/cost/kernels.c: computes nothing, for sim). All calls
 * queue on `stream` and return; pointers are device memory in the model's dtype unless said otherwise; M = samples * T rows, row-major.
 * Arithmetic is fp32 inside, rounded to the dtype once at the end. Unless "accumulate" or "adds" is said, outputs are overwritten without
 * being read. Outputs do not overlap inputs unless said. Argument structures are copied. Errors: what queueing can return; failures of the
 * work itself come from dt_stream_synchronize. */
#ifndef GPT_KERNELS_H
#define GPT_KERNELS_H

#include "gpt/layout.h"
#include "gpt/model.h"
#include "lib/device/device.h"

#include <stdbool.h>

/* Which random bits a dropout uses (lib/base/random.h). probability 0 turns it off. */
struct gpt_dropout {
    uint64_t seed;
    uint32_t layer;        /* a number of its own for each dropout of the model, below 2^24 */
    uint32_t first_sample; /* number of the first of the call's samples, from the step's first one (begin_step) */
    float probability;
};

/* y [rows, out] = x [rows, in] * w [out, in]^T + b [out]; b may be NULL. */
struct gpt_linear {
    const void *x, *w, *b;
    void *y;
    size_t rows, in, out;
};

/* dx [rows, in] = dy [rows, out] * w [out, in] */
struct gpt_linear_input_gradient {
    const void *dy, *w;
    void *dx;
    size_t rows, in, out;
};

/* dx [rows, in] = gelu'(hidden [rows, in]) * (dy [rows, out] * w [out, in]): back through a linear and the GELU in front of it. A backend
 * that does both at once may take GELU's tanh form where that lies well inside the dtype's own rounding; one that does them one after the
 * other rounds the product, too. */
struct gpt_linear_gelu_input_gradient {
    const void *dy, *w, *hidden;
    void *dx;
    size_t rows, in, out;
};

/* dw [out, in] = dy [rows, out]^T * x [rows, in]; db [out] = column sums of dy, or NULL. accumulate: dw and db add to what is there. */
struct gpt_linear_weight_gradient {
    const void *dy, *x;
    void *dw, *db;
    size_t rows, in, out;
    bool accumulate;
};

/* y [rows, d] = (x - mean) * rstd * gain + bias, epsilon 1e-5. mean and rstd [rows] fp32 are written. */
struct gpt_layer_norm {
    const void *x, *gain, *bias; /* gain, bias [d] */
    void *y;
    float *mean, *rstd;
    size_t rows, d;
};

/* dx [rows, d] adds the gradient through the norm (the residual stream's gradient is already there) or, with overwrite, becomes it.
 * dgain, dbias [d]: accumulate adds to what is there. */
struct gpt_layer_norm_gradient {
    const void *dy, *x, *gain;
    const float *mean, *rstd;
    void *dx, *dgain, *dbias;
    size_t rows, d;
    bool overwrite, accumulate;
};

/* Causal self-attention of all heads. qkv [M, 3d]: q | k | v, head a of each at columns a*w to (a+1)*w, w = d / heads; scores scaled by
 * 1/sqrt(w); dropout on the weights after the softmax. out [M, d].
 * fused: lse [samples, heads, T] fp32 gets log(sum(exp(scaled scores))) of each row; nothing of size T*T is stored; weights is NULL.
 * unfused: weights [samples, heads, T, T] gets the softmax before dropout, zeros above the diagonal; lse is NULL. */
struct gpt_attention_forward {
    const void *qkv;
    void *out;
    float *lse;
    void *weights;
    size_t samples;
    struct gpt_dropout dropout;
};

/* dqkv [M, 3d] from dout [M, d] and what forward left. */
struct gpt_attention_backward {
    const void *dout, *out, *qkv;
    const float *lse;
    const void *weights;
    void *dqkv;
    size_t samples;
    struct gpt_dropout dropout;
};

/* out [M, d] = dropout(tokens_table[token] + position_table[t]); tokens [M] int32; tables [V, d] and [T, d]. */
struct gpt_embedding {
    const int32_t *tokens;
    const void *token_table, *position_table;
    void *out;
    size_t samples;
    struct gpt_dropout dropout;
};

/* Both tables' gradients from dout [M, d]. Without accumulate all of both tables is written (rows of unused tokens with zeros). */
struct gpt_embedding_gradient {
    const int32_t *tokens;
    const void *dout;
    void *dtoken_table, *dposition_table;
    size_t samples;
    bool accumulate;
    struct gpt_dropout dropout;
};

/* out [M, d] = residual + dropout(branch). out may be branch. */
struct gpt_dropout_residual {
    const void *residual, *branch;
    void *out;
    size_t samples;
    struct gpt_dropout dropout;
};

/* dbranch [M, d] = dropout mask * scale * dout. */
struct gpt_dropout_gradient {
    const void *dout;
    void *dbranch;
    size_t samples;
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

/* params -= learning_rate * gradient_scale * grads. In this and in Adam's an element whose gradient is not finite is left out: its
 * parameter, moments and master stay as they are, and the step counts it (step_overflows). */
struct gpt_sgd {
    void *params;
    const void *grads;
    size_t count;
    float learning_rate, gradient_scale;
};

/* Adam (Kingma and Ba, ICLR 2015, algorithm 1) on fp32 master weights; params gets their rounded copy. moments and master [count] fp32. At
 * step 1 (begin_step) the master is taken from params and the moments from zero, whatever the three arrays hold. */
struct gpt_adam {
    void *params;
    const void *grads;
    float *first_moment, *second_moment, *master;
    size_t count;
    float learning_rate, beta1, beta2, epsilon, gradient_scale;
};

struct gpt_kernels;

struct gpt_kernel_table {
    const char *name;                                 /* "cpu", "cost", "cuda" */
    bool (*available)(char *text, size_t text_bytes); /* gpt_kernels_available */
    dt_status (*create)(struct dt_device *device, const struct gpt_model *model, struct gpt_kernels **out);
    void (*destroy)(struct gpt_kernels *kernels); /* streams must be synchronized; takes NULL */

    /* What changes from step to step, so that all other calls can be the same in each: from here on `first_sample` is added to every
     * first_sample that a call carries, Adam is at its step `number`, from 1 (both as after create: 0 and 1), and no overflow is counted.
     * Queues on `stream`, which the step's other streams wait for; none of an earlier step's host kernels may be left in a queue. */
    dt_status (*begin_step)(struct gpt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int number);
    /* *to, in host memory, gets the number of elements that this step's updates have left out, once `stream` gets here. */
    dt_status (*step_overflows)(struct gpt_kernels *k, struct dt_stream *stream, uint64_t *to);

    dt_status (*init_normal)(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, uint64_t seed, uint32_t tensor_id,
                             uint64_t first_element, float standard_deviation); /* elements first_element.. of the tensor */
    dt_status (*fill)(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value);
    /* inputs, targets [samples * T] int32: a sample is T + 1 random tokens; targets are the inputs one place on. */
    dt_status (*tokens)(struct gpt_kernels *k, struct dt_stream *stream, int32_t *inputs, int32_t *targets, size_t samples, uint64_t seed,
                        uint32_t first_sample);
    dt_status (*embedding)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding *a);
    dt_status (*embedding_gradient)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding_gradient *a);
    dt_status (*layer_norm)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm *a);
    dt_status (*layer_norm_gradient)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm_gradient *a);
    dt_status (*linear)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear *a);
    dt_status (*linear_input_gradient)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_input_gradient *a);
    dt_status (*linear_gelu_input_gradient)(struct gpt_kernels *k, struct dt_stream *stream,
                                            const struct gpt_linear_gelu_input_gradient *a);
    dt_status (*linear_weight_gradient)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_weight_gradient *a);
    dt_status (*gelu)(struct gpt_kernels *k, struct dt_stream *stream, void *y, const void *x, size_t count); /* exact: x * Phi(x) */
    dt_status (*gelu_gradient)(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x, size_t count); /* in place */
    dt_status (*attention)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_forward *a);
    dt_status (*attention_gradient)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_backward *a);
    dt_status (*dropout_residual)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_residual *a);
    dt_status (*dropout_gradient)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_gradient *a);
    dt_status (*loss)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_loss *a);
    dt_status (*sgd)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a);
    dt_status (*adam)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a);
    /* to[i] += from[i] */
    dt_status (*add)(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count);
    /* Bytes that the stack behind these kernels keeps of a layer for backward, beside what the stage does: 0 but for a simulated framework. */
    size_t (*kept_bytes)(const struct gpt_kernels *k, enum gpt_layer_kind layer, size_t samples);
    /* Bytes of the model's output that it holds from the head's forward until the next forward of the same micro-batch; 0 likewise. */
    size_t (*output_bytes)(const struct gpt_kernels *k, size_t samples);

    /* The same three where parameters live in host memory: every array is in buffers of dt_alloc_host, and the host's processor does the
     * work, in `stream`'s order like any other. A stream of its own lets it go on beside the device's kernels and the copies. */
    dt_status (*sgd_host)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a);
    dt_status (*adam_host)(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a);
    dt_status (*add_host)(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count);
};

/* The table for a device of this kind ("cpu", "sim", "cuda"); NULL, with dt_fail's text, when this build has none. */
const struct gpt_kernel_table *gpt_kernels_for(const char *device_kind);

/* Whether the kernels find what they need beside a device of this kind. `text` gets the libraries that they bring with them
 * ("cuBLASLt 13.1.0"; "" for none), or where there are none what is missing and what brings it. */
bool gpt_kernels_available(const char *device_kind, char *text, size_t text_bytes);

/* Whether this machine computes `dtype` natively, for a note to the user: false for fp16 on cpu (converted inside the products), and for
 * bf16 where the processor has no AVX-512 BF16 or AMX; `advice` then names the alternative. */
bool gpt_cpu_dtype_native(enum dt_dtype dtype, char *advice, size_t advice_bytes);

/* kept_bytes of the kernels that are dtbench's own. */
size_t gpt_kernels_keep_nothing(const struct gpt_kernels *k, enum gpt_layer_kind layer, size_t samples);
size_t gpt_kernels_hold_nothing(const struct gpt_kernels *k, size_t samples); /* output_bytes likewise */
bool gpt_kernels_need_nothing(char *text, size_t text_bytes);                 /* `available` of those without libraries of their own */

extern const struct gpt_kernel_table gpt_kernels_cpu; /* kernels_cpu.c, or kernels_cpu_none.c whose create says what is missing */
extern const struct gpt_kernel_table gpt_kernels_cost;
extern const struct gpt_kernel_table gpt_kernels_cuda; /* kernels_cuda.c, or kernels_cuda_none.c */

#endif

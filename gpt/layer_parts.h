/* Functions that several kinds of layers share: the group's parameters and memory, norms and
 * products. `r` is one layer's run; layer.h explains the letters in shapes. Everything is queued on
 * its stream; errors are those of layer.h. */
#pragma once

#include "gpt/layer.h"

/* ---- the layer ---- */

static inline const struct dt_model *model_of(const struct layer_run *r)
{
    return r->stage->base.model;
}

/* False for a tied head, which runs as the embedding. */
static inline bool of_block(const struct layer_run *r)
{
    return r->layer->kind == GPT_ATTENTION || r->layer->kind == GPT_MLP_UP || r->layer->kind == GPT_MLP_DOWN;
}

static inline bool has_norm(const struct gpt_layer *layer)
{
    return layer->kind == GPT_ATTENTION || layer->kind == GPT_MLP_UP || layer->kind == GPT_FINAL_NORM;
}

static inline bool shared(const struct layer_run *r)
{
    return r->stage->cut.size > 1;
}

/* ---- the halves of backward ---- */

static inline bool inputs_now(const struct layer_run *r)
{
    return r->part & DT_BACKWARD_INPUT;
}

static inline bool weights_now(const struct layer_run *r)
{
    return r->part & DT_BACKWARD_WEIGHTS;
}

/* The category of gradients that both halves of backward read: short-lived in a whole backward,
 * kept until the second half otherwise. */
static inline enum dt_category gradient_category(const struct layer_run *r)
{
    return r->part == DT_BACKWARD_WHOLE ? DT_WORKSPACE : DT_ACTIVATIONS;
}

/* ---- the group's parameters, memory, dropout ---- */

/* A tensor of the layer, by its name in layout.c; and its gradient. */
void *layer_param(const struct layer_run *r, enum gpt_tensor_name name);
void *layer_grad(const struct layer_run *r, enum gpt_tensor_name name);

/* out [M, columns] */
dt_status layer_allocate(const struct layer_run *r, enum dt_category category, size_t columns, struct dt_buffer *out);
/* out [R, d] */
dt_status layer_allocate_stream(const struct layer_run *r, enum dt_category category, struct dt_buffer *out);

static inline bool makes_again(const struct layer_run *r, enum dt_again what)
{
    return r->stage->base.parts[r->stash->part].again & what;
}

/* Whether attention's forward keeps only q, k, v and perhaps the heads' outputs, and backward
 * computes the rest again. */
static inline bool attends_again(const struct layer_run *r)
{
    return r->layer->kind == GPT_ATTENTION && makes_again(r, DT_AGAIN_WEIGHTS);
}

/* Whether the stage keeps these cheap values; not if products are recomputed, which makes them
 * anyway. */
static inline bool keeps(const struct layer_run *r, enum dt_keep what)
{
    return r->stage->base.keep & what && !makes_again(r, DT_AGAIN_PRODUCTS);
}

/* The dropout for all rows of the layer. */
struct gpt_dropout layer_dropout(const struct layer_run *r);
/* The dropout for this rank's rows of the residual stream. */
struct gpt_dropout layer_stream_dropout(const struct layer_run *r);

/* ---- several kernels in one ---- */

/* The fused kernels that the backend has (GPT_FUSED_KERNELS); NULL: do not use them. */
static inline const struct gpt_kernel_table *fused(const struct layer_run *r)
{
    return r->stage->base.separate_kernels ? NULL : gpt_kernel_set(r->stage->base.kernels)->offers;
}

/* The layer before or after this one, if the pass runs it in the same group. Operations at the
 * border of the two can then be one kernel. The memory for that is allocated on every device, so
 * that bytes do not depend on the kernels. */
bool layer_before(const struct layer_run *r, struct layer_run *before);
bool layer_after(const struct layer_run *r, struct layer_run *after);
/* The layer before this one, in this group or the group before. */
struct layer_run layer_one_before(const struct layer_run *r);

/* ---- norms ---- */

/* Move stash->x to the norm's input, where it stays until layer_free_norm_input. */
dt_status layer_keep_norm_input(const struct layer_run *r);
void layer_free_norm_input(const struct layer_run *r);
/* What one kernel computes together with a norm's gradient. Members may be NULL. */
struct layer_beside_norm {
    const struct layer_run *branch; /* the layer whose dbranch is computed from the finished dx */
    void *normed;                   /* the norm's output; may be dy */
};
/* The bias's gradient, if there is one, is stored after the gain's. If each rank has a part of the
 * rows, both are summed over the ranks while later work goes on; layer_finish_gradients waits for
 * the sums. Where `beside` is NULL, the norm's gradient alone is computed. */
dt_status layer_normalize_backward(const struct layer_run *r, const void *dy, void *dx, bool overwrite,
                                   const struct layer_beside_norm *beside);
/* Allocate kept->mean and kept->rstd, unless the norm has no mean. */
dt_status layer_allocate_norm_numbers(const struct layer_run *r);
/* normed [R, d] = norm(x [R, d]) */
struct gpt_norm layer_norm_of(const struct layer_run *r, const void *x, void *normed);
dt_status layer_normalize(const struct layer_run *r, const void *x, void *normed);

/* ---- products ----
 *
 * weight [out, in], rows [M, ...]. bias [out]; GPT_NO_TENSOR, or a bias that some models lack. */

struct gpt_linear layer_linear_of(const struct layer_run *r, void *y, const void *x, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                                  size_t out, size_t in);
dt_status layer_linear(const struct layer_run *r, void *y, const void *x, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                       size_t out, size_t in);
struct gpt_linear_weight_gradient layer_weight_gradient_of(const struct layer_run *r, const void *dy, const void *x,
                                                           enum gpt_tensor_name weight, enum gpt_tensor_name bias, size_t out, size_t in);
dt_status layer_weight_gradients(const struct layer_run *r, const void *dy, const void *x, enum gpt_tensor_name weight,
                                 enum gpt_tensor_name bias, size_t out, size_t in);
struct gpt_linear_input_gradient layer_input_gradient_of(const struct layer_run *r, void *dx, const void *dy, enum gpt_tensor_name weight,
                                                         size_t out, size_t in);
dt_status layer_input_gradient(const struct layer_run *r, void *dx, const void *dy, enum gpt_tensor_name weight, size_t out, size_t in);

/* What several kinds of layers share: the group's parameters and memory, norms, products, and what
 * ranks that share a layer exchange. `r` is one layer's run (layer.h), whose letters stand in the
 * comments. Everything is queued on its stream; errors are those of layer.h. */
#ifndef GPT_LAYER_PARTS_H
#define GPT_LAYER_PARTS_H

#include "gpt/layer.h"

/* ---- the halves of backward ---- */

static inline bool inputs_now(const struct layer_run *r)
{
    return r->part & DT_BACKWARD_INPUT;
}

static inline bool weights_now(const struct layer_run *r)
{
    return r->part & DT_BACKWARD_WEIGHTS;
}

/* Of gradients that both halves read: in a whole backward they live for a moment, otherwise until the second half. */
static inline enum dt_category gradient_category(const struct layer_run *r)
{
    return r->part == DT_BACKWARD_WHOLE ? DT_WORKSPACE : DT_ACTIVATIONS;
}

/* ---- the group's parameters, memory, dropout ---- */

/* A tensor of the layer, by its name in layout.c, and its gradient. */
void *layer_param(const struct layer_run *r, enum gpt_tensor_name name);
void *layer_grad(const struct layer_run *r, enum gpt_tensor_name name);

static inline void take(struct dt_buffer *to, struct dt_buffer *from)
{
    *to = *from;
    *from = (struct dt_buffer){0};
}

/* [M, columns] */
dt_status layer_allocate(const struct layer_run *r, enum dt_category category, size_t columns, struct dt_buffer *out);
/* [R, d] */
dt_status layer_allocate_stream(const struct layer_run *r, enum dt_category category, struct dt_buffer *out);

static inline bool makes_again(const struct layer_run *r, enum dt_again what)
{
    return r->stage->base.parts[r->stash->part].again & what;
}

/* Whether attention's forward keeps q, k, v and perhaps the heads' outputs alone, and backward computes the rest again. */
static inline bool attends_again(const struct layer_run *r)
{
    return r->layer->kind == GPT_ATTENTION && makes_again(r, DT_AGAIN_WEIGHTS);
}

/* Who computes products again has no use for what is cheap. */
static inline bool keeps(const struct layer_run *r, enum dt_keep what)
{
    return r->stage->base.keep & what && !makes_again(r, DT_AGAIN_PRODUCTS);
}

/* For all rows of the layer. */
struct gpt_dropout layer_dropout(const struct layer_run *r);
/* The same for this rank's rows of the residual stream. */
struct gpt_dropout layer_stream_dropout(const struct layer_run *r);

/* ---- several kernels in one ---- */

/* What the kernels in use have of those (GPT_FUSED_KERNELS); NULL: they are not to be used. */
static inline const struct gpt_kernel_table *fused(const struct layer_run *r)
{
    return r->stage->base.separate_kernels ? NULL : gpt_kernel_set(r->stage->base.kernels)->offers;
}

/* The layer before or after this one, where the pass runs it in the same group: what the two do at their border can be one kernel. What that
 * needs is allocated there on every device, so that bytes do not depend on the kernels. */
bool layer_before(const struct layer_run *r, struct layer_run *before);
bool layer_after(const struct layer_run *r, struct layer_run *after);
/* The layer before this one, which is in this group or the group before. */
struct layer_run layer_one_before(const struct layer_run *r);

/* ---- norms ---- */

/* stash->x becomes the norm's input, and stays until layer_free_norm_input. */
dt_status layer_keep_norm_input(const struct layer_run *r);
void layer_free_norm_input(const struct layer_run *r);
/* dgain, and dbias where there is one, lie one after the other. If each rank has a part of the
 * rows, they are summed over ranks concurrently with later work, and layer_finish_gradients
 * waits. */
dt_status layer_normalize_backward(const struct layer_run *r, const void *dy, void *dx, bool overwrite);
/* normed [R, d] */
dt_status layer_normalize(const struct layer_run *r, void *normed);
/* The norm's output, as the product after it reads it: all rows. The caller gives it back. */
dt_status layer_normed_rows(const struct layer_run *r, struct dt_buffer *normed);
/* Forward's product has read it: it is kept for backward, or freed. */
void layer_normed_read(const struct layer_run *r, struct dt_buffer *normed);

/* ---- parameters that every rank of a tensor group holds, or several: gradients are sums over the copies ----
 *
 * What is there to be added to is the same on all of them, and counts once: the first one adds to it, the others overwrite theirs. */

/* Whether the pass adds to the gradients of copy number `copy`. */
static inline bool layer_adds_to_copy(const struct layer_run *r, int copy)
{
    return r->accumulate && copy == 0;
}
/* Begin to sum up the gradients of the gains of the heads' norms, which the layer's backward has just made. */
dt_status layer_sum_head_gains_begin(const struct layer_run *r);
/* At the end of a group's backward: these gradients, and those of its norms where each rank has some of the rows, are complete. */
dt_status layer_finish_gradients(const struct layer_run *r);

/* ---- products: weight [out, in], rows [M, ...]; bias [out], GPT_NO_TENSOR or one that the layer of another model may lack ---- */

struct gpt_linear layer_linear_of(const struct layer_run *r, void *y, const void *x, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                                  size_t out, size_t in);
dt_status layer_linear(const struct layer_run *r, void *y, const void *x, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                       size_t out, size_t in);
dt_status layer_weight_gradients(const struct layer_run *r, const void *dy, const void *x, enum gpt_tensor_name weight,
                                 enum gpt_tensor_name bias, size_t out, size_t in);
dt_status layer_input_gradient(const struct layer_run *r, void *dx, const void *dy, enum gpt_tensor_name weight, size_t out, size_t in);

/* ---- between the residual stream and the products of a layer that ranks share ---- */

static inline bool shared(const struct layer_run *r)
{
    return r->stage->cut.size > 1;
}

/* Begin to make all rows [M, d] of every rank's own [R, d]; only where the ranks have different ones. */
dt_status layer_gather_begin(const struct layer_run *r, const struct dt_buffer *own, enum dt_category category, struct dt_buffer *all);
/* All rows [M, d] in the place of this rank's [R, d]. */
dt_status layer_gather(const struct layer_run *r, enum dt_category category, struct dt_buffer *rows);
/* Where a product of which each rank makes a summand goes: [M, d], which turns into the sum's [R, d]. */
dt_status layer_allocate_summand(const struct layer_run *r, enum dt_category category, struct dt_buffer *out);
/* Begin to sum up the ranks' summands. sum: [R, d], allocated where that is not all of it. */
dt_status layer_sum_begin(const struct layer_run *r, enum dt_category category, const struct dt_buffer *summand, struct dt_buffer *sum);
/* The sum is there, in the summand's place. */
/* What a framework does between: waits for the sum before it goes on, after one more of each further product that has read `input` whole. */
dt_status layer_sum_in_turn(const struct layer_run *r, const struct dt_buffer *summand, int products);
dt_status layer_sum_end(const struct layer_run *r, struct dt_buffer *summand, const struct dt_buffer *sum);
/* Both, one after the other. */
dt_status layer_sum_up(const struct layer_run *r, enum dt_category category, struct dt_buffer *summand);

/* ---- what attention and MLP share ---- */

/* stash->x = residual + dropout(y), and where the layer after is in the group its norm, y [M, d] the product of x [M, in] that every rank makes
 * a summand of. active: NULL, or room [M, in] for gelu(x), which is then what is multiplied. Where the group goes on into a block, the sum may
 * be left to the norm there (sum_is_left). */
dt_status layer_project_to_stream(const struct layer_run *r, const void *x, void *active, enum gpt_tensor_name weight,
                                  enum gpt_tensor_name bias, size_t in, const void *residual);
/* kept->dbranch [M, d]: the residual stream's gradient through the branch's dropout; its own rows may be there already. */
dt_status layer_branch_gradient(const struct layer_run *r);
/* That, or what stands for it. */
const void *layer_dbranch(const struct layer_run *r);
/* The end of attention's and mlp_up's backward: dy [M, out] is the gradient of product(norm(input)). Weight gradients with the norm's output
 * kept or computed again; through product and norm into stash->dx, and from there into the branch of the layer before, if that is in the group.
 * Frees dy after the weight gradients. */
dt_status layer_backward_through_norm(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight,
                                      enum gpt_tensor_name bias, size_t out);

#endif

/* The branches of a block, attention and MLP: norm, products, dropout and the residual sum, and
 * their backward. `r` is one layer's run; layer.h explains the letters in shapes. Everything is
 * queued on its stream; errors are those of layer.h. */
#pragma once

#include "gpt/layer_parts.h"

/* normed: all rows of the norm's output, as the next product reads it. The caller returns it with
 * layer_normed_read. */
dt_status layer_normed_rows(const struct layer_run *r, struct dt_buffer *normed);
/* The forward's product has read `normed`: keep it for backward, or free it. */
void layer_normed_read(const struct layer_run *r, struct dt_buffer *normed);
/* stash->x = residual + dropout(y), where y [M, d] is the product of x [M, in], of which every rank
 * makes a summand; and the norm of the next layer, if that is in the group. active: NULL, or memory
 * [M, in] for gelu(x), which is then multiplied instead of x. If the group continues with a block,
 * the norm there may add the residual (sum_is_left). */
dt_status layer_project_to_stream(const struct layer_run *r, const void *x, void *active, enum gpt_tensor_name weight,
                                  enum gpt_tensor_name bias, size_t in, const void *residual);
/* kept->dbranch [M, d]: the residual stream's gradient through the branch's dropout. This rank's
 * rows may exist already. */
dt_status layer_branch_gradient(const struct layer_run *r);
/* kept->dbranch, or the residual stream's gradient if that is the same. */
const void *layer_dbranch(const struct layer_run *r);
/* The end of attention's and mlp_up's backward: dy [M, out] is the gradient of
 * product(norm(input)). Computes the weight gradients, with the norm's output kept or recomputed;
 * then the gradient through product and norm into stash->dx, and from there into the branch of the
 * layer before, if that is in the group. Frees dy after the weight gradients. */
dt_status layer_backward_through_norm(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight,
                                      enum gpt_tensor_name bias, size_t out);

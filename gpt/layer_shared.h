/* Exchanges between ranks that share a layer: gradients of parameters of which several ranks have
 * copies, rows of the residual stream, and sums of products. Everything is queued on the stream of
 * `r` (layer.h), if not on that of the exchange; errors are those of layer.h. */
#pragma once

#include "gpt/layer_parts.h"

/* ---- parameters of which several ranks have copies ----
 *
 * Gradients are sums over the copies. Old gradients are the same in all copies, and count once: the
 * first copy adds to them, the others overwrite them. */

/* Whether the pass adds to the gradients of copy number `copy`. */
static inline bool layer_adds_to_copy(const struct layer_run *r, int copy)
{
    return r->accumulate && copy == 0;
}
/* Begin to sum the gradients of the head norms' gains, which the layer's backward has just
 * computed, over the ranks. */
dt_status layer_sum_head_gains_begin(const struct layer_run *r);
/* At the end of a group's backward: wait until the gradients of copies are summed, and those of
 * norms if each rank has some of the rows. */
dt_status layer_finish_gradients(const struct layer_run *r);
/* layer_weight_gradients of a layer that ranks share: begins the sums over the copies of k and v,
 * for which layer_finish_gradients waits. */
dt_status layer_shared_weight_gradients(const struct layer_run *r, const void *dy, const void *x, enum gpt_tensor_name weight,
                                        enum gpt_tensor_name bias, size_t out);

/* ---- between the residual stream and the products of a layer that ranks share ---- */

/* Begin to gather `all` rows [M, d] from every rank's `own` [R, d]. Only with sequence
 * parallelism. */
dt_status layer_gather_begin(const struct layer_run *r, const struct dt_buffer *own, enum dt_category category, struct dt_buffer *all);
/* Wait for them; or, with group.overlap, let the next product run meanwhile. */
dt_status layer_gather_end(const struct layer_run *r);
/* Replace this rank's rows [R, d] by all rows [M, d]. */
dt_status layer_gather(const struct layer_run *r, enum dt_category category, struct dt_buffer *rows);
/* Memory for a product of which each rank makes a summand: [M, d]. layer_sum_end replaces it by the
 * sum [R, d]. */
dt_status layer_allocate_summand(const struct layer_run *r, enum dt_category category, struct dt_buffer *out);
/* Begin to sum the ranks' summands. sum: [R, d], allocated with sequence parallelism. */
dt_status layer_sum_begin(const struct layer_run *r, enum dt_category category, const struct dt_buffer *summand, struct dt_buffer *sum);
/* Only for predicted frameworks that wait for the sum immediately, and that send one more sum for
 * each further product that has read the same input. */
dt_status layer_sum_in_turn(const struct layer_run *r, const struct dt_buffer *summand, int products);
/* Wait for the sum, which replaces the summand. */
dt_status layer_sum_end(const struct layer_run *r, struct dt_buffer *summand, const struct dt_buffer *sum);
/* Both functions, one after the other. */
dt_status layer_sum_up(const struct layer_run *r, enum dt_category category, struct dt_buffer *summand);

/* An order as a file: a line of passes for each rank of the pipeline.
 *
 *   # comment
 *   F0 F1 B0 B1          rank 0: forward and backward of micro-batches 0 and 1
 *   F0, I0, W0, F1, I1, W1     rank 1, with backward in halves: gradients of the inputs, of the weights
 *   F0 F0.1 B0.1 B0      part 1 of the rank behind a dot; none is part 0
 *   0F0 3F0 3I0 0B0      or the virtual stage in front, counted over all ranks, as PyTorch's pipeline schedules are written
 *
 * Passes are separated by commas, blanks or both. Empty lines do not count. Each micro-batch goes through each part once: F, then B, or I
 * and later W. Parts are placed as a ring; where virtual stages are given and say so, as a V (plan.h). */
#ifndef SCHEDULES_PLAN_ORDER_FILE_H
#define SCHEDULES_PLAN_ORDER_FILE_H

#include "schedules/plan/order.h"

/* Of shape->text: the parts, and how they are placed. Errors: DT_ERR_INVALID, with line and pass, and DT_ERR_HOST_MEMORY. */
dt_status order_file_layout(const struct order_shape *shape, struct order_layout *out);

/* The passes of all ranks: a row of orders.c. Checks that there is a line for each rank, that each micro-batch of the step goes through each
 * part as it must, and that no rank keeps more than shape->memory_limit, where there is one. Errors: as order_file_layout. */
dt_status order_file_emit(const struct order_shape *shape, struct plan *plans);

#endif

/* Pipeline orders: which forward or backward pass of which micro-batch a rank does next. An order is one row of a table in orders.c and
 * emits computing actions only; passes.h adds the rest. */
#ifndef SCHEDULES_PLAN_ORDERS_H
#define SCHEDULES_PLAN_ORDERS_H

#include "schedules/plan/order.h"

#define ORDER_FILE_ENDING ".csv"

/* By its name in a config; of a file (order_file.h), whose name ends so, the row that reads it. NULL: no such order. */
const struct pipeline_order *pipeline_order_find(const char *name);
bool pipeline_order_is_file(const struct pipeline_order *order);
/* The orders that have names, one after the other; NULL after the last. */
const struct pipeline_order *pipeline_order_at(int index);

/* Orders after dtbench's own; NULL past the last. Here there are none. The function is weak, as paradigm_more (schedules/config/paradigm.h). */
const struct pipeline_order *pipeline_order_more(int index);

/* Parts and their places; a file says so itself. Errors: as pipeline_order_emit. */
dt_status pipeline_order_layout(const struct pipeline_order *order, const struct order_shape *shape, struct order_layout *out);

/* plans [stages] get the passes of all ranks. Owner: the caller, who calls plan_finish on each, also after a failure. Errors:
 * DT_ERR_INVALID for a file that does not fit, DT_ERR_HOST_MEMORY. */
dt_status pipeline_order_emit(const struct pipeline_order *order, const struct order_shape *shape, struct plan *plans);
/* The same of one rank, where the order's row has `emit`. Owner: the caller, also after a failure. */
dt_status pipeline_order_emit_rank(const struct pipeline_order *order, const struct order_shape *shape, int rank, struct plan *out);

#endif

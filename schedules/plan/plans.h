/* The plans of all ranks of a pipeline: an order's passes, with their messages, played once. */
#ifndef SCHEDULES_PLAN_PLANS_H
#define SCHEDULES_PLAN_PLANS_H

#include "schedules/plan/order.h"

/* plans [shape->stages] get the passes of all ranks with messages, once they have been played. Owner: the caller,
 * who calls plan_finish on each, also after a failure. Errors: as pipeline_order_emit (orders.h) and plan_play (play.h). */
dt_status plans_make(const struct pipeline_order *order, const struct order_shape *shape, struct plan *plans);

/* Of an array from malloc: with the plans. Takes NULL. */
void plans_destroy(struct plan *plans, int stages);

/* Those of some ranks alone, out [count], which are different ones. Where the order can say what one rank does it is not played: of an order that
 * has a name the tests know that it runs. Owner of out: the caller, also after a failure. */
dt_status plans_of_stages(const struct pipeline_order *order, const struct order_shape *shape, const int *stages, int count,
                          struct plan *out);

/* *out: the part of the ranks' time in which they wait, when an order is played with shape->times. Errors: as plans_make. */
dt_status plan_order_bubble(const struct pipeline_order *order, const struct order_shape *shape, double *out);

#endif

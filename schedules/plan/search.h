/* The order zb_auto: found by playing a pipeline in which each rank decides by a few rules what it does next, with several settings of the
 * rules, and keeping the shortest.
 *
 * Source  Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 3.1: a greedy heuristic and a grid search over its settings.
 *         Its ZB-1p and ZB-2p are this with a memory limit of `stages` and of twice as many micro-batches.
 * Differs the rules are our own. A rank knows of its neighbours only what is already on its way. */
#ifndef SCHEDULES_PLAN_SEARCH_H
#define SCHEDULES_PLAN_SEARCH_H

#include "schedules/plan/order.h"

/* plans [stages], one part each, get the passes that the shortest play needs with shape->times. No rank keeps more than
 * shape->memory_limit micro-batches at any time, those that wait for weight gradients alone counted half (plan_kept.weighted); 0: as many
 * as there are stages. Errors: DT_ERR_HOST_MEMORY. */
dt_status search_emit(const struct order_shape *shape, struct plan *plans);

/* What is tried: "12 of 50 settings tried with 1024 micro-batches, and the best one with all". Of a large pipeline less is tried: the number of
 * its passes decides, and no clock. */
void search_tell(const struct order_shape *shape, char *text, size_t bytes);

#endif

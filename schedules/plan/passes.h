/* Passes over plans: each adds one kind of decision to what an order has emitted, in this sequence. */
#ifndef SCHEDULES_PLAN_PASSES_H
#define SCHEDULES_PLAN_PASSES_H

#include "schedules/plan/plan.h"

/* Before every forward pass its input is received, behind it the output is sent; the same for gradients around backward. The first and the
 * last virtual stage have only one neighbour. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_add_messages(struct plan *plan);

/* Play the plans of all ranks of a pipeline, plans[stages] with messages, against each other. Between two ranks, messages of one direction
 * arrive in the sequence in which they were sent; sending does not block, receiving does. Finds what cannot run:
 *   a deadlock               names the ranks that wait for each other, and for which message each does
 *   messages that cross      the sequence in which they are received is not the one in which they were sent
 *   messages nobody receives
 * times: NULL, or [stages] arrays of [count]: when each action ends, in units of one forward pass (of all parts of a rank) times UNIT_TIME;
 * a backward pass takes two, each of its halves one, all else nothing.
 * Errors: DT_ERR_INVALID with that text, DT_ERR_HOST_MEMORY. */
enum { UNIT_TIME = 12 }; /* divisible by the usual numbers of parts */
dt_status plan_play(const struct plan *plans, int stages, int **times);

/* Give each micro-batch a stash slot, the lowest that is free, from its forward pass (or the receiving before it) to the end of its
 * backward pass, and set plan->slots: the fewest that do. Slots of a part are numbered by themselves. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_assign_slots(struct plan *plan);

#endif

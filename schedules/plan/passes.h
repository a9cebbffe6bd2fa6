/* Passes over plans: each adds one kind of decision to what an order has emitted, in this sequence. */
#ifndef SCHEDULES_PLAN_PASSES_H
#define SCHEDULES_PLAN_PASSES_H

#include "schedules/plan/orders.h"

/* ---- 1. messages ---- */

/* Before every forward pass its input is received, behind it the output is sent; the same for gradients around backward. The first and the
 * last virtual stage have only one neighbour. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_add_messages(struct plan *plan);

/* Play the plans of all ranks of a pipeline, plans[stages] with messages, against each other. Between two ranks, messages of one direction
 * arrive in the sequence in which they were sent; sending does not block, receiving does. Finds what cannot run:
 *   a deadlock               names the ranks that wait for each other, and for which message each does
 *   messages that cross      the sequence in which they are received is not the one in which they were sent
 *   messages nobody receives
 * times: NULL, or [stages] arrays of [count]: when each action ends. A forward pass through a whole rank takes UNIT_TIME, a backward pass
 * two, each of its halves one, all else nothing.
 * Errors: DT_ERR_INVALID with that text, DT_ERR_HOST_MEMORY. */
enum { UNIT_TIME = 12 }; /* divisible by the usual numbers of parts */
dt_status plan_play(const struct plan *plans, int stages, int **times);

/* The passes of one rank with its messages, by the order of that name, once the plans of all ranks have been played. Owner of *out: the
 * caller, also after a failure. Errors: as plan_play and pipeline_order_emit, DT_ERR_INVALID for an unknown name. */
dt_status plan_from_order(const char *name, const struct order_shape *shape, struct plan *out);

/* *out: the part of the ranks' time in which they wait, when an order is played as plan_play does it. Errors: as plan_from_order. */
dt_status plan_order_bubble(const char *name, const struct order_shape *shape, double *out);

/* ---- 2. slots ---- */

/* Give each micro-batch a stash slot, the lowest that is free, from the first of its actions to the last, and set plan->slots: the fewest
 * that do. Slots of a part are numbered by themselves. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_assign_slots(struct plan *plan);

/* ---- 3. groups and segments ---- */

/* Groups [first_group, end_group) of a part, whose activations have one fate between forward and backward. */
struct plan_segment {
    int first_group, end_group;
    bool input_only; /* forward leaves the input alone */
    bool late;       /* forward is not run at all, backward does it; one group, the one with the head. Otherwise input_only segments are
                      * recomputed. */
};

struct plan_group {
    bool backward_reads_params;
    bool kept_with_next; /* the next group's backward reads what this one's forward keeps */
    int bucket;          /* groups with the same number are consecutive, and their gradients are reduced together */
};

/* What passes must know of a part. */
struct plan_part {
    const struct plan_group *groups; /* [group_count] */
    int group_count;
    const struct plan_segment *segments; /* [segment_count], all groups in sequence */
    int segment_count;
    bool offload; /* inputs of segments wait in host memory; all but the two that backward needs first, where it follows at once */
};

/* Expand passes through a part into passes through its groups, with what its segments keep, recompute and copy. A recomputation that does
 * not need the output's gradient runs before that is received: it fills part of the bubble. parts: [plan->parts].
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_expand(struct plan *plan, const struct plan_part *parts);

/* ---- 4. parameters and gradients ---- */

/* Where a data-parallel mode wants its actions. */
struct plan_rules {
    bool publishes;       /* PUBLISH before the step's first pass */
    bool gathers;         /* GATHER before a group is used, FREE after, unless the next pass uses the same group */
    bool gathers_once;    /* GATHER before a group's first pass of the step that reads it, FREE after the last */
    bool gathers_in_turn; /* GATHER right before each use; otherwise one pass ahead, so that at most two groups are there */
    int reduce_every;     /* REDUCE after so many micro-batches' backward passes; 0: never */
    bool updates_at_once; /* UPDATE after a group's last backward pass */
};

/* Mark first and last passes and those whose gradients are reduced, and place GATHER, FREE, REDUCE, UPDATE and END_STEP.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_place_parameters(struct plan *plan, const struct plan_part *parts, const struct plan_rules *rules);

#endif

/* Passes over plans: each adds one kind of decision to what an order has emitted, in this sequence. */
#ifndef SCHEDULES_PLAN_PASSES_H
#define SCHEDULES_PLAN_PASSES_H

#include "schedules/plan/plan.h"

/* ---- 1. messages ---- */

/* Before every forward pass its input is received, behind it the output is sent; the same for gradients around backward. The first and the
 * last virtual stage have only one neighbour. What comes from or goes to this rank itself is no message but a TAKE_OVER or GIVE_BACK.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_add_messages(struct plan *plan);

/* Of a step that is played to count, and not run: leave out micro-batches in the middle of the plans of a rank and its neighbours, which have
 * messages and no slots. There each plan's passes of a few micro-batches are those of the few before them, again and again; or all of its forward
 * passes come first, and then all backward ones. `left` such repetitions stay, each of a multiple of `step` micro-batches. What is left is
 * numbered anew, and is the plan of a step with fewer micro-batches. Returns how many are left out: 0 where plans do not repeat themselves, or
 * where it would not be half of them. */
int plans_shorten(struct plan *plans, int count, int step, int left);

/* ---- 2. slots ---- */

/* Give each micro-batch a stash slot, the lowest that is free, from the first of its actions to the last, and set plan->slots: the fewest
 * that do. Slots of a part are numbered by themselves. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_assign_slots(struct plan *plan);

/* ---- 3. groups and segments ---- */

/* Groups [first_group, end_group) of the rank, all of one part, whose activations have one fate between forward and backward. */
struct plan_segment {
    int first_group, end_group;
    bool input_only; /* forward leaves the input alone */
    bool late;       /* forward is not run at all, backward does it; one group, the one with the head. Otherwise input_only segments are
                      * recomputed. */
};

struct plan_group {
    bool backward_reads_params;
    bool kept_with_next; /* the next group's backward reads what this one's forward keeps */
    /* Its passes read the parameters of the part's first group, too, and its backward adds to their gradients before that group's own does:
     * a head whose weight is the embedding's table. Of a backward in one piece. */
    bool reads_first;
    /* Another part, at the other end of the pipeline, has a copy of some of its parameters. */
    bool has_copy;
    int bucket; /* groups with the same number are consecutive, and their gradients are reduced together */
};

/* What passes must know of a part: groups [first_group, end_group) of the rank. */
struct plan_part {
    const struct plan_group *groups; /* of the rank: the parts' groups one after the other */
    int first_group, end_group;
    const struct plan_segment *segments; /* [segment_count], all of the part's groups in sequence */
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
    /* REDUCE after the backward passes of this number of micro-batches; 0: never. Where an order puts weight gradients off, gradients of later micro-batches
     * would be reduced half: then the reduction waits until no half is outstanding. Always after the last. */
    int reduce_every;
    bool updates_at_once; /* UPDATE after a group's last backward pass */
};

/* Mark first and last passes and those whose gradients are reduced, and place GATHER, FREE, REDUCE, UPDATE and END_STEP. Gradients of a group
 * with a copy are complete once both parts' are: behind all passes they are summed up, SUM_COPIES, and only then reduced with their bucket,
 * once a step, or updated. No pass of either end waits for the other's: that could close a circle.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_place_parameters(struct plan *plan, const struct plan_part *parts, const struct plan_rules *rules);

#endif

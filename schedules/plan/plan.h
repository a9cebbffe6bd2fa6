/* A plan: what one rank does in one step, as data.
 *
 * An order (orders.h) emits the forward and backward passes of one rank. Passes over the plan (passes.h) add the rest: messages between
 * neighbouring stages, the stash slot of every micro-batch, the groups of layers that a pass consists of, recomputation, and what the
 * data-parallel mode does with parameters and gradients. The executor (schedules/pipeline/pipeline.h) walks the result, and
 * `dtbench check --plan` prints it.
 *
 * A rank has `parts` parts of the model, one unless its order is interleaved. Of `stages` ranks in a pipeline, part p of rank s is the
 * virtual stage p * stages + s: activations pass from each virtual stage to the next.
 *
 * This folder contains plans only: no device, no communicator and no model. It includes nothing outside lib/base. */
#ifndef SCHEDULES_PLAN_PLAN_H
#define SCHEDULES_PLAN_PLAN_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum action_op {
    /* What an order emits: passes of one micro-batch through one part. */
    ACTION_FORWARD,
    ACTION_BACKWARD,        /* both halves */
    ACTION_BACKWARD_INPUT,  /* gradients of the inputs: the previous stage waits for them */
    ACTION_BACKWARD_WEIGHT, /* gradients of the weights, any time after that */

    /* Messages, between virtual stages v and v + 1. */
    ACTION_RECV_INPUT,    /* the activations that forward reads, from v - 1 */
    ACTION_SEND_OUTPUT,   /* those that forward made, to v + 1 */
    ACTION_RECV_GRADIENT, /* the gradient of that output, from v + 1 */
    ACTION_SEND_GRADIENT, /* the gradient of the input, to v - 1 */

    ACTION_OPS
};

struct action {
    uint8_t op;           /* enum action_op */
    uint8_t part;         /* of the rank's parts */
    uint16_t slot;        /* where the micro-batch's stash is, among those of the part; given by plan_assign_slots */
    uint32_t micro_batch; /* of the step */
};

struct plan {
    struct action *actions; /* [count] */
    int count, room;
    int stage, stages; /* this rank's place in the pipeline; 0 of 1 without one */
    int parts;
    int micro_batches; /* of a step */
    int slots;         /* stashes of each part that exist at the same time; given by plan_assign_slots */
};

/* Add an action at the end. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_append(struct plan *plan, struct action action);
void plan_finish(struct plan *plan); /* takes a zeroed one */

/* "forward", "send output", ...: for messages and JSON. */
const char *action_name(enum action_op op);

static inline int plan_virtual_stage(const struct plan *plan, const struct action *action)
{
    return action->part * plan->stages + plan->stage;
}

#endif

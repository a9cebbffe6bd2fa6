/* A plan: what one rank does in one step, as data.
 *
 * An order (orders.h) emits the forward and backward passes of one rank. Passes over the plan (passes.h) add the rest: messages between
 * neighbouring stages, the stash slot of every micro-batch, the groups of layers that a pass consists of, recomputation, and what the
 * data-parallel mode does with parameters and gradients. The executor (schedules/pipeline/pipeline.c) walks the result, and
 * `dtbench check --plan` prints it.
 *
 * A rank has `parts` parts of the model, one unless its order wants more. The parts of all `stages` ranks of a pipeline are its virtual
 * stages: activations pass from each virtual stage to the next. Part p of rank s is virtual stage p * stages + s, so that the last rank
 * sends to the first one (a ring). In a folded plan the odd parts count backwards, p * stages + (stages - 1 - s): two parts are placed as
 * a V, and at the folds both neighbours are on one rank.
 *
 * This folder contains plans only: no device, no communicator and no model. It includes nothing outside lib/base. */
#ifndef SCHEDULES_PLAN_PLAN_H
#define SCHEDULES_PLAN_PLAN_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum action_op {
    /* What an order emits: passes of one micro-batch through one part. Expanded, they are passes through one group. */
    ACTION_FORWARD,
    ACTION_BACKWARD,         /* both halves */
    ACTION_BACKWARD_INPUT,   /* gradients of the inputs: the previous stage waits for them */
    ACTION_BACKWARD_WEIGHT,  /* gradients of the weights, any time after that */
    ACTION_RECOMPUTE,        /* what a group's backward needs, computed once more */
    ACTION_FORWARD_BACKWARD, /* a late head: forward, loss and backward of its group */

    /* Messages, between virtual stages v and v + 1. */
    ACTION_RECV_INPUT,    /* the activations that forward reads, from v - 1 */
    ACTION_SEND_OUTPUT,   /* those that forward computed, to v + 1 */
    ACTION_RECV_GRADIENT, /* the gradient of that output, from v + 1 */
    ACTION_SEND_GRADIENT, /* the gradient of the input, to v - 1 */
    /* The same where v - 1 is on this rank: from stash to stash. `segment` is the slot of v - 1. */
    ACTION_TAKE_OVER, /* the activations, before forward */
    ACTION_GIVE_BACK, /* the gradient, after backward */

    /* A micro-batch's stash. */
    ACTION_BEGIN,      /* the micro-batch takes its slot */
    ACTION_END,        /* and has used up what belongs to no group */
    ACTION_KEEP_INPUT, /* of what forward kept for groups [group, end) only the input of `segment` stays; none: the input is still x */
    ACTION_TAKE_INPUT, /* that input is x again */
    ACTION_DROP,       /* what forward kept for groups [group, end), and their input, is freed; none: x is */
    ACTION_COPY_OUT,   /* x, the input of `segment`, begins to be copied to host memory */
    ACTION_AWAIT_OUT,  /* the copy has ended, and the device's memory is free */
    ACTION_COPY_IN,    /* the input of `segment` begins to be copied to the device */

    /* Parameters and gradients. */
    ACTION_PUBLISH,         /* the step's parameters are sent to the ranks that do not have them */
    ACTION_GATHER,          /* a group's parameters begin to be fetched to the device */
    ACTION_FREE,            /* they are freed */
    ACTION_BEGIN_GRADIENTS, /* another group's backward is about to make some of this group's gradients */
    ACTION_SUM_COPIES,      /* gradients of what another part has a copy of are summed up over both */
    ACTION_REDUCE,          /* gradients that are reduced together and end with this group's begin to be reduced */
    ACTION_UPDATE,          /* a group's parameters are updated at once */
    ACTION_END_STEP,        /* what is left of reductions and updates */

    ACTION_EXTRA, /* of the caller of the executor, who knows what `segment` says (struct pipeline_extra) */
    ACTION_OPS
};

enum action_flag {
    ACTION_FIRST = 1,     /* the first pass of its kind through this part (or group) in the step */
    ACTION_LAST = 2,      /* the last one: gradients are complete after it */
    ACTION_REDUCES = 4,   /* its gradients, and what earlier micro-batches have left, are reduced after it; always with the last */
    ACTION_ENDS_HERE = 8, /* a recomputation whose output nobody reads */
    ACTION_FORGETS = 16,  /* a forward pass that keeps no more than the part's input */
    ACTION_AGAIN = 32,    /* that pass once more, for the backward that follows */
    ACTION_FRESH = 64,    /* a backward pass, or half of one, that finds nothing to add to: the first one since the last reduction */
};

struct action {
    uint8_t op;           /* enum action_op */
    uint8_t part;         /* of the rank's parts */
    uint16_t slot;        /* where the micro-batch's stash is, among those of the part; given by plan_assign_slots */
    uint32_t micro_batch; /* of the step */
    uint16_t group, end;  /* of the rank's groups: one, or [group, end) */
    uint16_t segment;     /* of the part's segments; ACTION_WHOLE_PART: the part's own input */
    uint16_t flags;       /* enum action_flag */
};

enum { ACTION_WHOLE_PART = 0xffff };

/* Messages that keep their sequence: each kind, from each rank to the next one (of the last, the first) or to the one before. */
enum plan_channel { PLAN_ACTIVATIONS_UP, PLAN_ACTIVATIONS_DOWN, PLAN_GRADIENTS_UP, PLAN_GRADIENTS_DOWN, PLAN_CHANNELS };

struct plan {
    struct action *actions; /* [count] */
    int count, room;
    int stage, stages; /* this rank's place in the pipeline; 0 of 1 without one */
    int parts;
    bool folded;
    int micro_batches; /* of a step */
    int slots;         /* stashes of each part that exist at the same time; given by plan_assign_slots */
};

/* How long the passes of a micro-batch through one virtual stage take. */
struct plan_part_times {
    double forward, backward_input, backward_weight;
    double early; /* before backward, what needs no gradient: the rank does it while it waits for that */
    double again; /* the same, but not for the last micro-batch of each window */
};

struct plan_uneven_times {
    const struct plan_part_times *parts; /* [virtual stages] */
    int window;                          /* micro-batches; 0: nothing is done again */
    const int *nodes;                    /* [stages] where each rank is; NULL: all together */
    double send_away;                    /* a message to another node */
    const double *starts;                /* [stages] when each rank may begin; NULL: all at once */
};

/* How long the passes of a micro-batch through a whole rank take, and a message from one rank to another. Several parts of a rank share
 * its time evenly, or each virtual stage has its own. In any unit. */
struct plan_times {
    double forward, backward_input, backward_weight, send;
    const struct plan_uneven_times *uneven; /* NULL: the three above, divided by the parts of a rank */
};

/* What is not known is taken as equal: all three passes take one, and messages nothing. */
extern const struct plan_times plan_unit_times;

/* Owner of *out: the caller, plan_finish. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_copy(const struct plan *from, struct plan *out);
/* Add an action at the end. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_append(struct plan *plan, struct action action);
static inline dt_status plan_append_pass(struct plan *plan, enum action_op op, int part, int micro_batch)
{
    return plan_append(plan, (struct action){.op = (uint8_t)op, .part = (uint8_t)part, .micro_batch = (uint32_t)micro_batch});
}
void plan_finish(struct plan *plan); /* takes a zeroed one */

/* Rewrite a plan: `each` appends to `out` what takes the place of action `at` of `from`. A pass is a function of this kind. */
dt_status plan_rewrite(struct plan *plan, dt_status (*each)(void *context, const struct plan *from, int at, struct plan *out),
                       void *context);

/* What a rank keeps of micro-batches, at its worst. Activations are whole from forward to the gradients of the inputs. What waits for its
 * weight gradients after that counts half: Qi et al. 2024 (M_W / M_B, section 3.1) give 32 / (34 + 5 a s / h), 0.37 to 0.43 for the models
 * that they measure. How many bytes it is depends on the model; `dtbench check` tells. */
struct plan_kept {
    double activations; /* micro-batches from forward to the end of backward; a part counts 1 / parts */
    double weighted;    /* those that wait for weight gradients alone count half */
};

struct plan_kept plan_keeps(const struct plan *plan);

/* The channel of an ACTION_SEND_* or ACTION_RECV_*; whether it goes to the next rank. */
enum plan_channel plan_channel(const struct plan *plan, const struct action *action);
static inline bool plan_channel_goes_up(enum plan_channel channel)
{
    return channel == PLAN_ACTIVATIONS_UP || channel == PLAN_GRADIENTS_UP;
}

/* "forward", "send output", ...: for messages and JSON. */
const char *action_name(enum action_op op);
/* F, B, I, W, as passes are written; 0 for other actions. */
char action_letter(enum action_op op);
/* Whether kernels of a group (or a part) run. */
bool action_computes(const struct action *action);
static inline bool action_sends(const struct action *action)
{
    return action->op == ACTION_SEND_OUTPUT || action->op == ACTION_SEND_GRADIENT;
}
static inline bool action_receives(const struct action *action)
{
    return action->op == ACTION_RECV_INPUT || action->op == ACTION_RECV_GRADIENT;
}
/* The next computing action behind `at`; NULL. */
const struct action *plan_next_computing(const struct plan *plan, int at);

/* Where virtual stage v is: its rank in the pipeline; its part there is v / stages. And the reverse. */
static inline int virtual_stage_rank(int v, int stages, bool folded)
{
    bool backwards = folded && v / stages % 2 == 1;
    return backwards ? stages - 1 - v % stages : v % stages;
}

static inline int virtual_stage_of(int part, int rank, int stages, bool folded)
{
    bool backwards = folded && part % 2 == 1;
    return part * stages + (backwards ? stages - 1 - rank : rank);
}

static inline int plan_virtual_stage(const struct plan *plan, const struct action *action)
{
    return virtual_stage_of(action->part, plan->stage, plan->stages, plan->folded);
}

static inline int plan_rank_of(const struct plan *plan, int v)
{
    return virtual_stage_rank(v, plan->stages, plan->folded);
}

#endif

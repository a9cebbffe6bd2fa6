/* A plan: what one rank does in one step, as data.
 *
 * An order (orders.c) emits the forward and backward passes of one rank. Passes over the plan
 * (passes.c) add the rest: messages between neighbouring stages, the stash slot of every
 * micro-batch, the groups of layers that a pass consists of, recomputation, and what the
 * data-parallel mode does with parameters and gradients. The executor
 * (schedules/pipeline/pipeline.c) walks the result, and `dtbench check --plan` prints it.
 *
 * A rank has `parts` parts of the model, one unless its order wants more. The parts of all `stages`
 * ranks of a pipeline are its virtual stages: activations pass from each virtual stage to the next.
 * Part p of rank s is virtual stage p * stages + s, so that the last rank sends to the first one (a
 * ring). In a folded plan the odd parts count backwards, p * stages + (stages - 1 - s): two parts
 * are placed as a V, and at the folds both neighbours are on one rank.
 *
 * This folder contains plans only: no device, no communicator and no model. It includes nothing
 * outside lib/base. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum action_op {
    /* Emitted by an order: passes of one micro-batch through one part. Expanded, they are passes
     * through one group. */
    ACTION_FORWARD,
    ACTION_BACKWARD,         /* both halves */
    ACTION_BACKWARD_INPUT,   /* gradients of the inputs: the previous stage waits for them */
    ACTION_BACKWARD_WEIGHT,  /* gradients of the weights, any time after that */
    ACTION_RECOMPUTE,        /* computes again what a group's backward needs */
    ACTION_FORWARD_BACKWARD, /* a late head: forward, loss and backward of its group */

    /* Messages, between virtual stages v and v + 1. */
    ACTION_RECV_INPUT,    /* the activations that forward reads, from v - 1 */
    ACTION_SEND_OUTPUT,   /* those that forward computed, to v + 1 */
    ACTION_RECV_GRADIENT, /* the gradient of that output, from v + 1 */
    ACTION_SEND_GRADIENT, /* the gradient of the input, to v - 1 */
    /* The same if v - 1 is on this rank: between stashes. `segment` is the slot of v - 1. */
    ACTION_TAKE_OVER, /* the activations, before forward */
    ACTION_GIVE_BACK, /* the gradient, after backward */

    /* A micro-batch's stash. */
    ACTION_BEGIN,      /* the micro-batch takes its slot */
    ACTION_END,        /* and no longer needs what belongs to no group */
    ACTION_KEEP_INPUT, /* keep only the input of `segment` of what forward kept for groups [group, end); no groups: the input is still x */
    ACTION_TAKE_INPUT, /* that input is x again */
    ACTION_DROP,       /* free what forward kept for groups [group, end), and their input; no groups: free x */
    ACTION_COPY_OUT,   /* begin to copy x, the input of `segment`, to host memory */
    ACTION_AWAIT_OUT,  /* end of the copy: the device memory is freed */
    ACTION_COPY_IN,    /* begin to copy the input of `segment` to the device */

    /* Parameters and gradients. */
    ACTION_PUBLISH,         /* the step's parameters are sent to the ranks that do not have them */
    ACTION_GATHER,          /* begin to fetch a group's parameters to the device */
    ACTION_FREE,            /* free them */
    ACTION_BEGIN_GRADIENTS, /* another group's backward is about to make some of this group's gradients */
    ACTION_SUM_COPIES,      /* sum the gradients of a shared table over both copies */
    ACTION_REDUCE,          /* begin to reduce a bucket, whose last group this is */
    ACTION_UPDATE,          /* update a group's parameters now */
    ACTION_END_STEP,        /* finish the reductions and updates */

    ACTION_EXTRA, /* for the executor's caller, which knows the meaning of `segment` (struct pipeline_extra) */
    ACTION_OPS
};

enum action_flag {
    ACTION_FIRST = 1,     /* the first pass of its kind through this part (or group) in the step */
    ACTION_LAST = 2,      /* the last one: gradients are complete after it */
    ACTION_REDUCES = 4,   /* its gradients, and those of earlier micro-batches, are reduced after it; always with the last */
    ACTION_ENDS_HERE = 8, /* a recomputation whose output nobody reads */
    ACTION_FORGETS = 16,  /* a forward pass that keeps only the part's input */
    ACTION_AGAIN = 32,    /* the same pass again, for its backward */
    ACTION_FRESH = 64,    /* the first backward pass (or half) since the last reduction: it overwrites instead of adding */
};

struct action {
    uint8_t op;           /* enum action_op */
    uint8_t part;         /* of the rank's parts */
    uint16_t slot;        /* the slot of the micro-batch's stash, set by plan_assign_slots */
    uint32_t micro_batch; /* its number in the step */
    uint16_t group, end;  /* of the rank's groups: one, or [group, end) */
    uint16_t segment;     /* of the part's segments; ACTION_WHOLE_PART: the part's own input */
    uint16_t flags;       /* enum action_flag */
};

enum { ACTION_WHOLE_PART = 0xffff };

/* Messages that stay in order: each kind, from each rank to the next one (from the last to the
 * first) or to the previous one. */
enum plan_channel { PLAN_ACTIVATIONS_UP, PLAN_ACTIVATIONS_DOWN, PLAN_GRADIENTS_UP, PLAN_GRADIENTS_DOWN, PLAN_CHANNELS };

struct plan {
    struct action *actions; /* [count] */
    int count, room;
    int stage, stages; /* this rank's place in the pipeline; 0 of 1 without one */
    int parts;
    bool folded;
    int micro_batches; /* of a step */
    int slots;         /* number of stashes of each part, set by plan_assign_slots */
};

/* How long the passes of a micro-batch through one virtual stage take. */
struct plan_part_times {
    double forward, backward_input, backward_weight;
    double early; /* work before backward that needs no gradient: done while the rank waits for it */
    double again; /* the same, but not for the last micro-batch of each window */
};

struct plan_uneven_times {
    const struct plan_part_times *parts; /* [virtual stages] */
    int window;                          /* in micro-batches; 0: nothing is computed again */
    const int *nodes;                    /* [stages] each rank's node; NULL: all on one */
    double send_away;                    /* a message to another node */
};

/* Durations, in any unit: the passes of a micro-batch through a whole rank, and a message between
 * ranks. Parts of a rank have equal times, or each virtual stage has its own. */
struct plan_times {
    double forward, backward_input, backward_weight, send;
    const struct plan_uneven_times *uneven; /* NULL: the three times above, divided by the parts of a rank */
};

/* For unknown times: each of the three passes takes 1, and messages take 0. */
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

/* Rewrite a plan: `each` appends to `out` the replacement of action `at` of `from`. Passes over
 * plans are such functions. */
dt_status plan_rewrite(struct plan *plan, dt_status (*each)(void *context, const struct plan *from, int at, struct plan *out),
                       void *context);

/* The most that a rank keeps of micro-batches. Activations are complete from forward to the
 * gradients of the inputs. After that a micro-batch that waits for its weight gradients counts
 * half: Qi et al. 2024 (M_W / M_B, section 3.1) give 32 / (34 + 5 a s / h), 0.37 to 0.43 for the
 * models that they measure. The bytes depend on the model; `dtbench check` prints them. */
struct plan_kept {
    double activations; /* micro-batches from forward to the end of backward; a part counts 1 / parts */
    double weighted;    /* those that only wait for weight gradients count half */
};

struct plan_kept plan_keeps(const struct plan *plan);

/* The channel of an ACTION_SEND_* or ACTION_RECV_* action. In a folded plan the neighbours of odd
 * parts are on the opposite side. */
static inline enum plan_channel plan_channel(const struct plan *plan, const struct action *action)
{
    bool backwards = plan->folded && action->part % 2 == 1;
    if (action->op == ACTION_RECV_GRADIENT || action->op == ACTION_SEND_GRADIENT)
        return backwards ? PLAN_GRADIENTS_UP : PLAN_GRADIENTS_DOWN;
    return backwards ? PLAN_ACTIVATIONS_DOWN : PLAN_ACTIVATIONS_UP;
}
static inline bool plan_channel_goes_up(enum plan_channel channel)
{
    return channel == PLAN_ACTIVATIONS_UP || channel == PLAN_GRADIENTS_UP;
}

/* "forward", "send output", ...: for messages and JSON. */
const char *action_name(enum action_op op);
/* F, B, I or W, as in order files; 0 for other actions. */
char action_letter(enum action_op op);
/* Whether kernels of a group (or a part) run. */
static inline bool action_computes(const struct action *action)
{
    return action->op <= ACTION_FORWARD_BACKWARD;
}
/* Whether backward passes are in halves: inputs' gradients, and weights' gradients later. */
bool plan_has_halves(const struct plan *plan);
static inline bool action_sends(const struct action *action)
{
    return action->op == ACTION_SEND_OUTPUT || action->op == ACTION_SEND_GRADIENT;
}
static inline bool action_receives(const struct action *action)
{
    return action->op == ACTION_RECV_INPUT || action->op == ACTION_RECV_GRADIENT;
}
/* The next computing action after `at`; NULL: there is none. */
const struct action *plan_next_computing(const struct plan *plan, int at);

/* The rank of virtual stage v in the pipeline; its part there is v / stages. And the reverse. */
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

/* ---- orders: rows of the table in orders.c, and the shape that passes are made for ---- */

/* The shape that an order's plan is made for. Gradient accumulation and a pipeline's chunks
 * together give the micro-batches of a step: (the config's) micro_batches * pipeline.chunks. An
 * order that flushes has at most `window` micro-batches, the config's chunks, between forward and
 * backward at a time. */
struct order_shape {
    int stages;              /* ranks of the pipeline */
    int virtual_stages;      /* parts on each rank, for orders that leave the number open */
    int micro_batches;       /* of a step */
    int window;              /* divides micro_batches */
    int memory_limit;        /* in micro-batches; 0: the order's own. For zb_auto and files */
    struct plan_times times; /* for which zb_auto is searched */
    const char *file, *text; /* of an order file: its name in messages, and its contents */
    const struct plan *made; /* [stages] the order's plans by plans_make, if it emits all ranks together; NULL: not made yet */
};

enum { ORDER_MOST_PARTS = 64 }; /* of the model on each rank */

/* How a model is divided for an order: parts on each rank, placed as a ring or folded. */
struct order_layout {
    int parts;
    bool folded;
};

/* When each rank's last pass is a whole backward through its first part, so that a step's drain is
 * its warm-up reversed: */
enum order_drain {
    ORDER_DRAINS_NEVER, /* or unknown */
    ORDER_DRAINS_WINDOWS,
    ORDER_DRAINS_STEPS,
};

struct pipeline_order {
    const char *name;   /* in configs */
    const char *title;  /* in papers; NULL: the name */
    const char *abroad; /* the beginning of its name in other projects' tables; NULL: begins with `name` */
    const char *help;
    enum order_drain drains;
    bool folded, halves; /* parts are placed as a V; backward is emitted in halves */
    int parts;           /* of the model on each rank; 0: the shape's virtual_stages */
    /* Fill a plan, whose stage is set, with the passes of that rank. NULL: the order can only emit
     * all ranks together. Errors: DT_ERR_HOST_MEMORY. */
    dt_status (*emit)(const struct order_shape *shape, struct plan *plan);
    /* The same for plans [stages] of all ranks; NULL if there is `emit`. Errors: also
     * DT_ERR_INVALID, for a file. */
    dt_status (*emit_all)(const struct order_shape *shape, struct plan *plans);
    /* Describe the search for the order, for the output of a check; NULL: no search. */
    void (*tell)(const struct order_shape *shape, char *text, size_t bytes);
    /* Closed forms from the order's source; NULL: none. kept: plan_kept.activations of a rank, at
     * most. bubble: how much longer than its passes the longest rank's step is, without
     * messages. */
    double (*kept)(const struct pipeline_order *order, const struct order_shape *shape, int rank);
    double (*bubble)(const struct order_shape *shape);
};

/* Pipeline orders: which forward or backward pass of which micro-batch a rank does next. An order
 * is one row of a table in orders.c and emits only computing actions; the passes below add the
 * rest. */

#define ORDER_FILE_ENDING ".csv"

/* Find an order by its name in a config. A name with this ending is a file, for which the row that
 * reads files is returned. NULL: no such order. */
const struct pipeline_order *pipeline_order_find(const char *name);
bool pipeline_order_is_file(const struct pipeline_order *order);
/* The named order `index`; NULL after the last. */
const struct pipeline_order *pipeline_order_at(int index);

/* Orders after dtbench's own; NULL past the last. dtbench has none; the function is weak, as
 * paradigm_more (schedules/config/paradigm.h) is. */
const struct pipeline_order *pipeline_order_more(int index);

/* The parts and their places; those of a file are read from it. Errors: as pipeline_order_emit. */
dt_status pipeline_order_layout(const struct pipeline_order *order, const struct order_shape *shape, struct order_layout *out);

/* plans [stages] get the passes of all ranks. Owner: the caller, who calls plan_finish on each,
 * also after a failure. Errors: DT_ERR_INVALID for a file that does not fit, DT_ERR_HOST_MEMORY. */
dt_status pipeline_order_emit(const struct pipeline_order *order, const struct order_shape *shape, struct plan *plans);
/* The same for one rank, if the order's row has `emit`. Owner: the caller, also after a failure. */
dt_status pipeline_order_emit_rank(const struct pipeline_order *order, const struct order_shape *shape, int rank, struct plan *out);

/* An order as a file: a line of passes for each rank of the pipeline.
 *
 *   # comment
 *   F0 F1 B0 B1          rank 0: forward and backward of micro-batches 0 and 1
 *   F0, I0, W0, F1, I1, W1     rank 1, with backward in halves: gradients of the inputs, of the weights
 *   F0 F0.1 B0.1 B0 part 1 of the rank is written after a dot; no dot means part 0
 *   0F0 3F0 3I0 0B0 or the virtual stage before the pass, counted over all ranks, as in PyTorch's
 *   pipeline schedules
 *
 * Passes are separated by commas, blanks or both. Empty lines are ignored. Each micro-batch goes
 * through each part once: F, then B, or I and later W. Parts are placed as a ring, or as a V if the
 * given virtual stages say so. */

/* Read the parts and their placement from shape->text. Errors: DT_ERR_INVALID, with line and pass,
 * and DT_ERR_HOST_MEMORY. */
dt_status order_file_layout(const struct order_shape *shape, struct order_layout *out);

/* The passes of all ranks: a row of orders.c. Checks that there is a line for each rank, that each
 * micro-batch of the step goes through each part completely, and that no rank keeps more than
 * shape->memory_limit, if it is set. Errors: as order_file_layout. */
dt_status order_file_emit(const struct order_shape *shape, struct plan *plans);

/* ---- passes over plans: each adds one kind of decision to the emitted passes, in this order
 * ---- */

/* ---- 1. messages ---- */

/* Every forward pass gets a receive of its input before it and a send of its output after it; the
 * same for gradients around backward. The first and the last virtual stage have only one neighbour.
 * Between two parts of one rank there is no message, but a TAKE_OVER or GIVE_BACK. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status plan_add_messages(struct plan *plan);

/* For a step that is played only to count: leave out micro-batches in the middle of the plans of a
 * rank and its neighbours, which have messages and no slots. In the middle, the passes of a few
 * micro-batches repeat; or all forward passes come first, and then all backward passes. `left`
 * repetitions stay, each of a multiple of `step` micro-batches. The remaining micro-batches are
 * renumbered: the result is the plan of a step with fewer micro-batches. Returns the number of
 * micro-batches left out: 0 if plans do not repeat, or less than half could be left out. */
int plans_shorten(struct plan *plans, int count, int step, int left);

/* ---- 2. slots ---- */

/* Give each micro-batch a stash slot, the lowest that is free, from the first of its actions to the
 * last, and set plan->slots, the number that is needed. Each part numbers its slots from 0. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status plan_assign_slots(struct plan *plan);

/* ---- 3. groups and segments ---- */

/* Groups [first_group, end_group) of the rank, all in one part, whose activations are treated in
 * the same way. */
struct plan_segment {
    int first_group, end_group;
    bool input_only; /* forward keeps only the input */
    bool late;       /* Forward is not run; backward does it. One group, the one with the head. Other input_only segments are recomputed. */
};

struct plan_group {
    bool backward_reads_params;
    bool kept_with_next; /* the next group's backward reads what this one's forward keeps */
    /* Its passes also read the parameters of the part's first group, and its backward adds to their
     * gradients before that group's own does: a head whose weight is the embedding's table. Not
     * with backward in halves. */
    bool reads_first;
    /* Another part, at the other end of the pipeline, has a copy of some of the group's
     * parameters. */
    bool has_copy;
    int bucket; /* groups with the same number are consecutive, and their gradients are reduced together */
};

/* What the passes need to know of a part: groups [first_group, end_group) of the rank. */
struct plan_part {
    const struct plan_group *groups; /* of the rank: the groups of all its parts */
    int first_group, end_group;
    const struct plan_segment *segments; /* [segment_count] all groups of the part, in order */
    int segment_count;
    bool offload; /* inputs of segments are in host memory, except the two that backward needs first, if it follows immediately */
};

/* Expand passes through a part into passes through its groups, with what its segments keep,
 * recompute and copy. A recomputation that does not need the output's gradient runs before the
 * gradient is received, and fills part of the bubble. parts: [plan->parts]. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status plan_expand(struct plan *plan, const struct plan_part *parts);

/* ---- 4. parameters and gradients ---- */

/* Where a data-parallel mode places its actions. */
struct plan_rules {
    bool publishes;       /* PUBLISH before everything else, also before a pipeline's first message */
    bool gathers;         /* GATHER before a group is used, FREE after it, unless the next pass uses the same group */
    bool gathers_once;    /* GATHER before a group's first pass of the step that reads it, FREE after the last */
    int gathers_ahead;    /* number of passes before the group's first use; 1: at most two groups are on the device */
    bool gathers_in_turn; /* GATHER immediately before each use, never ahead, and FREE after it in any case */
    /* REDUCE after the backward passes of this number of micro-batches; 0: never. If an order
     * delays weight gradients, some gradients of later micro-batches would be incomplete: then the
     * reduction waits until none is. There is always one after the last micro-batch. */
    int reduce_every;
    bool whole_gradients; /* each pass writes, or adds to, all gradients of its group, even if it is half of a backward pass */
    bool updates_at_once; /* UPDATE after a group's last backward pass */
};

/* Mark first and last passes and those whose gradients are reduced, and place GATHER, FREE, REDUCE,
 * UPDATE and END_STEP. Gradients of a group with a copy are summed over both copies after all
 * passes (SUM_COPIES), and only then reduced with their bucket, once a step, or updated. No pass of
 * one end waits for a pass of the other end, which could cause a deadlock. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status plan_place_parameters(struct plan *plan, const struct plan_part *parts, const struct plan_rules *rules);

/* ---- the plans of all ranks of a pipeline: an order's passes with messages, checked by playing
 * them ---- */

/* plans [shape->stages] get the passes of all ranks with messages. They are played to prove that
 * they run. Owner: the caller, who calls plan_finish on each, also after a failure. Errors: as
 * pipeline_order_emit (orders.c) and plan_play (play.c). */
dt_status plans_make(const struct pipeline_order *order, const struct order_shape *shape, struct plan *plans);

/* Finish the plans, and free the array, which is from malloc. Takes NULL. */
void plans_destroy(struct plan *plans, int stages);

/* The plans of some ranks only, out [count], all different; stages NULL: of the first ones. If the
 * order can emit a single rank, the plans are not played: the tests prove that named orders run.
 * Owner of out: the caller, also after a failure. */
dt_status plans_of_stages(const struct pipeline_order *order, const struct order_shape *shape, const int *stages, int count,
                          struct plan *out);

/* *out: the part of the ranks' time that they wait when the order is played with shape->times.
 * Errors: as plans_make. */
dt_status plan_order_bubble(const struct pipeline_order *order, const struct order_shape *shape, double *out);

/* ---- playing the plans of all ranks of a pipeline: proves that they run, and finds how long they
 * take ---- */

/* Play plans [stages], with messages. Messages of one kind (activations, or gradients) from one
 * rank to another arrive in the order in which they were sent; sending does not block, receiving
 * does. Finds what cannot run:
 *   a deadlock               names the ranks that wait for each other, and for what each does
 *   messages that cross they are received in another order than they were sent
 *   messages nobody receives
 * A pass takes its part of `times` (NULL: plan_unit_times). A message arrives `send` after the pass
 * that made it (with uneven times, also `send` after the previous message of its channel); no rank
 * is busy meanwhile. ends: NULL, or [stages] arrays of [count]: when each action ends, from the
 * step's beginning. Errors: DT_ERR_INVALID with that text, DT_ERR_HOST_MEMORY. */
dt_status plan_play(const struct plan *plans, int stages, const struct plan_times *times, double **ends);

/* A rank's time in a step. */
struct rank_time {
    double begin, end; /* of its first and last pass, from the step's beginning */
    double busy;       /* total of its passes */
};

/* One rank's time; ends: of its actions, from plan_play with the same times. */
struct rank_time plan_rank_time(const struct plan *plan, const struct plan_times *times, const double *ends);

/* The time of each rank, played: out [stages]. */
dt_status plan_time(const struct plan *plans, int stages, const struct plan_times *times, struct rank_time *out);

/* The longest of `ranks` [stages], each from its own first pass to its last: the duration of a step
 * if each rank begins the next step as soon as it has ended this one. Source: Qi et al., "Zero
 * Bubble Pipeline Parallelism", ICLR 2024, section 5.3 ("cost"). */
double plan_makespan(const struct rank_time *ranks, int stages);

/* The idle part of the makespan: 1 - busy / makespan, with the busiest rank's passes. */
double plan_bubble(const struct rank_time *ranks, int stages);

/* Receipts: an arriving message proves that its sender had already received certain messages of
 * this rank. This rank keeps what it sends until then; nothing else would tell it without waiting
 * for the other rank. */

struct plan_receipts {
    /* received[channel][n]: how many messages of this rank, by sending channel, had been received
     * when message n (from 0) of `channel` was made for this rank. count[channel]: the messages
     * that this rank receives there in a step. */
    int (*received[PLAN_CHANNELS])[PLAN_CHANNELS];
    int count[PLAN_CHANNELS];
};

/* Find the receipts of rank `stage` from the plans (with messages) of its neighbours; with two
 * stages the same plan twice. Owner of *out: the caller, also after a failure. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status plan_receipts_find(int stage, const struct plan *previous, const struct plan *next, struct plan_receipts *out);
void plan_receipts_finish(struct plan_receipts *receipts); /* takes zeroed ones */

/* most [PLAN_CHANNELS]: the largest number of messages of each channel that this rank keeps at a
 * time while it runs its plan. */
void plan_receipts_most_kept(const struct plan_receipts *receipts, const struct plan *plan, int most[PLAN_CHANNELS]);

/* The order zb_auto: found by playing a pipeline in which each rank decides by a few rules what to
 * do next. Several settings of the rules are played, and the shortest step is kept.
 *
 * Source  Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 3.1: a greedy heuristic
 *         and a grid search over its settings. Its ZB-1p and ZB-2p correspond to memory limits of
 *         `stages` and 2 * `stages` micro-batches. Differs the rules are our own. A rank knows only
 *         the messages that its neighbours have already sent. */

/* plans [stages], one part each, get the passes that the shortest play needs with shape->times. No
 * rank keeps more than shape->memory_limit micro-batches at any time, those that only wait for
 * weight gradients counted half (plan_kept.weighted); 0: as many as there are stages. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status search_emit(const struct order_shape *shape, struct plan *plans);

/* Describe the search: "12 of 50 settings tried with 1024 micro-batches, and the best one with
 * all". Fewer settings are tried for a larger pipeline: the number of its passes decides, not a
 * clock. */
void search_tell(const struct order_shape *shape, char *text, size_t bytes);

/* A plan: what one rank does in one step, as data.
 *
 * An order (orders.c) emits the forward and backward passes of one rank. Passes over the plan (passes.c) add the rest: messages between
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
/* The next computing action after `at`; NULL. */
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

/* ---- what an order is: the row of the table in orders.c, and what its passes are made for ---- */

/* What an order is made for. Gradient accumulation and a pipeline's chunks are one idea: a step has micro_batches = (the config's)
 * micro_batches * pipeline.chunks of them. An order that flushes has only `window` of them, the config's chunks, between forward and
 * backward at a time. */
struct order_shape {
    int stages;              /* ranks of the pipeline */
    int virtual_stages;      /* parts on each rank, for orders that leave the number open */
    int micro_batches;       /* of a step */
    int window;              /* divides micro_batches */
    int memory_limit;        /* micro-batches; 0: the order's own. Of zb_auto and files */
    struct plan_times times; /* zb_auto is found for these */
    const char *file, *text; /* of an order file: its name for messages, and what is in it */
    const struct plan *made; /* [stages] plans_make's of this order, for an order that says only what all ranks do; NULL: not made yet */
};

enum { ORDER_MOST_PARTS = 64 }; /* of the model on each rank */

/* What a model is divided into for an order: parts on each rank, placed as a ring or folded. */
struct order_layout {
    int parts;
    bool folded;
};

/* When each rank's last pass is a whole backward through its first part, so that what began ends where it began: */
enum order_drain {
    ORDER_DRAINS_NEVER, /* or it is not known */
    ORDER_DRAINS_WINDOWS,
    ORDER_DRAINS_STEPS,
};

struct pipeline_order {
    const char *name;   /* in configs */
    const char *title;  /* in papers; NULL: the name */
    const char *abroad; /* how tables of other projects begin their name for it; NULL: with the name */
    const char *help;
    enum order_drain drains;
    bool folded, halves; /* parts are placed as a V; backward comes in halves */
    int parts;           /* of the model on each rank; 0: the shape's virtual_stages */
    /* A plan, which has its place, gets the passes of that rank. NULL: one rank's are not known without those of the others. Errors:
     * DT_ERR_HOST_MEMORY. */
    dt_status (*emit)(const struct order_shape *shape, struct plan *plan);
    /* The same of plans [stages] of all ranks; NULL where there is `emit`. Errors: also DT_ERR_INVALID, of a file. */
    dt_status (*emit_all)(const struct order_shape *shape, struct plan *plans);
    /* What was tried to find it, in words, for who reads a check; NULL: nothing. */
    void (*tell)(const struct order_shape *shape, char *text, size_t bytes);
    /* By the order's source: plan_kept.activations of a rank, at most; and by how much the longest rank of a step is longer than its
     * passes, without messages. NULL: no closed form. */
    double (*kept)(const struct pipeline_order *order, const struct order_shape *shape, int rank);
    double (*bubble)(const struct order_shape *shape);
};

/* Pipeline orders: which forward or backward pass of which micro-batch a rank does next. An order is one row of a table in orders.c and
 * emits computing actions only; passes.h adds the rest. */

#define ORDER_FILE_ENDING ".csv"

/* By its name in a config; of a file (order_file.c), whose name ends so, the row that reads it. NULL: no such order. */
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

/* An order as a file: a line of passes for each rank of the pipeline.
 *
 *   # comment
 *   F0 F1 B0 B1          rank 0: forward and backward of micro-batches 0 and 1
 *   F0, I0, W0, F1, I1, W1     rank 1, with backward in halves: gradients of the inputs, of the weights
 *   F0 F0.1 B0.1 B0      part 1 of the rank after a dot; none is part 0
 *   0F0 3F0 3I0 0B0      or the virtual stage in front, counted over all ranks, as PyTorch's pipeline schedules are written
 *
 * Passes are separated by commas, blanks or both. Empty lines do not count. Each micro-batch goes through each part once: F, then B, or I
 * and later W. Parts are placed as a ring; where virtual stages are given and say so, as a V. */

/* Of shape->text: the parts, and how they are placed. Errors: DT_ERR_INVALID, with line and pass, and DT_ERR_HOST_MEMORY. */
dt_status order_file_layout(const struct order_shape *shape, struct order_layout *out);

/* The passes of all ranks: a row of orders.c. Checks that there is a line for each rank, that each micro-batch of the step goes through each
 * part as it must, and that no rank keeps more than shape->memory_limit, where there is one. Errors: as order_file_layout. */
dt_status order_file_emit(const struct order_shape *shape, struct plan *plans);

/* ---- passes over plans: each adds one kind of decision to what an order has emitted, in this sequence ---- */

/* ---- 1. messages ---- */

/* Before every forward pass its input is received, after it the output is sent; the same for gradients around backward. The first and the
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
    int gathers_ahead;    /* passes before the first that uses a group; 1: at most two groups are there */
    bool gathers_in_turn; /* GATHER right before each use, never ahead, and FREE after it whatever comes */
    /* REDUCE after the backward passes of this number of micro-batches; 0: never. Where an order puts weight gradients off, gradients of later micro-batches
     * would be reduced half: then the reduction waits until no half is outstanding. Always after the last. */
    int reduce_every;
    bool whole_gradients; /* each pass writes, or adds to, all gradients of its group, also where it is half of one */
    bool updates_at_once; /* UPDATE after a group's last backward pass */
};

/* Mark first and last passes and those whose gradients are reduced, and place GATHER, FREE, REDUCE, UPDATE and END_STEP. Gradients of a group
 * with a copy are complete once both parts' are: after all passes they are summed up, SUM_COPIES, and only then reduced with their bucket,
 * once a step, or updated. No pass of either end waits for the other's: that could close a circle.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_place_parameters(struct plan *plan, const struct plan_part *parts, const struct plan_rules *rules);

/* ---- the plans of all ranks of a pipeline: an order's passes, with their messages, played once ---- */

/* plans [shape->stages] get the passes of all ranks with messages, once they have been played. Owner: the caller,
 * who calls plan_finish on each, also after a failure. Errors: as pipeline_order_emit (orders.c) and plan_play (play.c). */
dt_status plans_make(const struct pipeline_order *order, const struct order_shape *shape, struct plan *plans);

/* Of an array from malloc: with the plans. Takes NULL. */
void plans_destroy(struct plan *plans, int stages);

/* Those of some ranks alone, out [count], which are different ones. Where the order can say what one rank does it is not played: of an order that
 * has a name the tests know that it runs. Owner of out: the caller, also after a failure. */
dt_status plans_of_stages(const struct pipeline_order *order, const struct order_shape *shape, const int *stages, int count,
                          struct plan *out);

/* *out: the part of the ranks' time in which they wait, when an order is played with shape->times. Errors: as plans_make. */
dt_status plan_order_bubble(const struct pipeline_order *order, const struct order_shape *shape, double *out);

/* ---- playing the plans of all ranks of a pipeline against each other: the proof that they run, and how long they take ---- */

/* Play plans [stages], with messages. Messages of one kind (activations, or gradients) from one rank to another arrive in the sequence in
 * which they were sent; sending does not block, receiving does. Finds what cannot run:
 *   a deadlock               names the ranks that wait for each other, and for what each does
 *   messages that cross      the sequence in which they are received is not the one in which they were sent
 *   messages nobody receives
 * A pass takes its part of `times` (NULL: plan_unit_times), and a message is there `send` after the pass that made it (with uneven times: and after
 * the one before it in its channel); no rank is busy with it meanwhile. ends: NULL, or [stages] arrays of [count]: when each action ends, from the step's beginning.
 * Errors: DT_ERR_INVALID with that text, DT_ERR_HOST_MEMORY. */
dt_status plan_play(const struct plan *plans, int stages, const struct plan_times *times, double **ends);

/* A rank's time in a step. */
struct rank_time {
    double begin, end; /* of its first and its last pass, from the step's beginning */
    double busy;       /* of its passes */
};

/* The same, summed up: out [stages]. */
dt_status plan_time(const struct plan *plans, int stages, const struct plan_times *times, struct rank_time *out);

/* The longest of `ranks` [stages], each from its own first pass to its last: what a step takes where the next one begins on each rank as soon
 * as this one has ended there. Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 5.3 ("cost"). */
double plan_makespan(const struct rank_time *ranks, int stages);

/* The part of the makespan in which a rank does nothing: 1 - busy / makespan, with the busiest rank's passes. */
double plan_bubble(const struct rank_time *ranks, int stages);

/* Receipts: a message that arrives proves that its sender had received certain messages of this rank before. What this rank sends is in memory
 * until that is known: nothing else tells it without waiting for the other rank. */

struct plan_receipts {
    /* received[channel][n]: how many messages of this rank, in each channel that it sends in, were received before message n (from 0) of
     * `channel` was made for this rank. count[channel]: the messages that it gets there in a step. */
    int (*received[PLAN_CHANNELS])[PLAN_CHANNELS];
    int count[PLAN_CHANNELS];
};

/* Those of rank `stage`, from the plans (with messages) of its neighbours; the same plan twice where there are two stages. Owner of *out: the
 * caller, also after a failure. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_receipts_find(int stage, const struct plan *previous, const struct plan *next, struct plan_receipts *out);
void plan_receipts_finish(struct plan_receipts *receipts); /* takes zeroed ones */

/* most [PLAN_CHANNELS]: how many messages of each channel this rank has to keep at a time, while it goes through its plan. */
void plan_receipts_most_kept(const struct plan_receipts *receipts, const struct plan *plan, int most[PLAN_CHANNELS]);

/* The order zb_auto: found by playing a pipeline in which each rank decides by a few rules what it does next, with several settings of the
 * rules, and keeping the shortest.
 *
 * Source  Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 3.1: a greedy heuristic and a grid search over its settings.
 *         Its ZB-1p and ZB-2p are this with a memory limit of `stages` and of twice as many micro-batches.
 * Differs the rules are our own. A rank knows of its neighbours only what is already on its way. */

/* plans [stages], one part each, get the passes that the shortest play needs with shape->times. No rank keeps more than
 * shape->memory_limit micro-batches at any time, those that wait for weight gradients alone counted half (plan_kept.weighted); 0: as many
 * as there are stages. Errors: DT_ERR_HOST_MEMORY. */
dt_status search_emit(const struct order_shape *shape, struct plan *plans);

/* What is tried: "12 of 50 settings tried with 1024 micro-batches, and the best one with all". Of a large pipeline less is tried: the number of
 * its passes decides, and no clock. */
void search_tell(const struct order_shape *shape, char *text, size_t bytes);

#endif

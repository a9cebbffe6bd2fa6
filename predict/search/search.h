/* Which way of training is the fastest: the space of what can be trained how, what each candidate needs at least, and a search for the best
 * that simulates few of them. */
#ifndef PREDICT_SEARCH_SEARCH_H
#define PREDICT_SEARCH_SEARCH_H

#include "predict/simulated_system.h"
#include "schedules/config/experiment.h"
#include "schedules/plan/plan.h"
#include "schedules/run/measure.h"

/* ---- what several threads want to know, found out once: who comes second waits for who came first ---- */

struct once;

/* value_bytes: of each value. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status once_create(size_t value_bytes, struct once **out);
void once_destroy(struct once *once); /* takes NULL */

/* Copies the value of this key (at most 64 bytes, none of them padding) to *out. Where it is not known yet, make(context, value) fills in a
 * zeroed one; other keys may be asked for meanwhile. For any number of threads. Errors: those of `make`, also for whoever asks again;
 * DT_ERR_HOST_MEMORY. */
dt_status once_find(struct once *once, const void *key, size_t key_bytes, dt_status (*make)(void *context, void *value), void *context,
                    void *out);

/* ---- the space: config keys, the values of each that are worth a look, and all combinations that are experiments ----
 *
 * A key is an axis by its row in the table of axes.c: which experiments it concerns, and what is proposed for them. Rows are in the order in
 * which values are chosen, so that proposals may depend on keys of earlier rows. A caller may restrict an axis, or make one of any other
 * key by saying its values. */

enum { SPACE_VALUES = 64, SPACE_VALUE_BYTES = 32 };

/* What a caller wants of the space. All texts are "KEY=VALUE" or "KEY=VALUE,VALUE,..."; they outlive the space. */
struct space_request {
    const char *const *fix, *const *allow, *const *forbid;
    int fix_count, allow_count, forbid_count;
    int global_batch; /* samples of a step over all ranks; 0: any batch */
    int max_batch;    /* of batch_size where the batch is free */
    bool any_nodes;   /* fewer nodes than the base's world has are candidates, too */
};

/* What proposals depend on besides earlier values. */
struct space_scope {
    const struct experiment *base;
    const struct simulated_machine *machine;
    const struct space_request *request;
    int ranks_per_node;
};

struct proposal {
    const struct space_scope *scope;
    const struct experiment *experiment; /* with the values of earlier axes */
    char texts[SPACE_VALUES][SPACE_VALUE_BYTES];
    int count;
};

struct space_axis {
    const char *key;
    bool (*concerns)(const struct space_scope *scope, const struct experiment *experiment);
    void (*propose)(struct proposal *proposal);
};

/* Rows in the order in which values are chosen; NULL past the last. */
const struct space_axis *space_axis(int index);

struct space;

/* All candidates of an experiment, resolved, on a machine. Owner of *out: the caller. Errors: DT_ERR_INVALID where a request is wrong or
 * leaves nothing, in one line; DT_ERR_HOST_MEMORY. base, request and machine outlive it. */
dt_status space_create(const struct experiment *base, const struct simulated_machine *machine, const struct space_request *request,
                       struct space **out);
void space_destroy(struct space *space); /* takes NULL */

int space_count(const struct space *space);
/* The experiment of candidate `index`, complete but for its hash. */
void space_experiment(const struct space *space, int index, struct experiment *out);

/* Whether two candidates have the same values but for this key. */
bool space_differ_only_in(const struct space *space, int left, int right, const char *key);

/* ---- how long a pipeline takes when its order is played ---- */

/* A message from one stage to the next, in seconds. */
struct message_times {
    double near_s, away_s; /* within a node, and to another one */
    int ranks_per_node;
};

/* A micro-batch's passes, in seconds: of one block, and what the first and the last virtual stage have besides theirs. */
struct pass_times {
    double block_s, block_forward_s; /* all passes, and forward alone; 0: not known */
    double again_s;                  /* of a block: forward once more, in all but the last micro-batch of each window */
    double early_s;                  /* of a backward pass: what is computed again before its gradient has come */
    double first_s, first_forward_s;
    double last_s, last_forward_s;
    double end_s;    /* of a block: its gradients on the network, once a step and between its last pass and its update */
    double update_s; /* of a block, once a step: after all passes of a rank, and the next step waits for it */
    struct message_times messages;
};

/* What a step takes at least when the order is played with passes of these times: from the first pass to the last of the rank that it
 * begins with, and what is left of its gradients on the network or its update, since the next step begins there after it; and the same of
 * all passes of the rank that has most. Backward is divided into halves as makes this shortest. Errors: as plans_make. */
dt_status pipeline_played_s(const struct experiment *experiment, const struct pass_times *times, double *out);

/* The model on one device, recorded: what a candidate's kernels, hosts and tensors need at least, whatever its network is.
 *
 * Blocks are alike, so models of few layers are recorded, and what one more block adds is added for the others. What is known is kept: many
 * candidates share it. For any number of threads: who asks for what another is recording waits for it. */

/* The whole model on one device, or on the first of `tensor` ranks that share its layers, for micro-batches of `samples` samples. */
struct alone {
    enum paradigm_kind paradigm; /* fsdp has kernels of its own costs */
    int tensor;
    bool sequence_parallel;
    enum dt_unit unit; /* fsdp: these two */
    enum gather_kind gather;
    enum activation_kind activation;
    int activation_blocks, samples;
    int sharers;                                  /* ranks that share one interpreter (lib/cost/cost.h) */
    double compute_s, host_s;                     /* of a micro-batch */
    double block_s, block_forward_s, block_bytes; /* of a micro-batch through one block, and its parameters; 0: not known */
    double parameter_bytes, optimizer_bytes, activation_bytes;
};

/* What the first and the last stage of a pipeline have besides blocks. */
struct ends {
    struct alone of; /* what they belong to */
    double first_s, first_forward_s, last_s, last_forward_s;
};

struct recordings;

/* Owner of *out: the caller; base and machine outlive it. What is known holds for other networks, memories and numbers of nodes, too: it
 * is about kernels and hosts. Errors: DT_ERR_HOST_MEMORY. */
dt_status recordings_create(const struct experiment *base, const struct simulated_machine *machine, struct recordings **out);
void recordings_destroy(struct recordings *recordings); /* takes NULL */

/* For the experiment's ranks, under this activation policy, with micro-batches of `samples` samples. Errors: as trainer_create. */
dt_status recordings_alone(struct recordings *recordings, const struct experiment *experiment, enum activation_kind activation, int samples,
                           struct alone *out);

/* Of a pipeline whose stages have what `alone` says: nothing where blocks are not known, or where fewer samples than ranks share them.
 * Errors: as trainer_create. */
dt_status recordings_ends(struct recordings *recordings, const struct experiment *experiment, const struct alone *alone, struct ends *out);

/* ---- what a candidate's ranks send at least, in seconds: the network's part of bounds ---- */

struct network_bounds;

/* Owner of *out: the caller, network_bounds_destroy, also after a failure. machine and system outlive it. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_create(const struct simulated_machine *machine, const struct simulated_system *system,
                                struct network_bounds **out);
void network_bounds_destroy(struct network_bounds *bounds); /* takes NULL */

/* Bytes that a stage of P parameter bytes gathers, or fetches from the host, in one pass over its groups. One that was used last may
 * still be there, and backward reads no table of embeddings; no group is larger than that table, or than a layer's share of all. */
double gathered_bytes(const struct dt_model *model, const struct mesh_shape *mesh, double parameter_bytes);

/* What the mode sends, in seconds. */
struct traffic {
    double gather; /* parameters, for one pass over a stage's groups */
    double passes; /* how often in a step */
    double end;    /* gradients and what follows on them, once a step: not before the last micro-batch's backward */
    double update; /* of that, what updated parameters take: not before all backward passes are over */
};

/* bytes: of the parameters of this rank's stage. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_traffic(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                 int micro_batches, double bytes, struct traffic *out);

/* What a block of `bytes` bytes adds to the end of a step of each stage that has it, whose groups share their nodes' cards with no
 * other. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_block_s(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                 double bytes, double *out);

/* Ranks that share a layer put its output together, in forward after attention and MLP: kernels wait for it, and for attention's once more
 * where forward is repeated. In backward they wait for the rows of what comes in, where ranks have parts of them; what goes out is put
 * together beside the weights' gradients, or by itself where these come later. */
struct summing {
    double forward, again, backward; /* seconds of one micro-batch through one block */
};

/* samples: of a micro-batch; halves: gradients of weights come later. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_summing(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                 int samples, bool halves, struct summing *out);

/* Activations of a micro-batch from one stage to the next, with those of equal ranks beside them, where that is shortest. samples: of a
 * micro-batch. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_messages(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                  int samples, struct message_times *out);

/* What a candidate needs at least: bytes on the rank that needs most, seconds of a step. Never more than the simulation says, and
 * thousands of times cheaper.
 *
 * Memory   the parameters, gradients and optimizer state that its mode cannot do without, and the activations of one micro-batch,
 * measured on a recorded step of the model on one device, which a pipeline's stages share.
 * Time     the largest of what no schedule can avoid. Host: what it takes to issue everything, since a step's work follows its host,
 * however far that runs ahead. Compute: the kernels of all micro-batches, of the same recordings, with the sums over ranks that share layers
 * in forward, and what backward waits for of them. Network: bytes that the mode sends once a step, or gathers for each micro-batch, at the
 * best rate of the group's algorithms; and over each network card at no more than all its flows get together. Host links: bytes that are
 * offloaded. One after the other: gradients go after all micro-batches but the last one's backward, and updates after all of them.
 * Pipelines: p stages with m micro-batches of work W in all cannot be faster than W / (1 - (1 - 1/m)^p), however layers are divided: a
 * stage waits for the first micro-batch to pass those before it, and these for its last one to come back. As they are divided, the same
 * of the blocks of each virtual stage; pipeline_played_s plays the order with the passes and messages that are told here.
 *
 * Where kernels and collectives were measured on shared processors (dtbench calibrate) the network's part is left out. */

struct bounds;
struct recordings;

/* For experiments that differ from `base` in keys of a space. recordings: the caller's, of the same kernels; NULL: makes its own. Owner: the
 * caller; base, machine and recordings outlive it.
 * Errors: DT_ERR_HOST_MEMORY, and those of simulated_system_create. */
dt_status bounds_create(const struct experiment *base, const struct simulated_machine *machine, struct recordings *recordings,
                        struct bounds **out);
void bounds_destroy(struct bounds *bounds); /* takes NULL */

struct bound {
    double bytes; /* of the device, of the rank that needs most */
    double step_s;
    double compute_s, host_s, network_s, host_link_s; /* of it by themselves; host_s: to issue the kernels */
    double micro_batch_s;                             /* what each further micro-batch adds */
    struct pass_times passes;                         /* of a pipeline */
};

/* Not for several threads at once: what was found out is kept. Errors: as trainer_create. */
dt_status bounds_find(struct bounds *bounds, const struct experiment *experiment, struct bound *out);

/* Bytes that a GPU has for tensors, as the profile's allocator divides them. */
double bounds_capacity_bytes(const struct simulated_machine *machine, const struct simulated_system *system);

/* What a candidate with many micro-batches needs at least, told by a simulation of the same with few.
 *
 * More micro-batches never hold less, since all that is held is held by them, too; and each further one takes the time that nobody
 * avoids (struct bound, micro_batch_s). Candidates of different batches have the same short form where their micro-batches are of one size,
 * so that one simulation serves many of them.
 * Pipelines whose backward comes in halves are played instead (pipeline_play.c). */

struct short_forms;

/* Owner of *out: the caller. machine outlives it. stop (NULL: never) ends a simulation. Errors: DT_ERR_HOST_MEMORY. */
dt_status short_forms_create(const struct simulated_machine *machine, double capacity_bytes, bool (*stop)(void *context), void *context,
                             struct short_forms **out);
void short_forms_destroy(struct short_forms *forms); /* takes NULL */

struct short_form {
    bool exists; /* false: the experiment has few micro-batches itself, and is simulated as fast; nothing else is said */
    bool fits;
    double bytes;  /* of the device, of the ranks that need most, at least */
    double step_s; /* what the whole experiment takes at least; 0: not told */
};

/* Whether few micro-batches of it fit: what is soonest told. step_s is not. For any number of threads. Errors: as below. */
dt_status short_forms_fit(struct short_forms *forms, const struct experiment *experiment, struct short_form *out);

/* Of an experiment with this bound. For any number of threads. Errors: DT_ERR_INTERRUPTED, and the simulator's own. */
dt_status short_forms_find(struct short_forms *forms, const struct experiment *experiment, const struct bound *bound,
                           struct short_form *out);

/* ---- what makes one candidate better than another ---- */

enum search_objective {
    SEARCH_TOKENS, /* most tokens a second */
    SEARCH_MEMORY, /* fewest bytes on the fullest GPU, at no less than the floor */
    SEARCH_COST,   /* fewest GPU seconds a token */
    SEARCH_ENERGY, /* the same: GPUs are alike, and each is taken to need its full power all the time */
};

/* Lower is better: seconds a token, bytes, or GPU seconds a token. */
double search_score(enum search_objective objective, const struct experiment *experiment, double step_s, double bytes);
double search_units_per_s(const struct experiment *experiment, double step_s);

struct search_outcome;
/* Seconds that training on `units` tokens (or images) takes, with loading and saves. */
double search_training_s(const struct experiment *experiment, const struct search_outcome *outcome, double units);
struct search_options;
/* The rate that the floor is held against. */
double search_floor_rate(const struct search_options *options, const struct experiment *experiment, const struct search_outcome *outcome);

/* ---- the best candidates of a space, found without simulating all of them ----
 *
 * First the best bound of each paradigm is simulated, with and without a pipeline and tensor groups. Then candidates are taken in the
 * order of their bounds (bounds.c), and come back with better ones: a pipeline's order is played with the times of its passes
 * (pipeline_play.c), and of many micro-batches few are simulated (short_form.c). What cannot fit is left out; the others are simulated,
 * each on one thread, until the bound of the next one is worse than the `top` best results: no later one can be among them. So the
 * result is that of simulating everything. Of each paradigm that has no result by then a few more are tried, so that what it would give,
 * or why it does not fit, can be told. */

enum search_state {
    SEARCH_NOT_NEEDED, /* its bound is worse than the results */
    SEARCH_TOO_LARGE,  /* by its bound */
    SEARCH_OUT_OF_MEMORY,
    SEARCH_SIMULATED,
    SEARCH_TOO_SLOW, /* below the floor, simulated or by its bound */
    SEARCH_STATES
};

enum { SEARCH_SHORT_BYTES = 160 };

struct search_outcome {
    struct bound bound;
    uint8_t state, paradigm;
    uint64_t kind;              /* the same in candidates of one paradigm and one shape of the mesh */
    double step_s, units_per_s; /* NAN: not simulated */
    double peak_bytes, host_peak_bytes;
    struct dt_step_metrics step; /* the simulated step's phases */
    struct storage_times storage;
};

struct search_progress {
    int count, done; /* candidates: all, and those that are decided */
    int simulated;
    double best_units_per_s; /* NAN: none yet */
};

struct search_options {
    enum search_objective objective;
    int top;
    bool diverse;                  /* the best of each of `top` kinds are wanted, and not the `top` best, which may be of one kind */
    double floor_units_per_s;      /* what is slower is left out; 0 or NAN: nothing is */
    double floor_units;            /* of the training over which that rate is meant, with what storage adds; 0: the rate of its steps */
    struct recordings *recordings; /* kept from search to search of one base model and machine's kernels (recordings.c); NULL: not kept */
    int threads;                   /* 0: as many as processors may be used */
    bool all_simulated;            /* no bound leaves anything out: for tests */
    bool only_best;                /* nothing is tried for the sake of paradigms that are not among the best */
    double better_than;            /* a score (search_score): what is not lower is of no interest; 0: everything is */
    /* Whether a candidate belongs to what is searched. NULL: all do */
    bool (*wanted)(const void *what, const struct experiment *experiment);
    const void *what;
    void *context;
    bool (*stop)(void *context);                                             /* NULL: never */
    void (*progress)(void *context, const struct search_progress *progress); /* after each candidate; one thread at a time. NULL */
    /* What became of a candidate that was simulated or ran out of memory by its exact bytes; one thread at a time. NULL */
    void (*done)(void *context, const struct experiment *experiment, dt_status status, const char *error,
                 const struct measure_result *result);
};

struct search_result {
    struct search_outcome *outcomes; /* [count] as in the space */
    int count;
    int *ranking; /* [ranked] simulated candidates, the best first; one of those that differ in buckets alone and in no prediction */
    int ranked;
    int kinds; /* diverse: of the first `kinds` ranked ones each is the best of its kind, and all others follow in their order; else = ranked */
    int states[SEARCH_STATES]; /* how many candidates have each */
    bool interrupted;
    bool best_proved;      /* nothing that was not simulated can be better than the first, though the search may have been stopped */
    double capacity_bytes; /* of a GPU, for tensors */
    double least_bytes[PARADIGM_ROOM]; /* of a paradigm of which nothing fits: what its smallest candidate needs; 0: otherwise */
    char short_of[PARADIGM_ROOM][SEARCH_SHORT_BYTES]; /* what that one lacks where it is not its GPU's memory; "": nothing */
    double seconds;
};

/* Owner of *out: the caller, search_result_finish, also after a failure. Interrupted by `stop` it returns DT_OK with what was found.
 * Errors: DT_ERR_HOST_MEMORY, and the simulator's own failures, of the first candidate that has one. */
dt_status search_run(const struct space *space, const struct experiment *base, const struct simulated_machine *machine,
                     const struct search_options *options, struct search_result *out);
void search_result_finish(struct search_result *result); /* takes a zeroed one */

#endif

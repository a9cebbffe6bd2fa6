/* The search for the fastest way of training: the space of candidates, lower bounds of what each
 * needs, and a search that simulates few of them. */
#pragma once

#include "predict/simulated_system.h"
#include "schedules/config/experiment.h"
#include "schedules/plan/plan.h"
#include "schedules/run/measure.h"

/* ---- values that several threads need, made once: later threads wait for the first ---- */

struct once;

/* value_bytes: size of each value. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status once_create(size_t value_bytes, struct once **out);
void once_destroy(struct once *once); /* takes NULL */

/* Copies the value of this key (at most 64 bytes, none of them padding) to *out. If it is not known
 * yet, make(context, value) fills in a zeroed one; other keys can be looked up meanwhile. For any
 * number of threads. Errors: those of `make`, also in later calls with this key;
 * DT_ERR_HOST_MEMORY. */
dt_status once_find(struct once *once, const void *key, size_t key_bytes, dt_status (*make)(void *context, void *value), void *context,
                    void *out);

/* ---- the space: config keys, the proposed values of each, and all combinations that are valid
 * experiments ----
 *
 * A key is an axis if it has a row in the table of axes.c, which says for which experiments it
 * matters and what is proposed for them. Values are chosen in the order of rows, so proposals may
 * depend on keys of earlier rows. A caller may restrict an axis, or make any other key an axis by
 * giving its values. */

enum { SPACE_VALUES = 64, SPACE_VALUE_BYTES = 32 };

/* The caller's request. All texts are "KEY=VALUE" or "KEY=VALUE,VALUE,..."; they outlive the
 * space. */
struct space_request {
    const char *const *fix, *const *allow, *const *forbid;
    int fix_count, allow_count, forbid_count;
    int global_batch; /* samples of a step over all ranks; 0: any batch */
    int max_batch;    /* the largest batch_size if the batch is free */
    bool any_nodes;   /* worlds with fewer nodes than the base's are candidates, too */
};

/* What proposals depend on, in addition to earlier values. */
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

/* Without `propose` and `values` an axis has only the values that are fixed or allowed. */
struct space_axis {
    const char *key;
    bool (*concerns)(const struct space_scope *scope, const struct experiment *experiment); /* NULL: all experiments */
    void (*propose)(struct proposal *proposal);                                             /* NULL: `values` are proposed */
    const char *values;                                                                     /* "25,100" */
};

/* Rows in the order in which values are chosen; NULL past the last. */
const struct space_axis *space_axis(int index);

struct space;

/* Make all candidates of an experiment, resolved, on a machine. Owner of *out: the caller. Errors:
 * DT_ERR_INVALID with one line if a request is wrong or leaves no candidate; DT_ERR_HOST_MEMORY.
 * base, request and machine outlive it. */
dt_status space_create(const struct experiment *base, const struct simulated_machine *machine, const struct space_request *request,
                       struct space **out);
void space_destroy(struct space *space); /* takes NULL */
DT_DESTROYS(space_destroy, struct space)

int space_count(const struct space *space);
/* The experiment of candidate `index`, complete except for its hash. */
void space_experiment(const struct space *space, int index, struct experiment *out);

/* Whether two candidates have the same values except for this key. */
bool space_differ_only_in(const struct space *space, int left, int right, const char *key);

/* ---- the time of a pipeline when its order is played ---- */

/* Seconds of a message from one stage to the next. */
struct message_times {
    double near_s, away_s; /* within a node, and to another one */
    int ranks_per_node;
};

/* Seconds of a micro-batch's passes: through one block, and the additional work of the first and
 * the last virtual stage. */
struct pass_times {
    double block_s, block_forward_s; /* all passes, and forward only; 0: unknown */
    double again_s;                  /* of a block: another forward, for all but the last micro-batch of each window */
    double early_s;                  /* of a backward pass: recomputation before its gradient has arrived */
    double first_s, first_forward_s;
    double last_s, last_forward_s;
    double end_s;    /* of a block: reducing its gradients, once a step between its last pass and its update; of the fastest stage */
    int slow_stage;  /* where nodes have unequal parts of the stages: the slowest one, */
    double slow_s;   /* and its time for the same */
    double update_s; /* of a block, once a step: after all passes of a rank and before the next step */
    struct message_times messages;
};

/* The least time of a step if the order is played with passes of these times. It is the time from
 * first to last pass of the rank that begins, plus the rest of its gradients' reduction and its
 * update, since the next step begins there after these; or all passes of the busiest rank, plus the
 * same. Backward is divided into halves such that this is shortest. Errors: as plans_make. */
dt_status pipeline_played_s(const struct experiment *experiment, const struct pass_times *times, double *out);

/* Recordings of the model on one device: lower bounds for a candidate's kernels, hosts and tensors,
 * for any network.
 *
 * Blocks are alike, so models with few layers are recorded, and the difference of one block is
 * added for the others. Recordings are kept, since many candidates share them. For any number of
 * threads: a thread waits for a recording that another thread is making. */

/* The whole model on one device, or on the first of `tensor` ranks that share its layers, for
 * micro-batches of `samples` samples. */
struct alone {
    enum paradigm_kind paradigm; /* kernels of fsdp have costs of their own */
    int tensor;
    bool sequence_parallel;
    enum dt_unit unit; /* of fsdp */
    enum gather_kind gather;
    enum activation_kind activation;
    int activation_blocks, samples;
    int sharers;                                  /* ranks that share one interpreter (lib/cost/cost.h) */
    double compute_s, host_s;                     /* of a micro-batch */
    double block_s, block_forward_s, block_bytes; /* of a micro-batch through one block, and its parameters; 0: not known */
    double parameter_bytes, optimizer_bytes, activation_bytes;
};

/* What the first and the last stage of a pipeline have in addition to blocks. */
struct ends {
    double first_s, first_forward_s, last_s, last_forward_s;
};

struct recordings;

/* Owner of *out: the caller; base and machine outlive it. Recordings hold for other networks,
 * memories and numbers of nodes, too, since they are about kernels and hosts. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status recordings_create(const struct experiment *base, const struct simulated_machine *machine, struct recordings **out);
void recordings_destroy(struct recordings *recordings); /* takes NULL */
DT_DESTROYS(recordings_destroy, struct recordings)

/* For the experiment's ranks, under this activation policy, with micro-batches of `samples`
 * samples. Errors: as trainer_create. */
dt_status recordings_alone(struct recordings *recordings, const struct experiment *experiment, enum activation_kind activation, int samples,
                           struct alone *out);

/* The ends of a pipeline whose stages are described by `alone`; zero if blocks are unknown, or if
 * there are fewer samples than ranks that share them. Errors: as trainer_create. */
dt_status recordings_ends(struct recordings *recordings, const struct experiment *experiment, const struct alone *alone, struct ends *out);

/* ---- the network's part of bounds: the least time of what a candidate's ranks send ---- */

struct network_bounds;

/* Owner of *out: the caller, network_bounds_destroy, also after a failure. machine and system
 * outlive it. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_create(const struct simulated_machine *machine, const struct simulated_system *system,
                                struct network_bounds **out);
void network_bounds_destroy(struct network_bounds *bounds); /* takes NULL */

/* Bytes that a stage of P parameter bytes gathers, or copies from the host, in one pass over its
 * groups. The group that was used last may still be on the device, and backward reads no table of
 * embeddings; no group is larger than that table, or than a layer's part of all. */
double gathered_bytes(const struct dt_model *model, const struct mesh_shape *mesh, double parameter_bytes);

/* Seconds of what the mode sends. */
struct traffic {
    double gather; /* parameters, for one pass over a stage's groups */
    double passes; /* how often in a step */
    double begin;  /* updated parameters, where a step begins with them: hidden by forward */
    double end;    /* gradients and everything sent after them, once a step: not before the last micro-batch's backward */
    double update; /* the part of `end` for updated parameters: not before all backward passes have ended */
};

/* Whether the nodes have unequal parts of a stage. */
bool network_bounds_stages_differ(const struct network_bounds *bounds, const struct mesh_shape *mesh);

enum { ALL_STAGES = -1 };

/* bytes: of the parameters of a rank's stage. stage: its groups share their nodes' cards with no
 * other; or ALL_STAGES at once. Errors: DT_ERR_HOST_MEMORY. */
dt_status network_bounds_traffic(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                 int micro_batches, double bytes, int stage, struct traffic *out);

/* Ranks that share a layer sum its output, in forward after attention and MLP: kernels wait for it,
 * and for attention's sum again if forward is repeated. With sequence parallelism, backward waits
 * for the gathered rows of its input. Its output is summed concurrently with weight gradients, or
 * not concurrently if these are delayed. */
struct summing {
    double forward, again, backward; /* seconds of one micro-batch through one block */
};

/* samples: of a micro-batch; halves: gradients of weights come later. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status network_bounds_summing(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                 int samples, bool halves, struct summing *out);

/* Seconds to send a micro-batch's activations from one stage to the next, concurrently with those
 * of equal ranks, at the stage where this is shortest. samples: of a micro-batch. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status network_bounds_messages(struct network_bounds *bounds, const struct experiment *experiment, const struct mesh_shape *mesh,
                                  int samples, struct message_times *out);

/* Lower bounds of a candidate: bytes on the rank that needs most, and seconds of a step. They are
 * never more than the simulation's results, and thousands of times cheaper.
 *
 * Memory   the parameters, gradients and optimizer state that its mode cannot do without, and the
 *          activations of one micro-batch, measured on a recorded step of the model on one device,
 *          which a pipeline's stages share.
 * Time     the largest of several times that no schedule can avoid. Host: the time to issue
 *          everything, since a step's work follows its host, however far that runs ahead. Compute:
 *          the kernels of all micro-batches, from the same recordings, with the sums over ranks
 *          that share layers in forward, and those that backward waits for. Network: bytes that the
 *          mode sends once a step, or gathers for each micro-batch, at the best rate of the group's
 *          algorithms, and for each network card at no more than all its flows get together. Host
 *          links: offloaded bytes. What cannot overlap: gradients are sent after all micro-batches
 *          except the last one's backward, and updates follow all of them. A pipeline's work is
 *          divided evenly; pipeline_played_s plays its order with the passes and messages found
 *          here.
 *
 * Where kernels and collectives were measured on shared processors (dtbench calibrate) the
 * network's part is left out. */

struct bounds;

/* For experiments that differ from `base` in keys of a space. recordings: of the same kernels.
 * Owner: the caller; base, machine and recordings outlive it. Errors: DT_ERR_HOST_MEMORY, and those
 * of simulated_system_create. */
dt_status bounds_create(const struct experiment *base, const struct simulated_machine *machine, struct recordings *recordings,
                        struct bounds **out);
void bounds_destroy(struct bounds *bounds); /* takes NULL */
DT_DESTROYS(bounds_destroy, struct bounds)

struct bound {
    double bytes; /* on the device of the rank that needs most */
    double step_s;
    double compute_s, host_s, network_s, host_link_s; /* each of these times alone; host_s: to issue the kernels */
    struct pass_times passes;                         /* of a pipeline */
};

/* Only for one thread at a time, since results are kept. Errors: as trainer_create. */
dt_status bounds_find(struct bounds *bounds, const struct experiment *experiment, struct bound *out);

/* Bytes that a GPU has for tensors, after what the profile's allocator loses. */
double bounds_capacity_bytes(const struct simulated_machine *machine, const struct simulated_system *system);

/* A lower bound of a candidate's memory, from a recorded step of few of its micro-batches ("short
 * form"): more micro-batches never need less memory. Candidates with different batches have the same
 * short form if their micro-batches have the same size, so one recording serves many of them. */

struct short_forms;

/* Owner of *out: the caller. machine outlives it. Errors: DT_ERR_HOST_MEMORY. */
dt_status short_forms_create(const struct simulated_machine *machine, double capacity_bytes, struct short_forms **out);
void short_forms_destroy(struct short_forms *forms); /* takes NULL */

struct short_form {
    bool fits;
    double bytes; /* at least, on the device of the rank that needs most */
};

/* Whether a few of the experiment's micro-batches fit. For any number of threads. Errors: the
 * simulator's. */
dt_status short_forms_fit(struct short_forms *forms, const struct experiment *experiment, struct short_form *out);

/* ---- which candidate is better ---- */

enum search_objective {
    SEARCH_TOKENS, /* most tokens a second */
    SEARCH_MEMORY, /* fewest bytes on the fullest GPU, at a rate of at least the floor */
    SEARCH_COST,   /* fewest GPU seconds a token */
    SEARCH_ENERGY, /* the same score: GPUs are alike, and each is taken to need its full power all the time */
};

/* Lower is better: seconds a token, bytes, or GPU seconds a token. */
double search_score(enum search_objective objective, const struct experiment *experiment, double step_s, double bytes);
double search_units_per_s(const struct experiment *experiment, double step_s);

/* Simulate an experiment on the machine. hooks: NULL, or as of simulation_run. Owner of *out: the
 * caller, measure_result_finish, also after a failure. Errors: as simulation_run, and
 * simulated_system_create_on. */
dt_status search_simulate(const struct simulated_machine *machine, const struct experiment *experiment, const struct measure_hooks *hooks,
                          struct measure_result *out);

struct search_outcome;
/* Seconds that training on `units` tokens (or images) takes, with loading and saves. */
double search_training_s(const struct experiment *experiment, const struct search_outcome *outcome, double units);
struct search_options;
/* The rate that is compared with the floor. */
double search_floor_rate(const struct search_options *options, const struct experiment *experiment, const struct search_outcome *outcome);

/* ---- the best candidates of a space, found without simulating all of them ----
 *
 * First the best bound of each paradigm is simulated, with and without a pipeline and tensor
 * groups. Then candidates are taken in the order of their bounds (bounds.c), and get better ones: a
 * pipeline's order is played with the times of its passes (pipeline_play.c), and few micro-batches
 * are recorded (short_form.c). Candidates that cannot fit are left out; the others are simulated, each
 * on one thread, until the bound of the next one is worse than the `top` best results: no later one
 * can be among them. Where the best of each kind are wanted, a candidate is also left out if its
 * bound is worse than the best result of its kind. So the result is the same as if all were
 * simulated. For each paradigm without a result, a few more candidates are tried, so that its
 * speed, or why it does not fit, can be reported. */

enum search_state {
    SEARCH_NOT_NEEDED, /* its bound is worse than the best results, or than the best of its kind */
    SEARCH_TOO_LARGE,  /* according to its bound */
    SEARCH_OUT_OF_MEMORY,
    SEARCH_SIMULATED,
    SEARCH_TOO_SLOW, /* below the floor, by simulation or by its bound */
    SEARCH_STATES
};

enum { SEARCH_SHORT_BYTES = 160 };

struct search_outcome {
    struct bound bound;
    uint8_t state, paradigm;
    uint64_t kind;              /* equal for candidates of one paradigm and one shape of the mesh */
    double step_s, units_per_s; /* NAN: not simulated */
    double peak_bytes, host_peak_bytes;
    struct dt_step_metrics step; /* the simulated step's phases */
    struct storage_times storage;
};

struct search_progress {
    int count, done; /* all candidates, and the decided ones */
    int simulated;
    double best_units_per_s; /* NAN: none yet */
};

struct search_options {
    enum search_objective objective;
    int top;
    bool diverse;                  /* find the best of each of `top` kinds, instead of the `top` best, which may be of one kind */
    double floor_units_per_s;      /* slower candidates are left out; 0 or NAN: none */
    double floor_units;            /* units of the training over which the floor is meant, with storage; 0: the rate of its steps */
    struct recordings *recordings; /* of this base model and the machine's kernels (recordings.c); searches may share them */
    int threads;                   /* 0: as many as there are usable processors */
    bool all_simulated;            /* bounds leave nothing out: for tests */
    bool only_best;                /* leave out the extra candidates that are tried for paradigms without a result */
    double better_than;            /* a score (search_score): candidates that are not lower do not matter; 0: no limit */
    /* Whether a candidate is part of the search. NULL: all are */
    bool (*wanted)(const void *what, const struct experiment *experiment);
    const void *what;
    void *context;
    bool (*stop)(void *context);                                             /* NULL: never */
    void (*progress)(void *context, const struct search_progress *progress); /* called after each candidate; one thread at a time. NULL */
    /* Called for a candidate that was simulated or found to run out of memory by its exact bytes;
     * by one thread at a time. May be NULL */
    void (*done)(void *context, const struct experiment *experiment, dt_status status, const char *error,
                 const struct measure_result *result);
};

struct search_result {
    struct search_outcome *outcomes; /* [count] as in the space */
    int count;
    int *ranking; /* [ranked] simulated candidates, the best first; one of those that differ only in buckets and in no prediction */
    int ranked;
    int kinds; /* diverse: the first `kinds` ranked ones are each the best of its kind, the others follow in order; else = ranked */
    int states[SEARCH_STATES]; /* number of candidates in each state */
    bool interrupted;
    bool best_proved;      /* no candidate that was not simulated can be better than the first, even if the search was stopped */
    double capacity_bytes; /* bytes of a GPU for tensors */
    double least_bytes[PARADIGM_ROOM];                /* if nothing of a paradigm fits: bytes that its smallest candidate needs; else 0 */
    char short_of[PARADIGM_ROOM][SEARCH_SHORT_BYTES]; /* what that candidate lacks if it is not GPU memory; "": nothing */
    double seconds;
};

/* Owner of *out: the caller, search_result_finish, also after a failure. If `stop` interrupts it,
 * it returns DT_OK with what was found. Errors: DT_ERR_HOST_MEMORY, and the first failure of the
 * simulator. */
dt_status search_run(const struct space *space, const struct experiment *base, const struct simulated_machine *machine,
                     const struct search_options *options, struct search_result *out);
void search_result_finish(struct search_result *result); /* takes a zeroed one */

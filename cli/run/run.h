/* `dtbench run` once its command line is understood: experiments one after another, what is checked before them, and the tables about them. */
#ifndef CLI_RUN_RUN_H
#define CLI_RUN_RUN_H

#include "cli/records/records.h"
#include "cli/records/show.h"
#include "cli/text/text.h"
#include "lib/comm/comm.h"
#include "lib/launch/launch.h"
#include "lib/record/record.h"
#include "lib/slurm/facts.h"
#include "predict/simulated_system.h"
#include "schedules/config/experiment.h"
#include "schedules/config/experiment_list.h"
#include "schedules/run/report.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- SIGINT, SIGTERM, and SIGUSR1 (what Slurm's --signal=USR1@120 sends before the time limit):
 * counted, for the functions below ---- */

/* From here on these signals are counted and end nothing by themselves. */
void signals_install(void);
int signals_count(void);
/* The first that came: its number; 0: none. */
int signals_first(void);
/* How a command ends that measures and writes a file, after this failure. */
enum exit_code signals_exit_code(dt_status status);

/* What a run prints on stderr while it runs: a line for each finished experiment, and on a terminal below them one that is redrawn. */

struct progress {
    bool live, quiet, drawn;
    int experiments;       /* of the whole run */
    int index;             /* the current one, from 1 */
    char label[192];       /* "ddp, 2 ranks" */
    int steps;             /* warm-up included */
    double units_per_step; /* of all ranks */
    const char *unit;      /* of those: "token" */
    int steps_done;
    double drawn_s;          /* when the line was drawn last, dt_clock_s */
    double begun_s, first_s; /* when the current experiment began, and when its first step was done */
    int left;                /* experiments that are not done, the current one among them */
    int ended;               /* experiments that are done */
    double ended_s;          /* what they took */
};

void progress_init(struct progress *progress, int experiments, bool quiet);
/* An experiment begins: the first of `left`. */
void progress_begin_one(struct progress *progress, int left);
void progress_end_one(struct progress *progress);
/* What the line names now: an experiment, or what is done for it. */
void progress_begin(struct progress *progress, int index, const char *label, int steps, double units_per_step, const char *unit);
/* What happens before the first step: "starting 2 ranks". */
void progress_phase(struct progress *progress, const char *what);
void progress_step(struct progress *progress, double seconds, double loss);
/* Erase the line, for other output. */
void progress_clear(struct progress *progress);
/* Print one line, unless --quiet. */
void progress_note(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One experiment on this process's rank: its device and communicator. Used by the processes that a supervisor starts (cli/commands/rank.c)
 * and by those that mpirun, srun or torchrun started (run_inside.c). */

struct execution {
    struct dt_device *device;
    struct dt_comm *world;
    struct experiment made_for;
};

/* Create device and world, and describe them in `report`. Where *out is open (else it is zeroed) and the experiment wants the same ones, they
 * are those, with the communicators that were made of the world; else they are closed first. Collective over the ranks of `place`. After a
 * failure too the caller calls execution_close. Errors: as dt_device_create and dt_comm_create. */
dt_status execution_open(const struct experiment *experiment, const struct dt_world *place, struct report *report, struct execution *out);
/* Have all ranks ended alike, so that they can close their communicators, or go on with something else? */
bool execution_ended_together(dt_status status, const struct report *report);
void execution_close(struct execution *execution);

/* A limit on what a thread does inside libraries that know none: another thread sees to it.
 *
 * Open MPI may stay in a call for ever once a peer's machine is gone: its loop over events goes on as long as a dead connection has one. No
 * timeout between calls ends that. Ranks that dtbench started itself have a supervisor for it (lib/launch/launch.h), those of a launcher
 * have this. */

struct watch {
    pthread_t thread;
    bool running; /* the thread */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ended;
    int64_t deadline_ns;            /* 0: none */
    void (*overdue)(void *context); /* does not return */
    void *context;
};

/* From now on `overdue` is called, in another thread, when a limit has passed; it ends the process. The watched thread stops at its next call
 * of a function below then: only one of them goes on. Without memory for a thread nobody watches. */
void watch_begin(struct watch *watch, void (*overdue)(void *context), void *context);
/* Something has been done; the next thing may take this long. 0: no limit. Takes NULL. */
void watch_limit(struct watch *watch, double seconds);
void watch_end(struct watch *watch);

/* ---- run an experiment on ranks that mpirun, srun or torchrun started: this process is one of them ---- */

/* After the ranks have lost each other, rank 0 has this long to write its record before the other ranks' ends make the launcher end it. */
enum { RANK_0_WRITES_S = 5 };

struct run_inside_hooks {
    struct dt_trace_wish trace; /* of one more step */
    struct progress *progress;
    struct draft *draft; /* NULL: none is kept */
    /* This rank hangs inside a library, and the report says so: called in another thread, it writes what is to be written and ends the process.
     * NULL: nobody watches. */
    void (*hangs)(void *context);
    void *context;
    struct execution *execution; /* what the experiment before has left open; NULL: it leaves nothing, as this one does then */
    bool another; /* there is one more, for which it stays open, where this one ends well; the same on all ranks, as `execution` */
};

/* Collective over the ranks of `place`. Fills `report`, initialised. A step and the start may take as long as the experiment's timeouts say.
 * False: the ranks have lost each other, and nothing more can run. */
bool run_inside(const struct experiment *experiment, const struct dt_world *place, const struct run_inside_hooks *hooks,
                struct report *report);

/* Everybody's `mine` in all [size * bytes], over a communicator for an experiment like this one, where it needs MPI, else over TCP. Waits
 * patience_s for the others, 0: for ever, even for a rank whose machine is gone. After a failure the ranks have lost each other.
 * Errors: as dt_comm_create. */
dt_status run_inside_gather(const struct experiment *experiment, const struct dt_world *place, double patience_s, const void *mine,
                            size_t bytes, void *all);

/* Wait until every rank is here. *number becomes the highest that any of them has. Errors: as above. */
dt_status run_inside_agree(const struct experiment *experiment, const struct dt_world *place, double patience_s, int *number);

/* ---- run an experiment in processes of its own, started and watched from here ---- */

/* trace: of one more step. Fills `report`, initialised, with whatever was measured and how it ended: a
 * crash, a kill and the end of the memory are results too. */
void run_launched(const struct experiment *experiment, struct dt_trace_wish trace, struct progress *progress, struct draft *draft,
                  struct report *report);

/* ---- run an experiment on device sim: in this process, without ranks of its own ---- */

/* Fills `report`, initialised. trace: of one step. */
void run_simulated(const struct experiment *experiment, struct dt_trace_wish trace, struct progress *progress, struct report *report);

/* Where a simulated experiment "ran", for its record. */
void run_simulated_describe(const struct experiment *experiment, const struct simulated_file *cluster_file,
                            const struct simulated_file *profile_file, const struct dt_sim_cluster *cluster, struct report *report);

/* ---- is there time for another experiment? What would not be done before the end is left for a later run (--resume) ---- */

struct sweep_time {
    struct forecaster *forecaster;
    double end_s;                        /* on dt_clock_s; infinite: no limit */
    bool begun;                          /* an experiment was started */
    bool is_job;                         /* the limit is the job's */
    double (*job_left_s)(void *context); /* asks the job again; NULL: the limit stands */
    void *context;
    double asked_s; /* when that was last known */
};

/* `limit`: seconds from now as the command line has them; NULL: `job_left_s`, what is left of a job (NaN: unknown or without limit), less
 * two minutes, or a tenth of it where that is less: for the last record, and for a step that takes longer than the others.
 * Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. The caller calls sweep_time_finish in any case. */
dt_status sweep_time_init(struct sweep_time *time, const char *limit, double job_left_s);
/* A job's limit may be changed while it runs (scontrol update TimeLimit). `job_left_s` returns what is left of it now, NaN: unknown, and
 * then what was known before stays. It is called when an experiment would not be started, and when the last call was a minute ago. Does
 * nothing where the limit is the command line's, or where there is none. */
void sweep_time_follow(struct sweep_time *time, double (*job_left_s)(void *context), void *context);
void sweep_time_finish(struct sweep_time *time);
bool sweep_time_is_limited(const struct sweep_time *time);

/* An experiment that ended well, in this run, or in an earlier one that left a record. */
dt_status sweep_time_learn(struct sweep_time *time, const struct experiment *done, double step_s, double startup_s, double wall_s);

/* May it start? The first of a run may as long as any time is left: a forecast that is too long must not stop a sweep for ever. The others
 * must be expected to end in time, as the slowest of the done ones predicts. `why` gets the reason against it. */
bool sweep_time_allows(struct sweep_time *time, const struct experiment *next, char *why, size_t why_bytes);

/* One of several jobs that share a sweep: `--shard K/N`.
 *
 * Method  Experiments are ordered by the floating-point operations of a rank, most first (equals by their place in the sweep), and dealt to
 *         the shards back and forth: 1 2 3 3 2 1 1 2 3. Every experiment goes to exactly one shard, the numbers differ by at most one, and
 *         large experiments are spread. The same config gives the same shards everywhere, so a job that is started again finds its own. */

struct sweep_shard {
    int number, count; /* number from 1 to count, as in an array job's --array=1-N */
};

/* Read "K/N". Errors: DT_ERR_INVALID. */
dt_status sweep_shard_parse(const char *text, struct sweep_shard *out);

/* elsewhere [experiments]: which of them are another shard's. Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_shard_select(struct sweep_shard shard, const struct experiment_list *experiments, bool *elsewhere);

/* ---- --verify: an experiment's losses against those of one device that does the same work ---- */

struct verify_reference;

struct verify_cache {
    struct verify_reference *first; /* one per reference config: a sweep's experiments share them */
};

/* The experiment that all divisions of the same work must agree with: paradigm none, the global batch in world_size micro-batches, the same
 * seed and number of steps. Errors: DT_ERR_INVALID. */
dt_status verify_reference_of(const struct experiment *experiment, struct experiment *out);

/* The reference's report, when it was kept before; NULL. */
const struct report *verify_find(const struct verify_cache *cache, const struct experiment *reference);
/* Keep `report`: the cache owns its content from here on. Errors: DT_ERR_HOST_MEMORY, and it is finished. */
dt_status verify_keep(struct verify_cache *cache, const struct experiment *reference, struct report *report);
void verify_finish(struct verify_cache *cache);

/* The reference with weights that soon differ by about one rounding: how fast its losses move away is how fast rounding grows. Errors:
 * DT_ERR_INVALID. */
dt_status verify_shaken(const struct experiment *reference, struct experiment *out);
/* Whether the first loss that is off is the third or a later one. Rounding that has grown may be the cause; the shaken reference shows it. */
bool verify_needs_shaken(const struct report *report, const struct experiment *experiment, const struct report *reference);

/* Compare step by step, and set the report's verification and, on a mismatch, its status and error. shaken: that reference's report; losses
 * are compared as long as those of both references are alike. NULL: all are. */
void verify_compare(struct report *report, const struct experiment *experiment, const struct report *reference,
                    const struct report *shaken);

/* ---- `dtbench run` once its command line is understood: experiments one after another, a record each, a table at the end ---- */

enum { SWEEP_ROUNDS_MOST = 1000, SWEEP_ROUNDS_LEAST = 3 /* with --until; fewer have no interval (dt_ratio_compare) */ };

/* What the table needs of an experiment that was run. */
struct outcome {
    bool run;       /* false: not yet, or not at all */
    bool skipped;   /* a record of it is there (--resume) */
    bool elsewhere; /* another shard's (--shard) */
    bool late;      /* would not be done in time */
    bool settled;   /* earlier rounds were enough (--until) */
    dt_status status;
    char error[1024];
    char doubts[512]; /* measure_result's */
    int row;          /* of its record among the results; -1: none */
    struct dt_metrics metrics;
    double first_loss, last_loss; /* NaN: unknown */
};

struct sweep {
    const struct experiment_list *experiments;
    int distinct;                   /* of them */
    int count;                      /* of all runs: the experiments one after another, and so again in each round (--repeat) */
    struct sweep_identity identity; /* what the records call it */
    struct dt_world world;
    struct dt_slurm_facts slurm; /* of the job, on the rank that writes records */
    bool inside;                 /* started by mpirun, srun or torchrun: this process is one rank of all experiments */
    bool verify;
    double until; /* percent: rounds end for an experiment whose sweep_spread is at most this (--until); 0: all are run */
    struct dt_trace_wish trace;
    struct dt_record_file *records; /* NULL on ranks that write none */
    const char *output;             /* its path, "-": standard output */
    struct results *results; /* all records so far, and those of what is skipped: the table at the end; NULL on ranks that write none */
    struct experiment_columns columns;
    struct progress progress;
    struct verify_cache references;
    struct sweep_time time;
    struct execution execution;            /* inside: what the experiment before has left open */
    bool limited;                          /* all ranks: rank 0 looks at the time before each experiment */
    int stop_signal;                       /* what interrupted it; 0: nothing. Inside, all ranks agree */
    struct outcome *outcomes;              /* [count] */
    int *fewest_ranks;                     /* [distinct] scaling.h; NULL: all have as many ranks */
    bool lost;                             /* inside: the ranks have lost each other */
    void (*end_lost)(struct sweep *sweep); /* inside: prints what is known, and ends the process of which a thread hangs */
    bool output_failed;                    /* a record could not be written: the text is in output_error */
    char output_error[1024];
};

/* The experiment of run `index`, written to *out. Returns out. */
const struct experiment *sweep_experiment(const struct sweep *sweep, int index);

/* Run what is not skipped, until the end, an interruption, or an output that takes no more. */
void sweep_run(struct sweep *sweep);

/* The ranks did not find each other, so that nothing can be run: the first experiment that would have run gets a record of the failure. */
void sweep_fail(struct sweep *sweep, dt_status status, const char *error);

/* Tokens per second and rank of the experiment on the fewest ranks (scaling.h); NAN where there is none, or it has not run. */
double sweep_scaling_reference(const struct sweep *sweep, int index);

/* How far the step time of experiment `number` may be off, in percent, from the medians of its first `rounds` rounds: the farther end of the
 * interval of dt_ratio_compare of these rounds with themselves. That interval compares two sides that have `rounds` rounds
 * each, so it is wider than the interval of one side's median. NaN: fewer than three rounds are ok. */
double sweep_spread(const struct sweep *sweep, int number, int rounds);

/* Should this run have run it, and did not? */
bool outcome_is_left(const struct outcome *outcome);

/* The exit code for all outcomes together. */
enum exit_code sweep_exit_code(const struct sweep *sweep);

/* ---- scaling efficiency: how much of the throughput of a rank is left when more ranks train the same model ---- */

/* fewest [experiments]: which of the experiments is like each but for its number of ranks, and has the fewest, the first of several; one rank
 * alone (paradigm none) is like any. -1: all of them have as many. Errors: DT_ERR_HOST_MEMORY. */
dt_status scaling_find(const struct experiment_list *experiments, int *fewest);

/* ---- `dtbench run --resume`: what earlier runs finished ---- */

/* Outcomes other than an ok record that also count as finished. */
struct resume_options {
    bool skip_oom;    /* one that ran out of memory */
    bool skip_failed; /* any other but an interrupted one */
};

/* Mark the experiments of which the file at `path` has a record that is an end as skipped, and learn from the ok ones how long experiments
 * take. A file that is not there has no records. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status resume_find_finished(struct sweep *sweep, const char *path, const struct resume_options *options);

/* Where a launcher put the ranks, held against what the experiments ask of it.
 *
 * A pipeline's stages and an hsdp shard group talk all the time, and are meant to do so over a node's own links. Spread over nodes by an
 * oversight of the launcher's options they measure something else, so that has to be asked for (straddle_nodes). */

enum { NODE_NAME_BYTES = 64 };

struct placement_rank {
    char node[NODE_NAME_BYTES];
    char gpu[48];   /* the uuid of the GPU that it will take; "": none, its device is another */
    int gpus;       /* that it may choose from; 1 also where the launcher gave it one of its own */
    int slurm_gpus; /* that Slurm gave the job on its node; 0: unknown */
};

/* Check experiment `number` (from 1) of `count` on ranks[world_size], the node of each.
 * Ranks with GPUs: each node has enough of them for its ranks, and no two ranks take the same, unless share_gpus allows it.
 * Errors: DT_ERR_INVALID, naming the config's key and what to do. */
dt_status placement_check(const struct experiment *experiment, int number, int count, const struct placement_rank *ranks);

/* The first rank of ranks [size] that sees one GPU while its node has several ranks; -1: none. What a launcher hides with cgroups
 * (--gpus-per-task) NCCL cannot reach over NVLink. */
int placement_hidden_gpus(const struct placement_rank *ranks, int size);

/* The same where dtbench starts all ranks itself, on this machine, each on a GPU of its own. gpus: how many it may use here; -1: its device
 * is another. */
dt_status placement_check_alone(const struct experiment *experiment, int number, int count, int gpus);

/* All ranks of a launcher, before the first step: each sends what it is and where, takes from rank 0 what is to be run, and checks the
 * placement. */

/* Collective. `code` is rank 0's: EXIT_CODE_OK, or why it cannot go on; the others return the same. Only rank 0 has looked at the records
 * and the time: the others take its outcomes[].skipped and `limited`, because a file may look different from another node.
 * Errors: DT_ERR_INVALID when the ranks are not placed as the experiments need it; as dt_comm_create when ranks are missing. */
dt_status rendezvous_check(struct sweep *sweep, enum exit_code *code);

/* Rank 0: a line on standard error where the ranks will meet over TCP without a secret, so that whoever reaches the port may join. */
void rendezvous_note_secret(struct sweep *sweep);

/* ---- more threads than processors: what is done about it before the first step, and what is said ---- */

/* Ranks that a launcher has started begin anew where an experiment has more threads than processors, with threads that sleep while they wait
 * (lib/base/machine.h); ranks that dtbench starts are started so. Returns where there is no need, or it cannot be: the user has set how threads
 * wait, or the config came over standard input. argv: of the command. */
void crowded_begin_anew(const struct sweep *sweep, const char *config, char **argv);

/* A line on standard error about the first experiment that it concerns. */
void crowded_note(const struct sweep *sweep);

/* ---- the tables of a run: what would run, and what has run ---- */

/* The table of experiments, without running any. Errors: DT_ERR_HOST_MEMORY. */
dt_status summary_print_planned(const struct sweep *sweep, FILE *to);

/* What the table of results needs of records: a context for show_wish. */
const struct show_options *summary_options(void);

/* The table of results (show_print), also of what an earlier run has finished, and below it why experiments failed. Errors: DT_ERR_HOST_MEMORY. */
dt_status summary_print(const struct sweep *sweep, FILE *to);

#endif

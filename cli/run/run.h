/* The work of `dtbench run` after its command line is read: checks before the run, experiments one
 * after another, and the tables about them. */
#pragma once

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

/* ---- SIGINT, SIGTERM, SIGHUP (a terminal was closed), and SIGUSR1 (what Slurm's
 * --signal=USR1@120 sends before the time limit): counted, for the functions below ---- */

/* Remember whether the process was started with SIGHUP ignored, as by nohup: that stays. Called before libraries are initialised,
 * which may replace it: UCX, which Open MPI loads, handles SIGHUP itself. */
void signals_begin(void);
/* From now on these signals are counted and do not end the process. */
void signals_install(void);
int signals_count(void);
/* Has one come? As a hook that ends what runs. */
bool signals_came(void *context);
/* Number of the first signal received; 0: none. */
int signals_first(void);
/* The exit code, after this failure, of a command that measures and writes a file. */
enum exit_code signals_exit_code(dt_status status);

/* Output of a run on stderr while it runs: a line for each finished experiment and, on a terminal,
 * a last line that is redrawn. */

struct progress {
    bool live, quiet, drawn;
    int experiments;       /* of the whole run */
    int index;             /* the current one, from 1 */
    char label[192];       /* "ddp, 2 ranks" */
    int steps;             /* warm-up included */
    double units_per_step; /* of all ranks */
    const char *unit;      /* unit of units_per_step: "token" */
    int steps_done;
    double drawn_s;          /* when the line was drawn last, dt_clock_s */
    double begun_s, first_s; /* when the current experiment began, and when its first step was done */
    int left;                /* experiments not finished, including the current one */
    int ended;               /* finished experiments */
    double ended_s;          /* total time of the finished ones */
};

void progress_init(struct progress *progress, int experiments, bool quiet);
/* An experiment begins: the first of `left`. */
void progress_begin_one(struct progress *progress, int left);
void progress_end_one(struct progress *progress);
/* Set what the line names now: an experiment, or a preparation for it. */
void progress_begin(struct progress *progress, int index, const char *label, int steps, double units_per_step, const char *unit);
/* Set the activity before the first step: "starting 2 ranks". */
void progress_phase(struct progress *progress, const char *what);
void progress_step(struct progress *progress, double seconds, double loss);
/* Erase the line, for other output. */
void progress_clear(struct progress *progress);
/* Print one line, unless --quiet. */
void progress_note(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One experiment on this process's rank: its device and communicator. Used by the processes that a
 * supervisor starts (cli/commands/rank.c) and by those that mpirun, srun or torchrun started
 * (run_inside.c). */

struct execution {
    struct dt_device *device;
    struct dt_comm *world;
    struct experiment made_for;
};

/* Create device and world, and describe them in `report`. If *out is open (else it is zeroed) and
 * the experiment needs the same device and world, they are reused, with the communicators made from
 * the world; else they are closed first. Collective over the ranks of `place`. The caller calls
 * execution_close, also after a failure. Errors: as dt_device_create and dt_comm_create. */
dt_status execution_open(const struct experiment *experiment, const struct dt_world *place, struct report *report, struct execution *out);
void execution_close(struct execution *execution);

/* A time limit for library calls that have no limit of their own, enforced by another thread.
 *
 * Open MPI may stay in a call for ever once a peer's machine is gone: its event loop continues as
 * long as a dead connection has an event. Timeouts between calls cannot end that. Ranks that
 * dtbench started have a supervisor for this (lib/launch/launch.h); ranks of a launcher have this
 * watch. */

struct watch {
    pthread_t thread;
    bool running; /* the thread runs */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ended;
    int64_t deadline_ns;            /* 0: none */
    void (*overdue)(void *context); /* does not return */
    void *context;
};

/* From now on `overdue` is called, in another thread, when a limit has passed; it ends the process.
 * The watched thread then blocks in its next call of a function below, so only one of the two
 * threads continues. Without memory for a thread there is no watch. */
void watch_begin(struct watch *watch, void (*overdue)(void *context), void *context);
/* Set the limit for the next operation, because the last one is done. 0: no limit. Takes NULL. */
void watch_limit(struct watch *watch, double seconds);
void watch_end(struct watch *watch);

/* ---- run an experiment on ranks that mpirun, srun or torchrun started: this process is one of
 * them ---- */

/* After the ranks have lost each other, rank 0 has this long to write its record before the other
 * ranks' ends make the launcher end it. */
enum { RANK_0_WRITES_S = 5 };

struct run_inside_hooks {
    struct dt_trace_wish trace; /* trace of one additional step */
    struct progress *progress;
    struct draft *draft; /* NULL: none is kept */
    /* Called in another thread if this rank hangs inside a library, after the report has been set
     * accordingly: it writes the record and ends the process. NULL: no watch. */
    void (*hangs)(void *context);
    void *context;
    /* objects that the previous experiment left open; NULL: none are kept open, before or after
     * this experiment */
    struct execution *execution;
    bool another; /* another experiment follows: keep `execution` open if this one ends well; the same on all ranks, as `execution` */
};

/* Run it. Collective over the ranks of `place`. Fills `report`, which must be initialised. Start
 * and steps are limited by the experiment's timeouts. False: the ranks have lost each other, and no
 * more experiments can run. */
bool run_inside(const struct experiment *experiment, const struct dt_world *place, const struct run_inside_hooks *hooks,
                struct report *report);

/* Gather each rank's `mine` in all [size * bytes], over a communicator for an experiment like this
 * one if it needs MPI, else over TCP. Waits patience_s for the other ranks, 0: without limit, even
 * for a rank whose machine is gone. After a failure the ranks have lost each other. Errors: as
 * dt_comm_create. */
dt_status run_inside_gather(const struct experiment *experiment, const struct dt_world *place, double patience_s, const void *mine,
                            size_t bytes, void *all);

/* Wait until every rank is here. *number becomes the highest of all ranks' numbers. Errors: as
 * above. */
dt_status run_inside_agree(const struct experiment *experiment, const struct dt_world *place, double patience_s, int *number);

/* ---- run an experiment in separate processes, started and supervised by this one ---- */

/* trace: of one additional step. Fills `report`, which must be initialised, with all measurements
 * and the outcome: a crash, a kill and a lack of memory are results too. */
void run_launched(const struct experiment *experiment, struct dt_trace_wish trace, struct progress *progress, struct draft *draft,
                  struct report *report);

/* ---- run an experiment on device sim: in this process, without ranks of its own ---- */

/* Fills `report`, initialised. trace: of one step. */
void run_simulated(const struct experiment *experiment, struct dt_trace_wish trace, struct progress *progress, struct report *report);

/* Describe the simulated machine of an experiment, for its record. */
void run_simulated_describe(const struct experiment *experiment, const struct simulated_file *cluster_file,
                            const struct simulated_file *profile_file, const struct dt_sim_cluster *cluster, struct report *report);

/* ---- is there time for another experiment? Those that would not end in time are left for a later
 * run (--resume) ---- */

struct sweep_time {
    struct forecaster forecaster;        /* learns from experiments that ended well, in this run and earlier ones */
    double end_s;                        /* on dt_clock_s; infinite: no limit */
    bool begun;                          /* an experiment was started */
    bool is_job;                         /* the limit is the job's */
    double (*job_left_s)(void *context); /* asks for the job's remaining time again; NULL: the limit is fixed */
    void *context;
    double asked_s; /* time of the last answer */
};

/* `limit`: seconds from now, as on the command line. NULL: use `job_left_s`, the remaining time of
 * a job (NaN: unknown or no limit), minus two minutes or a tenth of it, whichever is less: this
 * leaves time for the last record, and for a slow step. Errors: DT_ERR_INVALID.
 * The caller calls sweep_time_finish in any case. */
dt_status sweep_time_init(struct sweep_time *time, const char *limit, double job_left_s);
/* A job's limit may change while it runs (scontrol update TimeLimit). `job_left_s` returns its
 * remaining time now; NaN: unknown, and the earlier value is kept. It is called if an experiment
 * would not be started, and the last call was at least a minute ago. No effect if the limit is from
 * the command line, or there is none. */
void sweep_time_follow(struct sweep_time *time, double (*job_left_s)(void *context), void *context);
void sweep_time_finish(struct sweep_time *time);

/* May the experiment start? The first one of a run may, as long as any time is left: otherwise a
 * forecast that is too long could stop a sweep for ever. The others must be expected to end in
 * time, according to the slowest finished one. `why` gets the reason for a refusal. */
bool sweep_time_allows(struct sweep_time *time, const struct experiment *next, char *why, size_t why_bytes);

/* One of several jobs that share a sweep: `--shard K/N`.
 *
 * Method  Experiments are ordered by the floating-point operations of a rank, most first (equals by
 *         their place in the sweep), and dealt to the shards back and forth: 1 2 3 3 2 1 1 2 3.
 *         Every experiment belongs to exactly one shard, the shards' sizes differ by at most one,
 *         and large experiments are spread. The same config gives the same shards everywhere, so a
 *         restarted job has the same shard. */

struct sweep_shard {
    int number, count; /* number from 1 to count, as in an array job's --array=1-N */
};

/* Read "K/N". Errors: DT_ERR_INVALID. */
dt_status sweep_shard_parse(const char *text, struct sweep_shard *out);

/* elsewhere [experiments]: true if the experiment belongs to another shard. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status sweep_shard_select(struct sweep_shard shard, const struct experiment_list *experiments, bool *elsewhere);

/* ---- --verify: compare an experiment's losses with those of one device that does the same work
 * ---- */

struct verify_reference;

struct verify_cache {
    struct verify_reference *first; /* one for each reference config: experiments of a sweep share them */
};

/* The experiment whose losses all divisions of the same work must match: paradigm none, the global
 * batch in world_size micro-batches, the same seed and number of steps. Errors: DT_ERR_INVALID. */
dt_status verify_reference_of(const struct experiment *experiment, struct experiment *out);

/* The reference's report, if it was kept before; NULL: it was not. */
const struct report *verify_find(const struct verify_cache *cache, const struct experiment *reference);
/* Keep `report`: the cache owns its content from now on. Errors: DT_ERR_HOST_MEMORY; the report is
 * then finished. */
dt_status verify_keep(struct verify_cache *cache, const struct experiment *reference, struct report *report);
void verify_finish(struct verify_cache *cache);

/* The reference with slightly different weights, by about one rounding: the growth of its losses'
 * differences shows how fast rounding grows. Errors: DT_ERR_INVALID. */
dt_status verify_shaken(const struct experiment *reference, struct experiment *out);
/* Is the first wrong loss the third or a later one? The growth of rounding may then be the cause;
 * the shaken reference shows if it is. */
bool verify_needs_shaken(const struct report *report, const struct experiment *experiment, const struct report *reference);

/* Compare step by step, and set the report's verification and, on a mismatch, its status and error.
 * shaken: that reference's report; losses are compared as long as those of both references agree.
 * NULL: all losses are compared. */
void verify_compare(struct report *report, const struct experiment *experiment, const struct report *reference,
                    const struct report *shaken);

/* ---- `dtbench run` once its command line is understood: experiments one after another, a record
 * each, a table at the end ---- */

enum { SWEEP_ROUNDS_MOST = 1000, SWEEP_ROUNDS_LEAST = 3 /* with --until; fewer rounds give no interval (dt_ratio_compare) */ };

/* The facts about a run that the table needs. */
struct outcome {
    bool run;       /* false: not yet run, or never */
    bool skipped;   /* a record of it exists (--resume) */
    bool elsewhere; /* belongs to another shard (--shard) */
    bool late;      /* would not end in time */
    bool settled;   /* earlier rounds were enough (--until) */
    dt_status status;
    char error[1024];
    int row; /* row of its record in the results; -1: none */
    struct dt_metrics metrics;
    double first_loss, last_loss; /* NaN: unknown */
};

struct sweep {
    const struct experiment_list *experiments;
    int distinct;                   /* number of different experiments */
    int count;                      /* number of runs: all experiments in sequence, repeated in each round (--repeat) */
    struct sweep_identity identity; /* identity in the records */
    struct dt_world world;
    struct dt_slurm_facts slurm; /* of the job; set on the rank that writes records */
    bool inside;                 /* started by mpirun, srun or torchrun: this process is one rank of all experiments */
    bool verify;
    double until; /* percent: rounds end for an experiment whose sweep_spread is at most this (--until); 0: all are run */
    struct dt_trace_wish trace;
    struct dt_record_file *records; /* NULL on ranks that do not write records */
    const char *output;             /* its path, "-": standard output */
    /* all records so far, and those of skipped experiments: for the table at the end; NULL on ranks
     * that do not write records */
    struct results *results;
    struct experiment_columns columns;
    struct progress progress;
    struct verify_cache references;
    struct sweep_time time;
    struct execution execution;            /* inside: objects that the previous experiment left open */
    bool limited;                          /* on all ranks: rank 0 checks the time before each experiment */
    int stop_signal;                       /* signal that interrupted the sweep; 0: none. Inside, all ranks agree on it */
    struct outcome *outcomes;              /* [count] */
    int *fewest_ranks;                     /* [distinct] see scaling_find; NULL: all have the same number of ranks */
    bool lost;                             /* inside: the ranks have lost each other */
    void (*end_lost)(struct sweep *sweep); /* inside: prints the results so far, and ends the process, in which a thread hangs */
    bool output_failed;                    /* a record could not be written: the text is in output_error */
    char output_error[1024];
};

/* The experiment of run `index`, written to *out. Returns out. */
const struct experiment *sweep_experiment(const struct sweep *sweep, int index);

/* Run all experiments that are not skipped, until the end, an interruption, or a failure to write a
 * record. */
void sweep_run(struct sweep *sweep);

/* The ranks did not find each other, so nothing can run: the first experiment that would have run
 * gets a record of the failure. */
void sweep_fail(struct sweep *sweep, dt_status status, const char *error);

/* Tokens per second and rank of the experiment on the fewest ranks (scaling_find); NAN if there is
 * none, or it has not run. */
double sweep_scaling_reference(const struct sweep *sweep, int index);

/* How far the step time of experiment `number` may be off, in percent, from the medians of its
 * first `rounds` rounds: the farther end of the interval of dt_ratio_compare of these rounds with
 * themselves. That interval compares two sides that have `rounds` rounds each, so it is wider than
 * the interval of one side's median. NaN: fewer than three rounds are ok. */
double sweep_spread(const struct sweep *sweep, int number, int rounds);

/* Should this run have run it, but did not? */
bool outcome_is_left(const struct outcome *outcome);

/* The exit code for all outcomes together. */
enum exit_code sweep_exit_code(const struct sweep *sweep);

/* ---- scaling efficiency: the part of a rank's throughput that remains when more ranks train the
 * same model ---- */

/* fewest [experiments]: index of the experiment that differs only in its number of ranks, and has
 * the fewest, the first if there are several; a single rank (paradigm none) matches any. -1: all
 * have the same number. Errors: DT_ERR_HOST_MEMORY. */
dt_status scaling_find(const struct experiment_list *experiments, int *fewest);

/* ---- `dtbench run --resume`: what earlier runs finished ---- */

/* Outcomes other than an ok record that also count as finished. */
struct resume_options {
    bool skip_oom;    /* those that ran out of memory */
    bool skip_failed; /* any others except interrupted ones */
};

/* Mark experiments as skipped if the file at `path` has a record that finishes them, and learn from
 * the ok ones how long experiments take. A missing file has no records. Errors: DT_ERR_IO,
 * DT_ERR_HOST_MEMORY. */
dt_status resume_find_finished(struct sweep *sweep, const char *path, const struct resume_options *options);

/* Compares the launcher's placement of the ranks with the experiments' requirements.
 *
 * A pipeline's stages and an hsdp shard group communicate all the time, and are meant to do so over
 * a node's own links. If they are spread over nodes because of wrong launcher options, they measure
 * something else, so this must be requested (straddle_nodes). */

enum { NODE_NAME_BYTES = 64 };

struct placement_rank {
    char node[NODE_NAME_BYTES];
    char gpu[48];   /* uuid of the GPU that it will take; "": its device is not a GPU */
    int gpus;       /* GPUs that it may choose from; 1 also if the launcher gave it its own */
    int slurm_gpus; /* GPUs that Slurm gave the job on its node; 0: unknown */
};

/* Check experiment `number` (from 1) of `count` with ranks[world_size], which have each rank's
 * node. Ranks with GPUs: each node has enough GPUs for its ranks, and no two ranks take the same
 * one, unless share_gpus allows it. Errors: DT_ERR_INVALID, naming the config's key and what to
 * do. */
dt_status placement_check(const struct experiment *experiment, int number, int count, const struct placement_rank *ranks);

/* The first rank of ranks [size] that sees one GPU although its node has several ranks; -1: none.
 * If a launcher hides GPUs with cgroups (--gpus-per-task), NCCL cannot reach them over NVLink. */
int placement_hidden_gpus(const struct placement_rank *ranks, int size);

/* The same if dtbench itself starts all ranks, on this machine, each with its own GPU. gpus: number
 * that it may use here; -1: its device is not a GPU. */
dt_status placement_check_alone(const struct experiment *experiment, int number, int count, int gpus);

/* Ranks of a launcher, before the first step: each sends its identity and place, receives the list
 * of runs from rank 0, and checks the placement. */

/* Collective. `code` is rank 0's: EXIT_CODE_OK, or the reason why it cannot continue; the others
 * return the same. Only rank 0 has read the records and the time limit: the others take its
 * outcomes[].skipped and `limited`, because a file may look different on another node. Errors:
 * DT_ERR_INVALID if the placement of the ranks does not fit the experiments; as dt_comm_create if
 * ranks are missing. */
dt_status rendezvous_check(struct sweep *sweep, enum exit_code *code);

/* Rank 0: warn on standard error if the ranks will meet over TCP without a secret, so that any
 * process that reaches the port may join. */
void rendezvous_note_secret(struct sweep *sweep);

/* ---- more threads than processors: countermeasures before the first step, and the warning ---- */

/* If an experiment has more threads than processors, ranks of a launcher execute this program
 * again, with threads that sleep while they wait (lib/base/machine.h); ranks that dtbench starts
 * are started in this way. Returns if this is not necessary, or not possible: the user has set how
 * threads wait, or the config came over standard input. argv: of the command. */
void crowded_begin_anew(const struct sweep *sweep, const char *config, char **argv);

/* Print a line to standard error about the first experiment concerned. */
void crowded_note(const struct sweep *sweep);

/* ---- the tables of a run: planned and finished experiments ---- */

/* The table of experiments, without running any. Errors: DT_ERR_HOST_MEMORY. */
dt_status summary_print_planned(const struct sweep *sweep, FILE *to);

/* The values of records that the table of results needs: a context for show_wish. */
const struct show_options *summary_options(void);

/* Print the table of results (show_print), including experiments that an earlier run finished, and
 * below it why experiments failed. Errors: DT_ERR_HOST_MEMORY. */
dt_status summary_print(const struct sweep *sweep, FILE *to);

/* `dtbench run` once its command line is understood: experiments one after another, a record each, a table at the end. */
#ifndef CLI_RUN_SWEEP_H
#define CLI_RUN_SWEEP_H

#include "cli/records/draft.h"
#include "cli/records/sweep_identity.h"
#include "cli/run/progress.h"
#include "cli/run/sweep_time.h"
#include "cli/run/verify.h"
#include "cli/text/exit_code.h"
#include "cli/text/experiment_columns.h"
#include "lib/launch/world.h"
#include "lib/record/record.h"
#include "lib/slurm/facts.h"

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
    bool verified;
    double verification_error;
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
    struct experiment_columns columns;
    struct progress progress;
    struct verify_cache references;
    struct sweep_time time;
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
const struct experiment *sweep_experiment(const struct sweep *sweep, int index, struct experiment *out);

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

#endif

/* Train one experiment on this rank: build, warm up, time, measure. */
#ifndef SCHEDULES_RUN_MEASURE_H
#define SCHEDULES_RUN_MEASURE_H

#include "lib/comm/comm.h"
#include "lib/device/device.h"
#include "lib/device/trace.h"
#include "lib/record/metrics.h"
#include "schedules/config/experiment.h"
#include "schedules/run/training_time.h"
#include "schedules/run/tuning.h"

/* What is reported to the caller during a run, and what it is asked. Entries may be NULL. */
struct measure_hooks {
    void *context;
    /* This rank has built and initialised everything, startup_s after measure_run's start; the first step comes next. */
    void (*ready)(void *context, double startup_s);
    /* After every step; they count from 0, warm-up included. Loss is the global batch's; NaN where this rank has none. */
    void (*step_done)(void *context, int step, double seconds, double loss);
    /* Asked between steps; all ranks stop together after the step in which any says true: DT_ERR_INTERRUPTED. */
    bool (*stop_requested)(void *context);
    /* A trace of one more step, which is run after the timed ones and counts nowhere (schedules/run/step_trace.h). */
    struct dt_trace_wish trace;
};

struct measure_result {
    int steps_done; /* timed steps that every rank finished */
    double *step_s; /* [timed] the slowest rank's time of each step */
    double *losses; /* [losses_done] the global batch's mean loss of each step, warm-up included, the same on all ranks */
    int losses_done;
    double *gradient_norms;         /* [losses_done] of the same steps; NULL: nobody asked for them */
    double *loss_scales;            /* the same */
    int first_step;                 /* how many steps the runs have made with which this one goes on */
    double warmup_s;                /* spent in warm-up steps by the slowest rank of each */
    struct dt_metrics metrics;      /* what the ranks measure; what follows from it (report_measure) is unknown */
    bool together;                  /* it failed on every rank alike and with no work under way: they may go on with something else */
    char graph[256];                /* trainer_graph's, of this rank; "": no graphs, or unknown */
    char *conditions;               /* of the ranks' GPUs, rank_conditions_gather's; NULL: unknown */
    char doubts[512];               /* why this may not be what the machine can do (doubts.h); "": nothing is known against it */
    char products[16];              /* trainer_products', of this rank; "": no choice, or unknown */
    struct dt_comm_network network; /* of a GPU run that came to its end; "": unknown */
    struct tuning_facts tuning;     /* of a run that came to its end */
    double *compute_s;              /* [rank_count] of a predicted step: what each rank computes in it; NULL: unknown */
    struct storage_times storage;   /* of a prediction */
    int rank_count;
    struct dt_rank_memory *ranks; /* [rank_count] */
};

/* Run on every rank of `world`. result is filled on every rank (partly, on failure: what was measured stands); owner: the caller, who
 * calls measure_result_finish also after a failure.
 * Errors: DT_ERR_OOM (agreed between the ranks before anything is allocated where the limit tells it, so that no rank hangs),
 * DT_ERR_INTERRUPTED, DT_ERR_TIMEOUT, DT_ERR_COMM, DT_ERR_INVALID, DT_ERR_DEVICE. */
dt_status measure_run(const struct experiment *experiment, struct dt_device *device, struct dt_comm *world,
                      const struct measure_hooks *hooks, struct measure_result *result);
/* Whether all ranks have come to this end, so that they can go on together. Else some may be gone or hang, and what waits for the device
 * may wait for ever: measure_run has then left its trainer as it is, and the process reports its failure and ends (_exit). */
bool measure_ended_together(dt_status status, const struct measure_result *result);
/* Keep one more step, in which the slowest rank spent `seconds`: a warm-up step or a timed one. Errors: DT_ERR_HOST_MEMORY. */
dt_status measure_result_add_step(struct measure_result *result, const struct experiment *experiment, double seconds, double loss);
/* Whether the next step is a timed one: the same on all ranks, as what they know of the steps before is. */
bool measure_is_warm(const struct measure_result *result, const struct experiment *experiment);
void measure_result_finish(struct measure_result *result);

#endif

/* Train one experiment on this rank: build, warm up, time, measure. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/device/device.h"
#include "lib/device/trace.h"
#include "lib/record/metrics.h"
#include "schedules/config/experiment.h"
#include "schedules/run/training_time.h"
#include "schedules/run/tuning.h"

/* Calls to the caller during a run. Entries may be NULL. */
struct measure_hooks {
    void *context;
    /* This rank has initialised everything, startup_s after measure_run began; the first step
     * follows. */
    void (*ready)(void *context, double startup_s);
    /* After every step; steps count from 0, warm-up included. Loss is the global batch's; NaN if
     * this rank has none. */
    void (*step_done)(void *context, int step, double seconds, double loss);
    /* Asked between steps. All ranks stop together after a step in which any call returns true:
     * DT_ERR_INTERRUPTED. */
    bool (*stop_requested)(void *context);
    /* A trace of one more step, which runs after the timed ones and is not counted
     * (schedules/run/step_trace.h). */
    struct dt_trace_wish trace;
};

struct measure_result {
    int steps_done; /* timed steps that every rank finished */
    double *step_s; /* [timed] the slowest rank's time of each step */
    double *losses; /* [losses_done] the global batch's mean loss of each step, warm-up included, the same on all ranks */
    int losses_done;
    double *gradient_norms;         /* [losses_done] of the same steps; NULL: not requested */
    double *loss_scales;            /* [losses_done] of the same steps; NULL: not requested */
    int first_step;                 /* number of steps in the runs that this run continues */
    double warmup_s;                /* time of the warm-up steps, each on its slowest rank */
    struct dt_metrics metrics;      /* what the ranks measure; report_measure computes the rest */
    bool together;                  /* it failed in the same way on all ranks, with no work under way: they can go on with something else */
    char graph[256];                /* this rank's trainer_graph; "": no graphs, or unknown */
    char *conditions;               /* from rank_conditions_gather; NULL: unknown */
    char doubts[512];               /* why this may not be what the machine can do (doubts.h); "": no doubts */
    char products[16];              /* this rank's trainer_products; "": no choice, or unknown */
    char hopper[64];                /* this rank's trainer_trials; "": no kernel, or unknown */
    struct dt_comm_network network; /* of a GPU run that was completed; "": unknown */
    struct tuning_facts tuning;     /* of a run that was completed */
    double *compute_s;              /* [rank_count] of a predicted step: each rank's time of computation; NULL: unknown */
    struct storage_times storage;   /* of a prediction */
    int rank_count;
    struct dt_rank_memory *ranks; /* [rank_count] */
};

/* Run on every rank of `world`. result is filled on every rank (after a failure with what was
 * measured); owner: the caller, who calls measure_result_finish also after a failure. Errors:
 * DT_ERR_OOM (if predicted, agreed between the ranks before anything is allocated, so that no rank
 * hangs), DT_ERR_INTERRUPTED, DT_ERR_TIMEOUT, DT_ERR_COMM, DT_ERR_INVALID, DT_ERR_DEVICE. */
dt_status measure_run(const struct experiment *experiment, struct dt_device *device, struct dt_comm *world,
                      const struct measure_hooks *hooks, struct measure_result *result);
/* Whether all ranks ended in this way, so that they can go on together. Otherwise some may be gone
 * or hang, and waiting for the device might never end: measure_run has then left its trainer as it
 * is, and the process reports its failure and ends (_exit). */
bool measure_ended_together(dt_status status, const struct measure_result *result);
/* Record one more step, which took the slowest rank `seconds`: a warm-up step or a timed one.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status measure_result_add_step(struct measure_result *result, const struct experiment *experiment, double seconds, double loss);
void measure_result_finish(struct measure_result *result);

/* Facts about an experiment without running it: `dtbench check`, with --plan and --times. */
#pragma once

#include "lib/record/metrics.h"
#include "predict/simulated_system.h"
#include "schedules/config/experiment_list.h"
#include "schedules/plan/plan.h"
#include "schedules/step/step_traffic.h"

#include <stdio.h>

/* ---- the results of `dtbench check` for an experiment ---- */

enum { CHECK_NOTES = 12 };

/* The cost of a pipeline's order, by the order's source; for zb_auto and files, by playing them
 * with equal times. */
struct check_pipeline {
    int stages;      /* 0: no pipeline */
    double *kept;    /* [stages] micro-batches whose activations a rank keeps, at most */
    double bubble;   /* part of a step's time that the busiest rank waits, if forward and both halves of backward take equal times */
    bool by_source;  /* these are closed forms of the source */
    char tried[128]; /* how the order was searched; "": it was not */
    struct check_stage *ranks; /* [stages] each stage's part of the model */
};

/* One rank of a pipeline; with tensor parallelism the ranks that share its layers. */
struct check_stage {
    char layers[256]; /* "embedding, blocks 0 to 5"; several parts are separated by " | " */
    uint64_t parameters;
    double flops_per_step;
    double compute_s;              /* its predicted time of computation in a step; NAN: unknown */
    int rank;                      /* in the world, one of those at this place in a pipeline */
    struct dt_memory_bytes device; /* its predicted memory on the device */
};

struct check {
    uint64_t parameters, units_per_step;
    double flops_per_step;
    int rank, host_rank;          /* the ranks that need the most device memory, and host memory */
    struct dt_memory_usage usage; /* their bytes */
    bool fits;                    /* false: it would run out of memory; a note says which */
    double step_s;                /* predicted, on device sim or with a calibration of this machine; NAN: unknown */
    struct dt_metrics training;   /* if step_s is known: training_s and its parts */
    struct check_pipeline pipeline;
    struct step_traffic traffic; /* in closed form, of the rank with the most of each */
    char *notes[CHECK_NOTES];    /* [note_count] */
    int note_count;
};

/* last: on device sim, the previous experiment's machine, which is replaced by this one's. A
 * calibration is cluster.json, with its profile, in the config's folder or in the current
 * directory, if it was made on this machine's processor. Errors: as memory_fit_predict; call
 * check_finish also then. */
dt_status check_experiment(const struct experiment *experiment, struct simulated_machine *last, struct check *out);
void check_finish(struct check *check);
/* Copy the check of an experiment with the same predictions (experiment_predicted_alike). Errors:
 * DT_ERR_HOST_MEMORY; call check_finish also then. */
dt_status check_copy(const struct check *from, struct check *out);

/* Print all checks as a JSON array on `to`. Errors: DT_ERR_HOST_MEMORY. */
dt_status check_print_json(const struct experiment_list *experiments, const struct check *checks, FILE *to);

/* ---- `dtbench check --plan`: what every rank does in a step ---- */

/* Print one line of letters for each rank of one pipeline, time to the right; other pipelines do
 * the same. With one stage a column is an action; with several it is the time of a forward pass, so
 * that the bubble shows. Lines are at most `width` columns long; a note says what was left out.
 * Errors: DT_ERR_HOST_MEMORY, DT_ERR_INVALID where the order does not fit. */
dt_status plan_print(const struct experiment *experiment, int width, FILE *to);

/* Print all actions of the experiments' plans: an array with an object for each experiment. Errors:
 * as plan_print. */
dt_status plan_print_json(const struct experiment_list *experiments, FILE *to);

/* Play a pipeline's order with the times of its shape: how long each rank takes, and what it keeps.
 * ranks, kept [stages]. Errors: as plans_make. */
struct experiment_order;
dt_status plan_play_order(const struct experiment_order *order, struct rank_time *ranks, struct plan_kept *kept);

/* ---- `dtbench check --plan --times`: how long a pipeline takes if its passes take given times,
 * independent of model and device ---- */

/* "forward=MS,backward_input=MS,backward_weight=MS,send=MS": milliseconds of a micro-batch's passes
 * through a whole rank, and of a message. Errors: DT_ERR_INVALID. */
dt_status plan_parse_times(const char *text, struct plan_times *out);

/* Print how long a pipeline's step takes, and how long each rank waits in it, if its passes take
 * these times; zb_auto's order is searched for these times. The model does not matter: an
 * experiment may have more stages than layers (passes_only). Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_print_times(const struct experiment *experiment, const struct plan_times *times, FILE *to);

/* The same as JSON: an object with "plan" for one experiment, an array of them for several. */
dt_status plan_print_times_json(const struct experiment_list *experiments, const struct plan_times *times, FILE *to);

/* Print a calibration's measurements: rates of products and copies with their ceilings, and time
 * and bandwidths of each collective. Errors: DT_ERR_HOST_MEMORY. */
struct calibration;
dt_status calibration_print(const struct calibration *calibration, FILE *to);
/* Predict the collectives that a bench measures, each alone on a described cluster, among its first
 * `ranks` GPUs; they are appended to *out. Errors: of the cluster's file, DT_ERR_INVALID if the
 * cluster is too small, DT_ERR_HOST_MEMORY. */
struct calibration_request;
dt_status calibration_predict(const struct calibration_request *request, const char *cluster, int ranks, struct calibration *out);
/* Print the collectives alone, by size, and their times with a concurrent product if that was
 * measured. Errors: DT_ERR_HOST_MEMORY. */
dt_status calibration_print_collectives(const struct calibration *calibration, FILE *to);

/* Say on standard error which columns of tables of measured rates nothing is made of. rates,
 * directory: of an experiment; NULL or "": none. What cannot be read is told by what predicts with
 * it. */
void rates_note(const char *rates, const char *directory);

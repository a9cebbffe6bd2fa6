/* What is known of an experiment without running it: `dtbench check`, with --plan and --times. */
#ifndef CLI_PREDICT_PREDICT_H
#define CLI_PREDICT_PREDICT_H

#include "lib/record/metrics.h"
#include "predict/simulated_system.h"
#include "schedules/config/experiment_list.h"
#include "schedules/plan/plan.h"
#include "schedules/step/step_traffic.h"

#include <stdio.h>

/* ---- what `dtbench check` finds out about an experiment ---- */

enum { CHECK_NOTES = 6 };

/* What the order of a pipeline costs, by its source; of zb_auto and files, by playing them with equal times. */
struct check_pipeline {
    int stages;      /* 0: no pipeline */
    double *kept;    /* [stages] micro-batches whose activations a rank keeps, at most */
    double bubble;   /* part of a step's time in which the busiest rank waits, where forward and both halves of backward take as long */
    bool by_source;  /* a closed form */
    char tried[128]; /* what was tried to find the order; "": nothing */
    struct check_stage *ranks; /* [stages] what each has of the model */
};

/* One rank of a pipeline; with tensor parallelism those that share its layers. */
struct check_stage {
    char layers[256]; /* "embedding, blocks 0 to 5"; of several parts with " | " between them */
    uint64_t parameters;
    double flops_per_step;
    double compute_s;              /* what it computes in a step, predicted; NAN: unknown */
    int rank;                      /* of the world, one of those at this place in a pipeline */
    struct dt_memory_bytes device; /* its memory there, predicted */
};

struct check {
    uint64_t parameters, units_per_step;
    double flops_per_step;
    int rank, host_rank;          /* the ones that need the most of the device's memory, and of the host's */
    struct dt_memory_usage usage; /* their bytes */
    bool fits;                    /* false: it would run out of memory; a note says where */
    double step_s;                /* predicted, on device sim or with a calibration of this machine; NAN */
    struct dt_metrics training;   /* where step_s is known: training_s and its parts */
    struct check_pipeline pipeline;
    struct step_traffic traffic; /* in closed form, of the rank that has the most of each */
    char *notes[CHECK_NOTES];    /* [note_count] */
    int note_count;
};

/* last: the machine of the experiment before, on device sim; this one's then. A calibration is cluster.json, with its profile, beside the config or in the current directory, if it is of this machine's processor.
 * Errors: as memory_fit_predict; finish it also then. */
dt_status check_experiment(const struct experiment *experiment, struct simulated_machine *last, struct check *out);
void check_finish(struct check *check);
/* The check of an experiment that is predicted like one that has been checked (experiment_predicted_alike). Errors: DT_ERR_HOST_MEMORY; finish
 * it also then. */
dt_status check_copy(const struct check *from, struct check *out);

/* All of it as JSON on `to`, an array. Errors: DT_ERR_HOST_MEMORY. */
dt_status check_print_json(const struct experiment_list *experiments, const struct check *checks, FILE *to);

/* ---- `dtbench check --plan`: what every rank does in a step ---- */

/* One line of letters for each rank of a pipeline, time to the right; the same ranks of other pipelines do the same. With one stage a column
 * is an action; with several it is the time of a forward pass, so that the bubble shows. Lines are at most `width` columns long; a note says
 * what was cut. Errors: DT_ERR_HOST_MEMORY, DT_ERR_INVALID where the order does not fit. */
dt_status plan_print(const struct experiment *experiment, int width, FILE *to);

/* All actions of the experiments' plans, an array with an object for each experiment. Errors: as plan_print. */
dt_status plan_print_json(const struct experiment_list *experiments, FILE *to);

/* ---- `dtbench check --plan --times`: how long a pipeline's passes take with given times, whatever the model and the device ---- */

/* "forward=MS,backward_input=MS,backward_weight=MS,send=MS": of a micro-batch through a whole rank, and of a message. Errors:
 * DT_ERR_INVALID, with what is wrong. */
dt_status plan_parse_times(const char *text, struct plan_times *out);

/* Print how long a pipeline's step takes, and how long each rank waits in it, when its passes take these times, for which zb_auto's order is
 * searched. The model is not asked: an experiment may have more stages than layers (passes_only). Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_print_times(const struct experiment *experiment, const struct plan_times *times, FILE *to);

/* The same: an object with "plan" for one experiment, an array of them for several. */
dt_status plan_print_times_json(const struct experiment_list *experiments, const struct plan_times *times, FILE *to);

/* Print what a calibration has measured: rates of products and copies beside the known ceilings, and the time and the bandwidths of each
 * collective. Errors: DT_ERR_HOST_MEMORY. */
struct calibration;
dt_status calibration_print(const struct calibration *calibration, FILE *to);
/* The same collectives as a bench measures, each alone on a described cluster, among its first `ranks` GPUs; appended to *out. Errors: of the cluster's
 * file, DT_ERR_INVALID where it is too small, DT_ERR_HOST_MEMORY. */
struct calibration_request;
dt_status calibration_predict(const struct calibration_request *request, const char *cluster, int ranks, struct calibration *out);
/* Print the collectives alone, by size, and their times while a product was computed where that was measured. Errors: DT_ERR_HOST_MEMORY. */
dt_status calibration_print_collectives(const struct calibration *calibration, FILE *to);

#endif

/* An experiment on a described cluster: every rank's schedule is run once on the sim device, recorded, and replayed in virtual time. */
#ifndef PREDICT_SIMULATION_H
#define PREDICT_SIMULATION_H

#include "predict/simulated_system.h"
#include "schedules/run/measure.h"
#include "schedules/step/step_traffic.h"

/* Predict the experiment: fills *result as measure_run does, with the bytes of every rank and the predicted times; there are no losses and
 * no start-up time. Steps end with a barrier and are all alike, so no more than two are recorded, and one is replayed where the second does
 * the same as the first. Hooks as in measure_run; the trace is of the last step. Owner: the caller, measure_result_finish also
 * after a failure. Errors: DT_ERR_OOM where a rank does not fit (all bytes are in the result), DT_ERR_COMM where
 * the ranks wait for each other for ever, DT_ERR_INTERRUPTED, DT_ERR_IO of the trace, DT_ERR_HOST_MEMORY. */
dt_status simulation_run(const struct experiment *experiment, const struct simulated_system *system, const struct measure_hooks *hooks,
                         struct measure_result *result);

/* The same to within rounding, and faster: ranks that do the same on other nodes stand for each other (predict/symmetry.h). No
 * trace. */
dt_status simulation_run_symmetric(const struct experiment *experiment, const struct simulated_system *system,
                                   const struct measure_hooks *hooks, struct measure_result *result);

/* Make it a step of `few` of its micro-batches, each as large as they are, and settle it. False, and as it was, where it has no more than that, or
 * these are no whole samples. */
bool simulation_take_few(struct experiment *experiment, int few);

/* The last step's time as simulation_run_symmetric's, sooner: a step of many micro-batches is told by three of few, if each further one takes as long as
 * the one before; only what a host does later on, when its queue has filled up, is not seen. What else is in the result is the longest one's of these. Other
 * steps, short ones, and orders that fill and drain several times a step are simulated whole. Errors: as simulation_run. */
dt_status simulation_run_brief(const struct experiment *experiment, const struct simulated_system *system,
                               const struct measure_hooks *hooks, struct measure_result *result);

/* As memory_fit_predict, with what the system's profile adds and changes in the schedule. */
dt_status simulation_predict_memory(const struct experiment *experiment, const struct simulated_system *system, int rank,
                                    struct dt_memory_usage *out, struct step_traffic *traffic);

/* The same, given up as soon as the device holds more than most_bytes: *fits is then false, and *out what it held by then. */
dt_status simulation_fits(const struct experiment *experiment, const struct simulated_system *system, int rank, double most_bytes,
                          bool *fits, struct dt_memory_usage *out);

/* ---- what one rank computes and holds in a step by itself: the part of a prediction that needs no replay ---- */

struct simulated_work {
    double compute_s; /* of the compute stream's kernels together, at their own pace */
    double forward_s; /* of them, what belongs to forward */
    double host_s;    /* of the host, to issue everything */
    struct dt_memory_usage memory;
};

/* Record the first step of `rank`, as the system's framework does it. Errors: as trainer_create and trainer_step. */
dt_status simulated_work_record(const struct experiment *experiment, const struct simulated_system *system, int rank,
                                struct simulated_work *out);

#endif

/* An experiment on a described cluster: every rank's schedule is run once on the sim device,
 * recorded, and replayed in virtual time. */
#pragma once

#include "predict/simulated_system.h"
#include "schedules/run/measure.h"
#include "schedules/step/step_traffic.h"

/* Predict the experiment: fills *result as measure_run does, with the bytes of every rank and the
 * predicted times; there are no losses and no start-up time. Steps end with a barrier and are
 * alike, so at most two are recorded, and only one is replayed if both are the same. Hooks as in
 * measure_run; the trace is of the last step. Owner: the caller, measure_result_finish also after a
 * failure. Errors: DT_ERR_OOM if a rank does not fit (all bytes are in the result), DT_ERR_COMM if
 * the ranks deadlock, DT_ERR_INTERRUPTED, DT_ERR_IO of the trace, DT_ERR_HOST_MEMORY. */
dt_status simulation_run(const struct experiment *experiment, const struct simulated_system *system, const struct measure_hooks *hooks,
                         struct measure_result *result);

/* The same up to rounding, and faster: of ranks that do the same on other nodes only one is
 * simulated (predict/symmetry.h). No trace. */
dt_status simulation_run_symmetric(const struct experiment *experiment, const struct simulated_system *system,
                                   const struct measure_hooks *hooks, struct measure_result *result);

/* Reduce the experiment's step to `few` micro-batches of the same size, and settle it. False, and
 * unchanged, if it has no more than that, or micro-batches are not whole samples. */
bool simulation_take_few(struct experiment *experiment, int few);

/* The last step's time of simulation_run_symmetric, faster: a step of many micro-batches is
 * extrapolated from three steps of few, if each further micro-batch takes the same time. The method
 * does not notice if the host's queue fills up only later. The other results are those of the
 * longest of the three. Short steps, and orders that fill and drain several times a step, are
 * simulated whole. Errors: as simulation_run. */
dt_status simulation_run_brief(const struct experiment *experiment, const struct simulated_system *system,
                               const struct measure_hooks *hooks, struct measure_result *result);

/* Faster still, and approximate: the last step's time from two steps of two and three
 * micro-batches, in which a pipeline is never full. It shows how much a step changes with a
 * profile's constants. Orders that fill and drain several times a step are simulated whole. Errors:
 * as simulation_run. */
dt_status simulation_run_coarse(const struct experiment *experiment, const struct simulated_system *system,
                                const struct measure_hooks *hooks, struct measure_result *result);

/* As memory_fit_predict, with the memory and the changes of the schedule from the system's
 * profile. */
dt_status simulation_predict_memory(const struct experiment *experiment, const struct simulated_system *system, int rank,
                                    struct dt_memory_usage *out, struct step_traffic *traffic);

/* The same, ended as soon as the device holds more than most_bytes: *fits is then false, and *out
 * has the memory so far. */
dt_status simulation_fits(const struct experiment *experiment, const struct simulated_system *system, int rank, double most_bytes,
                          bool *fits, struct dt_memory_usage *out);

/* ---- what one rank computes and holds in a step: the part of a prediction that needs no replay
 * ---- */

struct simulated_work {
    double compute_s; /* of all kernels on the compute stream, without waits */
    double forward_s; /* the part of forward */
    double host_s;    /* of the host, to issue all work */
    struct dt_memory_usage memory;
};

/* Record the first step of `rank` with the system's framework. Errors: as trainer_create and
 * trainer_step. */
dt_status simulated_work_record(const struct experiment *experiment, const struct simulated_system *system, int rank,
                                struct simulated_work *out);

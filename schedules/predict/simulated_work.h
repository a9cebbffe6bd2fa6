/* What one rank computes and holds in a step, when nobody else is there: the part of a prediction that needs no replay. */
#ifndef SCHEDULES_PREDICT_SIMULATED_WORK_H
#define SCHEDULES_PREDICT_SIMULATED_WORK_H

#include "lib/device/memory.h"
#include "schedules/predict/simulated_system.h"

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

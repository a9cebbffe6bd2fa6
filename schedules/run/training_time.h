/* The predicted time of a whole training: its steps, and the time that storage adds. The start of
 * processes is not predicted. */
#pragma once

#include "lib/record/metrics.h"
#include "schedules/config/experiment.h"

/* Seconds of one operation of each kind; 0 if the experiment has none. */
struct storage_times {
    double load_s;  /* of checkpoint.from */
    double copy_s;  /* copying to host memory, on the rank that saves most */
    double beside;  /* the part of the next step that hides this copy */
    double write_s; /* writing all files of a save */
    double save_s;  /* a save that steps wait for: if parameters are on a device, copying and writing alternate */
    double read_s;  /* reading the samples of a step */
};

/* Whether the training begins with a checkpoint; for "auto" this is not known in advance. */
bool training_loads(const struct experiment *experiment);

/* How long a step of step_s waits for its samples, which are read one step ahead. */
double storage_wait_s(const struct storage_times *times, double step_s);

/* The times of a training of `steps` steps that take steps_s in all, waiting for data included:
 * training_s, steps_s, load_s, save_s and saves, as a run measures them, and checkpoint_bytes. An
 * asynchronous save delays the steps by the part of its copy that the next step does not hide, and
 * by the rest of the previous save; the last save delays them by its whole time. Times of what is
 * not loaded or saved are unknown. */
void training_time_predict(const struct experiment *experiment, const struct storage_times *times, double steps, double steps_s,
                           struct dt_metrics *out);

/* How long a whole training takes, where it is predicted: its steps, and what storage adds to them. Starting processes is not predicted. */
#ifndef SCHEDULES_RUN_TRAINING_TIME_H
#define SCHEDULES_RUN_TRAINING_TIME_H

#include "lib/record/metrics.h"
#include "schedules/config/experiment.h"

/* Seconds of one of each; 0 where the experiment has none. */
struct storage_times {
    double load_s;  /* of checkpoint.from */
    double copy_s;  /* what the rank that saves most copies to host memory */
    double beside;  /* in how much of the next step that copy is hidden */
    double write_s; /* all files of a save */
    double save_s;  /* a save that steps wait for: where parameters are on a device, copying and writing alternate */
    double read_s;  /* the samples of a step */
};

/* Whether it begins with a checkpoint: of "auto" that is not known before. */
bool training_loads(const struct experiment *experiment);

/* How long a step of step_s waits for its samples, which are read a step ahead. */
double storage_wait_s(const struct storage_times *times, double step_s);

/* The times of a training of `steps` steps that take steps_s in all, waiting for data included: training_s, steps_s, load_s, save_s and
 * saves, as a run measures them, and checkpoint_bytes. An asynchronous save stops the steps for what the next one
 * does not hide of its copy, and for what is left of the save before; the last save stops them for all of it. What is not loaded or saved is unknown. */
void training_time_predict(const struct experiment *experiment, const struct storage_times *times, double steps, double steps_s,
                           struct dt_metrics *out);

#endif

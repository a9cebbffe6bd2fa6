/* The checkpoints of a run: with which one it goes on, and after which steps it saves others. */
#ifndef SCHEDULES_RUN_RUN_CHECKPOINTS_H
#define SCHEDULES_RUN_RUN_CHECKPOINTS_H

#include "lib/record/metrics.h"
#include "schedules/run/trainer.h"

struct run_checkpoints {
    const struct experiment *experiment;
    struct trainer *trainer;
    struct dt_comm *world;
    struct checkpoint_folder folder; /* not open where nothing is saved */
    int first_step;                  /* how many steps were made before this run */
};

/* Open the experiment's folder, and load what it goes on with: its steps are then fewer, by those that have been made. The metrics get the times
 * and bytes, here and below. Collective; end it also after a failure. Errors, on all ranks: DT_ERR_INVALID, DT_ERR_COMM. */
dt_status run_checkpoints_begin(struct run_checkpoints *checkpoints, struct experiment *experiment, struct trainer *trainer,
                                struct dt_comm *world, struct dt_metrics *metrics);
void run_checkpoints_end(struct run_checkpoints *checkpoints); /* takes a zeroed one */

/* After step `steps` of this run (from 1), which may be its `last`: save, if it is time. Collective. Errors: as checkpoint_save. */
dt_status run_checkpoints_save(struct run_checkpoints *checkpoints, int steps, bool last, struct dt_metrics *metrics);

#endif

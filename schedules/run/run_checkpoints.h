/* The checkpoints of a run: the one that it continues, and the steps after which it saves. */
#pragma once

#include "lib/record/metrics.h"
#include "schedules/run/trainer.h"

struct run_checkpoints {
    const struct experiment *experiment;
    struct trainer *trainer;
    struct dt_comm *world;
    struct checkpoint_folder folder; /* not open if nothing is saved */
    int first_step;                  /* number of steps made before this run */
};

/* Open the experiment's folder, and load the checkpoint that it continues; its steps are reduced by
 * those already made. Here and below the metrics get times and bytes. Collective; call
 * run_checkpoints_end also after a failure. Errors, on all ranks: DT_ERR_INVALID, DT_ERR_COMM. */
dt_status run_checkpoints_begin(struct run_checkpoints *checkpoints, struct experiment *experiment, struct trainer *trainer,
                                struct dt_comm *world, struct dt_metrics *metrics);
void run_checkpoints_end(struct run_checkpoints *checkpoints); /* takes a zeroed one */

/* Save after step `steps` of this run (from 1), if the config says so; last: it is the last step.
 * Collective. Errors: as checkpoint_save. */
dt_status run_checkpoints_save(struct run_checkpoints *checkpoints, int steps, bool last, struct dt_metrics *metrics);

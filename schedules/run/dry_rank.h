/* One rank of an experiment on the sim device without a simulated cluster: nothing is computed or sent, but what the rank does and allocates
 * is what it does and allocates in a real run. */
#ifndef SCHEDULES_RUN_DRY_RANK_H
#define SCHEDULES_RUN_DRY_RANK_H

#include "schedules/run/trainer.h"

struct dry_rank {
    struct dt_device *device;
    struct dt_comm *world;
    struct trainer *trainer;
    struct dt_memory_usage memory_at[TIMELINE_PHASES]; /* where each phase of the last step has first begun; 0: it has none */
};

/* No limits and no timeouts. repetitions: 0, or those that are left of a step's (struct trainer_options). The experiment outlives it. Finish
 * it also after a failure. Errors: as trainer_create. */
dt_status dry_rank_init(struct dry_rank *dry, const struct experiment *experiment, int rank, int repetitions);
void dry_rank_finish(struct dry_rank *dry); /* takes a zeroed one */

#endif

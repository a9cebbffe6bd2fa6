/* One rank of an experiment on the sim device without a simulated cluster: nothing is computed or
 * sent, but the rank's actions and allocations are those of a real run. */
#pragma once

#include "schedules/run/trainer.h"

struct dry_rank {
    struct dt_device *device;
    struct dt_comm *world;
    struct trainer *trainer;
    struct dt_memory_usage memory_at[TIMELINE_PHASES]; /* in use when each phase of the last step first began; 0: no such phase */
};

/* No limits and no timeouts. repetitions: 0, or the number to which a step is shortened (struct
 * trainer_options). The experiment outlives it. Call dry_rank_finish also after a failure. Errors:
 * as trainer_create. */
dt_status dry_rank_init(struct dry_rank *dry, const struct experiment *experiment, int rank, int repetitions);
void dry_rank_finish(struct dry_rank *dry); /* takes a zeroed one */

/* The plan of rank `rank` for a step, without running it. Owner of *out: the caller, who calls
 * plan_finish, also after a failure. Errors: DT_ERR_HOST_MEMORY, DT_ERR_INVALID where the
 * pipeline's order does not fit. */
dt_status rank_plan(const struct experiment *experiment, int rank, struct plan *out);

/* Add the matrix products of a step to the family's tuning, from every rank with different
 * products: one for each place in the pipeline and in the tensor group. Needs no device. Errors: as
 * dry_rank_init and trainer_step. */
dt_status product_list_add(struct dt_tuning *tuning, const struct experiment *experiment);

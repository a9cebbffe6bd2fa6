/* What a rank does in a step, without running it. */
#ifndef SCHEDULES_RUN_RANK_PLAN_H
#define SCHEDULES_RUN_RANK_PLAN_H

#include "schedules/config/experiment.h"
#include "schedules/plan/plan.h"

/* The plan of rank `rank`. Owner of *out: the caller, who calls plan_finish, also after a failure. Errors: DT_ERR_HOST_MEMORY,
 * DT_ERR_INVALID where the pipeline's order does not fit. */
dt_status rank_plan(const struct experiment *experiment, int rank, struct plan *out);

#endif

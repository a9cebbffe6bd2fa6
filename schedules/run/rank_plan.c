#include "schedules/run/rank_plan.h"

#include "schedules/run/dry_rank.h"

dt_status rank_plan(const struct experiment *experiment, int rank, struct plan *out)
{
    struct dry_rank dry;
    *out = (struct plan){0};
    dt_status status = dry_rank_init(&dry, experiment, rank, 0);
    if (status == DT_OK)
        status = plan_copy(trainer_plan(dry.trainer), out);
    dry_rank_finish(&dry);
    return status;
}

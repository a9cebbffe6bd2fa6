#include "schedules/run/rank_plan.h"

#include "schedules/run/dry_rank.h"

static dt_status copy(const struct plan *from, struct plan *out)
{
    *out = *from;
    out->actions = NULL;
    out->count = out->room = 0;
    for (int i = 0; i < from->count; i++)
        DT_TRY(plan_append(out, from->actions[i]));
    return DT_OK;
}

dt_status rank_plan(const struct experiment *experiment, int rank, struct plan *out)
{
    struct dry_rank dry;
    *out = (struct plan){0};
    dt_status status = dry_rank_init(&dry, experiment, rank);
    if (status == DT_OK)
        status = copy(trainer_plan(dry.trainer), out);
    dry_rank_finish(&dry);
    return status;
}

#include "schedules/data_parallel/residency.h"

#include <stdlib.h>

dt_status residency_init(struct residency *residency, const struct dp_setup *setup,
                         dt_status (*fetch)(struct data_parallel *dp, int g, struct resident *to))
{
    int count = setup->stage->group_count;
    *residency = (struct residency){.groups = calloc((size_t)count, sizeof *residency->groups), .fetch = fetch};
    if (!residency->groups)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d groups", count);
    for (int g = 0; g < count; g++)
        DT_TRY(dt_event_create(setup->device, &residency->groups[g].there));
    return DT_OK;
}

void residency_finish(struct residency *residency, const struct dp_setup *setup)
{
    for (int g = 0; residency->groups && g < setup->stage->group_count; g++) {
        dt_free(setup->compute, &residency->groups[g].params);
        dt_event_destroy(residency->groups[g].there);
    }
    free(residency->groups);
    *residency = (struct residency){0};
}

/* Fetch group `g`, unless there is none or it is there already. */
static dt_status fetch(struct residency *residency, struct data_parallel *dp, int g)
{
    return g < 0 || residency->groups[g].params.data ? DT_OK : residency->fetch(dp, g, &residency->groups[g]);
}

static dt_status use(struct residency *residency, struct data_parallel *dp, struct dt_group *group, int next)
{
    struct resident *resident = &residency->groups[group->index];
    DT_TRY(fetch(residency, dp, group->index));
    if (!dp->setup.experiment->framework.gathers_in_turn)
        DT_TRY(fetch(residency, dp, next));
    DT_TRY(timeline_wait(dp->setup.timeline, resident->there));
    group->params = resident->params.data;
    return DT_OK;
}

dt_status residency_before_forward(struct residency *residency, struct data_parallel *dp, struct dt_group *group,
                                   const struct dp_moment *moment)
{
    return residency->groups ? use(residency, dp, group, moment->next_group) : DT_OK;
}

dt_status residency_before_backward(struct residency *residency, struct data_parallel *dp, struct dt_group *group,
                                    const struct dp_moment *moment)
{
    const struct dt_stage *stage = dp->setup.stage;
    int next = moment->next_group;
    if (!residency->groups)
        return DT_OK;
    if (next == group->index - 1 && next >= 0 && !stage->groups[next].backward_reads_params)
        next = -1;
    return group->backward_reads_params || dp->setup.experiment->framework.gathers_in_turn ? use(residency, dp, group, next)
                                                                                           : fetch(residency, dp, next);
}

void residency_after(struct residency *residency, struct data_parallel *dp, const struct dt_group *group, const struct dp_moment *moment)
{
    bool used_next = moment->next_group == group->index && !dp->setup.experiment->framework.gathers_in_turn;
    if (residency->groups && !used_next)
        dt_free(dp->setup.compute, &residency->groups[group->index].params);
}

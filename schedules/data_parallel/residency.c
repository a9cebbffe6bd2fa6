#include "schedules/data_parallel/residency.h"

#include <stdlib.h>

dt_status residency_init(struct data_parallel *dp)
{
    int count = dp->setup.stage->group_count;
    dp->residents = calloc((size_t)count, sizeof *dp->residents);
    DT_TRY(dt_allocated(dp->residents, "no host memory for %d groups", count));
    dp->rules.gathers = true;
    dp->rules.gathers_ahead = 1;
    for (int g = 0; g < count; g++)
        DT_TRY(dt_event_create(dp->setup.device, &dp->residents[g].there));
    return DT_OK;
}

void residency_finish(struct data_parallel *dp)
{
    for (int g = 0; dp->residents && g < dp->setup.stage->group_count; g++) {
        dt_free(dp->setup.compute, &dp->residents[g].params);
        dt_event_destroy(dp->residents[g].there);
    }
    free(dp->residents);
    dp->residents = NULL;
}

dt_status residency_gather(struct data_parallel *dp, int g)
{
    return dp->mode->fetch(dp, g, &dp->residents[g]);
}

void residency_free(struct data_parallel *dp, int g)
{
    dt_free(dp->setup.compute, &dp->residents[g].params);
}

dt_status residency_use(struct data_parallel *dp, struct dt_group *group)
{
    struct resident *resident = dp->residents ? &dp->residents[group->index] : NULL;
    if (!resident || !resident->params.data)
        return DT_OK;
    DT_TRY(timeline_wait(dp->setup.timeline, resident->there));
    group->params = resident->params.data;
    return DT_OK;
}

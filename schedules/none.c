/* No data parallelism: one replica, nothing to communicate. Also what one pipeline without replicas uses. */
#include "schedules/replica.h"

#include <stdlib.h>

struct none {
    struct data_parallel base;
    struct replica replica;
};

static struct none *none_of(struct data_parallel *dp)
{
    return (struct none *)dp;
}

static enum gpt_unit none_unit(const struct experiment *experiment)
{
    return GPT_UNIT_BLOCK;
}

static dt_status none_create(const struct dp_setup *setup, struct data_parallel **out)
{
    struct none *none = calloc(1, sizeof *none);
    *out = NULL;
    if (!none)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a data-parallel mode");
    none->base = (struct data_parallel){.mode = &dp_none, .setup = *setup};
    dt_status status = replica_init(&none->replica, setup);
    if (status < 0) {
        free(none);
        return status;
    }
    *out = &none->base;
    return DT_OK;
}

static void none_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    replica_finish(&none_of(dp)->replica, &dp->setup);
    free(dp);
}

static dt_status none_forward(struct data_parallel *dp, struct gpt_group *group)
{
    return DT_OK;
}

static dt_status none_before_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    group->accumulate = !moment->first_micro_batch;
    return DT_OK;
}

static dt_status none_after_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    return DT_OK;
}

static dt_status none_end_step(struct data_parallel *dp, const struct dp_moment *moment)
{
    DT_TRY(timeline_enter(dp->setup.timeline, TIMELINE_OPTIMIZER));
    return replica_update(&none_of(dp)->replica, &dp->setup, 0, dp->setup.stage->param_elems, moment->step);
}

const struct dp_mode dp_none = {
    .name = "none",
    .unit = none_unit,
    .create = none_create,
    .destroy = none_destroy,
    .before_forward = none_forward,
    .after_forward = none_forward,
    .before_backward = none_before_backward,
    .after_backward = none_after_backward,
    .end_step = none_end_step,
};

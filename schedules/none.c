/* No data parallelism: one replica, nothing to communicate. Also what one pipeline without replicas uses.
 *
 * Nobody else waits for the gradients, so a group's are made in its first backward and gone after its last: the group is updated at once,
 * while backward goes on. With one micro-batch only the largest group's gradients ever exist at a time.
 * Source  "How to save memory by fusing the optimizer step into the backward pass", PyTorch's tutorials; Lv et al., "Full Parameter
 *         Fine-tuning for Large Language Models with Limited Resources" (LOMO), ACL 2024. */
#include "schedules/replica.h"

#include <stdlib.h>

struct none {
    struct data_parallel base;
    struct replica replica;
    struct dt_buffer *grads; /* [group_count], each from its group's first backward of a step to its last */
};

static struct none *none_of(struct data_parallel *dp)
{
    return (struct none *)dp;
}

static enum gpt_unit none_unit(const struct experiment *experiment)
{
    return GPT_UNIT_BLOCK;
}

static void none_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct none *none = none_of(dp);
    for (int g = 0; none->grads && g < dp->setup.stage->group_count; g++) /* left by a step that failed */
        dt_free(dp->setup.compute, &none->grads[g]);
    replica_finish(&none->replica, &dp->setup);
    free(none->grads);
    free(none);
}

static dt_status none_create(const struct dp_setup *setup, struct data_parallel **out)
{
    struct replica_options replica = {.state_elems = setup->stage->param_elems, .summed_ranks = 1};
    struct none *none = calloc(1, sizeof *none);
    dt_status status;
    *out = NULL;
    if (!none)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a data-parallel mode");
    none->base = (struct data_parallel){.mode = &dp_none, .setup = *setup};
    none->grads = calloc((size_t)setup->stage->group_count, sizeof *none->grads);
    status = none->grads ? replica_init(&none->replica, setup, &replica)
                         : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d groups", setup->stage->group_count);
    if (status < 0) {
        none_destroy(&none->base);
        return status;
    }
    *out = &none->base;
    return DT_OK;
}

static dt_status none_forward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    return DT_OK;
}

static dt_status none_before_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    struct dt_buffer *grads = &none_of(dp)->grads[group->index];
    if (moment->first_micro_batch)
        DT_TRY(dt_alloc(dp->setup.compute, DT_GRADIENTS, dp_bytes(&dp->setup, group->param_elems), grads));
    group->grads = grads->data;
    group->accumulate = !moment->first_micro_batch;
    return DT_OK;
}

static dt_status none_after_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    struct none *none = none_of(dp);
    if (!moment->last_micro_batch)
        return DT_OK;
    DT_TRY(timeline_enter(dp->setup.timeline, TIMELINE_OPTIMIZER));
    size_t first = none->replica.offset_elems[group->index];
    DT_TRY(replica_update(&none->replica, &dp->setup, first, group->param_elems, first, group->grads, moment->step));
    dt_free(dp->setup.compute, &none->grads[group->index]);
    return timeline_enter(dp->setup.timeline, TIMELINE_BACKWARD);
}

static dt_status none_end_step(struct data_parallel *dp, const struct dp_moment *moment)
{
    return DT_OK; /* every group has been updated */
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

/* No data parallelism: one replica, nothing to communicate. Also what one pipeline without replicas
 * uses.
 *
 * No other rank waits for the gradients, so a group's gradients exist from its first backward to
 * its last: the group is updated at once, while backward goes on. With one micro-batch the peak is
 * the largest group's gradients.
 * Source  "How to save memory by fusing the optimizer step into the backward pass", PyTorch's
 *         tutorials; Lv et al., "Full Parameter Fine-tuning for Large Language Models with Limited
 *         Resources" (LOMO), ACL 2024.
 *
 * Where updates wait for the norm of all gradients, those of all groups exist until the end of the
 * step.
 *
 * With parameter offload a group's gradients are copied to the host after every micro-batch and
 * added there: even with several micro-batches only one group's gradients are on the device. */
#include "schedules/data_parallel/norm.h"
#include "schedules/data_parallel/replica.h"

#include <stdlib.h>

struct none_group {
    struct dt_buffer grads;   /* from the group's first backward of a step to its last; with offload only during each backward */
    struct offload_home home; /* with offload */
};

struct none {
    struct data_parallel base;
    struct replica replica;
    struct none_group *groups; /* [group_count] */
};

static struct none *none_of(struct data_parallel *dp)
{
    return (struct none *)dp;
}

static enum dt_unit none_unit(const struct experiment *experiment)
{
    return DT_UNIT_BLOCK;
}

static void none_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct none *none = none_of(dp);
    for (int g = 0; none->groups && g < dp->setup.stage->group_count; g++) {
        struct none_group *n = &none->groups[g];
        dt_free(dp->setup.compute, &n->grads); /* left over from a failed step */
        offload_home_finish(&n->home, &dp->setup);
    }
    residency_finish(dp);
    replica_finish(&none->replica, &dp->setup);
    free(none->groups);
    free(none);
}

static dt_status none_fetch(struct data_parallel *dp, int g, struct resident *to)
{
    struct none *none = none_of(dp);
    return replica_fetch(&none->replica, &dp->setup, g, &none->groups[g].home, to);
}

static dt_status none_make_homes(struct none *none)
{
    const struct dp_setup *s = &none->base.setup;
    DT_TRY(residency_init(&none->base));
    for (int g = 0; g < s->stage->group_count; g++)
        DT_TRY(offload_home_init(&none->groups[g].home, s, s->stage->groups[g].param_elems));
    return DT_OK;
}

DT_DESTROYS(none_destroy, struct data_parallel)

static dt_status none_create(const struct dp_mode *mode, const struct dp_setup *setup, struct data_parallel **out)
{
    struct replica_options replica = {.state_elems = setup->stage->param_elems, .summed_ranks = 1};
    struct none *none = calloc(1, sizeof *none);
    *out = NULL;
    DT_TRY(dt_allocated(none, "no host memory for a data-parallel mode"));
    DT_DESTROYED(none_destroy) struct data_parallel *dp = &none->base;
    *dp = (struct data_parallel){.mode = mode, .setup = *setup};
    dp->rules.reduce_every = setup->offload ? 1 : 0; /* every micro-batch's gradients are copied to the host */
    dp->rules.updates_at_once = !setup->offload;
    none->groups = calloc((size_t)setup->stage->group_count, sizeof *none->groups);
    DT_TRY(dt_allocated(none->groups, "no host memory for %d groups", setup->stage->group_count));
    DT_TRY(replica_init(&none->replica, setup, &replica));
    if (setup->offload)
        DT_TRY(none_make_homes(none));
    *out = DT_PASSED_ON(dp);
    return DT_OK;
}

static dt_status none_begin_gradients(struct data_parallel *dp, struct dt_group *group, const struct action *action)
{
    const struct dp_setup *s = &dp->setup;
    struct dt_buffer *grads = &none_of(dp)->groups[group->index].grads;
    group->accumulate = !(action->flags & ACTION_FRESH);
    if (!grads->data)
        DT_TRY(dt_alloc(s->compute, DT_GRADIENTS, dp_gradient_bytes(s, group->param_elems), grads));
    group->grads = grads->data;
    return DT_OK;
}

static dt_status add_to_norm(const struct dp_setup *s, const struct dt_group *group, const void *grads)
{
    struct norm_run run = {.g = group->index, .count_elems = group->param_elems, .grads = grads};
    return norm_add(s->norm, s, &run);
}

static dt_status update_group(struct data_parallel *dp, const struct dt_group *group)
{
    struct none *none = none_of(dp);
    struct none_group *n = &none->groups[group->index];
    size_t first = none->replica.offset_elems[group->index];
    if (dp->setup.offload)
        return offload_update(&n->home, &dp->setup, none->replica.optimizer, replica_params(&none->replica, &dp->setup, first), first,
                              first);
    DT_TRY(replica_update(&none->replica, &dp->setup, first, group->param_elems, first, n->grads.data));
    dt_free(dp->setup.compute, &n->grads);
    return DT_OK;
}

static dt_status none_update(struct data_parallel *dp, const struct dt_group *group)
{
    return dp->setup.norm ? add_to_norm(&dp->setup, group, group->grads) : update_group(dp, group);
}

/* With offload: copy a group's gradients to the host. */
static dt_status none_reduce(struct data_parallel *dp, const struct dt_group *group, const struct action *action)
{
    const struct dp_setup *s = &dp->setup;
    struct none_group *n = &none_of(dp)->groups[group->index];
    const struct dt_event *computed;
    DT_TRY(dt_stream_mark(s->compute, &computed));
    DT_TRY(offload_gradients(&n->home, s, computed, group->grads, &n->grads));
    if (!(action->flags & ACTION_LAST))
        return DT_OK;
    return s->norm ? add_to_norm(s, group, n->home.grads.data) : update_group(dp, group);
}

/* Without a norm every group has been updated, or its update is queued. */
static dt_status none_end_step(struct data_parallel *dp)
{
    const struct dp_setup *s = &dp->setup;
    if (s->norm)
        DT_TRY(norm_settle(s->norm, s, 1));
    for (int g = s->stage->group_count - 1; g >= 0 && s->norm; g--)
        DT_TRY(update_group(dp, &s->stage->groups[g]));
    for (int g = 0; dp->setup.offload && g < dp->setup.stage->group_count; g++)
        DT_TRY(offload_await(&none_of(dp)->groups[g].home, &dp->setup));
    return DT_OK;
}

static dt_status none_visit(struct data_parallel *dp, dp_visit visit, void *context)
{
    const struct replica *replica = &none_of(dp)->replica;
    for (int g = 0; g < dp->setup.stage->group_count; g++) {
        size_t first = replica->offset_elems[g], end = first + dp->setup.stage->groups[g].param_elems;
        DT_TRY(replica_visit(replica, &dp->setup, g, first, end, true, first, true, visit, context));
    }
    return DT_OK;
}

const struct dp_mode dp_none = {
    .name = "none",
    .holds = {.parameters = DP_ALL, .optimizer = DP_ALL},
    .ranks = DP_RANKS_ALIKE,
    .unit = none_unit,
    .create = none_create,
    .destroy = none_destroy,
    .fetch = none_fetch,
    .begin_gradients = none_begin_gradients,
    .reduce = none_reduce,
    .update = none_update,
    .visit = none_visit,
    .end_step = none_end_step,
};

/* Fully sharded data parallel (ZeRO-3): every rank keeps an even share of each group's parameters,
 * gradients and optimizer state.
 *
 * Hybrid sharded data parallel (hsdp) is the same on two axes of the mesh: parameters are gathered
 * within a shard group with a fast network, for example a node. Gradients are reduce-scattered
 * within it and then averaged across the groups, with 1 / shards of the bytes: only these bytes go
 * between nodes.
 *
 * A group is gathered fsdp.prefetch groups ahead of its forward and of its backward, freed after
 * use, and its gradients are reduce-scattered, all on the network stream, concurrently with
 * kernels. With fsdp.gather "step" it is gathered once and stays until its last backward of the
 * step: a stage's whole parameters, and one gather in place of two for each micro-batch.
 * Memory  per rank and parameter, in a 16-bit dtype with Adam over N shards: (2 + 2 + 12) / N
 *         bytes. Whole groups and their gradients exist for a short time only and count as
 *         communication. Micro-batches that are not reduced leave whole gradients until the last
 *         one.
 * Source  Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 *         Models", SC 2020, section 5.3 (P_os+g+p); Zhao et al., "PyTorch FSDP", VLDB 2023, section
 *         3, of hsdp 3.2.2; Zhang et al., "MiCS", VLDB 2022, section 3.2.
 *
 * With parameter offload the shards are in host memory. A rank's own shard is copied directly to
 * its place in the whole group, and gathered from there. Its reduced gradients are copied to the
 * host from their place in the whole group's gradients. */
#include "lib/model/stage.h"
#include "schedules/data_parallel/norm.h"
#include "schedules/data_parallel/offload.h"
#include "schedules/data_parallel/residency.h"
#include "schedules/data_parallel/shard.h"

#include <stdlib.h>

struct fsdp_group {
    struct dt_buffer params; /* [share_elems], this rank's share */
    struct shard_gradients grads;
    struct optimizer *optimizer;
    struct dt_event *reduced; /* network: this rank's share of them is reduced */
    struct offload_home home; /* with offload */
};

struct fsdp {
    struct data_parallel base;
    struct fsdp_group *groups; /* [group_count]; params of a whole gathered group: [size * share_elems] */
};

static struct fsdp *fsdp_of(struct data_parallel *dp)
{
    return (struct fsdp *)dp;
}

static enum dt_unit fsdp_unit(const struct experiment *experiment)
{
    return experiment->fsdp.unit;
}

/* Make this rank's share of a group, initialised in its final memory; the padding after the last
 * parameter is zero. */
static dt_status fsdp_make_shard(struct fsdp *fsdp, int g)
{
    const struct dp_setup *s = &fsdp->base.setup;
    const struct dt_group *group = &s->stage->groups[g];
    struct fsdp_group *f = &fsdp->groups[g];
    struct shard shard = f->grads.shard = shard_of(group->param_elems, s->shards);
    size_t padding = shard.share_elems - shard.own_elems;

    DT_TRY(dt_event_create(s->device, &f->reduced));
    DT_TRY(offload_alloc_params(s, dp_bytes(s, shard.share_elems), &f->params));
    if (!s->offload)
        DT_TRY(dt_alloc(s->compute, DT_GRADIENTS, dp_gradient_bytes(s, shard.share_elems), &f->grads.share));
    DT_TRY(optimizer_create(s->experiment, s->stage, (struct optimizer_run){.first = group->index, .count = 1}, shard.share_elems, 1,
                            s->compute, &f->optimizer));
    if (s->offload) {
        DT_TRY(offload_init_params(s, group, shard.first_elem, shard.own_elems, shard.share_elems, f->params.data));
        return offload_home_init(&f->home, s, shard.share_elems);
    }
    if (padding)
        DT_TRY(dt_zero(s->compute, (char *)f->params.data + dp_bytes(s, shard.own_elems), dp_bytes(s, padding)));
    if (shard.own_elems)
        DT_TRY(dt_init_params(s->stage, group, shard.first_elem, shard.own_elems, f->params.data, s->compute));

    /* the first gather runs on another stream and reads the shard */
    return dt_stream_follow(s->network, s->compute);
}

static void fsdp_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct fsdp *fsdp = fsdp_of(dp);
    struct dt_stream *compute = dp->setup.compute;
    for (int g = 0; fsdp->groups && g < dp->setup.stage->group_count; g++) {
        struct fsdp_group *f = &fsdp->groups[g];
        optimizer_destroy(f->optimizer, compute);
        shard_gradients_finish(&f->grads, &dp->setup);
        dt_free(compute, &f->params);
        offload_home_finish(&f->home, &dp->setup);
        dt_event_destroy(f->reduced);
    }
    residency_finish(dp);
    free(fsdp->groups);
    free(fsdp);
}

/* Gather group `g` on the stream `network`. With offload this rank's share is first copied from the
 * host to its place in the whole group. */
static dt_status fsdp_fetch(struct data_parallel *dp, int g, struct resident *to)
{
    const struct dp_setup *s = &dp->setup;
    struct fsdp_group *f = &fsdp_of(dp)->groups[g];
    const struct shard *shard = &f->grads.shard;
    struct dt_stream *first = s->offload ? s->offload->to_device : s->network;
    const void *share = f->params.data;

    if (s->experiment->fsdp.prefetch == 0)
        DT_TRY(dt_stream_follow(first, s->compute));
    if (s->offload)
        DT_TRY(dt_stream_wait(first, f->home.current));
    size_t share_elems = dp_gathered_elems(s, shard->share_elems, s->stage->groups[g].block >= 0);
    DT_TRY(dt_alloc(first, DT_COMMUNICATION, dp_bytes(s, share_elems * (size_t)dt_comm_size(s->shards)), &to->params));
    if (s->offload) {
        void *place = (char *)to->params.data + dp_bytes(s, shard->first_elem);
        DT_TRY(dt_copy_from_host(first, place, share, f->params.bytes));
        DT_TRY(dt_stream_follow(s->network, first));
        share = place;
    }
    DT_TRY(dt_all_gather(s->shards, share, to->params.data, share_elems, s->experiment->model.dtype, s->network));
    return dt_event_record(to->there, s->network);
}

DT_DESTROYS(fsdp_destroy, struct data_parallel)

static dt_status fsdp_create(const struct dp_mode *mode, const struct dp_setup *setup, struct data_parallel **out)
{
    int group_count = setup->stage->group_count;
    struct fsdp *fsdp = calloc(1, sizeof *fsdp);
    *out = NULL;
    DT_TRY(dt_allocated(fsdp, "no host memory for a data-parallel mode"));
    DT_DESTROYED(fsdp_destroy) struct data_parallel *dp = &fsdp->base;
    *dp = (struct data_parallel){.mode = mode, .setup = *setup, .repeats_updates = setup->replicas && dt_comm_rank(setup->replicas) > 0};
    dp->rules.reduce_every = setup->reduce_every;
    fsdp->groups = calloc((size_t)group_count, sizeof *fsdp->groups);
    DT_TRY(dt_allocated(fsdp->groups, "no host memory for %d shards", group_count));
    DT_TRY(residency_init(dp));
    dp->rules.gathers_once = setup->experiment->fsdp.gather == GATHER_ONCE;
    dp->rules.gathers_ahead = setup->experiment->fsdp.prefetch;
    for (int g = 0; g < group_count; g++)
        DT_TRY(fsdp_make_shard(fsdp, g));
    *out = DT_PASSED_ON(dp);
    return DT_OK;
}

static dt_status fsdp_begin_gradients(struct data_parallel *dp, struct dt_group *group, const struct action *action)
{
    struct fsdp *fsdp = fsdp_of(dp);
    struct fsdp_group *f = &fsdp->groups[group->index];
    DT_TRY(shard_gradients_begin(&f->grads, &dp->setup, action));
    group->grads = f->grads.whole.data;
    group->accumulate = !(action->flags & ACTION_FRESH);
    return DT_OK;
}

static dt_status update_home(const struct dp_setup *s, struct fsdp_group *f)
{
    return offload_update(&f->home, s, f->optimizer, f->params.data, f->grads.shard.first_elem, 0);
}

/* Copy the share to the host after the reduction. After the last micro-batch the host updates at
 * once, while backward goes on, unless the update has to wait for the norm of all gradients. */
static dt_status fsdp_offload(struct data_parallel *dp, struct fsdp_group *f, const struct action *action)
{
    const struct dp_setup *s = &dp->setup;
    const void *share = (const char *)f->grads.whole.data + dp_grads_bytes(s, f->grads.shard.first_elem);
    DT_TRY(offload_gradients(&f->home, s, f->reduced, share, &f->grads.whole));
    return action->flags & ACTION_LAST && !s->norm ? update_home(s, f) : DT_OK;
}

static dt_status fsdp_reduce(struct data_parallel *dp, const struct dt_group *group, const struct action *action)
{
    const struct dp_setup *s = &dp->setup;
    struct fsdp *fsdp = fsdp_of(dp);
    struct fsdp_group *f = &fsdp->groups[group->index];
    DT_TRY(dt_stream_follow(s->network, s->compute));
    DT_TRY(shard_gradients_reduce(&f->grads, s, f->grads.whole.data));
    if (!s->offload)
        dt_free(s->network, &f->grads.whole);
    DT_TRY(dt_event_record(f->reduced, s->network));
    return s->offload ? fsdp_offload(dp, f, action) : DT_OK;
}

static dt_status add_to_norm(const struct dp_setup *s, int g, const struct fsdp_group *f)
{
    const struct shard *shard = &f->grads.shard;
    struct norm_run run = {.g = g,
                           .first_elem = shard->first_elem,
                           .count_elems = shard->own_elems,
                           .grads = s->offload ? f->home.grads.data : f->grads.share.data,
                           .replicas = s->replicas};
    if (!s->offload)
        DT_TRY(timeline_wait(s->timeline, f->reduced));
    return norm_add(s->norm, s, &run);
}

static dt_status settle_norm(const struct dp_setup *s, const struct fsdp_group *groups)
{
    for (int g = s->stage->group_count - 1; g >= 0; g--)
        DT_TRY(add_to_norm(s, g, &groups[g]));
    return norm_settle(s->norm, s, 1);
}

static dt_status fsdp_update(const struct dp_setup *s, struct fsdp_group *f)
{
    if (!s->norm)
        DT_TRY(timeline_wait(s->timeline, f->reduced));
    DT_TRY(optimizer_apply(f->optimizer, f->params.data, f->grads.share.data, f->grads.shard.first_elem, 0, f->grads.shard.share_elems,
                           s->compute));
    /* the next step's gathers read the updated parameters */
    return dt_stream_follow(s->network, s->compute);
}

static dt_status fsdp_end_step(struct data_parallel *dp)
{
    const struct dp_setup *s = &dp->setup;
    struct fsdp_group *groups = fsdp_of(dp)->groups;
    if (s->norm)
        DT_TRY(settle_norm(s, groups));
    for (int g = s->stage->group_count - 1; g >= 0; g--) {
        struct fsdp_group *f = &groups[g];
        if (s->offload && s->norm)
            DT_TRY(update_home(s, f));
        DT_TRY(s->offload ? offload_await(&f->home, s) : fsdp_update(s, f));
    }
    return DT_OK;
}

static dt_status fsdp_visit(struct data_parallel *dp, dp_visit visit, void *context)
{
    for (int g = 0; g < dp->setup.stage->group_count; g++) {
        const struct fsdp_group *f = &fsdp_of(dp)->groups[g];
        struct dp_held share = {.kind = DP_PARAMETERS,
                                .group = g,
                                .first_elem = f->grads.shard.first_elem,
                                .count_elems = f->grads.shard.own_elems,
                                .data = f->params.data,
                                .own = !dp->repeats_updates};
        if (share.count_elems == 0)
            continue;
        DT_TRY(visit(context, &share));
        DT_TRY(optimizer_visit(f->optimizer, share, 0, visit, context));
    }
    return DT_OK;
}

const struct dp_mode dp_fsdp = {
    .name = "fsdp",
    .holds = {DP_SHARE, DP_SHARE, DP_SHARE},
    .gathers = {MESH_SHARD, DT_COMM_ALL_GATHER, DP_ALL},
    .reduces = {{MESH_SHARD, DT_COMM_REDUCE_SCATTER, DP_ALL}, {MESH_REPLICA, DT_COMM_ALL_REDUCE, DP_SHARE}},
    .ranks = DP_RANKS_ALIKE,
    .unit = fsdp_unit,
    .create = fsdp_create,
    .destroy = fsdp_destroy,
    .fetch = fsdp_fetch,
    .begin_gradients = fsdp_begin_gradients,
    .reduce = fsdp_reduce,
    .visit = fsdp_visit,
    .end_step = fsdp_end_step,
};

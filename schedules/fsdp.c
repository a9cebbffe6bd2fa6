/* Fully sharded data parallel (ZeRO-3): every rank keeps an even share of each group's parameters, gradients and optimizer state.
 *
 * A group is gathered one group ahead of its forward and of its backward, freed after use, and its gradients are reduce-scattered, all on
 * the network stream beside the kernels.
 * Memory  per rank and parameter, in a 16-bit dtype with Adam over N ranks: (2 + 2 + 12) / N bytes. Whole groups and their gradients exist
 *         for a short time only and count as communication. Micro-batches that are not reduced leave whole gradients until the last one.
 * Source  Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, section 5.3 (P_os+g+p);
 *         Zhao et al., "PyTorch FSDP", VLDB 2023, section 3. */
#include "schedules/fsdp.h"
#include "schedules/optimizer.h"

#include <stdlib.h>

struct fsdp_group {
    struct dt_buffer params; /* [share_elems], this rank's share */
    struct shard_gradients grads;
    struct optimizer *optimizer;
    struct dt_buffer whole;    /* [size * share_elems] parameters, while gathered */
    struct dt_event *gathered; /* network: whole is there */
    struct dt_event *computed; /* compute: the gradients are there */
    struct dt_event *reduced;  /* network: this rank's share of them is */
};

struct fsdp {
    struct data_parallel base;
    struct shard_ranks ranks;
    struct fsdp_group *groups; /* [group_count] */
};

static struct fsdp *fsdp_of(struct data_parallel *dp)
{
    return (struct fsdp *)dp;
}

struct shard_ranks fsdp_ranks(const struct data_parallel *dp)
{
    return ((const struct fsdp *)dp)->ranks;
}

enum gpt_unit fsdp_unit(const struct experiment *experiment)
{
    return experiment->fsdp.unit;
}

/* This rank's share of a group, initialised where it lives; the padding behind the last parameter is zero. */
static dt_status fsdp_make_shard(struct fsdp *fsdp, int g)
{
    const struct dp_setup *s = &fsdp->base.setup;
    const struct gpt_group *group = &s->stage->groups[g];
    struct fsdp_group *f = &fsdp->groups[g];
    struct shard shard = f->grads.shard = shard_of(group->param_elems, fsdp->ranks.within);
    size_t padding = shard.share_elems - shard.own_elems;

    DT_TRY(dt_event_create(s->device, &f->gathered));
    DT_TRY(dt_event_create(s->device, &f->computed));
    DT_TRY(dt_event_create(s->device, &f->reduced));
    DT_TRY(dt_alloc(s->compute, DT_PARAMETERS, dp_bytes(s, shard.share_elems), &f->params));
    DT_TRY(dt_alloc(s->compute, DT_GRADIENTS, dp_bytes(s, shard.share_elems), &f->grads.share));
    DT_TRY(optimizer_create(s->experiment, s->stage, shard.share_elems, 1, s->compute, &f->optimizer));
    if (padding)
        DT_TRY(dt_zero(s->compute, (char *)f->params.data + dp_bytes(s, shard.own_elems), dp_bytes(s, padding)));
    if (shard.own_elems)
        DT_TRY(gpt_init_params(s->stage, group, shard.first_elem, shard.own_elems, f->params.data, s->compute));

    /* The first gather, on another stream, must find the shard initialised. */
    DT_TRY(dt_event_record(f->computed, s->compute));
    return dt_stream_wait(s->network, f->computed);
}

void fsdp_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct fsdp *fsdp = fsdp_of(dp);
    struct dt_stream *compute = dp->setup.compute;
    for (int g = 0; fsdp->groups && g < dp->setup.stage->group_count; g++) {
        struct fsdp_group *f = &fsdp->groups[g];
        dt_free(compute, &f->whole);
        optimizer_destroy(f->optimizer, compute);
        shard_gradients_finish(&f->grads, &dp->setup);
        dt_free(compute, &f->params);
        dt_event_destroy(f->gathered);
        dt_event_destroy(f->computed);
        dt_event_destroy(f->reduced);
    }
    free(fsdp->groups);
    free(fsdp);
}

dt_status fsdp_create_over(const struct dp_setup *setup, const struct dp_mode *mode, const struct shard_ranks *ranks,
                           struct data_parallel **out)
{
    dt_status status = DT_OK;
    int group_count = setup->stage->group_count;
    struct fsdp *fsdp = calloc(1, sizeof *fsdp);
    *out = NULL;
    if (!fsdp)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a data-parallel mode");
    *fsdp = (struct fsdp){.base = {.mode = mode, .setup = *setup}, .ranks = *ranks};
    fsdp->groups = calloc((size_t)group_count, sizeof *fsdp->groups);
    if (!fsdp->groups)
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d shards", group_count);
    for (int g = 0; status == DT_OK && g < group_count; g++)
        status = fsdp_make_shard(fsdp, g);
    if (status < 0) {
        fsdp_destroy(&fsdp->base);
        return status;
    }
    *out = &fsdp->base;
    return DT_OK;
}

static dt_status fsdp_create(const struct dp_setup *setup, struct data_parallel **out)
{
    return fsdp_create_over(setup, &dp_fsdp, &(struct shard_ranks){.within = setup->comm}, out);
}

/* Backward of the embedding only scatters gradients into its tables: it never reads them. */
static bool read_by_backward(const struct gpt_stage *stage, const struct gpt_group *group)
{
    return group->layer_count > 1 || stage->layers[group->first_layer].kind != GPT_EMBEDDING;
}

/* Queue the gather of group `g`, unless there is none or it is there already. */
static dt_status fsdp_gather(struct data_parallel *dp, int g)
{
    if (g < 0)
        return DT_OK;
    const struct dp_setup *s = &dp->setup;
    struct dt_comm *within = fsdp_of(dp)->ranks.within;
    struct fsdp_group *f = &fsdp_of(dp)->groups[g];
    const struct shard *shard = &f->grads.shard;
    if (f->whole.data)
        return DT_OK;
    DT_TRY(dt_alloc(s->network, DT_COMMUNICATION, dp_bytes(s, shard_padded_elems(shard, within)), &f->whole));
    DT_TRY(dt_all_gather(within, f->params.data, f->whole.data, shard->share_elems, s->experiment->model.dtype, s->network));
    return dt_event_record(f->gathered, s->network);
}

/* Have the group there for the kernels, and the next one (`ahead`) on its way. */
static dt_status fsdp_use(struct data_parallel *dp, struct gpt_group *group, int ahead)
{
    struct fsdp_group *f = &fsdp_of(dp)->groups[group->index];
    DT_TRY(fsdp_gather(dp, group->index));
    DT_TRY(fsdp_gather(dp, ahead));
    DT_TRY(timeline_wait(dp->setup.timeline, f->gathered));
    group->params = f->whole.data;
    return DT_OK;
}

/* Free the group, unless its turn comes again at once. */
static void fsdp_release(struct data_parallel *dp, const struct gpt_group *group, const struct dp_moment *moment)
{
    if (moment->next_group != group->index)
        dt_free(dp->setup.compute, &fsdp_of(dp)->groups[group->index].whole);
}

dt_status fsdp_before_forward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    return fsdp_use(dp, group, moment->next_group);
}

dt_status fsdp_after_forward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    fsdp_release(dp, group, moment);
    return DT_OK;
}

dt_status fsdp_before_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    const struct gpt_stage *stage = dp->setup.stage;
    struct fsdp *fsdp = fsdp_of(dp);
    struct fsdp_group *f = &fsdp->groups[group->index];
    int next = moment->next_group;
    if (next == group->index - 1 && next >= 0 && !read_by_backward(stage, &stage->groups[next]))
        next = -1;

    DT_TRY(read_by_backward(stage, group) ? fsdp_use(dp, group, next) : fsdp_gather(dp, next));
    DT_TRY(shard_gradients_begin(&f->grads, &dp->setup, &fsdp->ranks, moment, &group->accumulate));
    group->grads = f->grads.whole.data;
    return DT_OK;
}

dt_status fsdp_after_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    const struct dp_setup *s = &dp->setup;
    struct fsdp *fsdp = fsdp_of(dp);
    struct fsdp_group *f = &fsdp->groups[group->index];
    fsdp_release(dp, group, moment);
    if (!moment->reduce)
        return DT_OK;
    DT_TRY(dt_event_record(f->computed, s->compute));
    DT_TRY(dt_stream_wait(s->network, f->computed));
    DT_TRY(shard_gradients_reduce(&f->grads, s, &fsdp->ranks, f->grads.whole.data));
    dt_free(s->network, &f->grads.whole);
    return dt_event_record(f->reduced, s->network);
}

dt_status fsdp_end_step(struct data_parallel *dp, const struct dp_moment *moment)
{
    const struct dp_setup *s = &dp->setup;
    DT_TRY(timeline_enter(s->timeline, TIMELINE_OPTIMIZER));
    for (int g = s->stage->group_count - 1; g >= 0; g--) {
        struct fsdp_group *f = &fsdp_of(dp)->groups[g];
        DT_TRY(timeline_wait(s->timeline, f->reduced));
        DT_TRY(optimizer_apply(f->optimizer, f->params.data, f->grads.share.data, 0, f->grads.shard.share_elems, moment->step, s->compute));
        /* the next step's gathers read what has just been written */
        DT_TRY(dt_event_record(f->computed, s->compute));
        DT_TRY(dt_stream_wait(s->network, f->computed));
    }
    return DT_OK;
}

const struct dp_mode dp_fsdp = {
    .name = "fsdp",
    .unit = fsdp_unit,
    .create = fsdp_create,
    .destroy = fsdp_destroy,
    .before_forward = fsdp_before_forward,
    .after_forward = fsdp_after_forward,
    .before_backward = fsdp_before_backward,
    .after_backward = fsdp_after_backward,
    .end_step = fsdp_end_step,
};

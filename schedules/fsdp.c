/* Fully sharded data parallel (ZeRO-3): every rank keeps an even share of each group's parameters, gradients and optimizer state.
 *
 * A group is gathered one group ahead of its forward and of its backward, freed after use, and its gradients are reduce-scattered, all on
 * the network stream beside the kernels. Shards are padded to the same length, at most size - 1 elements a group.
 * Source  Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, section 5.3 (P_os+g+p);
 *         Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.
 * Memory  whole groups and their gradients exist for a short time only and count as communication; the shards as parameters, gradients,
 *         optimizer. */
#include "schedules/data_parallel.h"
#include "schedules/optimizer.h"

#include <stdlib.h>

struct fsdp_group {
    size_t shard_elems;             /* ceil(param_elems / size) */
    struct dt_buffer params, grads; /* [shard_elems], this rank's share */
    struct optimizer *optimizer;
    struct dt_buffer whole;       /* [size * shard_elems] while gathered */
    struct dt_buffer whole_grads; /* [size * shard_elems] from backward to the end of the reduce-scatter */
    struct dt_event *gathered;    /* network: whole is there */
    struct dt_event *computed;    /* compute: whole_grads is there */
    struct dt_event *reduced;     /* network: grads is there */
};

struct fsdp {
    struct data_parallel base;
    struct fsdp_group *groups; /* [group_count] */
};

static struct fsdp *fsdp_of(struct data_parallel *dp)
{
    return (struct fsdp *)dp;
}

static enum gpt_unit fsdp_unit(const struct experiment *experiment)
{
    return experiment->fsdp.unit;
}

static size_t bytes_of(const struct data_parallel *dp, size_t elems)
{
    return elems * dt_dtype_bytes(dp->setup.experiment->model.dtype);
}

/* This rank's share of a group, initialised where it lives; the padding behind the last parameter is zero. */
static dt_status fsdp_make_shard(struct fsdp *fsdp, int g)
{
    const struct dp_setup *s = &fsdp->base.setup;
    const struct gpt_group *group = &s->stage->groups[g];
    struct fsdp_group *f = &fsdp->groups[g];
    size_t size = (size_t)dt_comm_size(s->comm), rank = (size_t)dt_comm_rank(s->comm);

    f->shard_elems = (group->param_elems + size - 1) / size;
    size_t first = rank * f->shard_elems, left = first < group->param_elems ? group->param_elems - first : 0;
    size_t real = left < f->shard_elems ? left : f->shard_elems, bytes = bytes_of(&fsdp->base, f->shard_elems);

    DT_TRY(dt_event_create(s->device, &f->gathered));
    DT_TRY(dt_event_create(s->device, &f->computed));
    DT_TRY(dt_event_create(s->device, &f->reduced));
    DT_TRY(dt_alloc(s->compute, DT_PARAMETERS, bytes, &f->params));
    DT_TRY(dt_alloc(s->compute, DT_GRADIENTS, bytes, &f->grads));
    DT_TRY(optimizer_create(s->experiment, s->stage, f->shard_elems, s->compute, &f->optimizer));
    if (real < f->shard_elems)
        DT_TRY(dt_zero(s->compute, (char *)f->params.data + bytes_of(&fsdp->base, real), bytes_of(&fsdp->base, f->shard_elems - real)));
    DT_TRY(real ? gpt_init_params(s->stage, group, first, real, f->params.data, s->compute) : DT_OK);

    /* The first gather, on another stream, must find the shard initialised. */
    DT_TRY(dt_event_record(f->computed, s->compute));
    return dt_stream_wait(s->network, f->computed);
}

static void fsdp_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct fsdp *fsdp = fsdp_of(dp);
    struct dt_stream *compute = dp->setup.compute;
    for (int g = 0; fsdp->groups && g < dp->setup.stage->group_count; g++) {
        struct fsdp_group *f = &fsdp->groups[g];
        dt_free(compute, &f->whole);
        dt_free(compute, &f->whole_grads);
        optimizer_destroy(f->optimizer, compute);
        dt_free(compute, &f->grads);
        dt_free(compute, &f->params);
        dt_event_destroy(f->gathered);
        dt_event_destroy(f->computed);
        dt_event_destroy(f->reduced);
    }
    free(fsdp->groups);
    free(fsdp);
}

static dt_status fsdp_create(const struct dp_setup *setup, struct data_parallel **out)
{
    dt_status status = DT_OK;
    int group_count = setup->stage->group_count;
    struct fsdp *fsdp = calloc(1, sizeof *fsdp);
    *out = NULL;
    if (!fsdp)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a data-parallel mode");
    fsdp->base = (struct data_parallel){.mode = &dp_fsdp, .setup = *setup};
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

/* Backward of the embedding only scatters gradients into its tables: it never reads them. */
static bool read_by_backward(const struct gpt_stage *stage, const struct gpt_group *group)
{
    return group->layer_count > 1 || stage->layers[group->first_layer].kind != GPT_EMBEDDING;
}

/* Queue the gather of group `g`, unless it is out of range or there already. */
static dt_status fsdp_gather(struct data_parallel *dp, int g)
{
    if (g < 0 || g >= dp->setup.stage->group_count)
        return DT_OK;
    struct fsdp_group *f = &fsdp_of(dp)->groups[g];
    if (f->whole.data)
        return DT_OK;
    size_t size = (size_t)dt_comm_size(dp->setup.comm);
    DT_TRY(dt_alloc(dp->setup.network, DT_COMMUNICATION, bytes_of(dp, size * f->shard_elems), &f->whole));
    DT_TRY(
        dt_all_gather(dp->setup.comm, f->params.data, f->whole.data, f->shard_elems, dp->setup.experiment->model.dtype, dp->setup.network));
    return dt_event_record(f->gathered, dp->setup.network);
}

/* Have group `g` there for the kernels, and the next one (`ahead`) on its way. */
static dt_status fsdp_use(struct data_parallel *dp, struct gpt_group *group, int ahead)
{
    struct fsdp_group *f = &fsdp_of(dp)->groups[group->index];
    DT_TRY(fsdp_gather(dp, group->index));
    DT_TRY(fsdp_gather(dp, ahead));
    DT_TRY(timeline_wait(dp->setup.timeline, f->gathered));
    group->params = f->whole.data;
    return DT_OK;
}

static dt_status fsdp_before_forward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    return fsdp_use(dp, group, moment->next_group);
}

static dt_status fsdp_after_forward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    if (moment->next_group != group->index) /* otherwise its backward comes next: it stays */
        dt_free(dp->setup.compute, &fsdp_of(dp)->groups[group->index].whole);
    return DT_OK;
}

static dt_status fsdp_before_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    const struct gpt_stage *stage = dp->setup.stage;
    struct fsdp_group *f = &fsdp_of(dp)->groups[group->index];
    size_t size = (size_t)dt_comm_size(dp->setup.comm), padded = size * f->shard_elems;
    bool ahead_is_read = moment->next_group >= 0 && read_by_backward(stage, &stage->groups[moment->next_group]);

    if (read_by_backward(stage, group))
        DT_TRY(fsdp_use(dp, group, ahead_is_read ? moment->next_group : -1));
    DT_TRY(dt_alloc(dp->setup.compute, DT_COMMUNICATION, bytes_of(dp, padded), &f->whole_grads));
    if (padded > group->param_elems)
        DT_TRY(dt_zero(dp->setup.compute, (char *)f->whole_grads.data + bytes_of(dp, group->param_elems),
                       bytes_of(dp, padded - group->param_elems)));
    group->grads = f->whole_grads.data;
    group->accumulate = false;
    return DT_OK;
}

static dt_status fsdp_after_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    struct fsdp_group *f = &fsdp_of(dp)->groups[group->index];
    dt_free(dp->setup.compute, &f->whole);
    DT_TRY(dt_event_record(f->computed, dp->setup.compute));
    DT_TRY(dt_stream_wait(dp->setup.network, f->computed));
    DT_TRY(dt_reduce_scatter(dp->setup.comm, f->whole_grads.data, f->grads.data, f->shard_elems, dp->setup.experiment->model.dtype, DT_AVG,
                             dp->setup.network));
    dt_free(dp->setup.network, &f->whole_grads);
    return dt_event_record(f->reduced, dp->setup.network);
}

static dt_status fsdp_end_step(struct data_parallel *dp, const struct dp_moment *moment)
{
    struct fsdp *fsdp = fsdp_of(dp);
    DT_TRY(timeline_enter(dp->setup.timeline, TIMELINE_OPTIMIZER));
    for (int g = dp->setup.stage->group_count - 1; g >= 0; g--) {
        struct fsdp_group *f = &fsdp->groups[g];
        DT_TRY(timeline_wait(dp->setup.timeline, f->reduced));
        DT_TRY(optimizer_apply(f->optimizer, f->params.data, f->grads.data, 0, f->shard_elems, moment->step, dp->setup.compute));
        /* the next step's gathers read what has just been written */
        DT_TRY(dt_event_record(f->computed, dp->setup.compute));
        DT_TRY(dt_stream_wait(dp->setup.network, f->computed));
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

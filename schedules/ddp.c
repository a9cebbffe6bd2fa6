/* Distributed data parallel: a whole replica on every rank; gradients are averaged in buckets while backward goes on.
 *
 * Source  Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020, section 3.2: buckets of 25 MiB
 *         in reverse order of the layers, gradients as views into the buckets, communication started as soon as a bucket is full.
 * Differs a bucket is closed at the end of a layer, not of a tensor, since that is when our gradients become ready. */
#include "schedules/replica.h"

#include <stdlib.h>

struct ddp_bucket {
    size_t first_elem, count_elems; /* in the replica's flat gradients */
    int groups, groups_missing;     /* of this step's last micro-batch */
    struct dt_event *computed;      /* compute: the bucket's last gradient is there */
    struct dt_event *reduced;       /* network: the averages are there */
};

struct ddp {
    struct data_parallel base;
    struct replica replica;
    struct ddp_bucket *buckets; /* in the order in which backward fills them */
    int bucket_count;
    int *bucket_of; /* [group_count] */
};

static struct ddp *ddp_of(struct data_parallel *dp)
{
    return (struct ddp *)dp;
}

static void *bucket_grads(const struct ddp *ddp, const struct ddp_bucket *bucket)
{
    return (char *)ddp->replica.grads.data + bucket->first_elem * dt_dtype_bytes(ddp->base.setup.experiment->model.dtype);
}

static enum gpt_unit ddp_unit(const struct experiment *experiment)
{
    return GPT_UNIT_LINEAR; /* the finest there is, so that buckets close near their size */
}

/* Walk the groups as backward will, and close a bucket once it has reached its size. */
static dt_status ddp_make_buckets(struct ddp *ddp)
{
    const struct dp_setup *s = &ddp->base.setup;
    size_t element_bytes = dt_dtype_bytes(s->experiment->model.dtype);
    double bucket_bytes = s->experiment->ddp.bucket_mib * 1024 * 1024;

    ddp->buckets = calloc((size_t)s->stage->group_count, sizeof *ddp->buckets);
    ddp->bucket_of = calloc((size_t)s->stage->group_count, sizeof *ddp->bucket_of);
    if (!ddp->buckets || !ddp->bucket_of)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d buckets", s->stage->group_count);
    for (int g = s->stage->group_count - 1; g >= 0; g--) {
        struct ddp_bucket *bucket = &ddp->buckets[ddp->bucket_count];
        if (bucket->groups++ == 0) {
            bucket->first_elem = ddp->replica.offset_elems[g];
            DT_TRY(dt_event_create(s->device, &bucket->computed));
            DT_TRY(dt_event_create(s->device, &bucket->reduced));
        }
        bucket->count_elems += s->stage->groups[g].param_elems;
        ddp->bucket_of[g] = ddp->bucket_count;
        if ((double)(bucket->count_elems * element_bytes) >= bucket_bytes || g == 0)
            ddp->bucket_count++;
    }
    return DT_OK;
}

static void ddp_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct ddp *ddp = ddp_of(dp);
    for (int i = 0; ddp->buckets && i < dp->setup.stage->group_count; i++) {
        dt_event_destroy(ddp->buckets[i].computed);
        dt_event_destroy(ddp->buckets[i].reduced);
    }
    replica_finish(&ddp->replica, &dp->setup);
    free(ddp->buckets);
    free(ddp->bucket_of);
    free(ddp);
}

static dt_status ddp_create(const struct dp_setup *setup, struct data_parallel **out)
{
    struct ddp *ddp = calloc(1, sizeof *ddp);
    dt_status status;
    *out = NULL;
    if (!ddp)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a data-parallel mode");
    ddp->base = (struct data_parallel){.mode = &dp_ddp, .setup = *setup};
    if ((status = replica_init(&ddp->replica, setup, true)) < 0 || (status = ddp_make_buckets(ddp)) < 0) {
        ddp_destroy(&ddp->base);
        return status;
    }
    *out = &ddp->base;
    return DT_OK;
}

static dt_status ddp_forward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    return DT_OK; /* the replica is always there */
}

static dt_status ddp_before_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    struct ddp *ddp = ddp_of(dp);
    struct ddp_bucket *bucket = &ddp->buckets[ddp->bucket_of[group->index]];
    group->accumulate = !moment->first_micro_batch;
    if (moment->last_micro_batch && bucket->groups_missing == 0)
        bucket->groups_missing = bucket->groups;
    return DT_OK;
}

/* A bucket leaves on the network stream as soon as its last gradient is computed, while backward goes on: this overlap is what DDP is. */
static dt_status ddp_after_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    struct ddp *ddp = ddp_of(dp);
    struct ddp_bucket *bucket = &ddp->buckets[ddp->bucket_of[group->index]];
    if (!moment->last_micro_batch || --bucket->groups_missing > 0)
        return DT_OK;
    DT_TRY(dt_event_record(bucket->computed, dp->setup.compute));
    DT_TRY(dt_stream_wait(dp->setup.network, bucket->computed));
    DT_TRY(dt_all_reduce(dp->setup.comm, bucket_grads(ddp, bucket), bucket->count_elems, dp->setup.experiment->model.dtype, DT_AVG,
                         dp->setup.network));
    return dt_event_record(bucket->reduced, dp->setup.network);
}

/* The first buckets are updated while the last ones are still on their way. */
static dt_status ddp_end_step(struct data_parallel *dp, const struct dp_moment *moment)
{
    struct ddp *ddp = ddp_of(dp);
    DT_TRY(timeline_enter(dp->setup.timeline, TIMELINE_OPTIMIZER));
    for (int i = 0; i < ddp->bucket_count; i++) {
        struct ddp_bucket *bucket = &ddp->buckets[i];
        DT_TRY(timeline_wait(dp->setup.timeline, bucket->reduced));
        DT_TRY(replica_update(&ddp->replica, &dp->setup, bucket->first_elem, bucket->count_elems, bucket_grads(ddp, bucket), moment->step));
    }
    return DT_OK;
}

const struct dp_mode dp_ddp = {
    .name = "ddp",
    .unit = ddp_unit,
    .create = ddp_create,
    .destroy = ddp_destroy,
    .before_forward = ddp_forward,
    .after_forward = ddp_forward,
    .before_backward = ddp_before_backward,
    .after_backward = ddp_after_backward,
    .end_step = ddp_end_step,
};

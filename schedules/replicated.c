#include "schedules/replicated.h"

#include <stdlib.h>

/* ---- setting up ---- */

static dt_status create_events(struct bucket *bucket, struct dt_device *device)
{
    struct dt_event **events[] = {&bucket->computed, &bucket->reduced, &bucket->updated, &bucket->published};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        DT_TRY(dt_event_create(device, events[i]));
    return DT_OK;
}

/* The room a bucket takes in the flat parameters: divided ones have equal shares, and the next one's weights stay aligned. */
static size_t room_elems(const struct replicated *r, size_t elems)
{
    const struct dp_setup *s = &r->base.setup;
    if (!r->scheme->divided)
        return elems;
    struct shard shard = shard_of(elems, r->ranks.within);
    return dt_ledger_rounded(dp_bytes(s, shard_padded_elems(&shard, r->ranks.within))) / dp_bytes(s, 1);
}

/* Walk the groups as backward will, and close a bucket once it has reached its size. *flat_elems gets the length of all of them. */
static dt_status make_buckets(struct replicated *r, size_t *offset_elems, size_t *flat_elems)
{
    const struct dp_setup *s = &r->base.setup;
    double bucket_bytes = r->scheme->bucket_bytes(s->experiment);
    *flat_elems = 0;
    for (int g = s->stage->group_count - 1; g >= 0; g--) {
        struct bucket *bucket = &r->buckets[r->bucket_count];
        if (bucket->groups++ == 0) {
            bucket->first_elem = *flat_elems;
            DT_TRY(create_events(bucket, s->device));
        }
        offset_elems[g] = bucket->first_elem + bucket->elems;
        bucket->elems += s->stage->groups[g].param_elems;
        r->bucket_of[g] = r->bucket_count;
        if ((double)dp_bytes(s, bucket->elems) >= bucket_bytes || g == 0) {
            *flat_elems += room_elems(r, bucket->elems);
            r->bucket_count++;
        }
    }
    return DT_OK;
}

static dt_status make_replica(struct replicated *r)
{
    const struct dp_setup *s = &r->base.setup;
    struct replica_options options = {.keep_gradients = r->scheme->keep_gradients,
                                      .summed_ranks = r->scheme->summed ? dt_comm_size(s->comm) : 1};
    size_t *offset_elems = calloc((size_t)s->stage->group_count, sizeof *offset_elems);
    dt_status status = offset_elems ? make_buckets(r, offset_elems, &options.flat_elems)
                                    : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d groups", s->stage->group_count);
    if (status == DT_OK)
        status = r->scheme->divide(r);
    for (int i = 0; i < r->bucket_count; i++) {
        r->buckets[i].own_state_elem = options.state_elems;
        options.state_elems += r->buckets[i].own_elems;
    }
    options.offset_elems = offset_elems;
    if (status == DT_OK)
        status = replica_init(&r->replica, s, &options);
    free(offset_elems);
    return status;
}

dt_status replicated_create(const struct dp_setup *setup, const struct dp_mode *mode, const struct replicated_scheme *scheme,
                            struct data_parallel **out)
{
    int group_count = setup->stage->group_count;
    struct replicated *r = calloc(1, sizeof *r);
    dt_status status = DT_OK;
    *out = NULL;
    if (!r)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a data-parallel mode");
    *r = (struct replicated){.base = {.mode = mode, .setup = *setup}, .scheme = scheme, .ranks = {.within = setup->comm}};
    r->buckets = calloc((size_t)group_count, sizeof *r->buckets);
    r->bucket_of = calloc((size_t)group_count, sizeof *r->bucket_of);
    if (!r->buckets || !r->bucket_of)
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d buckets", group_count);
    if (status == DT_OK)
        status = make_replica(r);
    if (status < 0) {
        replicated_destroy(&r->base);
        return status;
    }
    *out = &r->base;
    return DT_OK;
}

void replicated_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct replicated *r = replicated_of(dp);
    for (int i = 0; r->buckets && i < dp->setup.stage->group_count; i++) {
        struct bucket *bucket = &r->buckets[i];
        shard_gradients_finish(&bucket->shard, &dp->setup);
        dt_event_destroy(bucket->computed);
        dt_event_destroy(bucket->reduced);
        dt_event_destroy(bucket->updated);
        dt_event_destroy(bucket->published);
    }
    replica_finish(&r->replica, &dp->setup);
    free(r->buckets);
    free(r->bucket_of);
    free(r);
}

/* ---- common parts of schemes ---- */

double replicated_bucket_bytes(const struct experiment *experiment)
{
    return experiment->ddp.bucket_mib * 1024 * 1024;
}

dt_status replicated_begin_flat(struct replicated *r, struct bucket *bucket, const struct dp_moment *moment, bool keeps_sum)
{
    const struct dp_setup *s = &r->base.setup;
    if (moment->first_micro_batch) {
        bucket->accumulate = false;
    } else if (bucket->sent) { /* the network may still be at what is about to be written */
        DT_TRY(timeline_wait(s->timeline, bucket->reduced));
        bucket->accumulate = keeps_sum;
    } else {
        bucket->accumulate = true;
    }
    bucket->grads = replica_grads(&r->replica, s, bucket->first_elem);
    return DT_OK;
}

dt_status replicated_publish(struct replicated *r, struct bucket *bucket, dt_status (*publish)(struct replicated *r, struct bucket *bucket))
{
    const struct dp_setup *s = &r->base.setup;
    DT_TRY(dt_event_record(bucket->updated, s->compute));
    DT_TRY(dt_stream_wait(s->network, bucket->updated));
    DT_TRY(publish(r, bucket));
    return dt_event_record(bucket->published, s->network);
}

/* ---- hooks ---- */

enum gpt_unit replicated_unit(const struct experiment *experiment)
{
    return GPT_UNIT_LINEAR;
}

dt_status replicated_forward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    return DT_OK;
}

dt_status replicated_before_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    struct replicated *r = replicated_of(dp);
    struct bucket *bucket = &r->buckets[r->bucket_of[group->index]];
    if (bucket->groups_left == 0) {
        bucket->groups_left = bucket->groups;
        DT_TRY(r->scheme->begin(r, bucket, moment));
    }
    group->grads = (char *)bucket->grads + dp_bytes(&dp->setup, r->replica.offset_elems[group->index] - bucket->first_elem);
    group->accumulate = bucket->accumulate;
    return DT_OK;
}

/* A bucket leaves on the network stream as soon as its last gradient is computed, while backward goes on. */
dt_status replicated_after_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    struct replicated *r = replicated_of(dp);
    struct bucket *bucket = &r->buckets[r->bucket_of[group->index]];
    if (--bucket->groups_left > 0)
        return DT_OK;
    bucket->sent = moment->reduce;
    if (!moment->reduce)
        return DT_OK;
    DT_TRY(dt_event_record(bucket->computed, dp->setup.compute));
    DT_TRY(dt_stream_wait(dp->setup.network, bucket->computed));
    DT_TRY(r->scheme->reduce(r, bucket));
    return dt_event_record(bucket->reduced, dp->setup.network);
}

dt_status replicated_end_step(struct data_parallel *dp, const struct dp_moment *moment)
{
    struct replicated *r = replicated_of(dp);
    const struct dp_setup *s = &dp->setup;
    DT_TRY(timeline_enter(s->timeline, TIMELINE_OPTIMIZER));
    for (int i = 0; i < r->bucket_count; i++) {
        struct bucket *bucket = &r->buckets[i];
        DT_TRY(timeline_wait(s->timeline, bucket->reduced));
        DT_TRY(replica_update(&r->replica, s, bucket->own_first_elem, bucket->own_elems, bucket->own_state_elem, bucket->own_grads,
                              moment->step));
        if (r->scheme->publish)
            DT_TRY(replicated_publish(r, bucket, r->scheme->publish));
    }
    for (int i = 0; i < r->bucket_count && r->scheme->publish; i++)
        DT_TRY(timeline_wait(s->timeline, r->buckets[i].published));
    return DT_OK;
}

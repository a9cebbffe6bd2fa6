#include "schedules/data_parallel/buckets.h"
#include "schedules/data_parallel/norm.h"

#include <stdlib.h>

/* ---- setting up ---- */

/* The room of a bucket in the flat parameters: it is divisible into equal shares, and the next
 * bucket's weights stay aligned. */
static size_t room_elems(const struct buckets *b, size_t elems)
{
    const struct dp_setup *s = &b->base.setup;
    if (!b->scheme->divided)
        return elems;
    struct shard shard = shard_of(elems, s->shards);
    return dt_ledger_rounded(dp_bytes(s, shard_padded_elems(&shard, s->shards))) / dp_bytes(s, 1);
}

/* Whether the group begins a part: backward computes one part at a time. */
static bool begins_part(const struct dt_stage *stage, int group)
{
    for (int i = 0; i < stage->part_count; i++)
        if (stage->parts[i].first_group == group)
            return true;
    return false;
}

/* Walk the groups in backward's order, and close a bucket once it has reached its size. *flat_elems
 * gets the total length. */
static dt_status make_buckets(struct buckets *b, size_t *offset_elems, size_t *flat_elems)
{
    const struct dp_setup *s = &b->base.setup;
    double bucket_bytes = b->scheme->every_group ? 0 : s->experiment->ddp.bucket_mib * 1024 * 1024;
    *flat_elems = 0;
    for (int g = s->stage->group_count - 1; g >= 0; g--) {
        struct bucket *bucket = &b->buckets[b->bucket_count];
        if (bucket->elems == 0) {
            bucket->first_elem = *flat_elems;
            DT_TRY(dt_event_create(s->device, &bucket->reduced));
            DT_TRY(dt_event_create(s->device, &bucket->published));
        }
        offset_elems[g] = bucket->first_elem + bucket->elems;
        bucket->elems += s->stage->groups[g].param_elems;
        b->bucket_of[g] = b->bucket_count;
        if ((double)dp_bytes(s, bucket->elems) >= bucket_bytes || begins_part(s->stage, g)) {
            bucket->own_first_elem = bucket->first_elem;
            bucket->own_elems = bucket->elems;
            *flat_elems += room_elems(b, bucket->elems);
            b->bucket_count++;
        }
    }
    return DT_OK;
}

/* Make the buckets, then the replica that they are parts of. offset_elems [group_count] gets the
 * beginning of each group. */
static dt_status make_replica_of(struct buckets *b, size_t *offset_elems)
{
    const struct dp_setup *s = &b->base.setup;
    struct replica_options options = {.offset_elems = offset_elems,
                                      .keep_gradients = b->scheme->keep_gradients && !s->offload,
                                      .summed_ranks = b->scheme->summed ? dt_comm_size(s->replicas) : 1};
    DT_TRY(make_buckets(b, offset_elems, &options.flat_elems));
    if (b->scheme->divide)
        DT_TRY(b->scheme->divide(b));
    for (int i = 0; i < b->bucket_count; i++) {
        b->buckets[i].own_state_elem = options.state_elems;
        options.state_elems += b->buckets[i].own_elems;
    }
    return replica_init(&b->replica, s, &options);
}

static dt_status make_replica(struct buckets *b)
{
    int group_count = b->base.setup.stage->group_count;
    DT_FREED size_t *offset_elems = calloc((size_t)group_count, sizeof *offset_elems);
    DT_TRY(dt_allocated(offset_elems, "no host memory for %d groups", group_count));
    return make_replica_of(b, offset_elems);
}

dt_status buckets_fetch(struct data_parallel *dp, int g, struct resident *to)
{
    struct buckets *b = buckets_of(dp);
    return replica_fetch(&b->replica, &dp->setup, g, &b->buckets[b->bucket_of[g]].home, to);
}

static dt_status make_homes(struct buckets *b)
{
    const struct dp_setup *s = &b->base.setup;
    DT_TRY(residency_init(&b->base));
    for (int i = 0; i < b->bucket_count; i++)
        DT_TRY(offload_home_init(&b->buckets[i].home, s, b->buckets[i].own_elems));
    return DT_OK;
}

dt_status buckets_create(const struct dp_mode *mode, const struct dp_setup *setup, struct data_parallel **out)
{
    int group_count = setup->stage->group_count;
    struct buckets *b = calloc(1, sizeof *b);
    *out = NULL;
    DT_TRY(dt_allocated(b, "no host memory for a data-parallel mode"));
    DT_DESTROYED(buckets_destroy) struct data_parallel *dp = &b->base;
    *b = (struct buckets){.base = {.mode = mode, .setup = *setup}, .scheme = mode->buckets};
    b->buckets = calloc((size_t)group_count, sizeof *b->buckets);
    b->bucket_of = calloc((size_t)group_count, sizeof *b->bucket_of);
    dp->bucket_of = b->bucket_of;
    dp->repeats_updates = mode->holds.optimizer == DP_ALL && dt_comm_rank(setup->replicas) > 0;
    dp->rules.reduce_every = setup->reduce_every;
    dp->rules.publishes = mode->buckets->publishes_first || (mode->buckets->publish && setup->experiment->ddp.overlap_param_gather);
    DT_TRY(dt_allocated(b->buckets && b->bucket_of, "no host memory for %d buckets", group_count));
    DT_TRY(make_replica(b));
    if (setup->offload)
        DT_TRY(make_homes(b));
    *out = DT_PASSED_ON(dp);
    return DT_OK;
}

void buckets_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct buckets *b = buckets_of(dp);
    for (int i = 0; b->buckets && i < dp->setup.stage->group_count; i++) {
        struct bucket *bucket = &b->buckets[i];
        shard_gradients_finish(&bucket->shard, &dp->setup);
        dt_free(dp->setup.compute, &bucket->flat);
        offload_home_finish(&bucket->home, &dp->setup);
        dt_event_destroy(bucket->reduced);
        dt_event_destroy(bucket->published);
    }
    residency_finish(dp);
    replica_finish(&b->replica, &dp->setup);
    free(b->buckets);
    free(b->bucket_of);
    free(b);
}

/* ---- common parts of schemes ---- */

dt_status buckets_begin_flat(struct buckets *b, struct bucket *bucket, const struct action *action, bool keeps_sum)
{
    const struct dp_setup *s = &b->base.setup;
    if (s->offload) { /* the buffer exists only until its gradients have been reduced */
        DT_TRY(dt_alloc(s->compute, DT_GRADIENTS, dp_grads_bytes(s, room_elems(b, bucket->elems)), &bucket->flat));
        bucket->grads = bucket->flat.data;
        return DT_OK;
    }
    if (!(action->flags & ACTION_FIRST)) /* the network may still read what is about to be overwritten */
        DT_TRY(timeline_wait(s->timeline, bucket->reduced));
    bucket->keeps_sum = keeps_sum;
    bucket->grads = replica_grads(&b->replica, s, bucket->first_elem);
    return DT_OK;
}

/* In bucket->params, on the device: copy this rank's part, elements [own, own_end), from its home;
 * publish; copy the other parts to their homes. */
static dt_status publish_through_device(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    const struct offload *o = s->offload;
    size_t own = bucket->own_elems ? bucket->own_first_elem - bucket->first_elem : 0, own_end = own + bucket->own_elems;
    DT_TRY(dt_copy_from_host(o->to_device, (char *)bucket->params + dp_bytes(s, own),
                             replica_params(&b->replica, s, bucket->own_first_elem), dp_bytes(s, bucket->own_elems)));
    DT_TRY(dt_stream_follow(s->network, o->to_device));
    DT_TRY(b->scheme->publish(b, bucket));
    DT_TRY(dt_event_record(bucket->published, s->network));
    DT_TRY(dt_stream_wait(o->to_host, bucket->published));
    return dt_copy_to_host_around(o->to_host, replica_params(&b->replica, s, bucket->first_elem), bucket->params,
                                  dp_bytes(s, bucket->elems), dp_bytes(s, own), dp_bytes(s, own_end));
}

/* Parameters in host memory are sent through the device. */
static dt_status publish_offloaded(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    const struct offload *o = s->offload;
    struct dt_buffer buffer;
    DT_TRY(dt_stream_wait(o->to_device, bucket->home.current));
    DT_TRY(dt_alloc(o->to_device, DT_COMMUNICATION, dp_bytes(s, room_elems(b, bucket->elems)), &buffer));
    bucket->params = buffer.data;
    dt_status status = publish_through_device(b, bucket);
    dt_free(o->to_host, &buffer);
    DT_TRY(status);
    return dt_event_record(bucket->home.current, o->to_host);
}

/* Send the bucket's parameters; the network has waited for their update, or does so here if it is
 * the host's. */
static dt_status publish(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    if (s->offload)
        return publish_offloaded(b, bucket);
    bucket->params = replica_params(&b->replica, s, bucket->first_elem);
    DT_TRY(b->scheme->publish(b, bucket));
    return dt_event_record(bucket->published, s->network);
}

/* The network waits for the device's updates. */
static dt_status follow_updates(const struct dp_setup *s)
{
    return s->offload ? DT_OK : dt_stream_follow(s->network, s->compute);
}

/* Publish the buckets from `first` on that are left in this step, in forward's order, which is the
 * reverse of theirs. */
static dt_status publish_from(struct buckets *b, int first)
{
    while (b->unpublished > first && b->unpublished > 0)
        DT_TRY(publish(b, &b->buckets[--b->unpublished]));
    return DT_OK;
}

/* ---- hooks ---- */

enum dt_unit buckets_unit(const struct experiment *experiment)
{
    return strategy_reads_blocks(&experiment->strategy) && experiment->parameter_offload ? DT_UNIT_BLOCK : DT_UNIT_LINEAR;
}

dt_status buckets_publish(struct data_parallel *dp)
{
    struct buckets *b = buckets_of(dp);
    bool all = b->scheme->publishes_first || dp->setup.offload; /* groups are fetched from the host ahead of their use */
    b->unpublished = b->bucket_count;
    DT_TRY(follow_updates(&dp->setup));
    return publish_from(b, all ? 0 : b->bucket_count - 1);
}

dt_status buckets_use(struct data_parallel *dp, const struct dt_group *group, const struct action *action)
{
    struct buckets *b = buckets_of(dp);
    int bucket = b->bucket_of[group->index];
    if (!dp->rules.publishes || !(action->flags & ACTION_FIRST) || dp->setup.offload)
        return DT_OK;
    DT_TRY(publish_from(b, bucket - 1)); /* and the next one */
    return timeline_wait(dp->setup.timeline, b->buckets[bucket].published);
}

dt_status buckets_begin_gradients(struct data_parallel *dp, struct dt_group *group, const struct action *action)
{
    struct buckets *b = buckets_of(dp);
    struct bucket *bucket = &b->buckets[b->bucket_of[group->index]];
    if (!bucket->open)
        DT_TRY(b->scheme->begin(b, bucket, action));
    bucket->open = true;
    group->grads = (char *)bucket->grads + dp_grads_bytes(&dp->setup, b->replica.offset_elems[group->index] - bucket->first_elem);
    group->accumulate = action->flags & ACTION_FRESH ? bucket->keeps_sum && !(action->flags & ACTION_FIRST) : true;
    return DT_OK;
}

static dt_status update_offloaded(struct buckets *b, struct bucket *bucket)
{
    if (bucket->own_elems == 0)
        return DT_OK;
    return offload_update(&bucket->home, &b->base.setup, b->replica.optimizer,
                          replica_params(&b->replica, &b->base.setup, bucket->own_first_elem), bucket->own_first_elem,
                          bucket->own_state_elem);
}

/* Copy the bucket's reduced gradients to the host. After the last micro-batch the host updates at
 * once, unless updates wait for the norm. */
static dt_status offload_bucket(struct buckets *b, struct bucket *bucket, const struct action *action)
{
    const struct dp_setup *s = &b->base.setup;
    struct dt_buffer *holder = b->scheme->keep_gradients ? &bucket->flat : &bucket->shard.whole;
    DT_TRY(offload_gradients(&bucket->home, s, bucket->reduced, bucket->own_grads, holder));
    return action->flags & ACTION_LAST && !s->norm ? update_offloaded(b, bucket) : DT_OK;
}

/* Reduce a bucket on the network stream as soon as its last gradient is computed, while backward
 * goes on (unless ddp.overlap is false). */
dt_status buckets_reduce(struct data_parallel *dp, const struct dt_group *group, const struct action *action)
{
    struct buckets *b = buckets_of(dp);
    struct bucket *bucket = &b->buckets[b->bucket_of[group->index]];
    bucket->open = false;
    DT_TRY(dt_stream_follow(dp->setup.network, dp->setup.compute));
    DT_TRY(b->scheme->reduce(b, bucket));
    DT_TRY(dt_event_record(bucket->reduced, dp->setup.network));
    if (!dp->setup.experiment->ddp.overlap)
        DT_TRY(timeline_wait(dp->setup.timeline, bucket->reduced));
    return dp->setup.offload ? offload_bucket(b, bucket, action) : DT_OK;
}

static dt_status update(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    if (s->offload) /* without a norm the update is queued already */
        return s->norm ? update_offloaded(b, bucket) : DT_OK;
    if (!s->norm)
        DT_TRY(timeline_wait(s->timeline, bucket->reduced));
    return replica_update(&b->replica, s, bucket->own_first_elem, bucket->own_elems, bucket->own_state_elem, bucket->own_grads);
}

static size_t within(size_t at, size_t first, size_t end)
{
    return at < first ? first : at < end ? at : end;
}

/* Add this rank's part of group `g`, which is in the bucket. */
static dt_status add_group_to_norm(struct buckets *b, const struct bucket *bucket, int g)
{
    const struct dp_setup *s = &b->base.setup;
    size_t first = b->replica.offset_elems[g], end = first + s->stage->groups[g].param_elems;
    size_t own = within(bucket->own_first_elem, first, end), own_end = within(bucket->own_first_elem + bucket->own_elems, first, end);
    const void *grads = s->offload ? bucket->home.grads.data : bucket->own_grads;
    if (own == own_end)
        return DT_OK;
    struct norm_run run = {.g = g,
                           .first_elem = own - first,
                           .count_elems = own_end - own,
                           .grads = (const char *)grads + dp_grads_bytes(s, own - bucket->own_first_elem),
                           .replicas = b->scheme->summed ? NULL : s->replicas};
    return norm_add(s->norm, s, &run);
}

/* Add the buckets in the order of their reductions; the last group of each is the first in
 * memory. */
static dt_status settle_norm(struct buckets *b)
{
    const struct dp_setup *s = &b->base.setup;
    for (int g = s->stage->group_count - 1, at = -1; g >= 0; g--) {
        const struct bucket *bucket = &b->buckets[b->bucket_of[g]];
        if (at != b->bucket_of[g] && !s->offload)
            DT_TRY(timeline_wait(s->timeline, bucket->reduced));
        at = b->bucket_of[g];
        DT_TRY(add_group_to_norm(b, bucket, g));
    }
    return norm_settle(s->norm, s, b->scheme->summed ? dt_comm_size(s->replicas) : 1);
}

dt_status buckets_end_step(struct data_parallel *dp)
{
    struct buckets *b = buckets_of(dp);
    const struct dp_setup *s = &dp->setup;
    bool publishes = b->scheme->publish && !dp->rules.publishes;
    if (s->norm)
        DT_TRY(settle_norm(b));
    for (int i = 0; i < b->bucket_count; i++) {
        struct bucket *bucket = &b->buckets[i];
        DT_TRY(update(b, bucket));
        if (!publishes)
            continue;
        DT_TRY(follow_updates(s));
        DT_TRY(publish(b, bucket));
    }
    for (int i = 0; i < b->bucket_count; i++) {
        if (publishes)
            DT_TRY(timeline_wait(s->timeline, b->buckets[i].published));
        if (s->offload)
            DT_TRY(offload_await(&b->buckets[i].home, s));
    }
    return DT_OK;
}

/* Each group has up to three ranges: before this rank's part of the bucket, that part, and after
 * it. */
dt_status buckets_visit(struct data_parallel *dp, dp_visit visit, void *context)
{
    struct buckets *b = buckets_of(dp);
    for (int g = 0; g < dp->setup.stage->group_count; g++) {
        const struct bucket *bucket = &b->buckets[b->bucket_of[g]];
        size_t first = b->replica.offset_elems[g], end = first + dp->setup.stage->groups[g].param_elems;
        size_t own = within(bucket->own_first_elem, first, end), own_end = within(bucket->own_first_elem + bucket->own_elems, first, end);
        size_t state = bucket->own_state_elem + (own - bucket->own_first_elem);
        DT_TRY(replica_visit(&b->replica, &dp->setup, g, first, own, false, 0, false, visit, context));
        DT_TRY(replica_visit(&b->replica, &dp->setup, g, own, own_end, true, state, !dp->repeats_updates, visit, context));
        DT_TRY(replica_visit(&b->replica, &dp->setup, g, own_end, end, false, 0, false, visit, context));
    }
    return DT_OK;
}

/* ---- what ZeRO-1 and ZeRO-2 share ---- */

dt_status zero_divide(struct buckets *b, bool share_buffers)
{
    const struct dp_setup *s = &b->base.setup;
    for (int i = 0; i < b->bucket_count; i++) {
        struct bucket *bucket = &b->buckets[i];
        struct shard shard = bucket->shard.shard = shard_of(bucket->elems, s->shards);
        bucket->own_first_elem = bucket->first_elem + shard.first_elem;
        bucket->own_elems = shard.own_elems;
        if (share_buffers && !s->offload) /* otherwise the share is copied from its place in the whole */
            DT_TRY(dt_alloc(s->compute, DT_GRADIENTS, dp_gradient_bytes(s, shard.share_elems), &bucket->shard.share));
        bucket->own_grads = bucket->shard.share.data;
    }
    return DT_OK;
}

dt_status zero_publish(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    const void *share = (const char *)bucket->params + dp_bytes(s, bucket->shard.shard.first_elem);
    double of_blocks = 0;
    bool kept = dt_fp8_recipe(s->experiment->model.fp8)->weight_bytes > 0; /* in FP8, over all micro-batches */
    for (int g = 0; kept && g < s->stage->group_count; g++)
        of_blocks += &b->buckets[b->bucket_of[g]] == bucket && s->stage->groups[g].block >= 0 ? (double)s->stage->groups[g].param_elems : 0;
    return dt_all_gather(s->shards, share, bucket->params,
                         dp_gathered_elems(s, bucket->shard.shard.share_elems, of_blocks / (double)bucket->elems),
                         s->experiment->model.dtype, s->network);
}

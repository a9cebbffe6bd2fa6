/* ZeRO-2: whole parameters on each rank, gradients and optimizer state divided over the ranks.
 *
 * A bucket's whole gradients exist from its first backward to the end of its reduce-scatter, which
 * begins as soon as they are complete; then only the rank's share is left. Updating and gathering
 * parameters is as in ZeRO-1.
 * Memory  per rank and parameter, in a 16-bit dtype with Adam over N ranks: 2 bytes of parameters,
 *         (2 + 12) / N of gradients and optimizer state, and one bucket's gradients as
 *         communication. Micro-batches that are not reduced leave whole gradients until the last
 *         one.
 * Source  Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 *         Models", SC 2020, section 5.2 (P_os+g), with its bucketisation. */
#include "schedules/data_parallel/buckets.h"

static dt_status zero2_divide(struct buckets *b)
{
    return zero_divide(b, true);
}

static dt_status zero2_begin(struct buckets *b, struct bucket *bucket, const struct action *action)
{
    DT_TRY(shard_gradients_begin(&bucket->shard, &b->base.setup, action));
    bucket->grads = bucket->shard.whole.data;
    return DT_OK;
}

static dt_status zero2_reduce(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    DT_TRY(shard_gradients_reduce(&bucket->shard, s, bucket->grads));
    if (s->offload)
        bucket->own_grads = (const char *)bucket->grads + dp_grads_bytes(s, bucket->shard.shard.first_elem);
    else
        dt_free(s->network, &bucket->shard.whole);
    return DT_OK;
}

static const struct bucket_scheme zero2_scheme = {
    .divided = true,
    .divide = zero2_divide,
    .begin = zero2_begin,
    .reduce = zero2_reduce,
    .publish = zero_publish,
};

const struct dp_mode dp_zero2 = {
    .name = "zero2",
    .holds = {.parameters = DP_ALL, .gradients = DP_SHARE, .optimizer = DP_SHARE},
    .reduces = {{MESH_SHARD, DT_COMM_REDUCE_SCATTER, DP_ALL}},
    .publishes = {MESH_SHARD, DT_COMM_ALL_GATHER, DP_ALL},
    .ranks = DP_RANKS_SHARE_BUCKETS,
    .buckets = &zero2_scheme,
    BUCKETS_HOOKS,
};

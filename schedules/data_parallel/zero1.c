/* ZeRO-1: whole parameters and gradients on each rank, the optimizer state divided over the ranks.
 *
 * A bucket's gradients are reduce-scattered in place as soon as they are complete: each rank has
 * the averages of its share, updates that share, and all ranks gather the updated parameters. As
 * many bytes are sent as in DDP, whose all-reduce consists of the same two halves.
 * Memory  per rank and parameter, in a 16-bit dtype with Adam over N ranks: 2 bytes of parameters,
 *         2 of gradients, 12 / N of optimizer state. Reducing after each micro-batch needs 2 / N
 *         more of gradients, to keep the sum of the shares.
 * Source  Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 *         Models", SC 2020, section 5.1 (P_os). */
#include "schedules/data_parallel/buckets.h"

static dt_status zero1_divide(struct buckets *b)
{
    const struct experiment *e = b->base.setup.experiment;
    return zero_divide(b, e->micro_batches > 1 && e->gradient_reduction == REDUCTION_EACH);
}

/* After a reduction only this rank's share of the whole gradients is valid. */
static dt_status zero1_begin(struct buckets *b, struct bucket *bucket, const struct action *action)
{
    bucket->shard.has_sum &= !(action->flags & ACTION_FIRST);
    return buckets_begin_flat(b, bucket, action, false);
}

static dt_status zero1_reduce(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    if (!bucket->shard.share.data) /* the share has no separate buffer */
        bucket->own_grads = (char *)bucket->grads + dp_grads_bytes(s, bucket->shard.shard.first_elem);
    return shard_gradients_reduce(&bucket->shard, s, bucket->grads);
}

static const struct bucket_scheme zero1_scheme = {
    .divided = true,
    .keep_gradients = true,
    .divide = zero1_divide,
    .begin = zero1_begin,
    .reduce = zero1_reduce,
    .publish = zero_publish,
};

const struct dp_mode dp_zero1 = {
    .name = "zero1",
    .holds = {.parameters = DP_ALL, .optimizer = DP_SHARE},
    .reduces = {{MESH_SHARD, DT_COMM_REDUCE_SCATTER, DP_ALL}},
    .publishes = {MESH_SHARD, DT_COMM_ALL_GATHER, DP_ALL},
    .ranks = DP_RANKS_SHARE_BUCKETS,
    .buckets = &zero1_scheme,
    BUCKETS_HOOKS,
};

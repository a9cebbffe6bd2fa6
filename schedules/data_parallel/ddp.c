/* Distributed data parallel: a whole replica on every rank; gradients are averaged in buckets while
 * backward goes on, and every rank makes the same update.
 *
 * Memory  per rank and parameter, in a 16-bit dtype with Adam: 2 bytes of parameters, 2 of
 *         gradients, 12 of optimizer state.
 * Source  Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
 *         VLDB 2020, section 3.2: buckets of 25 MiB in reverse order of the layers, gradients as
 *         views into the buckets, communication started as soon as a bucket is full. */
#include "schedules/data_parallel/buckets.h"
#include "schedules/data_parallel/reduce.h"

/* Averaging an average again does not change it, so later micro-batches are added to it. */
static dt_status ddp_begin(struct buckets *b, struct bucket *bucket, const struct action *action)
{
    return buckets_begin_flat(b, bucket, action, true);
}

/* This overlap with backward is what DDP is. */
static dt_status ddp_reduce(struct buckets *b, struct bucket *bucket)
{
    bucket->own_grads = bucket->grads;
    return reduce_everywhere(&b->base.setup, bucket->grads, bucket->elems);
}

static const struct bucket_scheme ddp_scheme = {
    .keep_gradients = true,
    .begin = ddp_begin,
    .reduce = ddp_reduce,
};

const struct dp_mode dp_ddp = {
    .name = "ddp",
    .holds = {DP_ALL, DP_ALL, DP_ALL},
    .reduces = {{MESH_REPLICA, DT_COMM_ALL_REDUCE, DP_ALL}},
    .ranks = DP_RANKS_ALIKE,
    .alone = &dp_none,
    .buckets = &ddp_scheme,
    BUCKETS_HOOKS,
};

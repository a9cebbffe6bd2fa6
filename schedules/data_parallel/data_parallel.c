/* DataParallel: one root has the true parameters and the optimizer; every step it sends parameters
 * and receives gradients.
 *
 * A step begins with the broadcast of the root's parameters, bucket by bucket in forward's order;
 * forward waits for each bucket. As backward completes a bucket, its gradients are summed at the
 * root, while backward goes on. The root alone updates.
 * Memory  each rank holds whole parameters and gradients, the root also all of the optimizer state.
 * Source  torch.nn.DataParallel, in "Distributed model training in PyTorch using
 *         DistributedDataParallel", section "What about DataParallel?": replicas are made anew for
 *         every forward, gradients are gathered and summed on the root's device. With NCCL its
 *         replicate and reduce_add_coalesced are a broadcast and a reduction to the root. Differs
 *         ranks are processes, not threads of one, and each draws its own samples and has its own
 *         loss: no inputs are scattered, no outputs gathered. Parameters are sent once a step, not
 *         for each micro-batch. */
#include "schedules/data_parallel/buckets.h"
#include "schedules/data_parallel/reduce.h"

enum { ROOT = 0 };

static bool is_root(const struct buckets *b)
{
    return dt_comm_rank(b->base.setup.replicas) == ROOT;
}

static dt_status root_divide(struct buckets *b)
{
    for (int i = 0; i < b->bucket_count && !is_root(b); i++)
        b->buckets[i].own_elems = 0;
    return DT_OK;
}

static dt_status root_begin(struct buckets *b, struct bucket *bucket, const struct action *action)
{
    return buckets_begin_flat(b, bucket, action, is_root(b));
}

static dt_status root_reduce(struct buckets *b, struct bucket *bucket)
{
    bucket->own_grads = bucket->grads;
    return reduce_sums_at(&b->base.setup, bucket->grads, bucket->elems, ROOT);
}

static dt_status root_send(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    return dt_broadcast(s->replicas, bucket->params, bucket->elems, s->experiment->model.dtype, ROOT, s->network);
}

static const struct bucket_scheme root_scheme = {
    .keep_gradients = true,
    .summed = true,
    .publishes_first = true,
    .divide = root_divide,
    .begin = root_begin,
    .reduce = root_reduce,
    .publish = root_send,
};

const struct dp_mode dp_data_parallel = {
    .name = "data_parallel",
    .holds = {.parameters = DP_ALL},
    .reduces = {{MESH_REPLICA, DT_COMM_REDUCE, DP_ALL}},
    .publishes = {MESH_REPLICA, DT_COMM_BROADCAST, DP_ALL},
    .buckets = &root_scheme,
    BUCKETS_HOOKS,
};

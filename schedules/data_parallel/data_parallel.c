/* DataParallel: one root has the true parameters and the optimizer; every step it sends parameters and receives gradients.
 *
 * A step begins with the broadcast of the root's parameters, bucket by bucket in the order of forward, which waits for each. As backward
 * completes a bucket, its gradients are summed at the root, while backward goes on. The root alone updates.
 * Memory  each rank holds whole parameters and gradients, the root all of the optimizer state besides.
 * Source  torch.nn.DataParallel, in "Distributed model training in PyTorch using DistributedDataParallel", section "What about
 *         DataParallel?": replicas are made anew for every forward, gradients are gathered and summed on the root's device; its replicate
 *         and reduce_add_coalesced are a broadcast and a reduction to the root where NCCL is there.
 * Differs ranks are processes, not threads of one, and each draws its own samples and has its own loss: no inputs are scattered, no outputs
 *         gathered. Parameters travel once a step, not for each micro-batch. */
#include "schedules/data_parallel/buckets.h"

enum { ROOT = 0 };

static bool is_root(const struct replicated *r)
{
    return dt_comm_rank(r->base.setup.comm) == ROOT;
}

static dt_status root_divide(struct replicated *r)
{
    for (int i = 0; i < r->bucket_count; i++) {
        r->buckets[i].own_first_elem = r->buckets[i].first_elem;
        r->buckets[i].own_elems = is_root(r) ? r->buckets[i].elems : 0;
    }
    return DT_OK;
}

static dt_status root_begin(struct replicated *r, struct bucket *bucket, const struct dp_moment *moment)
{
    return replicated_begin_flat(r, bucket, moment, is_root(r));
}

static dt_status root_reduce(struct replicated *r, struct bucket *bucket)
{
    const struct dp_setup *s = &r->base.setup;
    bucket->own_grads = bucket->grads;
    return dt_reduce(s->comm, bucket->grads, bucket->elems, s->experiment->model.dtype, DT_SUM, ROOT, s->network);
}

static dt_status root_send(struct replicated *r, struct bucket *bucket)
{
    const struct dp_setup *s = &r->base.setup;
    return dt_broadcast(s->comm, bucket->params, bucket->elems, s->experiment->model.dtype, ROOT, s->network);
}

/* The step's parameters of this group are there, or on their way. */
static dt_status root_await(struct data_parallel *dp, const struct gpt_group *group, const struct dp_moment *moment)
{
    struct replicated *r = replicated_of(dp);
    if (!moment->first_micro_batch)
        return DT_OK;
    if (r->published_step != moment->step)
        for (int i = r->bucket_count - 1; i >= 0; i--)
            DT_TRY(replicated_publish(r, &r->buckets[i], root_send));
    r->published_step = moment->step;
    if (dp->setup.offload) /* its copy to the device waits */
        return DT_OK;
    return timeline_wait(dp->setup.timeline, r->buckets[r->bucket_of[group->index]].published);
}

static dt_status root_before_forward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    DT_TRY(root_await(dp, group, moment));
    return replicated_before_forward(dp, group, moment);
}

/* A head whose logits are not kept has its forward only here. */
static dt_status root_before_backward(struct data_parallel *dp, struct gpt_group *group, const struct dp_moment *moment)
{
    DT_TRY(root_await(dp, group, moment));
    return replicated_before_backward(dp, group, moment);
}

static const struct replicated_scheme root_scheme = {
    .bucket_bytes = replicated_bucket_bytes,
    .keep_gradients = true,
    .summed = true,
    .divide = root_divide,
    .begin = root_begin,
    .reduce = root_reduce,
};

static dt_status root_create(const struct dp_setup *setup, struct data_parallel **out)
{
    return replicated_create(setup, &dp_data_parallel, &root_scheme, out);
}

const struct dp_mode dp_data_parallel = {
    .name = "data_parallel",
    .unit = replicated_unit,
    .create = root_create,
    .destroy = replicated_destroy,
    .before_forward = root_before_forward,
    .after_forward = replicated_after_forward,
    .before_backward = root_before_backward,
    .after_backward = replicated_after_backward,
    .end_step = replicated_end_step,
};

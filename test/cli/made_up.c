/* Adds a paradigm, a data-parallel mode and a pipeline order to dtbench without changing its
 * sources: commands must learn everything from the rows. test_made_up.py tries the commands. */
#include "schedules/data_parallel/buckets.h"
#include "schedules/data_parallel/mode.h"
#include "schedules/plan/plan.h"

/* ---- a mode: a root averages the gradients and sends the averages to all, which make the same
 * update ---- */

static dt_status rooted_begin(struct buckets *b, struct bucket *bucket, const struct action *action)
{
    return buckets_begin_flat(b, bucket, action, true);
}

static dt_status rooted_reduce(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    enum dt_dtype dtype = s->experiment->model.dtype;
    bucket->own_grads = bucket->grads;
    DT_TRY(dt_reduce(s->replicas, bucket->grads, bucket->elems, dtype, DT_AVG, 0, s->network));
    return dt_broadcast(s->replicas, bucket->grads, bucket->elems, dtype, 0, s->network);
}

static const struct bucket_scheme rooted_scheme = {
    .keep_gradients = true,
    .begin = rooted_begin,
    .reduce = rooted_reduce,
};

static const struct dp_mode dp_rooted = {
    .name = "rooted",
    .holds = {DP_ALL, DP_ALL, DP_ALL},
    .reduces = {{MESH_REPLICA, DT_COMM_REDUCE, DP_ALL}, {MESH_REPLICA, DT_COMM_BROADCAST, DP_ALL}},
    .ranks = DP_RANKS_DIFFER,
    .alone = &dp_none,
    .unit = buckets_unit,
    .buckets = &rooted_scheme,
    .create = buckets_create,
    .destroy = buckets_destroy,
    .fetch = buckets_fetch,
    .begin_gradients = buckets_begin_gradients,
    .reduce = buckets_reduce,
    .end_step = buckets_end_step,
};

static const struct paradigm rooted = {
    .name = "rooted",
    .title = "Rooted",
    .help = "every rank has the whole model; a root averages gradients and sends the averages to all",
    .axes = MESH_ON_REPLICA,
    .mode = &dp_rooted,
    .reads = READS_PIPELINE | READS_BUCKETS | READS_OVERLAP,
    .bytes = {"2 P", "2 P", "12 P"},
};

const struct paradigm *paradigm_more(int index)
{
    return index == 0 ? &rooted : NULL;
}

/* ---- an order: each micro-batch forward and backward before the next ---- */

static dt_status emit_one_by_one(const struct order_shape *shape, struct plan *plan)
{
    for (int i = 0; i < shape->micro_batches; i++) {
        DT_TRY(plan_append_pass(plan, ACTION_FORWARD, 0, i));
        DT_TRY(plan_append_pass(plan, ACTION_BACKWARD, 0, i));
    }
    return DT_OK;
}

static double kept_one(const struct pipeline_order *order, const struct order_shape *shape, int rank)
{
    return 1;
}

static double bubble_one_by_one(const struct order_shape *shape)
{
    const struct plan_times *t = &shape->times;
    return shape->micro_batches * (shape->stages - 1) * (t->forward + t->backward_input + t->backward_weight);
}

static const struct pipeline_order one_by_one = {
    .name = "one_by_one",
    .title = "One-by-One",
    .help = "each micro-batch forward and backward before the next",
    .drains = ORDER_DRAINS_STEPS,
    .parts = 1,
    .emit = emit_one_by_one,
    .kept = kept_one,
    .bubble = bubble_one_by_one,
};

const struct pipeline_order *pipeline_order_more(int index)
{
    return index == 0 ? &one_by_one : NULL;
}

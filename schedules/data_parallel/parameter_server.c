/* Parameter server: each group of parameters belongs to one of k ranks, which sums the workers'
 * gradients, updates, and sends the result.
 *
 * Servers are workers, too. As soon as a group's gradients are complete every worker sends them to
 * the group's server, while backward goes on; the server receives those of
 * parameter_server.receives workers at a time, and adds them to its own. At the end of the step
 * each server updates its groups and sends them to every worker, one message each; with staleness
 * workers do not wait for that (late.h). A server's link carries size - 1 times its groups' bytes
 * in each direction. An all-reduce avoids this cost; more servers divide it.
 * Memory  each rank holds whole parameters and gradients; servers hold the optimizer state of their
 *         groups, and one group's gradients for each worker that they receive from at once, as
 *         communication.
 * Source  "Distributed model training in PyTorch using DistributedDataParallel", section "How data
 *         parallelization works", steps 1 to 5; Li et al., "Scaling Distributed Machine Learning
 *         with the Parameter Server", OSDI 2014, section 2, synchronous. Groups go, the largest
 *         first, to the server with the fewest bytes: Graham's LPT rule, and tf.train's
 *         GreedyLoadBalancingStrategy. */
#include "schedules/data_parallel/late.h"

#include <stdlib.h>

/* The largest bucket without a server, the first of equal ones; -1 when all have a server. */
static int largest_left(const struct buckets *b)
{
    int largest = -1;
    for (int i = 0; i < b->bucket_count; i++)
        if (b->buckets[i].server < 0 && (largest < 0 || b->buckets[i].elems > b->buckets[largest].elems))
            largest = i;
    return largest;
}

static dt_status server_divide(struct buckets *b)
{
    const struct dp_setup *s = &b->base.setup;
    int servers = s->experiment->parameter_server.servers, rank = dt_comm_rank(s->replicas);
    DT_FREED size_t *load_elems = calloc((size_t)servers, sizeof *load_elems);
    DT_TRY(dt_allocated(load_elems, "no host memory for %d parameter servers", servers));
    for (int i = 0; i < b->bucket_count; i++)
        b->buckets[i].server = -1;
    for (int i; (i = largest_left(b)) >= 0;) {
        struct bucket *bucket = &b->buckets[i];
        int idlest = 0;
        for (int k = 1; k < servers; k++)
            if (load_elems[k] < load_elems[idlest])
                idlest = k;
        load_elems[idlest] += bucket->elems;
        bucket->server = strategy_server_replica(&s->experiment->strategy, idlest);
        if (bucket->server != rank)
            bucket->own_elems = 0;
    }
    return DT_OK;
}

static dt_status server_begin(struct buckets *b, struct bucket *bucket, const struct action *action)
{
    DT_TRY(buckets_begin_flat(b, bucket, action, bucket->server == dt_comm_rank(b->base.setup.replicas)));
    if (b->late)
        bucket->grads = late_grads(b, bucket);
    return DT_OK;
}

static void *slot_of(const struct dp_setup *s, const struct bucket *bucket, void *arrived, int slot)
{
    return (char *)arrived + (size_t)slot * dt_ledger_rounded(dp_grads_bytes(s, bucket->elems));
}

/* Receive the gradients of workers [first, end) concurrently, then add them in the order of
 * ranks. */
static dt_status receive_and_add(struct buckets *b, struct bucket *bucket, int first, int end, void *arrived)
{
    const struct dp_setup *s = &b->base.setup;
    DT_TRY(dt_group_start(s->replicas));
    for (int i = first; i < end; i++)
        DT_TRY(dt_recv(s->replicas, slot_of(s, bucket, arrived, i - first), bucket->elems, s->gradient_dtype, i + (i >= bucket->server),
                       s->network));
    DT_TRY(dt_group_end(s->replicas));
    for (int i = first; i < end; i++)
        DT_TRY(dp_add_gradients(s, s->network, false, bucket->grads, slot_of(s, bucket, arrived, i - first), bucket->elems));
    return DT_OK;
}

static dt_status receive_from_all(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    int others = dt_comm_size(s->replicas) - 1, most = s->experiment->parameter_server.receives;
    int at_once = others < most ? others : most;
    struct dt_buffer arrived;
    dt_status status = DT_OK;
    if (others == 0)
        return DT_OK;
    DT_TRY(dt_alloc(s->network, DT_COMMUNICATION, (size_t)at_once * dt_ledger_rounded(dp_grads_bytes(s, bucket->elems)), &arrived));
    for (int first = 0; first < others && status == DT_OK; first += at_once)
        status = receive_and_add(b, bucket, first, first + at_once < others ? first + at_once : others, arrived.data);
    dt_free(s->network, &arrived);
    return status;
}

static dt_status server_reduce(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    bucket->own_grads = bucket->grads;
    if (bucket->server != dt_comm_rank(s->replicas))
        return dt_send(s->replicas, bucket->grads, bucket->elems, s->gradient_dtype, bucket->server, s->network);
    return receive_from_all(b, bucket);
}

static dt_status server_publish(struct buckets *b, struct bucket *bucket)
{
    const struct dp_setup *s = &b->base.setup;
    enum dt_dtype dtype = s->experiment->model.dtype;
    if (bucket->server != dt_comm_rank(s->replicas))
        return dt_recv(s->replicas, bucket->params, bucket->elems, dtype, bucket->server, s->network);
    DT_TRY(dt_group_start(s->replicas));
    for (int worker = 0; worker < dt_comm_size(s->replicas); worker++)
        if (worker != bucket->server)
            DT_TRY(dt_send(s->replicas, bucket->params, bucket->elems, dtype, worker, s->network));
    return dt_group_end(s->replicas);
}

static const struct bucket_scheme server_scheme = {
    .every_group = true,
    .keep_gradients = true,
    .summed = true,
    .divide = server_divide,
    .begin = server_begin,
    .reduce = server_reduce,
    .publish = server_publish,
};

static void server_destroy(struct data_parallel *dp)
{
    if (dp)
        late_destroy(buckets_of(dp));
    buckets_destroy(dp);
}

static dt_status server_create(const struct dp_mode *mode, const struct dp_setup *setup, struct data_parallel **out)
{
    DT_TRY(buckets_create(mode, setup, out));
    (*out)->updates_late = setup->experiment->parameter_server.staleness > 0;
    (*out)->rules.publishes = (*out)->updates_late;
    return (*out)->updates_late ? late_create(buckets_of(*out)) : DT_OK;
}

static dt_status server_begin_step(struct data_parallel *dp)
{
    return late_begin_step(buckets_of(dp));
}

static dt_status server_end_step(struct data_parallel *dp)
{
    return dp->updates_late ? late_end_step(buckets_of(dp)) : buckets_end_step(dp);
}

const struct dp_mode dp_parameter_server = {
    .name = "parameter_server",
    .holds = {.parameters = DP_ALL},
    .reduces = {{MESH_REPLICA, DT_COMM_SEND, DP_ALL}},
    .publishes = {MESH_REPLICA, DT_COMM_SEND, DP_ALL},
    .buckets = &server_scheme,
    .create = server_create,
    .unit = buckets_unit,
    .destroy = server_destroy,
    .publish = server_begin_step,
    .fetch = buckets_fetch,
    .begin_gradients = buckets_begin_gradients,
    .reduce = buckets_reduce,
    .visit = buckets_visit,
    .end_step = server_end_step,
};

#include "schedules/data_parallel/shard.h"
#include "schedules/data_parallel/reduce.h"

struct shard shard_of(size_t run_elems, const struct dt_comm *shards)
{
    size_t size = (size_t)dt_comm_size(shards), rank = (size_t)dt_comm_rank(shards);
    struct shard shard = {.run_elems = run_elems, .share_elems = (run_elems + size - 1) / size};
    shard.first_elem = rank * shard.share_elems;
    size_t left = shard.first_elem < run_elems ? run_elems - shard.first_elem : 0;
    shard.own_elems = left < shard.share_elems ? left : shard.share_elems;
    return shard;
}

size_t shard_padded_elems(const struct shard *shard, const struct dt_comm *shards)
{
    return shard->share_elems * (size_t)dt_comm_size(shards);
}

dt_status shard_gradients_begin(struct shard_gradients *g, const struct dp_setup *setup, const struct action *action)
{
    size_t run = g->shard.run_elems, padded = shard_padded_elems(&g->shard, setup->shards);
    g->has_sum &= !(action->flags & ACTION_FIRST);
    if (g->whole.data)
        return DT_OK;
    DT_TRY(dt_alloc(setup->compute, action->flags & ACTION_REDUCES ? DT_COMMUNICATION : DT_GRADIENTS, dp_grads_bytes(setup, padded),
                    &g->whole));
    if (padded == run)
        return DT_OK;
    return dt_zero(setup->compute, (char *)g->whole.data + dp_grads_bytes(setup, run), dp_grads_bytes(setup, padded - run));
}

dt_status shard_gradients_reduce(struct shard_gradients *g, const struct dp_setup *setup, void *whole)
{
    size_t count = g->shard.share_elems;
    void *in_place = (char *)whole + dp_grads_bytes(setup, (size_t)dt_comm_rank(setup->shards) * count);
    bool add = g->share.data && g->has_sum;
    void *to = g->share.data && !add ? g->share.data : in_place;

    DT_TRY(reduce_shares(setup, whole, to, count));
    g->has_sum = true;
    return add ? dp_add_gradients(setup, setup->network, false, g->share.data, in_place, count) : DT_OK;
}

void shard_gradients_finish(struct shard_gradients *g, const struct dp_setup *setup)
{
    dt_free(setup->compute, &g->whole);
    dt_free(setup->compute, &g->share);
}

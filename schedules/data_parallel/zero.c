#include "schedules/data_parallel/zero.h"

dt_status zero_divide(struct replicated *r, bool share_buffers)
{
    const struct dp_setup *s = &r->base.setup;
    for (int i = 0; i < r->bucket_count; i++) {
        struct bucket *bucket = &r->buckets[i];
        struct shard shard = bucket->shard.shard = shard_of(bucket->elems, r->ranks.within);
        bucket->own_first_elem = bucket->first_elem + shard.first_elem;
        bucket->own_elems = shard.own_elems;
        if (share_buffers && !s->offload) /* otherwise the share leaves from its place in the whole */
            DT_TRY(dt_alloc(s->compute, DT_GRADIENTS, dp_bytes(s, shard.share_elems), &bucket->shard.share));
        bucket->own_grads = bucket->shard.share.data;
    }
    return DT_OK;
}

dt_status zero_publish(struct replicated *r, struct bucket *bucket)
{
    const struct dp_setup *s = &r->base.setup;
    const void *share = (const char *)bucket->params + dp_bytes(s, bucket->shard.shard.first_elem);
    return dt_all_gather(r->ranks.within, share, bucket->params, bucket->shard.shard.share_elems, s->experiment->model.dtype, s->network);
}

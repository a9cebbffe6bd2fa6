#include "schedules/data_parallel/zero.h"

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
    return dt_all_gather(s->shards, share, bucket->params, bucket->shard.shard.share_elems, s->experiment->model.dtype, s->network);
}

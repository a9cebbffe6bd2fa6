/* What ZeRO-1 and ZeRO-2 share: each rank updates an even share of every bucket, and gathers the other ranks' updated shares. */
#ifndef SCHEDULES_DATA_PARALLEL_ZERO_H
#define SCHEDULES_DATA_PARALLEL_ZERO_H

#include "schedules/data_parallel/buckets.h"

/* A scheme's divide. share_buffers: this rank's share of the reduced gradients has a separate
 * buffer. */
dt_status zero_divide(struct buckets *b, bool share_buffers);
/* A scheme's publish: an all-gather, in place. */
dt_status zero_publish(struct buckets *b, struct bucket *bucket);

#endif

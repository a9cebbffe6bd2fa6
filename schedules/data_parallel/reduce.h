/* Averages of gradients over ranks, which travel in the model's dtype, or with reduce_dtype in fp32: a buffer of that width then exists while they
 * do, and the result is rounded once.
 * Source  MixedPrecision(reduce_dtype) of Zhao et al., "PyTorch FSDP", VLDB 2023, section 4.4. Differs: the reduced gradients are kept in the
 *         model's dtype. */
#ifndef SCHEDULES_DATA_PARALLEL_REDUCE_H
#define SCHEDULES_DATA_PARALLEL_REDUCE_H

#include "schedules/data_parallel/mode.h"

/* All queue on network and are collective. Errors: as dt_all_reduce; DT_ERR_OOM. */

/* grads [count], in place on every rank. */
dt_status reduce_everywhere(const struct dp_setup *setup, void *grads, size_t count);
/* The sums, on rank `root` of the replicas alone. */
dt_status reduce_sums_at(const struct dp_setup *setup, void *grads, size_t count, int root);
/* whole [shards * share] is over afterwards; to [share] gets this rank's part, averaged over the shards and over their replicas. */
dt_status reduce_shares(const struct dp_setup *setup, void *whole, void *to, size_t share);

#endif

/* Averages of gradients over ranks. Gradients are sent in the model's dtype, or in reduce_dtype:
 * then in a buffer of that type, which exists during the reduction. A conversion to fp32 loses
 * nothing, and the result is rounded once. In fp16 or bf16 each rank's gradients are rounded, and
 * their sums as lib/comm/comm.h says. So with N ranks an average is off by N + 1 times the type's
 * unit roundoff (2^-11, 2^-8) of the mean of the ranks' magnitudes at most; in fp16 by another N
 * 2^-25 for numbers below its normal range; a number above 65504 becomes infinite, so that its
 * update is left out and counted.
 * Source  MixedPrecision(reduce_dtype) of Zhao et al., "PyTorch FSDP", VLDB 2023, section 4.4;
 *         fp16_compress_hook and bf16_compress_hook of torch.distributed.algorithms.ddp_comm_hooks.
 *         Differs: the reduced gradients are kept in the model's dtype; the hooks divide by the
 *         number of ranks before they add, as NCCL's averages do and MPI's do not. */
#pragma once

#include "schedules/data_parallel/mode.h"

/* All functions queue on network and are collective. Errors: as dt_all_reduce; DT_ERR_OOM. */

/* grads [count], in place on every rank. */
dt_status reduce_everywhere(const struct dp_setup *setup, void *grads, size_t count);
/* The sums, only on rank `root` of the replicas. */
dt_status reduce_sums_at(const struct dp_setup *setup, void *grads, size_t count, int root);
/* whole [shards * share] is undefined afterwards; to [share] gets this rank's part, averaged over
 * the shards and over their replicas. */
dt_status reduce_shares(const struct dp_setup *setup, void *whole, void *to, size_t share);

/* Gradients that are divided over ranks: each rank keeps a share of the reduced gradients of a
 * bucket or group (the "run" below).
 *
 * All shares of a run are equally long, so that reduce-scatter and all-gather fit: the last ones
 * end in padding, at most size - 1 elements a run. With HSDP a share is also averaged over the
 * replicas of the shard.
 * Source  Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 *         Models", SC 2020, section 5.2 (P_os+g); between micro-batches that are not reduced, whole
 *         gradients are kept, as FSDP's no_sync does: Zhao et al., "PyTorch FSDP", VLDB 2023,
 *         section 3.3.4. */
#pragma once

#include "schedules/data_parallel/mode.h"

struct shard {
    size_t run_elems;             /* parameters of the run */
    size_t share_elems;           /* ceil(run_elems / size) */
    size_t first_elem, own_elems; /* this rank's share of the run, without padding */
};

struct shard shard_of(size_t run_elems, const struct dt_comm *shards);
/* Elements of the run with its padding. */
size_t shard_padded_elems(const struct shard *shard, const struct dt_comm *shards);

struct shard_gradients {
    struct shard shard;
    struct dt_buffer share; /* [share_elems] the reduced gradients; none if they stay in their place within `whole` */
    struct dt_buffer whole; /* [padded] from the run's first backward to the reduction that follows */
    bool has_sum;           /* earlier micro-batches of the step have been reduced */
};

/* Allocate memory for the whole run's gradients before its backward. They count as gradients if
 * they stay until another micro-batch, else as communication. Errors: DT_ERR_OOM. */
dt_status shard_gradients_begin(struct shard_gradients *g, const struct dp_setup *setup, const struct action *action);

/* Reduce `whole` [padded], and add the result to the share's sums of earlier micro-batches of the
 * step. Without a buffer for the share, the averages stay in their place within `whole`. Queues on
 * network, which must have waited for `whole`; collective over shards and replicas. Errors: as
 * dt_reduce_scatter. */
dt_status shard_gradients_reduce(struct shard_gradients *g, const struct dp_setup *setup, void *whole);

void shard_gradients_finish(struct shard_gradients *g, const struct dp_setup *setup);

/* Hybrid sharded data parallel: FSDP inside groups of consecutive ranks, replicas across them.
 *
 * Parameters are gathered within a group of hsdp.shard_size ranks, a node say, whose network is fast. Gradients are reduce-scattered within
 * it and then averaged across the groups, with 1 / shard_size of the bytes: all that travels between nodes.
 * Memory  FSDP's over shard_size ranks instead of all.
 * Source  Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.2.2; Zhang et al., "MiCS", VLDB 2022, section 3.2. */
#include "schedules/data_parallel/fsdp.h"

#include <stdlib.h>

/* This rank's communicator of every `stride`-th rank from `first` on. Collective. */
static dt_status subset(struct dt_comm *all, int first, int stride, int count, const char *name, struct dt_comm **out)
{
    int *ranks = calloc((size_t)count, sizeof *ranks);
    if (!ranks)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", count);
    for (int i = 0; i < count; i++)
        ranks[i] = first + i * stride;
    dt_status status = dt_comm_subset(all, ranks, count, name, out);
    free(ranks);
    return status;
}

static void destroy_ranks(struct shard_ranks *ranks)
{
    dt_comm_destroy(ranks->across);
    dt_comm_destroy(ranks->within);
}

static dt_status create_ranks(struct dt_comm *all, int shard_size, struct shard_ranks *out)
{
    int rank = dt_comm_rank(all), copies = dt_comm_size(all) / shard_size;
    *out = (struct shard_ranks){0};
    dt_status status = subset(all, rank - rank % shard_size, 1, shard_size, "shards", &out->within);
    if (status == DT_OK && copies > 1)
        status = subset(all, rank % shard_size, shard_size, copies, "copies", &out->across);
    if (status < 0)
        destroy_ranks(out);
    return status;
}

static dt_status hsdp_create(const struct dp_setup *setup, struct data_parallel **out)
{
    struct shard_ranks ranks;
    *out = NULL;
    DT_TRY(create_ranks(setup->comm, experiment_shard_size(setup->experiment), &ranks));
    dt_status status = fsdp_create_over(setup, &dp_hsdp, &ranks, out);
    if (status < 0) {
        destroy_ranks(&ranks);
        return status;
    }
    (*out)->repeats_updates = ranks.across && dt_comm_rank(ranks.across) > 0;
    return DT_OK;
}

static void hsdp_destroy(struct data_parallel *dp)
{
    if (!dp)
        return;
    struct shard_ranks ranks = fsdp_ranks(dp);
    fsdp_destroy(dp);
    destroy_ranks(&ranks);
}

const struct dp_mode dp_hsdp = {
    .name = "hsdp",
    .unit = fsdp_unit,
    .create = hsdp_create,
    .destroy = hsdp_destroy,
    .before_forward = fsdp_before_forward,
    .after_forward = fsdp_after_forward,
    .before_backward = fsdp_before_backward,
    .after_backward = fsdp_after_backward,
    .end_step = fsdp_end_step,
};

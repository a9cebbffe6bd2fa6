#include "cli/placement.h"

#include <string.h>

static bool same_node(const struct placement_rank *a, const struct placement_rank *b)
{
    return strcmp(a->node, b->node) == 0;
}

static int ranks_on_node_of(const struct placement_rank *ranks, int size, int rank)
{
    int count = 0;
    for (int i = 0; i < size; i++)
        count += same_node(&ranks[i], &ranks[rank]);
    return count;
}

/* Each node full, the last one excepted. */
static dt_status check_nodes(const struct experiment *e, int number, int count, const struct placement_rank *ranks)
{
    int size = e->world_size, wanted = e->gpus_per_node, rest = size % wanted, not_full = 0;
    for (int rank = 0; rank < size; rank++) {
        bool first = true;
        for (int i = 0; i < rank && first; i++)
            first = !same_node(&ranks[i], &ranks[rank]);
        int here = first ? ranks_on_node_of(ranks, size, rank) : wanted;
        if (here == wanted || (here == rest && not_full++ == 0))
            continue;
        return dt_fail(DT_ERR_INVALID,
                       "experiment %d of %d: gpus_per_node: %d are asked for, and node %s has %d of the %d ranks: pass "
                       "--ntasks-per-node=%d to srun (mpirun: --map-by ppr:%d:node)",
                       number, count, wanted, ranks[rank].node, here, size, wanted, wanted);
    }
    return DT_OK;
}

/* How many neighbours in the world are to be on one node, and the key that says so; 1: any rank may be anywhere. */
static int group_size(const struct experiment *e, const struct placement_rank *ranks, const char **key)
{
    if (e->paradigm == PARADIGM_PDP) {
        *key = "pipeline.stages";
        return e->pipeline.stages;
    }
    if (e->paradigm != PARADIGM_HSDP)
        return 1;
    struct experiment placed = *e; /* without a size of their own, shard groups are the nodes, if these are equal */
    *key = "hsdp.shard_size";
    placed.ranks_per_node = ranks_on_node_of(ranks, e->world_size, 0);
    return experiment_shard_size(&placed);
}

dt_status placement_check(const struct experiment *e, int number, int count, const struct placement_rank *ranks)
{
    const char *key = "";
    if (e->gpus_per_node > 0)
        DT_TRY(check_nodes(e, number, count, ranks));
    int size = e->straddle_nodes ? 1 : group_size(e, ranks, &key);
    for (int rank = 1; rank < e->world_size; rank++) {
        if (rank % size == 0 || same_node(&ranks[rank], &ranks[rank - 1]))
            continue;
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: %s: %d ranks that belong together would straddle nodes: ranks %d and %d are on %s and %s; put a "
            "multiple of %d on each node (srun --ntasks-per-node), or allow it with \"straddle_nodes\": true",
            number, count, key, size, rank - 1, rank, ranks[rank - 1].node, ranks[rank].node, size);
    }
    return DT_OK;
}

dt_status placement_check_alone(const struct experiment *e, int number, int count)
{
    if (e->gpus_per_node == 0 || e->world_size <= e->gpus_per_node || strcmp(e->device, "sim") == 0)
        return DT_OK;
    return dt_fail(
        DT_ERR_INVALID,
        "experiment %d of %d: gpus_per_node: %d are asked for, and all %d ranks would be on this machine: start them on %d nodes "
        "with srun or mpirun",
        number, count, e->gpus_per_node, e->world_size, (e->world_size + e->gpus_per_node - 1) / e->gpus_per_node);
}

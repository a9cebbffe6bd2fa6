#include "cli/run/placement.h"

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

/* What Slurm gave the job, before what the ranks see of it: that tells which option is wrong. */
static dt_status check_slurm_gpus(const struct experiment *e, int number, int count, const struct placement_rank *rank, int here)
{
    if (rank->slurm_gpus == 0)
        return DT_OK;
    if (e->gpus_per_node > rank->slurm_gpus)
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: gpus_per_node: %d are asked for, and Slurm gave the job %d on node %s (SLURM_GPUS_ON_NODE): pass "
            "--gpus-per-node=%d",
            number, count, e->gpus_per_node, rank->slurm_gpus, rank->node, e->gpus_per_node);
    if (here > rank->slurm_gpus && !e->share_gpus)
        return dt_fail(DT_ERR_INVALID,
                       "experiment %d of %d: node %s has %d ranks, and Slurm gave the job %d GPU%s there (SLURM_GPUS_ON_NODE): pass "
                       "--gpus-per-node=%d, or --ntasks-per-node=%d",
                       number, count, rank->node, here, rank->slurm_gpus, rank->slurm_gpus > 1 ? "s" : "", here, rank->slurm_gpus);
    return DT_OK;
}

/* Each rank a GPU of its own. */
static dt_status check_gpus(const struct experiment *e, int number, int count, const struct placement_rank *ranks)
{
    /* GPUs may have been counted for other experiments of the sweep. */
    bool on_cpu = e->strategy.device && !e->strategy.device->gpus;
    for (int rank = 0; rank < e->world_size && !on_cpu; rank++) {
        const struct placement_rank *r = &ranks[rank];
        int here = ranks_on_node_of(ranks, e->world_size, rank);
        if (!*r->gpu)
            continue;
        DT_TRY(check_slurm_gpus(e, number, count, r, here));
        if (e->share_gpus)
            continue;
        if (r->gpus > 1 && here > r->gpus)
            return dt_fail(DT_ERR_INVALID,
                           "experiment %d of %d: node %s has %d ranks and %d GPUs: start %d ranks there (srun --ntasks-per-node=%d, mpirun "
                           "--map-by ppr:%d:node), or let them share, for correctness alone, with \"share_gpus\": true",
                           number, count, r->node, here, r->gpus, r->gpus, r->gpus, r->gpus);
        for (int i = 0; i < rank; i++) {
            if (strcmp(ranks[i].gpu, r->gpu) == 0 && same_node(&ranks[i], r))
                return dt_fail(DT_ERR_INVALID,
                               "experiment %d of %d: ranks %d and %d are both on %s of node %s: give each its own (srun --gpus-per-node=%d "
                               "--gpu-bind=none), or let them share, for correctness alone, with \"share_gpus\": true",
                               number, count, i, rank, r->gpu, r->node, here);
        }
    }
    return DT_OK;
}

/* The mesh that the experiment would have here: without a size of their own, hsdp's shard groups are the nodes, if these are equal. */
static struct mesh_shape mesh_here(const struct experiment *e, const struct placement_rank *ranks)
{
    struct experiment placed = *e;
    experiment_place(&placed, ranks_on_node_of(ranks, e->world_size, 0));
    return placed.strategy.mesh;
}

/* Groups that communicate all the time are each on one node. */
static dt_status check_groups(const struct experiment *e, int number, int count, const struct placement_rank *ranks, enum mesh_axis axis)
{
    const char *key = experiment_node_key(e, axis);
    struct mesh_shape mesh = mesh_here(e, ranks);
    int span = mesh_span(&mesh, axis);
    for (int rank = 0; key && rank < e->world_size; rank++) {
        int at = mesh_coordinate(&mesh, axis, rank), previous = mesh_moved(&mesh, axis, rank, at > 0 ? at - 1 : 0);
        if (same_node(&ranks[rank], &ranks[previous]))
            continue;
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: %s: %d ranks that belong together would straddle nodes: ranks %d and %d are on %s and %s; put a "
            "multiple of %d on each node (srun --ntasks-per-node), or allow it with \"straddle_nodes\": true",
            number, count, key, mesh.size[axis], previous, rank, ranks[previous].node, ranks[rank].node, span);
    }
    return DT_OK;
}

dt_status placement_check(const struct experiment *e, int number, int count, const struct placement_rank *ranks)
{
    if (e->gpus_per_node > 0)
        DT_TRY(check_nodes(e, number, count, ranks));
    DT_TRY(check_gpus(e, number, count, ranks));
    for (int axis = 0; axis < MESH_AXES && !e->straddle_nodes; axis++)
        DT_TRY(check_groups(e, number, count, ranks, (enum mesh_axis)axis));
    return DT_OK;
}

int placement_hidden_gpus(const struct placement_rank *ranks, int size)
{
    for (int rank = 0; rank < size; rank++)
        if (*ranks[rank].gpu && ranks[rank].gpus == 1 && ranks_on_node_of(ranks, size, rank) > 1)
            return rank;
    return -1;
}

dt_status placement_check_alone(const struct experiment *e, int number, int count, int gpus)
{
    if (experiment_is_simulated(e))
        return DT_OK;
    if (e->gpus_per_node > 0 && e->world_size > e->gpus_per_node)
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: gpus_per_node: %d are asked for, and all %d ranks would be on this machine: start them on %d nodes "
            "with srun or mpirun",
            number, count, e->gpus_per_node, e->world_size, (e->world_size + e->gpus_per_node - 1) / e->gpus_per_node);
    if (gpus >= 0 && e->world_size > gpus && !e->share_gpus)
        return dt_fail(
            DT_ERR_INVALID,
            "experiment %d of %d: world_size: %d ranks, and this machine has %d GPU%s for them: start them on more nodes with srun "
            "or mpirun, take device \"cpu\", or let them share, for correctness alone, with \"share_gpus\": true",
            number, count, e->world_size, gpus, gpus == 1 ? "" : "s");
    return DT_OK;
}

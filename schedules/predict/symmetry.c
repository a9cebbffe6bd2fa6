#include "schedules/predict/symmetry.h"

#include <stdlib.h>

/* How far apart neighbours on the axis are in the world. */
static int stride_of(const struct mesh_shape *mesh, enum mesh_axis axis)
{
    return mesh->size[axis] > 1 ? mesh_moved(mesh, axis, 0, 1) : 0;
}

/* Do coordinates fill blocks of so many ranks evenly: whole blocks lie at each of them, or whole blocks have several, or all? */
static bool fills_blocks(const struct mesh_shape *mesh, enum mesh_axis axis, int block)
{
    int size = mesh->size[axis], stride = stride_of(mesh, axis);
    if (size == 1 || stride % block == 0)
        return true;
    if (block % stride != 0)
        return false;
    int of_block = block / stride;
    return size % of_block == 0 || of_block % size == 0;
}

/* Ranks of a GPU, of its PCIe link, of its network card and of its node: each of these blocks is made of whole ones of those before, so
 * that coordinates may change places within all of them. False where they are not, and on processors, which a node's ranks share. */
static bool changes_places_in_nodes(const struct mesh_shape *mesh, enum mesh_axis axis, const struct simulated_system *s)
{
    const struct dt_sim_cluster *c = &s->cluster;
    int cards = c->nic.count, of_card = cards == 0 ? 1 : c->gpus_per_node / cards;
    const int blocks[] = {c->pcie.gb_per_s > 0 ? c->pcie.gpus_per_link : 1, of_card, s->placement.ranks_per_node};
    if (c->gpu.architecture == DT_SIM_CPU || (cards > 0 && c->gpus_per_node % cards))
        return false;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        for (size_t k = 0; k < i; k++)
            if (blocks[i] % blocks[k] != 0 && blocks[k] % blocks[i] != 0)
                return false;
        if (!fills_blocks(mesh, axis, blocks[i]))
            return false;
    }
    return true;
}

/* How many coordinates on the axis nobody stands for: one where all change places with each other, or else those of the smallest shift that
 * brings whole nodes to whole nodes; the axis's size where there is none. */
static int own_coordinates(const struct mesh_shape *mesh, enum mesh_axis axis, const struct simulated_system *s)
{
    int size = mesh->size[axis], stride = stride_of(mesh, axis), ranks_per_node = s->placement.ranks_per_node;
    if (changes_places_in_nodes(mesh, axis, s) || size == 1 || stride % ranks_per_node == 0)
        return 1;
    if (ranks_per_node % stride != 0)
        return size;
    int of_node = ranks_per_node / stride; /* coordinates of a node */
    return of_node < size && size % of_node == 0 ? of_node : size;
}

/* A shard of fsdp is padded to the size of the others. zero1 and zero2 update what they own of a bucket, of which the last rank may have less. */
static bool is_symmetric(const struct experiment *e, const struct simulated_system *s)
{
    enum dp_kind mode = paradigm_of(e->paradigm)->mode;
    bool alike = mode == DP_NONE || mode == DP_DDP || mode == DP_FSDP;
    bool apart = s->cluster.fabric.blocking_factor <= 1 && !s->cluster.host.shared_processors;
    return alike && apart && e->world_size % s->placement.ranks_per_node == 0;
}

static int stand_in_of(const struct mesh_shape *mesh, int rank, int replicas, int shards)
{
    rank = mesh_moved(mesh, MESH_REPLICA, rank, mesh_coordinate(mesh, MESH_REPLICA, rank) % replicas);
    return mesh_moved(mesh, MESH_SHARD, rank, mesh_coordinate(mesh, MESH_SHARD, rank) % shards);
}

/* The part with `replicas` and `shards` coordinates on these axes. */
static dt_status take_part(const struct experiment *e, int replicas, int shards, struct symmetric_part *out)
{
    *out = (struct symmetric_part){.mesh = experiment_mesh(e), .world_size = e->world_size};
    out->ranks = malloc((size_t)e->world_size * sizeof *out->ranks);
    out->stand_in = malloc((size_t)e->world_size * sizeof *out->stand_in);
    if (!out->ranks || !out->stand_in)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", e->world_size);
    for (int rank = 0; rank < e->world_size; rank++) /* shifts only bring ranks down, so theirs is known */
        if (stand_in_of(&out->mesh, rank, replicas, shards) == rank) {
            out->stand_in[rank] = out->count;
            out->ranks[out->count++] = rank;
        } else {
            out->stand_in[rank] = out->stand_in[stand_in_of(&out->mesh, rank, replicas, shards)];
        }
    return DT_OK;
}

dt_status symmetric_part_all(const struct experiment *e, struct symmetric_part *out)
{
    struct mesh_shape mesh = experiment_mesh(e);
    return take_part(e, mesh.size[MESH_REPLICA], mesh.size[MESH_SHARD], out);
}

dt_status symmetric_part_find(const struct experiment *e, const struct simulated_system *s, struct symmetric_part *out)
{
    struct mesh_shape mesh = experiment_mesh(e);
    if (!is_symmetric(e, s))
        return symmetric_part_all(e, out);
    return take_part(e, own_coordinates(&mesh, MESH_REPLICA, s), own_coordinates(&mesh, MESH_SHARD, s), out);
}

void symmetric_part_finish(struct symmetric_part *part)
{
    free(part->ranks);
    free(part->stand_in);
    *part = (struct symmetric_part){0};
}

int symmetric_part_recorded(const struct symmetric_part *part, int place)
{
    if (part->count == part->world_size)
        return place;
    return part->stand_in[stand_in_of(&part->mesh, part->ranks[place], 1, 1)];
}

static int shifted(const struct mesh_shape *mesh, enum mesh_axis axis, int rank, int from, int to)
{
    int size = mesh->size[axis], by = mesh_coordinate(mesh, axis, to) - mesh_coordinate(mesh, axis, from);
    return mesh_moved(mesh, axis, rank, (mesh_coordinate(mesh, axis, rank) + by + size) % size);
}

int symmetric_part_shifted(const struct symmetric_part *part, int rank, int from, int to)
{
    rank = shifted(&part->mesh, MESH_REPLICA, rank, from, to);
    return shifted(&part->mesh, MESH_SHARD, rank, from, to);
}

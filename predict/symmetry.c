#include "predict/symmetry.h"

#include "schedules/data_parallel/mode.h"

#include <math.h>
#include <stdlib.h>

/* Distance in the world between neighbours on the axis. */
static int stride_of(const struct mesh_shape *mesh, enum mesh_axis axis)
{
    return mesh->size[axis] > 1 ? mesh_moved(mesh, axis, 0, 1) : 0;
}

/* Whether coordinates on the axis fill blocks of `block` ranks evenly: each coordinate has whole
 * blocks, or each block has several whole coordinates, or all of them. */
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

enum { BLOCKS = 3 };

/* Numbers of ranks per PCIe link, per network card and per node. */
static void blocks_of(const struct simulated_system *s, int blocks[BLOCKS])
{
    const struct dt_sim_cluster *c = &s->cluster;
    blocks[0] = c->pcie.gb_per_s > 0 ? c->pcie.gpus_per_link : 1;
    blocks[1] = c->nic.count > 0 ? c->gpus_per_node / c->nic.count : 1;
    blocks[2] = s->placement.ranks_per_node;
}

/* Whether coordinates may be exchanged within a node: the blocks of ranks of a GPU, its PCIe link,
 * its network card and its node must each consist of whole smaller blocks. False otherwise, and on
 * processors, which a node's ranks share. */
static bool changes_places_in_nodes(const struct mesh_shape *mesh, enum mesh_axis axis, const struct simulated_system *s)
{
    const struct dt_sim_cluster *c = &s->cluster;
    int blocks[BLOCKS];
    blocks_of(s, blocks);
    if (c->gpu.architecture == DT_SIM_CPU || (c->nic.count > 0 && c->gpus_per_node % c->nic.count))
        return false;
    for (int i = 0; i < BLOCKS; i++) {
        for (int k = 0; k < i; k++)
            if (blocks[i] % blocks[k] != 0 && blocks[k] % blocks[i] != 0)
                return false;
        if (!fills_blocks(mesh, axis, blocks[i]))
            return false;
    }
    return true;
}

/* How many coordinates on the axis have to be simulated, since no other coordinate represents them.
 * One, if all coordinates can be exchanged; else the size of the smallest shift that moves whole
 * nodes to whole nodes; else the size of the axis. */
static int own_coordinates(const struct mesh_shape *mesh, enum mesh_axis axis, const struct simulated_system *s)
{
    int size = mesh->size[axis], stride = stride_of(mesh, axis), ranks_per_node = s->placement.ranks_per_node;
    if (changes_places_in_nodes(mesh, axis, s) || size == 1 || stride % ranks_per_node == 0)
        return 1;
    if (ranks_per_node % stride != 0)
        return size;
    int of_node = ranks_per_node / stride; /* coordinates in a node */
    return of_node < size && size % of_node == 0 ? of_node : size;
}

/* The elements of a rank's smallest layer; tensor: ranks that share each layer. Norm and head after
 * the blocks count as one layer, without the table if that is tied. */
static double smallest_layer_elems(const struct dt_model *model, int tensor)
{
    int behind = dt_block_layer(model->family, dt_model_blocks(model));
    double smallest = INFINITY;
    for (int i = 0; i <= behind; i = i + 1 == dt_block_layer(model->family, 1) ? behind : i + 1) { /* all blocks are alike */
        struct dt_layers_size size;
        int end = i == behind && !dt_model_facts(model).ends_share ? dt_layer_count(model) : i + 1;
        model->family->layers_size(model, (struct dt_layers){.first = i, .end = end}, &size);
        smallest = fmin(smallest, (double)size.parameters / tensor);
    }
    return smallest;
}

/* The least number of ranks with whole shares of all buckets, under zero1 and zero2. A bucket is one
 * layer or several, so all shares are whole if every layer divides evenly. Else a share is rounded
 * up, so that the last ranks have less, or nothing. With n elements and N ranks, floor(n / ceil(n /
 * N)) ranks have whole shares, which is more than n N / (n + N - 1) - 1. */
static int whole_shares(const struct experiment *e, const struct mesh_shape *mesh)
{
    const struct dt_model_family *family = e->model.family;
    if (family->layers_divide && family->layers_divide(&e->model, mesh->size[MESH_TENSOR], mesh_group_size(mesh, MESH_SHARD)))
        return mesh_group_size(mesh, MESH_SHARD);
    double shards = mesh_group_size(mesh, MESH_SHARD), elems = smallest_layer_elems(&e->model, mesh->size[MESH_TENSOR]);
    return elems > 0 ? (int)fmin(floor(elems * shards / (elems + shards - 1)), shards - 1) : 0;
}

/* Whether the last shards of zero1 and zero2 have less than the others. */
static bool shares_differ(const struct experiment *e, const struct mesh_shape *mesh)
{
    return e->strategy.mode->ranks == DP_RANKS_SHARE_BUCKETS && whole_shares(e, mesh) < mesh_group_size(mesh, MESH_SHARD);
}

/* Coordinates below `unlike` can be exchanged; the others have different programs, so their nodes
 * cannot be exchanged with others. */
static struct symmetric_axis axis_with(const struct mesh_shape *mesh, enum mesh_axis axis, const struct simulated_system *s, int unlike)
{
    int size = mesh->size[axis], stride = stride_of(mesh, axis), apart = unlike;
    if (unlike == size)
        return (struct symmetric_axis){own_coordinates(mesh, axis, s), size, size};
    if (stride < s->placement.ranks_per_node) {
        if (s->placement.ranks_per_node % stride != 0)
            return (struct symmetric_axis){size, size, unlike};
        apart = unlike - unlike % (s->placement.ranks_per_node / stride);
    }
    int own = own_coordinates(mesh, axis, s);
    return own < apart ? (struct symmetric_axis){own, apart, unlike} : (struct symmetric_axis){size, size, unlike};
}

/* The same axis if one coordinate has slow hardware. This coordinate can be exchanged with others
 * by whole nodes, so the last of these is taken as the slow one (*at is set to it); it and its node
 * represent only themselves. */
static struct symmetric_axis axis_with_slow(const struct mesh_shape *mesh, enum mesh_axis axis, const struct simulated_system *s,
                                            struct symmetric_axis equal, int *at)
{
    int own = equal.own;
    if (mesh->size[axis] == 1)
        return equal;
    if (*at < equal.apart && own < equal.apart)
        *at = equal.apart - own + *at % own;
    int unlike = *at < equal.apart ? *at : equal.apart;
    struct symmetric_axis apart = axis_with(mesh, axis, s, unlike);
    apart.unlike = apart.apart < mesh->size[axis] ? apart.apart : 0; /* a whole node may be slow */
    return apart;
}

/* Whether each rank computes its samples alone, or all ranks together, and no rank's state is
 * copied to the others. */
static bool samples_are_symmetric(const struct experiment *e)
{
    const struct dt_model_family *family = e->model.family;
    int64_t samples = experiment_replica_samples(e) / e->strategy.micro_batches;
    int64_t together = family->sample_ranks ? family->sample_ranks(&e->model, samples) : 1;
    return (together == 1 || together == mesh_count(&e->strategy.mesh, MESH_ON_DATA)) &&
           dt_model_facts(&e->model).state != DT_STATE_OF_FIRST;
}

/* fsdp's shards are padded to equal sizes. */
static bool is_symmetric(const struct experiment *e, const struct simulated_system *s)
{
    bool apart = s->cluster.fabric.blocking_factor <= 1 && !s->cluster.host.shared_processors;
    return e->strategy.mode->ranks != DP_RANKS_DIFFER && apart && samples_are_symmetric(e) &&
           e->world_size % s->placement.ranks_per_node == 0;
}

static int coordinate_of_stand_in(const struct symmetric_axis *axis, int coordinate)
{
    return coordinate < axis->apart ? coordinate % axis->own : coordinate;
}

static int stand_in_of(const struct symmetric_part *part, int rank)
{
    const struct mesh_shape *mesh = &part->mesh;
    rank = mesh_moved(mesh, MESH_TENSOR, rank, part->tensor[mesh_coordinate(mesh, MESH_TENSOR, rank)]);
    rank = mesh_moved(mesh, MESH_REPLICA, rank, coordinate_of_stand_in(&part->replicas, mesh_coordinate(mesh, MESH_REPLICA, rank)));
    rank = mesh_moved(mesh, MESH_CONTEXT, rank, coordinate_of_stand_in(&part->contexts, mesh_coordinate(mesh, MESH_CONTEXT, rank)));
    return mesh_moved(mesh, MESH_SHARD, rank, coordinate_of_stand_in(&part->shards, mesh_coordinate(mesh, MESH_SHARD, rank)));
}

/* ---- tensor groups ---- */

static bool have_as_much(const struct experiment *e, int ranks, int left, int right)
{
    return left == right || e->model.family->tensor_ranks_alike(&e->model, ranks, left, right);
}

/* Ranks of a tensor group may have unequal parts. Equal ranks can represent each other if the size
 * changes only at the border of a block of ranks, or if one block has the whole group. */
static bool keeps_blocks(const struct experiment *e, const struct mesh_shape *mesh, const struct simulated_system *s)
{
    int size = mesh->size[MESH_TENSOR], stride = stride_of(mesh, MESH_TENSOR), blocks[BLOCKS];
    blocks_of(s, blocks);
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 1; k < size && blocks[i] < size * stride; k++)
            if (k * stride % blocks[i] != 0 && !have_as_much(e, size, k - 1, k))
                return false;
    return true;
}

/* How coordinates of a tensor group are represented: by the first `own` of all that are alike, or
 * by the first of each run of alike ones, or each by itself. */
struct tensor_axis {
    int size, own;
    bool runs;
};

static struct tensor_axis tensor_axis_of(const struct experiment *e, const struct mesh_shape *mesh, const struct simulated_system *s)
{
    int size = mesh->size[MESH_TENSOR], alike = 1;
    if (size > 1 && e->model.family->tensor_copies(&e->model, size) > 1)
        return (struct tensor_axis){size, size, false};
    while (alike < size && have_as_much(e, size, 0, alike))
        alike++;
    if (alike == size)
        return (struct tensor_axis){size, own_coordinates(mesh, MESH_TENSOR, s), false};
    return (struct tensor_axis){size, size, changes_places_in_nodes(mesh, MESH_TENSOR, s) && keeps_blocks(e, mesh, s)};
}

/* The coordinate that represents `k`; before: the one that represents the previous coordinate. */
static int tensor_stand_in(const struct experiment *e, const struct tensor_axis *axis, int k, int before)
{
    return axis->runs && k > 0 && have_as_much(e, axis->size, k - 1, k) ? before : k % axis->own;
}

/* ---- the simulated part ---- */

/* How the coordinates of each axis are represented. */
struct axes {
    struct tensor_axis tensor;
    struct symmetric_axis replicas, shards, contexts;
    int slow_rank;
};

/* Make the part with these coordinates on the axes. */
static dt_status take_part(const struct experiment *e, const struct axes *axes, struct symmetric_part *out)
{
    struct tensor_axis tensor = axes->tensor;
    *out = (struct symmetric_part){.mesh = e->strategy.mesh,
                                   .world_size = e->world_size,
                                   .slow_rank = axes->slow_rank,
                                   .replicas = axes->replicas,
                                   .shards = axes->shards,
                                   .contexts = axes->contexts};
    out->ranks = malloc((size_t)e->world_size * sizeof *out->ranks);
    out->stand_in = malloc((size_t)e->world_size * sizeof *out->stand_in);
    out->tensor = malloc((size_t)tensor.size * sizeof *out->tensor);
    DT_TRY(dt_allocated(out->ranks && out->stand_in && out->tensor, "no host memory for %d ranks", e->world_size));
    for (int k = 0; k < tensor.size; k++)
        out->tensor[k] = tensor_stand_in(e, &tensor, k, k > 0 ? out->tensor[k - 1] : 0);
    for (int rank = 0; rank < e->world_size; rank++) { /* shifts only lead to lower ranks, whose entry is known */
        int other = stand_in_of(out, rank);
        out->stand_in[rank] = other == rank ? out->count : out->stand_in[other];
        if (other == rank)
            out->ranks[out->count++] = rank;
    }
    return DT_OK;
}

static struct symmetric_axis all_of(const struct mesh_shape *mesh, enum mesh_axis axis)
{
    return (struct symmetric_axis){mesh->size[axis], mesh->size[axis], mesh->size[axis]};
}

dt_status symmetric_part_all(const struct experiment *e, struct symmetric_part *out)
{
    struct mesh_shape mesh = e->strategy.mesh;
    int size = mesh.size[MESH_TENSOR];
    struct axes axes = {(struct tensor_axis){size, size, false}, all_of(&mesh, MESH_REPLICA), all_of(&mesh, MESH_SHARD),
                        all_of(&mesh, MESH_CONTEXT), e->slow.rank};
    return take_part(e, &axes, out);
}

static struct symmetric_axis shard_axis_of(const struct experiment *e, const struct mesh_shape *mesh, const struct simulated_system *s)
{
    int shards = mesh->size[MESH_SHARD];
    return axis_with(mesh, MESH_SHARD, s, shards > 1 && shares_differ(e, mesh) ? whole_shares(e, mesh) / mesh->size[MESH_CONTEXT] : shards);
}

static struct axes axes_of(const struct experiment *e, const struct simulated_system *s)
{
    struct mesh_shape mesh = e->strategy.mesh;
    struct axes axes = {tensor_axis_of(e, &mesh, s), axis_with(&mesh, MESH_REPLICA, s, mesh.size[MESH_REPLICA]), shard_axis_of(e, &mesh, s),
                        all_of(&mesh, MESH_CONTEXT), e->slow.rank};
    if (e->slow.by <= 0 && !shares_differ(e, &mesh))
        axes.contexts = axis_with(&mesh, MESH_CONTEXT, s, mesh.size[MESH_CONTEXT]);
    if (e->slow.by <= 0)
        return axes;
    int replica = mesh_coordinate(&mesh, MESH_REPLICA, e->slow.rank), shard = mesh_coordinate(&mesh, MESH_SHARD, e->slow.rank);
    axes.tensor = (struct tensor_axis){mesh.size[MESH_TENSOR], mesh.size[MESH_TENSOR], false};
    axes.replicas = axis_with_slow(&mesh, MESH_REPLICA, s, axes.replicas, &replica);
    axes.shards = axis_with_slow(&mesh, MESH_SHARD, s, axes.shards, &shard);
    axes.slow_rank = mesh_moved(&mesh, MESH_SHARD, mesh_moved(&mesh, MESH_REPLICA, e->slow.rank, replica), shard);
    return axes;
}

dt_status symmetric_part_find(const struct experiment *e, const struct simulated_system *s, struct symmetric_part *out)
{
    if (!is_symmetric(e, s))
        return symmetric_part_all(e, out);
    struct axes axes = axes_of(e, s);
    return take_part(e, &axes, out);
}

static int stand_ins_of(const struct symmetric_axis *axis, int size)
{
    return axis->own < axis->apart ? axis->own + size - axis->apart : size;
}

int symmetric_part_count(const struct experiment *e, const struct simulated_system *s)
{
    struct mesh_shape mesh = e->strategy.mesh;
    if (!is_symmetric(e, s))
        return e->world_size;
    struct axes axes = axes_of(e, s);
    int of_tensor = 0;
    for (int k = 0, last = 0; k < axes.tensor.size; k++) {
        last = tensor_stand_in(e, &axes.tensor, k, last);
        of_tensor += last == k;
    }
    return mesh.size[MESH_PIPELINE] * of_tensor * stand_ins_of(&axes.replicas, mesh.size[MESH_REPLICA]) *
           stand_ins_of(&axes.shards, mesh.size[MESH_SHARD]) * stand_ins_of(&axes.contexts, mesh.size[MESH_CONTEXT]);
}

void symmetric_part_finish(struct symmetric_part *part)
{
    free(part->ranks);
    free(part->stand_in);
    free(part->tensor);
    *part = (struct symmetric_part){0};
}

int symmetric_part_recorded(const struct symmetric_part *part, int place)
{
    int shard = mesh_coordinate(&part->mesh, MESH_SHARD, part->ranks[place]);
    if (part->count == part->world_size)
        return place;
    int replica = mesh_coordinate(&part->mesh, MESH_REPLICA, part->ranks[place]);
    int first = replica < part->replicas.unlike ? mesh_moved(&part->mesh, MESH_REPLICA, part->ranks[place], 0) : part->ranks[place];
    return part->stand_in[shard < part->shards.unlike ? mesh_moved(&part->mesh, MESH_SHARD, first, 0) : first];
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

/* Symmetry: the part of the ranks that a replay needs if many ranks do the same. A simulated rank
 * "stands for" the others that have the same times.
 *
 * Permute the coordinates of the mesh's replica, shard, context or tensor axis, in the whole world
 * at once. Every communicator is mapped to one of the same kind, and every rank to one with the
 * same program. If also nodes are mapped to nodes, and GPUs that share a network card or PCIe link
 * to GPUs that share one, the permuted world behaves like the original one. So all ranks that such
 * permutations map to each other have the same times, and one of them suffices: a collective begins
 * when those of its ranks that are simulated have called it. Links that only other ranks use are
 * left out, since their load equals that of their counterparts. On a link that a rank shares with
 * ranks that it stands for, its flow counts for theirs (lib/sim/transport.h).
 *
 * This holds in the simulator because its cluster has equal nodes and its rates are max-min fair:
 * equal flows get equal rates. It does not hold if one rank has a special role (a root, a parameter
 * server), or if nodes share a link (fabric.blocking_factor). If layers do not divide evenly, the
 * last shards of zero1 and zero2 are smaller: they and all ranks of their nodes stand only for
 * themselves, and ranks of other nodes for each other (but context ranks among them do not). In a
 * tensor group, ranks with equally many rows of its tables stand for each other; none does if some
 * hold copies of the same heads. Slow hardware (slow.by): its node stands only for itself; one of
 * the last nodes is taken as the slow one. If a node's ranks share processors, or do not fill its
 * cards evenly, only whole nodes are permuted. */
#pragma once

#include "predict/simulated_system.h"

/* Coordinates of an axis: those from `own` up to `apart` are represented by others; those from
 * `unlike` on have different programs. */
struct symmetric_axis {
    int own, apart, unlike;
};

struct symmetric_part {
    struct mesh_shape mesh; /* of the world */
    int world_size;
    int slow_rank; /* the rank that takes the place of the experiment's slow.rank */
    int *ranks;    /* [count] simulated ranks, in the order of the world */
    int count;
    int *stand_in; /* [world_size] index in `ranks` of the one that stands for each rank */
    struct symmetric_axis replicas, shards, contexts;
    int *tensor; /* [mesh.size[MESH_TENSOR]] the coordinate that stands for each coordinate */
};

/* Find the smallest such part; all ranks if none stands for another. Owner of *out: the caller,
 * symmetric_part_finish, also after a failure. Errors: DT_ERR_HOST_MEMORY. */
dt_status symmetric_part_find(const struct experiment *experiment, const struct simulated_system *system, struct symmetric_part *out);
/* The number of ranks in that part, found faster. */
int symmetric_part_count(const struct experiment *experiment, const struct simulated_system *system);
/* The whole world: every rank stands for itself. */
dt_status symmetric_part_all(const struct experiment *experiment, struct symmetric_part *out);
void symmetric_part_finish(struct symmetric_part *part); /* takes a zeroed one */

/* The rank of the part whose recorded program is used for the one at `place`: the first with the
 * same tensor and pipeline coordinates and the same program. */
int symmetric_part_recorded(const struct symmetric_part *part, int place);

/* The image of `rank` under the shift along the replica and shard axes that maps `from` to `to`. */
int symmetric_part_shifted(const struct symmetric_part *part, int rank, int from, int to);

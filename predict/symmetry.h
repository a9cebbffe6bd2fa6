/* Ranks that stand for others: what a replay needs of a world in which many ranks do the same.
 *
 * Let coordinates of the mesh's replica, shard, context or tensor axis change places, everywhere at once. Every communicator becomes one of the same kind, and
 * every rank one with the same program. Where nodes become nodes, and in them GPUs of one network card or PCIe link GPUs of one again, nobody
 * can tell the world from its changed self. So all ranks that such changes bring to each other have the same times, and one of them is
 * enough: collectives begin when the ranks that are there have come. Links that only others have are left out, since they would see what
 * their counterparts see; on a link that a rank shares with its like, its flow counts for theirs (lib/sim/transport.h).
 *
 * This holds for the simulator because its cluster is made of equal nodes and its rates are max-min fair: equal flows move alike. It does
 * not hold where one rank has a part of its own (a root, a parameter server), nor where nodes share a link (fabric.blocking_factor). The last
 * shards of zero1 and zero2 are smaller (with context ranks among them none of these stands for another): they and all ranks of their nodes stand for themselves, and those of other nodes for each other.
 * Of a tensor group those stand for each other that have as many rows of its tables; none do where some hold copies of the same heads.
 * Where something is slow (slow.by), its node stands for itself; which of the like nodes that is nobody can tell, and it is one of the last.
 * Where a node's ranks share processors, or do not fill its cards evenly, only whole nodes change places. */
#ifndef PREDICT_SYMMETRY_H
#define PREDICT_SYMMETRY_H

#include "predict/simulated_system.h"

/* Coordinates of an axis: those from `own` on are stood for, up to `apart`; those from `unlike` on do not the same as the others. */
struct symmetric_axis {
    int own, apart, unlike;
};

struct symmetric_part {
    struct mesh_shape mesh; /* of the world */
    int world_size;
    int slow_rank; /* in whose place the experiment's slow.rank is */
    int *ranks;    /* [count] who is there, in the order of the world */
    int count;
    int *stand_in; /* [world_size] the place in `ranks` of the one that stands for each */
    struct symmetric_axis replicas, shards, contexts;
    int *tensor; /* [mesh.size[MESH_TENSOR]] the coordinate that stands for each */
};

/* The smallest such part; all ranks where nobody stands for another. Owner of *out: the caller, symmetric_part_finish, also after a failure.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status symmetric_part_find(const struct experiment *experiment, const struct simulated_system *system, struct symmetric_part *out);
/* How many ranks it has: the same, found sooner. */
int symmetric_part_count(const struct experiment *experiment, const struct simulated_system *system);
/* The whole world: everybody stands for himself. */
dt_status symmetric_part_all(const struct experiment *experiment, struct symmetric_part *out);
void symmetric_part_finish(struct symmetric_part *part); /* takes a zeroed one */

/* The rank of the part whose program is recorded for the one at `place`: the first with the same coordinates on tensor and pipeline that
 * does the same. */
int symmetric_part_recorded(const struct symmetric_part *part, int place);

/* Where `rank` of the world comes to when `from` is brought to `to` by shifts along the replica and the shard axis. */
int symmetric_part_shifted(const struct symmetric_part *part, int rank, int from, int to);

#endif

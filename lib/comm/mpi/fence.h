/* Waiting at a launcher's PMIx server until MPI has started on all ranks.
 *
 * MPI_Init ends with such a fence, and Open MPI needs it: a message that comes over TCP before a rank knows what to do with one calls a null
 * pointer there (Open MPI 4.1, mca_btl_tcp). The fence carries no data, and Slurm's PMIx plugin sends those over a tree of nodes. In Slurm
 * 22.05 each node of a tree of two is its own root, so that nobody waits for the other node. A fence that carries data goes around a ring,
 * as the exchange of the ranks' addresses does without which MPI cannot start at all.
 * Sources: Slurm's src/plugins/mpi/pmix/pmixp_coll_tree.c and pmixp_coll_ring.c, and what its log says with SlurmdDebug=debug3. */
#ifndef LIB_COMM_MPI_FENCE_H
#define LIB_COMM_MPI_FENCE_H

#include "lib/comm/comm.h"

/* After MPI_Init, before the first message. Collective over the ranks of the world. Nothing is done where srun did not start the ranks,
 * where they are on one node, or where MPI uses no PMIx library that this build knows. timeout_s 0: never. Errors: DT_ERR_TIMEOUT. */
dt_status dt_mpi_fence(const struct dt_world *world, double timeout_s);

#endif

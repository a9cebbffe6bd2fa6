/* A fence at the launcher's PMIx server: wait until MPI has started on all ranks.
 *
 * MPI_Init ends with such a fence, and Open MPI needs it: a message that arrives over TCP before a
 * rank has registered its handler calls a null pointer (Open MPI 4.1, mca_btl_tcp). That fence
 * carries no data, and Slurm's PMIx plugin sends such fences over a tree of nodes. In Slurm 22.05
 * each node of a tree of two is its own root, so that neither waits for the other. A fence with
 * data goes around a ring, like the exchange of the ranks' addresses, without which MPI cannot
 * start at all. Sources: Slurm's src/plugins/mpi/pmix/pmixp_coll_tree.c and pmixp_coll_ring.c, and
 * what its log says with SlurmdDebug=debug3. */
#pragma once

#include "lib/comm/comm.h"

/* Call it after MPI_Init, before the first message. Collective over the ranks of the world. Does
 * nothing unless srun started the ranks on several nodes, and MPI uses a PMIx library that this
 * build knows. timeout_s 0: no limit. Errors: DT_ERR_TIMEOUT. */
dt_status dt_mpi_fence(const struct dt_world *world, double timeout_s);

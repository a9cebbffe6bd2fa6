/* The mesh of ranks: this rank's coordinates, and the communicators of the groups that it is in.
 *
 * What is arithmetic stands in shape.h, which communicates nothing. This folder knows no config and no model: which axes there are and how
 * long they are is a paradigm's business (schedules/config/paradigm.h). */
#ifndef SCHEDULES_MESH_MESH_H
#define SCHEDULES_MESH_MESH_H

#include "lib/comm/comm.h"
#include "schedules/mesh/shape.h"

#include <stdbool.h>

struct mesh {
    struct mesh_shape shape;
    struct dt_comm *world; /* the caller's */
    int at[MESH_AXES];     /* this rank's coordinates */
    /* The ranks that differ from this one on one axis alone (mesh_group), in the order of the world. NULL where no communicator was asked for;
     * where one was, it is there for a single rank too. */
    struct dt_comm *comm[MESH_AXES];
};

/* Where this rank of `world` is, with communicators on `axes`. Collective over world, whose size is the shape's. world outlives the mesh, and
 * keeps its communicators for a mesh of the same shape that comes after it (dt_comm_keep): no two at a time.
 * After a failure too, mesh_finish. Errors: DT_ERR_COMM, DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. */
dt_status mesh_init(struct mesh *mesh, const struct mesh_shape *shape, unsigned axes, struct dt_comm *world);
void mesh_finish(struct mesh *mesh); /* takes a zeroed one */

/* A communicator with each of a rank's neighbours on an axis: two ranks, of which 0 has the lower coordinate; NULL past the ends. In a ring
 * the last rank is the first one's previous neighbour, and rank 0 of their communicator. */
struct mesh_neighbours {
    struct dt_comm *previous, *next;
};

/* Make them, named `name`; a call with another name makes others between the same ranks, which do not wait for these. Collective over the
 * mesh's world; finish them also after a failure. Errors: as mesh_init. */
dt_status mesh_neighbours_init(struct mesh_neighbours *neighbours, const struct mesh *mesh, enum mesh_axis axis, bool ring,
                               const char *name);
void mesh_neighbours_finish(struct mesh_neighbours *neighbours); /* before the mesh's world; takes a zeroed one */

#endif

/* The mesh of ranks: this rank's coordinates, and the communicators of the groups that it is in.
 *
 * The arithmetic is in shape.h, which communicates nothing. This folder knows no config and no
 * model: the strategy says which axes exist and how long they are (schedules/config/strategy.h). */
#pragma once

#include "lib/comm/comm.h"
#include "schedules/mesh/shape.h"

#include <stdbool.h>

struct mesh {
    struct mesh_shape shape;
    struct dt_comm *world; /* the caller's */
    int at[MESH_AXES];     /* this rank's coordinates */
    /* The ranks that differ from this one only on this axis (mesh_group), in the order of the
     * world. NULL if no communicator was requested; a requested one also exists for a single
     * rank. */
    struct dt_comm *comm[MESH_AXES];
};

/* Find this rank's coordinates in `world`, and make communicators on `axes`. Collective over world,
 * whose size is the shape's. world outlives the mesh, and keeps its communicators for a later mesh
 * of the same shape (dt_comm_keep): only one such mesh at a time. Call mesh_finish also after a
 * failure. Errors: DT_ERR_COMM, DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. */
dt_status mesh_init(struct mesh *mesh, const struct mesh_shape *shape, unsigned axes, struct dt_comm *world);
void mesh_finish(struct mesh *mesh); /* takes a zeroed one */

/* A communicator with each of a rank's two neighbours on an axis; its rank 0 has the lower
 * coordinate; NULL past the ends. In a ring the last rank is the first one's previous neighbour,
 * and rank 0 of their communicator. */
struct mesh_neighbours {
    struct dt_comm *previous, *next;
};

/* Make the communicators, named `name`. A call with another name makes independent ones between the
 * same ranks. Collective over the mesh's world; call mesh_neighbours_finish also after a failure.
 * Errors: as mesh_init. */
dt_status mesh_neighbours_init(struct mesh_neighbours *neighbours, const struct mesh *mesh, enum mesh_axis axis, bool ring,
                               const char *name);
void mesh_neighbours_finish(struct mesh_neighbours *neighbours); /* call it before the mesh's world ends; takes a zeroed struct */

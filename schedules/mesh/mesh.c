#include "schedules/mesh/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status create_axis_comm(struct mesh *mesh, enum mesh_axis axis)
{
    int size = mesh_group_size(&mesh->shape, axis), contexts = size / mesh->shape.size[axis], rank = dt_comm_rank(mesh->world);
    DT_FREED int *ranks = calloc((size_t)size, sizeof *ranks);
    DT_TRY(dt_allocated(ranks, "no host memory for %d ranks", size));
    for (int i = 0; i < size; i++) {
        int moved = mesh_moved(&mesh->shape, axis, rank, i / contexts);
        moved = contexts > 1 ? mesh_moved(&mesh->shape, MESH_CONTEXT, moved, i % contexts) : moved;
        ranks[mesh_index(&mesh->shape, mesh_group(&mesh->shape, axis), moved)] = moved;
    }
    return dt_comm_subset(mesh->world, ranks, size, mesh_group_name(axis), &mesh->comm[axis]);
}

/* Keep communicators for a mesh of the same shape only: their names say which ranks they have. */
static dt_status keep_comms(const struct mesh_shape *shape, struct dt_comm *world)
{
    char text[MESH_AXES * 24] = "";
    for (int i = 0; i < MESH_AXES; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %d ", mesh_axis_name(shape->order[i]), shape->size[shape->order[i]]);
    return dt_comm_keep(world, text);
}

dt_status mesh_init(struct mesh *mesh, const struct mesh_shape *shape, unsigned axes, struct dt_comm *world)
{
    *mesh = (struct mesh){.shape = *shape, .world = world};
    DT_TRY(keep_comms(shape, world));
    for (int axis = 0; axis < MESH_AXES; axis++) {
        mesh->at[axis] = mesh_coordinate(shape, (enum mesh_axis)axis, dt_comm_rank(world));
        if (axes & 1u << axis)
            DT_TRY(create_axis_comm(mesh, (enum mesh_axis)axis));
    }
    return DT_OK;
}

void mesh_finish(struct mesh *mesh)
{
    for (int axis = MESH_AXES - 1; axis >= 0; axis--)
        dt_comm_destroy(mesh->comm[axis]);
    *mesh = (struct mesh){0};
}

/* The communicator of coordinates `lower` and `lower` + 1; for ranks without such a pair, none. */
static dt_status create_pair(const struct mesh *mesh, enum mesh_axis axis, int lower, int upper, const char *name, struct dt_comm **out)
{
    int rank = dt_comm_rank(mesh->world), size = mesh->shape.size[axis];
    if (lower < 0 || upper >= size || lower == upper)
        return dt_comm_subset(mesh->world, NULL, 0, name, out);
    int ranks[2] = {mesh_moved(&mesh->shape, axis, rank, lower), mesh_moved(&mesh->shape, axis, rank, upper)};
    return dt_comm_subset(mesh->world, ranks, 2, name, out);
}

/* Neighbouring pairs share a rank, so they are made in two rounds: the pairs that begin at an even
 * coordinate, then those at an odd one. A ring needs a third round for the pair that closes it. */
dt_status mesh_neighbours_init(struct mesh_neighbours *neighbours, const struct mesh *mesh, enum mesh_axis axis, bool ring,
                               const char *name)
{
    int here = mesh->at[axis], last = mesh->shape.size[axis] - 1;
    struct dt_comm *none;
    *neighbours = (struct mesh_neighbours){0};
    for (int round = 0; round < 2; round++) {
        bool with_next = here % 2 == round;
        int lower = with_next ? here : here - 1;
        DT_TRY(create_pair(mesh, axis, lower, lower + 1, name, with_next ? &neighbours->next : &neighbours->previous));
    }
    if (!ring)
        return DT_OK;
    bool closes = last > 0 && (here == 0 || here == last);
    struct dt_comm **pair = here == last ? &neighbours->next : &neighbours->previous;
    return create_pair(mesh, axis, closes ? last : -1, 0, name, closes ? pair : &none);
}

void mesh_neighbours_finish(struct mesh_neighbours *neighbours)
{
    dt_comm_destroy(neighbours->next);
    dt_comm_destroy(neighbours->previous);
    *neighbours = (struct mesh_neighbours){0};
}

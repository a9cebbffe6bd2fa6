#include "schedules/mesh/shape.h"

/* Distance in the world between neighbours on the axis: the number of ranks of all axes before it
 * in the order. */
static int stride_of(const struct mesh_shape *shape, enum mesh_axis axis)
{
    int stride = 1;
    for (int i = 0; shape->order[i] != axis; i++)
        stride *= shape->size[shape->order[i]];
    return stride;
}

const char *mesh_axis_name(enum mesh_axis axis)
{
    static const char *const names[MESH_AXES] = {[MESH_TENSOR] = "tensor",
                                                 [MESH_CONTEXT] = "context",
                                                 [MESH_SHARD] = "shard",
                                                 [MESH_REPLICA] = "replica",
                                                 [MESH_PIPELINE] = "pipeline"};
    return names[axis];
}

const char *mesh_group_name(enum mesh_axis axis)
{
    static const char *const names[MESH_AXES] = {[MESH_TENSOR] = "tensor ranks",
                                                 [MESH_CONTEXT] = "context ranks",
                                                 [MESH_SHARD] = "shards",
                                                 [MESH_REPLICA] = "replicas",
                                                 [MESH_PIPELINE] = "stages"};
    return names[axis];
}

unsigned mesh_group(const struct mesh_shape *shape, enum mesh_axis axis)
{
    return 1u << axis | (axis == shape->with_context ? MESH_ON_CONTEXT : 0);
}

int mesh_group_size(const struct mesh_shape *shape, enum mesh_axis axis)
{
    return mesh_count(shape, mesh_group(shape, axis));
}

int mesh_count(const struct mesh_shape *shape, unsigned axes)
{
    int count = 1;
    for (int axis = 0; axis < MESH_AXES; axis++)
        if (axes & 1u << axis)
            count *= shape->size[axis];
    return count;
}

int mesh_index(const struct mesh_shape *shape, unsigned axes, int rank)
{
    int index = 0, step = 1;
    for (int i = 0; i < MESH_AXES; i++) {
        enum mesh_axis axis = shape->order[i];
        if (!(axes & 1u << axis))
            continue;
        index += mesh_coordinate(shape, axis, rank) * step;
        step *= shape->size[axis];
    }
    return index;
}

int mesh_coordinate(const struct mesh_shape *shape, enum mesh_axis axis, int rank)
{
    return rank / stride_of(shape, axis) % shape->size[axis];
}

int mesh_moved(const struct mesh_shape *shape, enum mesh_axis axis, int rank, int coordinate)
{
    return rank + (coordinate - mesh_coordinate(shape, axis, rank)) * stride_of(shape, axis);
}

int mesh_span(const struct mesh_shape *shape, enum mesh_axis axis)
{
    return stride_of(shape, axis) * shape->size[axis];
}

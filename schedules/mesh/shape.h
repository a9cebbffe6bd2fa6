/* The mesh of ranks as arithmetic: every rank has a coordinate on each of five axes, and only this
 * file converts between ranks and coordinates. Nothing here communicates, so checks, predictions
 * and commands can use it, too (mesh.h adds the communicators).
 *
 * Axes  tensor    ranks that share each layer
 *       context   ranks that share the positions of each sample
 *       shard     ranks that divide what they hold of the same layers: parameters, gradients or optimizer state
 *       replica   ranks that hold equal copies
 *       pipeline  ranks that hold different layers
 * Shard and replica together are the data axes: each of their ranks has samples of its own. Ranks
 * of the context axis hold the same parameters and compute gradients from different positions. For
 * gradients, parameters and optimizer state they count as further ranks of a data axis: the groups
 * of that axis include them.
 * Source  Megatron Core, parallel_state.py (groups "dp-cp"); torchtitan,
 *         distributed/parallel_dims.py ("dp_shard_cp"). */
#pragma once

enum mesh_axis { MESH_TENSOR, MESH_CONTEXT, MESH_SHARD, MESH_REPLICA, MESH_PIPELINE, MESH_AXES };

const char *mesh_axis_name(enum mesh_axis axis);  /* "tensor" */
const char *mesh_group_name(enum mesh_axis axis); /* "tensor ranks": the name of its communicator in traces and dumps */

/* Sets of axes. */
enum {
    MESH_ON_TENSOR = 1 << MESH_TENSOR,
    MESH_ON_CONTEXT = 1 << MESH_CONTEXT,
    MESH_ON_SHARD = 1 << MESH_SHARD,
    MESH_ON_REPLICA = 1 << MESH_REPLICA,
    MESH_ON_PIPELINE = 1 << MESH_PIPELINE,
    MESH_ON_DATA = MESH_ON_SHARD | MESH_ON_REPLICA,
    MESH_ON_MODEL = MESH_ON_TENSOR | MESH_ON_PIPELINE, /* axes that divide the model; their ranks have the same samples */
};

/* The world's size is the product of `size`. */
struct mesh_shape {
    int size[MESH_AXES];
    enum mesh_axis order[MESH_AXES]; /* each axis once, from neighbouring ranks to the most distant ones */
    enum mesh_axis with_context;     /* the data axis whose groups include the context axis's ranks */
};

/* The axes on which the ranks of a group of `axis` differ: `axis`, and perhaps the context axis. */
unsigned mesh_group(const struct mesh_shape *shape, enum mesh_axis axis);
/* Number of ranks in such a group. */
int mesh_group_size(const struct mesh_shape *shape, enum mesh_axis axis);

/* Ranks in a group on these axes: those that differ in no other coordinate. */
int mesh_count(const struct mesh_shape *shape, unsigned axes);
/* A rank's place in its group, from 0: on one axis its coordinate; on several, axes earlier in the
 * order vary faster. */
int mesh_index(const struct mesh_shape *shape, unsigned axes, int rank);
int mesh_coordinate(const struct mesh_shape *shape, enum mesh_axis axis, int rank);
/* The rank at `coordinate` on the axis, with the other coordinates of `rank`. */
int mesh_moved(const struct mesh_shape *shape, enum mesh_axis axis, int rank, int coordinate);
/* Number of consecutive ranks that a group on this axis and all nearer axes spans. */
int mesh_span(const struct mesh_shape *shape, enum mesh_axis axis);

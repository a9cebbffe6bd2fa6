/* How one mesh is made of what a paradigm's replicas do, of a pipeline and of tensor parallelism: which axes there are, how long, and in
 * which sequence; what of it belongs on one node; and which sizes go together. */
#ifndef SCHEDULES_CONFIG_COMPOSITION_H
#define SCHEDULES_CONFIG_COMPOSITION_H

#include "lib/base/status.h"
#include "schedules/mesh/shape.h"

#include <stdbool.h>

struct experiment;

/* The mesh's axes from neighbours to far apart; "data" is shard and replica, in this sequence. */
enum mesh_order {
    MESH_TENSOR_PIPELINE_DATA, /* the study's: pipelines of neighbours */
    MESH_TENSOR_DATA_PIPELINE, /* Megatron-LM's */
    MESH_PIPELINE_TENSOR_DATA,
    MESH_PIPELINE_DATA_TENSOR,
    MESH_DATA_TENSOR_PIPELINE,
    MESH_DATA_PIPELINE_TENSOR,
    MESH_ORDERS
};
const char *mesh_order_name(enum mesh_order order); /* "tensor-pipeline-data"; NULL past the last */

/* Which paradigms the config's pipeline concerns. It was pdp's alone at first, and a sweep over paradigms names stages for that one. */
enum pipeline_reach { PIPELINE_OF_PDP, PIPELINE_OF_ALL };
const char *pipeline_reach_name(enum pipeline_reach reach); /* NULL past the last */

/* Stages of the experiment's pipeline; 1 without one. */
int experiment_stages(const struct experiment *experiment);

/* Whether the sizes go together. Errors: DT_ERR_INVALID, with the sizes that would; `where` begins the text. */
dt_status experiment_check_mesh(const struct experiment *experiment, const char *where);

/* The mesh of an experiment that has been checked. */
struct mesh_shape experiment_mesh(const struct experiment *experiment);

/* One rank of each kind that needs its own look at memory, by index, -1 past the last: the stages of a pipeline, the parameter servers.
 * What is left out is like one of these or needs less. */
int experiment_rank_of_kind(const struct experiment *experiment, int index);

/* The replica that is parameter server `index`: spread evenly, the first one on rank 0, so that few servers lie on different nodes. */
int experiment_server_replica(const struct experiment *experiment, int index);

/* Groups on some axes communicate all the time: each belongs on one node. The key that names the size of the groups on this axis, if they
 * are of that kind in this experiment; else NULL. A pipeline is not where mesh.order has its stages farther apart than replicas. */
const char *experiment_node_key(const struct experiment *experiment, enum mesh_axis axis);

#endif

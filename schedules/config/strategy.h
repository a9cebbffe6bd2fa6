/* How an experiment divides a model over its ranks: what its keys say, found once. There are numbers and rows of the tables in it, and no
 * names: schedules, predictions and searches read it and look nothing up. */
#ifndef SCHEDULES_CONFIG_STRATEGY_H
#define SCHEDULES_CONFIG_STRATEGY_H

#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/model/model.h"
#include "schedules/config/paradigm.h"
#include "schedules/plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct experiment;

/* The mesh's axes from neighbours to far apart; "data" is context, shard and replica, in this sequence. */
enum mesh_order {
    MESH_TENSOR_PIPELINE_DATA, /* the study's: pipelines of neighbours */
    MESH_TENSOR_DATA_PIPELINE, /* Megatron-LM's */
    MESH_PIPELINE_TENSOR_DATA,
    MESH_PIPELINE_DATA_TENSOR,
    MESH_DATA_TENSOR_PIPELINE,
    MESH_DATA_PIPELINE_TENSOR,
    MESH_ORDERS
};
const char *mesh_order_name(int order); /* "tensor-pipeline-data"; NULL past the last */

/* As Megatron-LM's --cp-comm-type: "p2p", "all_gather", "a2a"; NULL past the last. */
const char *context_kind_name(int kind);

/* Which paradigms the config's pipeline concerns. It was pdp's alone at first, and a sweep over paradigms names stages for that one. */
enum pipeline_reach { PIPELINE_OF_PDP, PIPELINE_OF_ALL };
const char *pipeline_reach_name(int reach); /* NULL past the last */

/* What is kept of a micro-batch for its backward (schedules/pipeline/activation.h says what each policy does). */
enum activation_kind {
    ACTIVATION_KEEP,
    ACTIVATION_CHECKPOINT,
    ACTIVATION_OFFLOAD,
    ACTIVATION_SELECTIVE,
    ACTIVATION_CORE_ATTENTION,
    ACTIVATION_SELECTIVE_OP
};
const char *activation_name(int kind);                   /* NULL past the last */
bool activation_has_segments(enum activation_kind kind); /* whose inputs alone are kept */
int activation_again(enum activation_kind kind);         /* enum dt_again, added up: what is computed again within blocks */

struct strategy {
    const struct dt_device_kind *device; /* NULL: "auto", which means one where a run begins (schedules/run/device_choice.h) */
    const struct paradigm *paradigm;
    const struct dp_mode *mode; /* the paradigm's */
    /* Of a file the row that reads it; without a pipeline gpipe's, whose passes of one stage are a forward and a backward in turn. */
    const struct pipeline_order *order;
    bool has_order_file;
    bool has_pipeline;        /* pdp's has perhaps one stage */
    int stages;               /* ranks of a pipeline; 1 without one */
    int parts;                /* of the model on each rank; 0: an order file says it (pipeline_order_layout) */
    enum dt_split_rule split; /* which layers the parts have, where pipeline.split lists no points: */
    int split_points;         /* how many it lists (split.h) */
    int window;               /* micro-batches of the config's pipeline.chunks; 1 without a pipeline */
    int micro_batches;        /* of a step, those of all windows */
    struct mesh_shape mesh;
    /* The policy of each part of a rank, enum activation_kind: pipeline.activation's where there is a pipeline and the key is given, which
     * names `policies` of them; else the config's `activation`, and `policies` is 0. */
    uint8_t activations[ORDER_MOST_PARTS];
    int policies;
    int again;   /* enum dt_again, of all parts together */
    int servers; /* parameter servers; 0 where there are none */
};
_Static_assert(sizeof(struct strategy) <= 1024, "a strategy is small");

/* The replica that is parameter server `index`: spread evenly, the first one on rank 0, so that few servers lie on different nodes. */
static inline int strategy_server_replica(const struct strategy *s, int index)
{
    return (int)((long long)index * s->mesh.size[MESH_REPLICA] / s->servers);
}

/* Whether backward of one layer of a block reads parameters of another one, so that both must be there. */
static inline bool strategy_reads_blocks(const struct strategy *s)
{
    return s->again & DT_AGAIN_PRODUCTS;
}

/* Set experiment->strategy from the keys. Whoever changes a key of an experiment calls this, or experiment_check or experiment_resolve,
 * which do. Sizes that do not divide give a mesh of which experiment_check_mesh says what is wrong. */
void experiment_settle(struct experiment *experiment);

/* The experiment laid out on nodes of `ranks` consecutive ranks each; 0: on one. */
void experiment_place(struct experiment *experiment, int ranks);

/* Whether the sizes go together. Errors: DT_ERR_INVALID, with the sizes that would; `where` begins the text. */
dt_status experiment_check_mesh(const struct experiment *experiment, const char *where);

/* Whether pipeline.activation has a policy for each of a rank's `parts`. `where` begins the text. Errors: DT_ERR_INVALID. */
dt_status experiment_check_activation(const struct experiment *experiment, int parts, const char *where);

/* Samples of a step that a replica's ranks have together: the stages of a pipeline, those that share each layer. */
int64_t experiment_replica_samples(const struct experiment *experiment);

/* Samples of a micro-batch, where losses depend on how many these are, so that those of other divisions are not comparable; else 0. */
int64_t experiment_loss_samples(const struct experiment *experiment);

/* One rank of each kind that needs its own look at memory, by index, -1 past the last: the stages of a pipeline, the parameter servers.
 * What is left out is like one of these or needs less. */
int experiment_rank_of_kind(const struct experiment *experiment, int index);

/* Groups on some axes communicate all the time: each belongs on one node. The key that names the size of the groups on this axis, if they
 * are of that kind in this experiment; else NULL. A pipeline is not where mesh.order has its stages farther apart than replicas. */
const char *experiment_node_key(const struct experiment *experiment, enum mesh_axis axis);

#endif

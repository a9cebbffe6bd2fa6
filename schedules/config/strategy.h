/* How an experiment divides a model over its ranks: found once from the config's keys. It consists
 * of numbers and pointers to table rows, without names, so that schedules, predictions and searches
 * look nothing up. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/model/model.h"
#include "schedules/config/paradigm.h"
#include "schedules/plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct experiment;

/* The order of the mesh's axes, from the axis of neighbouring ranks to that of the most distant
 * ones; "data" is context, shard and replica. */
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

/* Which paradigms the config's `pipeline` applies to: pdp alone, as in early configs whose sweeps
 * over paradigms give stages for pdp; or all. */
enum pipeline_reach { PIPELINE_OF_PDP, PIPELINE_OF_ALL };
const char *pipeline_reach_name(int reach); /* NULL past the last */

/* Which activations of a micro-batch are kept for backward; schedules/pipeline/activation.h
 * describes each policy. */
enum activation_kind {
    ACTIVATION_KEEP,
    ACTIVATION_CHECKPOINT,
    ACTIVATION_OFFLOAD,
    ACTIVATION_SELECTIVE,
    ACTIVATION_CORE_ATTENTION,
    ACTIVATION_SELECTIVE_OP
};
const char *activation_name(int kind);                   /* NULL past the last */
bool activation_has_segments(enum activation_kind kind); /* whether only the inputs of segments are kept */
int activation_again(enum activation_kind kind);         /* what is recomputed within blocks: bits of enum dt_again */

enum { SPLIT_MOST_POINTS = 255 };

struct strategy {
    const struct dt_device_kind *device; /* NULL: "auto", which is decided when a run begins (schedules/run/device_choice.h) */
    const struct paradigm *paradigm;
    const struct dp_mode *mode; /* the paradigm's */
    /* For an order file, the row that reads files. Without a pipeline gpipe's row: with one stage
     * it alternates forward and backward. */
    const struct pipeline_order *order;
    bool has_order_file;
    bool has_pipeline;        /* true also for pdp with one stage */
    int stages;               /* ranks of a pipeline; 1 without one */
    int parts;                /* parts of the model on each rank; 0: an order file says it (pipeline_order_layout) */
    enum dt_split_rule split; /* how layers are divided, if pipeline.split lists no points */
    int split_points;         /* how many first blocks of parts it lists */
    uint16_t split_at[SPLIT_MOST_POINTS];
    int window;        /* micro-batches of the config's pipeline.chunks; 1 without a pipeline */
    int micro_batches; /* of a step, those of all windows */
    struct mesh_shape mesh;
    /* The policy of each part of a rank, enum activation_kind. With a pipeline, pipeline.activation
     * names `policies` of them; otherwise `policies` is 0 and `activation` holds for all. */
    uint8_t activations[ORDER_MOST_PARTS];
    int policies;
    int again;   /* bits of enum dt_again, over all parts */
    int servers; /* parameter servers; 0 where there are none */
};
_Static_assert(sizeof(struct strategy) <= 1024, "a strategy is small");

/* The replica that is parameter server `index`. Servers are spread evenly, beginning at rank 0, so
 * that a few servers are on different nodes. */
static inline int strategy_server_replica(const struct strategy *s, int index)
{
    return (int)((long long)index * s->mesh.size[MESH_REPLICA] / s->servers);
}

/* Whether a layer's backward pass reads parameters of other layers of its block, which must then be
 * in memory, too. */
static inline bool strategy_reads_blocks(const struct strategy *s)
{
    return s->again & DT_AGAIN_PRODUCTS;
}

/* Set experiment->strategy from the keys. Call it after any change of a key, unless
 * experiment_check or experiment_resolve is called, which do this. If sizes do not divide,
 * experiment_check_mesh says what is wrong. */
void experiment_settle(struct experiment *experiment);

/* Place the experiment on nodes of `ranks` consecutive ranks each; 0: on one node. */
void experiment_place(struct experiment *experiment, int ranks);

/* Check that the sizes fit together. Errors: DT_ERR_INVALID, whose text names sizes that would fit;
 * `where` begins the text. */
dt_status experiment_check_mesh(const struct experiment *experiment, const char *where);

/* Whether pipeline.activation has a policy for each of a rank's `parts`. `where` begins the text.
 * Errors: DT_ERR_INVALID. */
dt_status experiment_check_activation(const struct experiment *experiment, int parts, const char *where);

/* Samples of a step that the ranks of one replica (pipeline stages, tensor ranks) have together. */
int64_t experiment_replica_samples(const struct experiment *experiment);

/* Samples of a micro-batch if the losses depend on that number: runs with different micro-batches
 * are then not comparable. Else 0. */
int64_t experiment_loss_samples(const struct experiment *experiment);

/* The ranks whose memory has to be predicted, by index; -1 past the last: one of each pipeline
 * stage, or each parameter server. Every other rank needs the same as one of these, or less. */
int experiment_rank_of_kind(const struct experiment *experiment, int index);

/* Some groups communicate so often that each should lie on one node. Returns the config key of the
 * group's size if the axis has such groups in this experiment, else NULL. A pipeline has none if
 * mesh.order puts its stages farther apart than replicas. */
const char *experiment_node_key(const struct experiment *experiment, enum mesh_axis axis);

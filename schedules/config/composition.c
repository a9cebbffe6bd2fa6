#include "schedules/config/composition.h"

#include "schedules/config/experiment.h"

#include <stdio.h>

static const struct {
    const char *name;
    enum mesh_axis axes[MESH_AXES];
} orders[MESH_ORDERS] = {
    [MESH_TENSOR_PIPELINE_DATA] = {"tensor-pipeline-data", {MESH_TENSOR, MESH_PIPELINE, MESH_SHARD, MESH_REPLICA}},
    [MESH_TENSOR_DATA_PIPELINE] = {"tensor-data-pipeline", {MESH_TENSOR, MESH_SHARD, MESH_REPLICA, MESH_PIPELINE}},
    [MESH_PIPELINE_TENSOR_DATA] = {"pipeline-tensor-data", {MESH_PIPELINE, MESH_TENSOR, MESH_SHARD, MESH_REPLICA}},
    [MESH_PIPELINE_DATA_TENSOR] = {"pipeline-data-tensor", {MESH_PIPELINE, MESH_SHARD, MESH_REPLICA, MESH_TENSOR}},
    [MESH_DATA_TENSOR_PIPELINE] = {"data-tensor-pipeline", {MESH_SHARD, MESH_REPLICA, MESH_TENSOR, MESH_PIPELINE}},
    [MESH_DATA_PIPELINE_TENSOR] = {"data-pipeline-tensor", {MESH_SHARD, MESH_REPLICA, MESH_PIPELINE, MESH_TENSOR}},
};

const char *mesh_order_name(enum mesh_order order)
{
    return (unsigned)order < MESH_ORDERS ? orders[order].name : NULL;
}

const char *pipeline_reach_name(enum pipeline_reach reach)
{
    static const char *const names[] = {[PIPELINE_OF_PDP] = "pdp", [PIPELINE_OF_ALL] = "all"};
    return (unsigned)reach < sizeof names / sizeof *names ? names[reach] : NULL;
}

/* ---- sizes ---- */

int experiment_stages(const struct experiment *e)
{
    bool own = paradigm_of(e->paradigm)->axes & MESH_ON_PIPELINE;
    return own || e->pipeline.paradigms == PIPELINE_OF_ALL ? e->pipeline.stages : 1;
}

/* Ranks that hold one copy of the model between them, if nothing is sharded. */
static int ranks_of_a_copy(const struct experiment *e)
{
    return e->tensor.size * experiment_stages(e);
}

/* Ranks that share one copy of their layers' parameters with hsdp: hsdp.shard_size, or those of the data axes that are on one node, or all
 * of them where nodes are not equal. `inner`: ranks of the axes that are nearer. */
static int shard_size(const struct experiment *e, int data, int inner)
{
    if (e->hsdp.shard_size > 0)
        return e->hsdp.shard_size;
    int on_node = e->ranks_per_node > 0 && e->ranks_per_node % inner == 0 ? e->ranks_per_node / inner : data;
    return data % on_node == 0 ? on_node : data;
}

struct mesh_shape experiment_mesh(const struct experiment *e)
{
    const struct paradigm *p = paradigm_of(e->paradigm);
    struct mesh_shape shape = {.size = {1, 1, 1, 1}};
    int data = e->world_size / ranks_of_a_copy(e), inner = 1;
    for (int i = 0; i < MESH_AXES; i++)
        shape.order[i] = orders[e->mesh.order].axes[i];
    shape.size[MESH_TENSOR] = e->tensor.size;
    shape.size[MESH_PIPELINE] = experiment_stages(e);
    for (int i = 0; shape.order[i] != MESH_SHARD; i++)
        inner *= shape.size[shape.order[i]];
    if (p->axes & MESH_ON_SHARD)
        shape.size[MESH_SHARD] = p->axes & MESH_ON_REPLICA ? shard_size(e, data, inner) : data;
    if (p->axes & MESH_ON_REPLICA)
        shape.size[MESH_REPLICA] = data / shape.size[MESH_SHARD];
    return shape;
}

int experiment_rank_of_kind(const struct experiment *e, int index)
{
    struct mesh_shape mesh = experiment_mesh(e);
    if (paradigm_of(e->paradigm)->mode == DP_PARAMETER_SERVER)
        return index < e->parameter_server.servers ? mesh_moved(&mesh, MESH_REPLICA, 0, experiment_server_replica(e, index)) : -1;
    return index < mesh.size[MESH_PIPELINE] ? mesh_moved(&mesh, MESH_PIPELINE, 0, index) : -1;
}

int experiment_server_replica(const struct experiment *e, int index)
{
    struct mesh_shape mesh = experiment_mesh(e);
    return (int)((long long)index * mesh.size[MESH_REPLICA] / e->parameter_server.servers);
}

const char *experiment_node_key(const struct experiment *e, enum mesh_axis axis)
{
    struct mesh_shape mesh = experiment_mesh(e);
    int place[MESH_AXES] = {0};
    for (int i = 0; i < MESH_AXES; i++)
        place[mesh.order[i]] = i;
    bool both = (paradigm_of(e->paradigm)->axes & MESH_ON_DATA) == MESH_ON_DATA;
    switch (axis) {
    case MESH_TENSOR: return mesh.size[axis] > 1 ? "tensor.size" : NULL;
    case MESH_PIPELINE: return mesh.size[axis] > 1 && place[axis] < place[MESH_REPLICA] ? "pipeline.stages" : NULL;
    case MESH_SHARD: return both ? "hsdp.shard_size" : NULL;
    default: return NULL;
    }
}

/* ---- what goes together ---- */

enum { DIVISORS_TEXT = 160 };

/* "1, 2, 3 and 6 do"; of many, as many as the text has room for. */
static void list_divisors(int number, char text[DIVISORS_TEXT])
{
    size_t used = (size_t)snprintf(text, DIVISORS_TEXT, "1");
    for (int i = 2; i <= number && used + 32 < DIVISORS_TEXT; i++)
        if (number % i == 0)
            used += (size_t)snprintf(text + used, DIVISORS_TEXT - used, "%s%d", i == number ? " and " : ", ", i);
    snprintf(text + used, DIVISORS_TEXT - used, number == 1 ? " alone does" : " do");
}

static dt_status check_one_copy(const struct experiment *e, const char *where)
{
    int stages = experiment_stages(e), ranks = ranks_of_a_copy(e);
    if (ranks == 1)
        return dt_fail(DT_ERR_INVALID, "%s: world_size: %d ranks, but paradigm \"%s\" is one device; use 1, or another paradigm", where,
                       e->world_size, paradigm_name(e->paradigm));
    return dt_fail(
        DT_ERR_INVALID,
        "%s: world_size: %d ranks, but paradigm \"%s\" is one copy of the model, on pipeline.stages %d times tensor.size %d ranks; "
        "use %d, or another paradigm",
        where, e->world_size, paradigm_name(e->paradigm), stages, e->tensor.size, ranks);
}

static dt_status check_shards(const struct experiment *e, const char *where)
{
    int data = e->world_size / ranks_of_a_copy(e);
    char divisors[DIVISORS_TEXT];
    bool both = (paradigm_of(e->paradigm)->axes & MESH_ON_DATA) == MESH_ON_DATA;
    if (!both || e->hsdp.shard_size == 0 || data % e->hsdp.shard_size == 0)
        return DT_OK;
    list_divisors(data, divisors);
    if (data == e->world_size)
        return dt_fail(DT_ERR_INVALID, "%s: hsdp.shard_size: %d does not divide world_size %d; %s", where, e->hsdp.shard_size, data,
                       divisors);
    return dt_fail(DT_ERR_INVALID, "%s: hsdp.shard_size: %d does not divide the %d ranks that hold the same stage; %s", where,
                   e->hsdp.shard_size, data, divisors);
}

dt_status experiment_check_mesh(const struct experiment *e, const char *where)
{
    const struct paradigm *p = paradigm_of(e->paradigm);
    int stages = experiment_stages(e), tensor = e->tensor.size, world = e->world_size;
    char divisors[DIVISORS_TEXT];
    if (stages > 1 && p->no_pipeline)
        return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: paradigm \"%s\" goes with no pipeline: %s; use 1, or paradigm \"ddp\"", where,
                       p->name, p->no_pipeline);
    if (!p->axes && world != stages * tensor)
        return check_one_copy(e, where);
    list_divisors(world, divisors);
    if (world % tensor != 0)
        return dt_fail(DT_ERR_INVALID, "%s: tensor.size: %d does not divide world_size %d; %s", where, tensor, world, divisors);
    if (world % (stages * tensor) == 0)
        return check_shards(e, where);
    list_divisors(world / tensor, divisors);
    if (tensor == 1)
        return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: %d does not divide world_size %d; %s", where, stages, world, divisors);
    return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: %d times tensor.size %d does not divide world_size %d; stages of %s", where,
                   stages, tensor, world, divisors);
}

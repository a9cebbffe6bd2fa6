#include "schedules/config/paradigm.h"

#include "schedules/config/experiment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

static dt_status check_pipeline(const struct experiment *e, const char *where)
{
    int stages = e->pipeline.stages;
    if (e->world_size % stages != 0)
        return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: %d does not divide world_size %d", where, stages, e->world_size);
    int64_t samples = (int64_t)stages * e->batch_size;
    if ((int64_t)e->pipeline.chunks * e->micro_batches > samples)
        return dt_fail(DT_ERR_INVALID,
                       "%s: pipeline.chunks: %d chunks (times micro_batches %d) of the pipeline's %" PRId64
                       " samples (stages * batch_size); at most one each",
                       where, e->pipeline.chunks, e->micro_batches, samples);
    int *first_layer = malloc(((size_t)stages + 1) * sizeof *first_layer);
    if (!first_layer)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: out of memory", where);
    dt_status status = e->model.family->partition(&e->model, stages, first_layer);
    free(first_layer);
    if (status == DT_ERR_INVALID)
        return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: %s", where, dt_error_message());
    return status;
}

static dt_status check_shard_groups(const struct experiment *e, const char *where)
{
    if (e->hsdp.shard_size > 0 && e->world_size % e->hsdp.shard_size != 0)
        return dt_fail(DT_ERR_INVALID, "%s: hsdp.shard_size: %d does not divide world_size %d", where, e->hsdp.shard_size, e->world_size);
    return DT_OK;
}

static dt_status check_servers(const struct experiment *e, const char *where)
{
    if (e->parameter_server.servers > e->world_size)
        return dt_fail(DT_ERR_INVALID, "%s: parameter_server.servers: %d is more than world_size %d", where, e->parameter_server.servers,
                       e->world_size);
    return DT_OK;
}

static int server_of_kind(const struct experiment *e, int index)
{
    return index < e->parameter_server.servers ? experiment_server_rank(e, index) : -1;
}

/* ---- the table ---- */

static const char *const no_keys[] = {NULL};
static const char *const bucket_keys[] = {"ddp.bucket_mib", NULL};
static const char *const pipeline_keys[] = {"pipeline.stages", "pipeline.chunks", "pipeline.order",
                                            "ddp.bucket_mib",  "straddle_nodes",  NULL};
static const char *const fsdp_keys[] = {"fsdp.unit", NULL};
static const char *const hsdp_keys[] = {"fsdp.unit", "hsdp.shard_size", "straddle_nodes", NULL};
static const char *const server_keys[] = {"parameter_server.servers", NULL};

static const struct paradigm paradigms[PARADIGM_COUNT] = {
    [PARADIGM_NONE] =
        {
            .name = "none",
            .help = "one device trains alone",
            .mode = DP_NONE,
            .keys = no_keys,
            .bytes = {"2 P", "the largest group", "12 P"},
        },
    [PARADIGM_DDP] =
        {
            .name = "ddp",
            .help = "every rank has the whole model; gradients are averaged in buckets during backward",
            .axes = MESH_ON_REPLICA,
            .mode = DP_DDP,
            .keys = bucket_keys,
            .bytes = {"2 P", "2 P", "12 P"},
        },
    [PARADIGM_PDP] =
        {
            .name = "pdp",
            .help = "pipelines of stages, each rank with a part of the layers; DDP across the pipelines",
            .axes = MESH_ON_PIPELINE | MESH_ON_REPLICA,
            .mode = DP_DDP,
            .keys = pipeline_keys,
            .bytes = {"2 P / S", "2 P / S", "12 P / S"},
            .node_group = {MESH_PIPELINE, "pipeline.stages"},
            .check = check_pipeline,
        },
    [PARADIGM_FSDP] =
        {
            .name = "fsdp",
            .help = "every rank keeps a shard; parameters are gathered before use and freed after it (ZeRO-3)",
            .axes = MESH_ON_SHARD,
            .mode = DP_FSDP,
            .keys = fsdp_keys,
            .bytes = {"2 P / N", "2 P / N", "12 P / N"},
        },
    [PARADIGM_ZERO1] =
        {
            .name = "zero1",
            .help = "ddp with the optimizer state divided over the ranks",
            .axes = MESH_ON_SHARD,
            .mode = DP_ZERO1,
            .keys = bucket_keys,
            .bytes = {"2 P", "2 P", "12 P / N"},
        },
    [PARADIGM_ZERO2] =
        {
            .name = "zero2",
            .help = "ddp with gradients and optimizer state divided over the ranks",
            .axes = MESH_ON_SHARD,
            .mode = DP_ZERO2,
            .keys = bucket_keys,
            .bytes = {"2 P", "2 P / N", "12 P / N"},
        },
    [PARADIGM_HSDP] =
        {
            .name = "hsdp",
            .help = "fsdp within groups of ranks, a node for example; gradient shards are averaged across the groups",
            .axes = MESH_ON_SHARD | MESH_ON_REPLICA,
            .mode = DP_FSDP,
            .keys = hsdp_keys,
            .bytes = {"2 P / N", "2 P / N", "12 P / N"},
            .node_group = {MESH_SHARD, "hsdp.shard_size"},
            .check = check_shard_groups,
        },
    [PARADIGM_DATA_PARALLEL] =
        {
            .name = "data_parallel",
            .help = "a root sends parameters to all ranks every step, sums their gradients and updates alone",
            .axes = MESH_ON_REPLICA,
            .mode = DP_DATA_PARALLEL,
            .keys = bucket_keys,
            .bytes = {"2 P", "2 P", "12 P on the root"},
        },
    [PARADIGM_PARAMETER_SERVER] =
        {
            .name = "parameter_server",
            .help = "k ranks own the parameters: they sum the workers' gradients, update and send the result",
            .axes = MESH_ON_REPLICA,
            .mode = DP_PARAMETER_SERVER,
            .keys = server_keys,
            .bytes = {"2 P", "2 P", "12 P over the servers"},
            .check = check_servers,
            .rank_of_kind = server_of_kind,
        },
};

const struct paradigm *paradigm_of(enum paradigm_kind kind)
{
    return (unsigned)kind < PARADIGM_COUNT ? &paradigms[kind] : NULL;
}

const char *paradigm_name(enum paradigm_kind kind)
{
    const struct paradigm *p = paradigm_of(kind);
    return p ? p->name : NULL;
}

bool paradigm_has_key(const struct paradigm *p, const char *path)
{
    for (const char *const *key = p->keys; *key; key++)
        if (strcmp(*key, path) == 0)
            return true;
    return false;
}

/* ---- where ranks are ---- */

/* Ranks that share one copy of the parameters with hsdp: hsdp.shard_size, or a node's, or all of them where nodes are not equal. */
static int shard_size(const struct experiment *e)
{
    if (e->hsdp.shard_size > 0)
        return e->hsdp.shard_size;
    return e->ranks_per_node > 0 && e->world_size % e->ranks_per_node == 0 ? e->ranks_per_node : e->world_size;
}

struct mesh_shape experiment_mesh(const struct experiment *e)
{
    const struct paradigm *p = paradigm_of(e->paradigm);
    struct mesh_shape shape = {.size = {1, 1, 1, 1}, .order = {MESH_TENSOR, MESH_PIPELINE, MESH_SHARD, MESH_REPLICA}};
    if (p->axes & MESH_ON_PIPELINE)
        shape.size[MESH_PIPELINE] = e->pipeline.stages;
    int data = e->world_size / shape.size[MESH_PIPELINE];
    if (p->axes & MESH_ON_SHARD)
        shape.size[MESH_SHARD] = p->axes & MESH_ON_REPLICA ? shard_size(e) : data;
    if (p->axes & MESH_ON_REPLICA)
        shape.size[MESH_REPLICA] = data / shape.size[MESH_SHARD];
    return shape;
}

int experiment_rank_of_kind(const struct experiment *e, int index)
{
    const struct paradigm *p = paradigm_of(e->paradigm);
    struct mesh_shape mesh = experiment_mesh(e);
    if (p->rank_of_kind)
        return p->rank_of_kind(e, index);
    return index < mesh.size[MESH_PIPELINE] ? mesh_moved(&mesh, MESH_PIPELINE, 0, index) : -1;
}

int experiment_server_rank(const struct experiment *e, int index)
{
    return (int)((long long)index * e->world_size / e->parameter_server.servers);
}

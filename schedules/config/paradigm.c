#include "schedules/config/paradigm.h"

#include "schedules/config/experiment.h"

/* ---- checks ---- */

static dt_status check_servers(const struct experiment *e, const char *where)
{
    int replicas = e->world_size / e->tensor.size;
    if (e->parameter_server.servers > replicas)
        return dt_fail(DT_ERR_INVALID, "%s: parameter_server.servers: %d is more than world_size %s%d", where, e->parameter_server.servers,
                       e->tensor.size > 1 ? "/ tensor.size, " : "", replicas);
    if (e->reduce_dtype != REDUCE_AS_MODEL)
        return dt_fail(DT_ERR_INVALID, "%s: reduce_dtype: servers add gradients in model.dtype; use \"model\", or another paradigm", where);
    return DT_OK;
}

/* ---- the table ---- */

static const struct paradigm paradigms[PARADIGM_COUNT] = {
    [PARADIGM_NONE] =
        {
            .name = "none",
            .title = "one device",
            .help = "one device trains alone",
            .mode = &dp_none,
            .reads = READS_PIPELINE,
            .bytes = {"2 P", "the largest group", "12 P"},
        },
    [PARADIGM_DDP] =
        {
            .name = "ddp",
            .title = "DDP",
            .abroad = (const char *const[]){"", "none", "0", "zero0", "NO_SHARD", "ddp", "dp", NULL},
            .help = "every rank has the whole model; gradients are averaged in buckets during backward",
            .axes = MESH_ON_REPLICA,
            .mode = &dp_ddp,
            .reads = READS_PIPELINE | READS_BUCKETS | READS_OVERLAP,
            .bytes = {"2 P", "2 P", "12 P"},
        },
    [PARADIGM_PDP] =
        {
            .name = "pdp",
            .title = "PDP",
            .help = "pipelines of stages, each rank with a part of the layers; ddp across them: the study's name for ddp with a pipeline",
            .axes = MESH_ON_PIPELINE | MESH_ON_REPLICA,
            .mode = &dp_ddp,
            .reads = READS_PIPELINE | READS_BUCKETS | READS_OVERLAP,
            .bytes = {"2 P / S", "2 P / S", "12 P / S"},
        },
    [PARADIGM_FSDP] =
        {
            .name = "fsdp",
            .title = "FSDP",
            .abroad = (const char *const[]){"3", "zero3", "ZeRO stage 3", "DeepSpeed ZeRO stage 3", "DeepSpeed ZeRO-3", "FULL_SHARD",
                                            "FSDP full shard", "fsdp1", "fsdp2", NULL},
            .help = "every rank keeps a shard; parameters are gathered before use and freed after it (ZeRO-3)",
            .axes = MESH_ON_SHARD,
            .mode = &dp_fsdp,
            .reads = READS_PIPELINE | READS_UNITS,
            .bytes = {"2 P / N", "2 P / N", "12 P / N"},
        },
    [PARADIGM_ZERO1] =
        {
            .name = "zero1",
            .title = "ZeRO-1",
            .abroad = (const char *const[]){"1", "zero1", "ZeRO stage 1", "DeepSpeed ZeRO stage 1", "DeepSpeed ZeRO-1", NULL},
            .help = "ddp with the optimizer state divided over the ranks",
            .axes = MESH_ON_SHARD,
            .mode = &dp_zero1,
            .reads = READS_PIPELINE | READS_BUCKETS | READS_OVERLAP | READS_SHARES,
            .bytes = {"2 P", "2 P", "12 P / N"},
        },
    [PARADIGM_ZERO2] =
        {
            .name = "zero2",
            .title = "ZeRO-2",
            .abroad = (const char *const[]){"2", "zero2", "ZeRO stage 2", "DeepSpeed ZeRO stage 2", "DeepSpeed ZeRO-2", "SHARD_GRAD_OP",
                                            "FSDP shard grad op", NULL},
            .help = "ddp with gradients and optimizer state divided over the ranks",
            .axes = MESH_ON_SHARD,
            .mode = &dp_zero2,
            .reads = READS_PIPELINE | READS_BUCKETS | READS_OVERLAP | READS_SHARES,
            .bytes = {"2 P", "2 P / N", "12 P / N"},
        },
    [PARADIGM_HSDP] =
        {
            .name = "hsdp",
            .title = "HSDP",
            .abroad = (const char *const[]){"HYBRID_SHARD", "FSDP hybrid shard", NULL},
            .help = "fsdp within groups of ranks, a node for example; gradient shards are averaged across the groups",
            .axes = MESH_ON_SHARD | MESH_ON_REPLICA,
            .mode = &dp_fsdp,
            .reads = READS_PIPELINE | READS_UNITS | READS_SHARD_GROUPS,
            .bytes = {"2 P / N", "2 P / N", "12 P / N"},
        },
    [PARADIGM_DATA_PARALLEL] =
        {
            .name = "data_parallel",
            .title = "DataParallel",
            .of_the_past = true,
            .help = "a root sends parameters to all ranks every step, sums their gradients and updates alone",
            .axes = MESH_ON_REPLICA,
            .no_pipeline = "its root has the whole model, and makes every update",
            .mode = &dp_data_parallel,
            .reads = READS_BUCKETS | READS_OVERLAP,
            .bytes = {"2 P", "2 P", "12 P on the root"},
        },
    [PARADIGM_PARAMETER_SERVER] =
        {
            .name = "parameter_server",
            .title = "parameter server",
            .of_the_past = true,
            .help = "k ranks own the parameters: they sum the workers' gradients, update and send the result",
            .axes = MESH_ON_REPLICA,
            .no_pipeline = "its servers own layers of the whole model, and every worker computes all of it",
            .mode = &dp_parameter_server,
            .reads = READS_SERVERS | READS_OVERLAP,
            .bytes = {"2 P", "2 P", "12 P over the servers"},
            .check = check_servers,
        },
};

__attribute__((weak)) const struct paradigm *paradigm_more(int index)
{
    return NULL;
}

const struct paradigm *paradigm_of(enum paradigm_kind kind)
{
    return (unsigned)kind < PARADIGM_COUNT ? &paradigms[kind] : paradigm_more((int)kind - PARADIGM_COUNT);
}

const char *paradigm_name(int kind)
{
    const struct paradigm *p = paradigm_of((enum paradigm_kind)kind);
    return p ? p->name : NULL;
}

/* A row of a table of meshes, as papers and projects publish them: sizes of the model, of each kind of parallelism, and of the batch. */
#include "cli/predict/validate_run.h"

#include "schedules/config/families.h"
#include "schedules/plan/orders.h"

#include <string.h>
#include <strings.h>

/* By ZeRO's stage, FSDP's sharding strategy, or dtbench's own name of what shards. */
static bool is_called(const struct paradigm *paradigm, const char *text)
{
    for (const char *const *name = paradigm->abroad; name && *name; name++)
        if (strcasecmp(*name, text) == 0)
            return true;
    return paradigm->axes & MESH_ON_SHARD && strcasecmp(paradigm->name, text) == 0;
}

static dt_status replicas_in(const struct measured_table *t, int row, int replicas_count, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_ZERO);
    int i = 0;
    while (paradigm_of((enum paradigm_kind)i) && !is_called(paradigm_of((enum paradigm_kind)i), text))
        i++;
    if (!paradigm_of((enum paradigm_kind)i))
        return measured_wrong(t, row, COLUMN_ZERO, "one of none, zero0 to zero3, NO_SHARD, SHARD_GRAD_OP, FULL_SHARD, HYBRID_SHARD");
    run->paradigm = (enum paradigm_kind)i;
    if (run->stages > 1 && run->paradigm == PARADIGM_DDP)
        run->paradigm = PARADIGM_PDP;
    else if (replicas_count == 1 && run->stages == 1 && run->tensor == 1)
        run->paradigm = PARADIGM_NONE;
    return DT_OK;
}

static bool begins_with(const char *text, const char *name)
{
    return name && strncasecmp(text, name, strlen(name)) == 0;
}

static void order_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_ORDER);
    const struct pipeline_order *order;
    run->order = *text ? NULL : "1f1b";
    for (int i = 0; !run->order && (order = pipeline_order_at(i)); i++)
        if (begins_with(text, order->name) || begins_with(text, order->abroad))
            run->order = order->name;
    if (!run->order)
        snprintf(run->reason, sizeof run->reason, "schedule \"%.64s\" is not known", text);
}

static void numbers_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_DTYPE);
    if (strstr(text, "fp8"))
        snprintf(run->reason, sizeof run->reason, "dtype %.64s", text);
    run->dtype = strstr(text, "bf16") ? "bf16" : strstr(text, "32") && !strstr(text, "16") ? "fp32" : "fp16";
}

static void recomputed_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_RECOMPUTE);
    bool full = strncmp(text, "full", 4) == 0, selective = strncmp(text, "selective", 9) == 0;
    run->activation = full ? ACTIVATION_CHECKPOINT : selective ? ACTIVATION_SELECTIVE : ACTIVATION_KEEP;
    if (*text && !full && !selective && strncmp(text, "none", 4) != 0)
        snprintf(run->reason, sizeof run->reason, "recompute \"%.64s\"", text);
}

static dt_status model_in(const struct measured_table *t, int row, struct measured_run *run)
{
    int tied;
    run->family = model_family(0);
    DT_TRY(measured_count(t, row, COLUMN_LAYERS, 0, &run->layers));
    DT_TRY(measured_count(t, row, COLUMN_HIDDEN, 0, &run->hidden));
    DT_TRY(measured_count(t, row, COLUMN_HEADS, 0, &run->heads));
    DT_TRY(measured_count(t, row, COLUMN_SEQUENCE, 0, &run->sequence));
    DT_TRY(measured_count(t, row, COLUMN_FFN, 4 * run->hidden, &run->ffn));
    DT_TRY(measured_count(t, row, COLUMN_KV_HEADS, run->heads, &run->kv_heads));
    DT_TRY(measured_choice(t, row, COLUMN_TIED, "no,yes", &tied));
    run->tied = tied == 1;
    if (*measured_text(t, row, COLUMN_VOCAB))
        DT_TRY(measured_count(t, row, COLUMN_VOCAB, 0, &run->vocab));
    return DT_OK;
}

/* Stages have equally many blocks in Megatron-LM (megatron/model/transformer.py, --num-layers) and DeepSpeed (pipe/module.py,
 * type:transformer). Where that does not divide, but would with two blocks more, the embedding and the head stand for one each (Qi et al.,
 * arXiv 2401.10241, section 5.1). */
static void split_in(struct measured_run *run)
{
    int parts = run->stages * run->virtual_stages;
    run->split = run->layers % parts == 0 ? SPLIT_EQUAL_BLOCKS : (run->layers + 2) % parts == 0 ? SPLIT_EQUAL_BUT_ENDS : SPLIT_BALANCED;
}

/* Replicas' batches, cut into micro-batches: of a pipeline chunks, else one after the other. */
static dt_status batch_in(const struct measured_table *t, int row, int replicas_count, struct measured_run *run)
{
    int global, micro;
    DT_TRY(measured_count(t, row, COLUMN_GLOBAL_BATCH, 0, &global));
    DT_TRY(measured_count(t, row, COLUMN_MICRO_BATCH, 0, &micro));
    run->samples = global / replicas_count;
    int parts = run->samples / micro;
    run->chunks = run->stages > 1 ? parts : 1;
    run->micro_batches = run->stages > 1 ? 1 : parts;
    if (global % replicas_count || run->samples % micro || parts < 1)
        snprintf(run->reason, sizeof run->reason, "global_batch is no multiple of dp times micro_batch");
    return DT_OK;
}

dt_status measured_run_of_mesh(const struct measured_table *t, int i, struct measured_run *run)
{
    int data, context;
    *run = (struct measured_run){.attention = "fused", .loss = "cross_entropy", .optimizer = "adam", .wrap = -1, .offload = 0};
    DT_TRY(measured_count(t, i, COLUMN_GPUS, 0, &run->gpus));
    if (*measured_text(t, i, COLUMN_GPUS_PER_NODE))
        DT_TRY(measured_count(t, i, COLUMN_GPUS_PER_NODE, 1, &run->gpus_per_node));
    if (*measured_text(t, i, COLUMN_SHARD_SIZE))
        DT_TRY(measured_count(t, i, COLUMN_SHARD_SIZE, 1, &run->shard_size));
    DT_TRY(measured_count(t, i, COLUMN_DATA, 0, &data));
    DT_TRY(measured_count(t, i, COLUMN_TENSOR, 1, &run->tensor));
    DT_TRY(measured_count(t, i, COLUMN_PIPELINE, 1, &run->stages));
    DT_TRY(measured_count(t, i, COLUMN_CONTEXT, 1, &context));
    DT_TRY(measured_count(t, i, COLUMN_VIRTUAL_STAGES, 1, &run->virtual_stages));
    DT_TRY(model_in(t, i, run));
    DT_TRY(replicas_in(t, i, data, run));
    DT_TRY(batch_in(t, i, data, run));
    run->gpus_per_node = run->gpus_per_node > run->gpus ? run->gpus : run->gpus_per_node; /* these tables say what nodes have */
    run->sequence_parallel_told = *measured_text(t, i, COLUMN_SEQUENCE_PARALLEL);
    run->sequence_parallel = strncmp(measured_text(t, i, COLUMN_SEQUENCE_PARALLEL), "yes", 3) == 0;
    numbers_in(t, i, run);
    recomputed_in(t, i, run);
    if (run->stages > 1) {
        order_in(t, i, run);
        split_in(run);
    }
    if (context > 1)
        snprintf(run->reason, sizeof run->reason, "context parallelism of %d", context);
    if ((long long)data * run->tensor * run->stages * context != run->gpus)
        snprintf(run->reason, sizeof run->reason, "%d GPUs are not dp times tp times pp times cp", run->gpus);
    return DT_OK;
}

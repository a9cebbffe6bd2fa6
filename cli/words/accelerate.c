/* accelerate's YAML for FSDP. Names and defaults are those of accelerate 1.0 (commands/config, utils/dataclasses.py). */
#include "cli/words/words.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>

#define ORIGIN "accelerate 1.0"
#define SCRIPT "the script that accelerate launches"

static const struct dt_word words[] = {
    DT_WORD("num_processes", "job.world", NULL),
    DT_WORD("num_machines", "job.nodes", "1"),
    DT_WORD("mixed_precision", "model.dtype", "no",
            .values = DT_VALUES({"no", "fp32"}, {"false", "fp32"}, {"bf16", "bf16"}, {"fp16", "fp16"}),
            .why = "products are fp32, bf16 or fp16 here"),
    DT_WORD("gradient_accumulation_steps", "job.parts", NULL),
    DT_WORD("distributed_type", NULL, NULL, .values = DT_VALUES({"FSDP", NULL}, {"MULTI_GPU", NULL}, {"NO", NULL}),
            .why = "of DeepSpeed its own JSON is read"),
    DT_WORD("fsdp_config.fsdp_offload_params", "parameter_offload", "false"),
    DT_WORD("fsdp_config.fsdp_cpu_offload", "parameter_offload", NULL),
    DT_WORD("fsdp_config.fsdp_activation_checkpointing", "activation", "false",
            .values = DT_VALUES({"false", "keep"}, {"true", "checkpoint"}), .why = "FSDP recomputes blocks or nothing"),
    DT_WORD("fsdp_config.fsdp_auto_wrap_policy", NULL, "TRANSFORMER_BASED_WRAP", DT_ONLY("TRANSFORMER_BASED_WRAP"),
            .why = "what is gathered at a time is a transformer block here"),
    {0},
};

static const char no_bearing[] =
    "compute_environment debug downcast_bf16 enable_cpu_affinity machine_rank main_ rdzv_ same_network tpu_ use_cpu "
    "fsdp_config.fsdp_version fsdp_config.fsdp_transformer_layer fsdp_config.fsdp_backward_prefetch "
    "fsdp_config.fsdp_forward_prefetch fsdp_config.fsdp_use_orig_params fsdp_config.fsdp_cpu_ram "
    "fsdp_config.fsdp_state_dict fsdp_config.fsdp_sync_module dynamo_config.";

static const struct {
    const char *strategy, *number, *sharding;
} strategies[] = {
    {"NO_SHARD", "3", "none"},
    {"SHARD_GRAD_OP", "2", "gradients"},
    {"FULL_SHARD", "1", "parameters"},
    {"HYBRID_SHARD", "4", "parameters"},
};

enum { STRATEGIES = sizeof strategies / sizeof *strategies, HYBRID = STRATEGIES - 1 };

/* Version 2 has a flag in place of the strategy. */
static struct cJSON *take_strategy(struct dt_translation *t)
{
    struct cJSON *strategy = dt_json_take(t->theirs, "fsdp_config.fsdp_sharding_strategy");
    struct cJSON *reshard = dt_json_take(t->theirs, "fsdp_config.fsdp_reshard_after_forward");
    if (!dt_json_at(t->theirs, "fsdp_config"))
        strategy = strategy ? strategy : dt_json_text("NO_SHARD");
    else if (!strategy)
        strategy = dt_json_is(reshard, "false") ? dt_json_text("SHARD_GRAD_OP") : dt_json_text("FULL_SHARD");
    dt_json_destroy(reshard);
    return strategy;
}

static void settle(struct dt_translation *t)
{
    double world = dt_json_number(t->ours, "job.world", 0), nodes = dt_json_number(t->ours, "job.nodes", 1);
    struct cJSON *strategy = take_strategy(t);
    bool known = false;
    for (int i = 0; i < STRATEGIES && !known; i++) {
        known = dt_json_is(strategy, strategies[i].strategy) || dt_json_is(strategy, strategies[i].number);
        if (!known)
            continue;
        dt_remark(t, DT_REMARK_READ, "fsdp_config.fsdp_sharding_strategy: %s", strategies[i].strategy);
        dt_json_put(t->ours, "job.sharding", dt_json_text(strategies[i].sharding));
        if (i == HYBRID && nodes > 1)
            dt_json_put_number(t->ours, "job.shard", world / nodes);
    }
    if (!known)
        dt_remark(t, DT_REMARK_CANNOT, "fsdp_config.fsdp_sharding_strategy: %s; not known here", cJSON_GetStringValue(strategy));
    dt_json_destroy(strategy);
    dt_remark(t, DT_REMARK_ASSUMED, "optimizer: adam; the file leaves it to " SCRIPT);
    dt_json_put(t->ours, "optimizer.name", dt_json_text("adam"));
    dt_remark(t, DT_REMARK_ASSUMED, "shards of the parameters are fp32 there, and in %s here with an fp32 copy in the optimizer",
              cJSON_GetStringValue(dt_json_at(t->ours, "model.dtype")));
}

static void prepare(struct dt_translation *t, const struct experiment *e)
{
    struct cJSON *sharding = dt_json_take(t->ours, "job.sharding");
    bool hybrid = dt_json_at(t->ours, "job.shard") != NULL;
    double shard = dt_json_number(t->ours, "job.shard", 0);
    const char *strategy = NULL;
    for (int i = 0; i < STRATEGIES; i++)
        if (dt_json_is(sharding, strategies[i].sharding) && (i == HYBRID) == hybrid)
            strategy = strategies[i].strategy;
    if (!strategy)
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: %s; FSDP shards parameters, gradients with the optimizer, or nothing",
                  paradigm_name(e->paradigm));
    dt_json_put(t->theirs, "distributed_type", dt_json_text("FSDP"));
    dt_json_put(t->theirs, "fsdp_config.fsdp_version", dt_json_value("1"));
    dt_json_put(t->theirs, "fsdp_config.fsdp_sharding_strategy", dt_json_text(strategy));
    dt_json_put(t->theirs, "fsdp_config.fsdp_auto_wrap_policy", dt_json_text("TRANSFORMER_BASED_WRAP"));
    if (shard > 0) /* a group is a machine */
        dt_json_put_number(t->ours, "job.nodes", e->world_size / shard);
    if (shard > 0 && e->gpus_per_node > 0 && shard != e->gpus_per_node)
        dt_remark(t, DT_REMARK_CANNOT, "hsdp.shard_size: %g; accelerate's groups are the %d GPUs of a machine", shard, e->gpus_per_node);
    if (e->activation_blocks != 1)
        dt_remark(t, DT_REMARK_CANNOT, "activation_blocks: %d; FSDP recomputes each block by itself", e->activation_blocks);
    if (e->strategy.has_pipeline || e->tensor.size > 1)
        dt_remark(t, DT_REMARK_CANNOT, "%s: FSDP has no pipeline, and tensor parallelism is not in this file",
                  e->strategy.has_pipeline ? "pipeline.stages" : "tensor.size");
    dt_remark(t, DT_REMARK_LEFT, "for " SCRIPT ": %g samples at a time on each GPU, %d times a step",
              dt_json_number(t->ours, "job.micro_batch", 1), e->micro_batches);
    static const char *const dropped[] = {"job.micro_batch", "job.parts",      "activation_blocks", "tensor",
                                          "pipeline",        "ddp.bucket_mib", "fsdp.gather"};
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        dt_json_drop(t->ours, dropped[i]);
    dt_json_destroy(sharding);
}

const struct framework framework_accelerate = {
    .name = "fsdp",
    .title = "FSDP by accelerate",
    .origin = ORIGIN,
    .format = TEXT_YAML,
    .marks = (const char *const[]){"distributed_type", NULL},
    .fixed = "{\"gradient_reduction\": \"last\", \"loss\": \"cross_entropy\", \"fsdp\": {\"unit\": \"block\"}}",
    .space = (const char *const[]){"paradigm=none,ddp,zero2,fsdp", "tensor.size=1", "pipeline.stages=1", "activation=keep,checkpoint",
                                   "parameter_offload=false", "fsdp.unit=block", NULL},
    .words = words,
    .no_bearing = no_bearing,
    .without_model = SCRIPT,
    .settle = settle,
    .prepare = prepare,
};

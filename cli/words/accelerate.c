/* accelerate's YAML for FSDP. Names and defaults are those of accelerate 1.14 (commands/launch.py,
 * utils/dataclasses.py, utils/launch.py). */
#include "cli/words/words.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>

#define ORIGIN "accelerate 1.14"
#define SCRIPT "the script that accelerate launches"
#define SIZE(name) "parallelism_config.parallelism_config_" name "_size"

static const double BUCKET_MIB = 25; /* DDP's buckets in bytes of fp32 gradients; ddp.bucket_mib counts bytes of the model's type */

static const struct dt_word words[] = {
    DT_WORD("num_processes", "job.world", NULL),
    DT_WORD("num_machines", "job.nodes", "1"),
    DT_WORD("mixed_precision", "model.dtype", "no",
            .values = DT_VALUES({"no", "fp32"}, {"false", "fp32"}, {"bf16", "bf16"}, {"fp16", "fp16"}),
            .why = "products are fp32, bf16 or fp16 here"),
    DT_WORD("distributed_type", NULL, NULL, .values = DT_VALUES({"FSDP", NULL}, {"MULTI_GPU", NULL}, {"NO", NULL}),
            .why = "for DeepSpeed, import DeepSpeed's own JSON"),
    DT_WORD("fsdp_config.fsdp_offload_params", "parameter_offload", "false"),
    DT_WORD("fsdp_config.fsdp_activation_checkpointing", "activation", "false",
            .values = DT_VALUES({"false", "keep"}, {"true", "checkpoint"}), .why = "FSDP recomputes blocks or nothing"),
    DT_WORD(SIZE("tp"), "tensor.size", NULL),
    DT_WORD(SIZE("cp"), NULL, NULL, DT_ONLY("1"), .why = "--set context.size says that"),
    DT_WORD(SIZE("sp"), NULL, NULL, DT_ONLY("1"), .why = "--set context.size, and context.comm_type a2a, says that"),
    {0},
};

static const char no_bearing[] =
    "compute_environment debug downcast_bf16 enable_cpu_affinity machine_rank main_ rdzv_ same_network tpu_ use_cpu "
    "fsdp_config.fsdp_transformer_layer fsdp_config.fsdp_forward_prefetch fsdp_config.fsdp_use_orig_params fsdp_config.fsdp_cpu_ram "
    "fsdp_config.fsdp_state_dict fsdp_config.fsdp_sync_module parallelism_config.parallelism_config_cp_ "
    "parallelism_config.parallelism_config_sp_ dynamo_config.";

/* FSDP1's strategies by name, and the number that PyTorch gives each. */
static const struct {
    const char *strategy, *number, *sharding;
} strategies[] = {
    {"NO_SHARD", "3", "none"},           {"SHARD_GRAD_OP", "2", "gradients"},       {"FULL_SHARD", "1", "parameters"},
    {"HYBRID_SHARD", "4", "parameters"}, {"HYBRID_SHARD_ZERO2", "5", "parameters"},
};

enum { STRATEGIES = sizeof strategies / sizeof *strategies, HYBRID_ZERO2 = STRATEGIES - 1, HYBRID = HYBRID_ZERO2 - 1 };

/* Read the sharding strategy. FSDP2 has a flag for it. FSDP1 has the word fsdp_sharding_strategy;
 * without it the launcher sets FULL_SHARD, whatever word fsdp_reshard_after_forward has. */
static struct cJSON *take_strategy(struct dt_translation *t, bool second)
{
    struct cJSON *strategy = dt_json_take(t->theirs, "fsdp_config.fsdp_sharding_strategy");
    struct cJSON *reshard = dt_json_at(t->theirs, "fsdp_config.fsdp_reshard_after_forward");
    bool kept = dt_json_is(reshard, "false");
    if (second || (kept && !strategy)) {
        dt_json_destroy(strategy);
        strategy = dt_json_text(kept ? "SHARD_GRAD_OP" : "FULL_SHARD");
    } else if (!strategy) {
        if (cJSON_IsString(reshard) && !dt_json_is(reshard, "FULL_SHARD"))
            dt_remark(t, DT_REMARK_CANNOT,
                      "fsdp_config.fsdp_reshard_after_forward: %s; the launcher replaces it by FULL_SHARD: use fsdp_sharding_strategy",
                      cJSON_GetStringValue(reshard));
        strategy = dt_json_text("FULL_SHARD");
    }
    dt_json_drop(t->theirs, "fsdp_config.fsdp_reshard_after_forward");
    return strategy;
}

/* Settle what is gathered at a time, and how early. */
static void settle_units(struct dt_translation *t, bool second)
{
    struct cJSON *policy = dt_json_at(t->theirs, "fsdp_config.fsdp_auto_wrap_policy");
    struct cJSON *prefetch = dt_json_at(t->theirs, "fsdp_config.fsdp_backward_prefetch");
    if (!dt_json_is(policy, "TRANSFORMER_BASED_WRAP"))
        dt_remark(t, DT_REMARK_CANNOT, "fsdp_config.fsdp_auto_wrap_policy: %s; what is gathered at a time is a transformer block here",
                  policy ? cJSON_GetStringValue(policy) : "NO_WRAP, the default of " ORIGIN);
    if (!second && !dt_json_is(prefetch, "BACKWARD_PRE"))
        dt_remark(t, DT_REMARK_ASSUMED,
                  "fsdp_config.fsdp_backward_prefetch: BACKWARD_PRE; with %s a backward pass waits for its own gather",
                  prefetch ? cJSON_GetStringValue(prefetch) : "NO_PREFETCH, the default of " ORIGIN ",");
    dt_json_drop(t->theirs, "fsdp_config.fsdp_auto_wrap_policy fsdp_config.fsdp_backward_prefetch");
}

static void settle_sharding(struct dt_translation *t)
{
    double world = dt_json_number(t->ours, "job.world", 0), nodes = dt_json_number(t->ours, "job.nodes", 1);
    bool second = dt_json_is(dt_json_at(t->theirs, "fsdp_config.fsdp_version"), "2"), known = false;
    DT_DESTROYED(dt_json_destroy) struct cJSON *strategy = take_strategy(t, second);
    for (int i = 0; i < STRATEGIES && !known; i++) {
        known = dt_json_is(strategy, strategies[i].strategy) || dt_json_is(strategy, strategies[i].number);
        if (!known)
            continue;
        dt_remark(t, DT_REMARK_READ, "fsdp_config: %s", strategies[i].strategy);
        dt_json_put(t->ours, "job.sharding", dt_json_text(strategies[i].sharding));
        if (i >= HYBRID && nodes > 1)
            dt_json_put_number(t->ours, "job.shard", world / nodes);
        if (i == HYBRID_ZERO2) {
            dt_json_put(t->ours, "fsdp.gather", dt_json_text("step"));
            dt_remark(t, DT_REMARK_ASSUMED,
                      "fsdp.gather: step; parameters stay gathered until the backward pass, here of a whole step and there of each "
                      "accumulated part");
        }
    }
    if (!known)
        dt_remark(t, DT_REMARK_CANNOT, "fsdp_config.fsdp_sharding_strategy: %s; not known here", cJSON_GetStringValue(strategy));
    if (dt_json_number(t->theirs, SIZE("dp_replicate"), 1) > 1)
        dt_json_put_number(t->ours, "job.shard", dt_json_number(t->theirs, SIZE("dp_shard"), 1));
    dt_json_drop(t->theirs, "fsdp_config.fsdp_version " SIZE("dp_replicate") " " SIZE("dp_shard"));
    settle_units(t, second);
}

/* Parameters and gradients are kept in fp32 whatever type products have; FSDP's MixedPrecision
 * sends them in the products' type. */
static void settle_gradients(struct dt_translation *t)
{
    struct cJSON *dtype = dt_json_at(t->ours, "model.dtype");
    bool plain = dt_json_is(dt_json_at(t->ours, "job.sharding"), "none");
    if (dt_json_is(dtype, "fp32"))
        return;
    dt_json_put(t->ours, "gradient_dtype", dt_json_text("fp32"));
    if (!plain || dt_json_at(t->theirs, "fsdp_config"))
        dt_json_put(t->ours, "reduce_dtype", cJSON_Duplicate(dtype, true));
    else
        dt_json_put_number(t->ours, "ddp.bucket_mib", BUCKET_MIB / 2);
}

static void settle(struct dt_translation *t)
{
    if (dt_json_at(t->theirs, "fsdp_config"))
        settle_sharding(t);
    else
        dt_json_put(t->ours, "job.sharding", dt_json_text("none"));
    if (!dt_json_at(t->ours, "optimizer.name")) {
        dt_remark(t, DT_REMARK_ASSUMED, "optimizer.name: adam; the file leaves it to " SCRIPT);
        dt_json_put(t->ours, "optimizer.name", dt_json_text("adam"));
    }
    settle_gradients(t);
    if (dt_json_is(dt_json_at(t->ours, "model.dtype"),
                   "fp16")) /* torch.amp.GradScaler scales the loss, with the same defaults as dtbench */
        dt_json_put(t->ours, "loss_scaling", dt_json_text("dynamic"));
    job_say_copies(t);
}

/* ---- the reverse ---- */

static void prepare_fsdp(struct dt_translation *t, const struct experiment *e, bool gradients)
{
    double shard = dt_json_number(t->ours, "job.shard", 0);
    dt_json_put(t->theirs, "fsdp_config.fsdp_version", dt_json_value("2"));
    dt_json_put(t->theirs, "fsdp_config.fsdp_reshard_after_forward", dt_json_truth(!gradients));
    dt_json_put(t->theirs, "fsdp_config.fsdp_auto_wrap_policy", dt_json_text("TRANSFORMER_BASED_WRAP"));
    if (shard > 0) {
        dt_json_put_number(t->theirs, SIZE("dp_replicate"), e->world_size / shard);
        dt_json_put_number(t->theirs, SIZE("dp_shard"), shard);
    }
}

/* Remark on what only FSDP can do, where the job is plain data parallelism. */
static void prepare_plain(struct dt_translation *t, const struct experiment *e)
{
    if (e->parameter_offload)
        dt_remark(t, DT_REMARK_CANNOT, "parameter_offload: accelerate offloads parameters only with FSDP");
    if (e->activation != ACTIVATION_KEEP)
        dt_remark(t, DT_REMARK_LEFT, "activation: %s; for " SCRIPT, activation_name(e->activation));
    dt_json_drop(t->ours, "parameter_offload activation");
}

static void prepare_gradients(struct dt_translation *t, const struct experiment *e, bool plain)
{
    enum dt_dtype travel = plain ? DT_FP32 : e->model.dtype;
    if (experiment_gradient_dtype(e) != DT_FP32)
        dt_remark(t, DT_REMARK_ASSUMED, "gradient_dtype: gradients are fp32 there, as the parameters: two bytes a parameter more");
    if (experiment_reduce_dtype(e) != travel)
        dt_remark(t, DT_REMARK_ASSUMED, "reduce_dtype: gradients travel in %s there", dt_dtype_name(travel));
    dt_json_drop(t->ours, "gradient_dtype reduce_dtype");
}

static void prepare(struct dt_translation *t, const struct experiment *e)
{
    struct cJSON *sharding = dt_json_at(t->ours, "job.sharding");
    bool gradients = dt_json_is(sharding, "gradients"), plain = dt_json_is(sharding, "none");
    if (!gradients && !plain && !dt_json_is(sharding, "parameters"))
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: %s; FSDP shards parameters, gradients with the optimizer, or nothing",
                  paradigm_name(e->paradigm));
    dt_json_put(t->theirs, "distributed_type", dt_json_text(!plain ? "FSDP" : e->world_size > 1 ? "MULTI_GPU" : "NO"));
    if (plain)
        prepare_plain(t, e);
    else
        prepare_fsdp(t, e, gradients);
    prepare_gradients(t, e, plain);
    if (e->activation_blocks != 1)
        dt_remark(t, DT_REMARK_CANNOT, "activation_blocks: %d; FSDP recomputes each block by itself", e->activation_blocks);
    if (e->strategy.has_pipeline || e->tensor.size > 1)
        dt_remark(t, DT_REMARK_CANNOT, "%s: accelerate has no pipeline, and its tensor parallelism differs from dtbench's",
                  e->strategy.has_pipeline ? "pipeline.stages" : "tensor.size");
    dt_remark(t, DT_REMARK_LEFT, "for " SCRIPT ": %g samples at a time on each GPU, %d times a step",
              dt_json_number(t->ours, "job.micro_batch", 1), e->micro_batches);
    if (e->model.dtype == DT_FP16 && !experiment_scales_dynamically(e))
        dt_remark(t, DT_REMARK_ASSUMED, "loss_scaling: %g; accelerate adapts the scale during training", e->loss_scaling);
    dt_json_drop(t->ours, "job.sharding job.micro_batch job.parts activation_blocks tensor pipeline ddp.bucket_mib fsdp.gather "
                          "dynamic_loss_scale");
}

const struct framework framework_accelerate = {
    .name = "fsdp",
    .title = "FSDP by accelerate",
    .origin = ORIGIN,
    .format = TEXT_YAML,
    .marks = (const char *const[]){"distributed_type", NULL},
    .fixed = "{" FIXED_IN_ALL("") ", \"ddp\": {\"overlap\": true}}",
    .space = (const char *const[]){"paradigm=none,ddp,zero2,fsdp", DATA_PARALLEL_SPACE, NULL},
    .words = words,
    .no_bearing = no_bearing,
    .without_model = SCRIPT,
    .settle = settle,
    .prepare = prepare,
};

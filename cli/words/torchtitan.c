/* torchtitan's TOML. Names and defaults are those of its JobConfig in version 0.1.0 (torchtitan/config/job_config.py); its Llamas those of
 * torchtitan/models/llama3. */
#include "cli/words/words.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <string.h>

#define ORIGIN "torchtitan 0.1.0"

static const struct dt_word words[] = {
    DT_WORD("training.seq_len", "model.block_size", "2048"),
    DT_WORD("training.mixed_precision_param", "model.dtype", "bfloat16", .values = DT_VALUES({"bfloat16", "bf16"}, {"float32", "fp32"})),
    DT_WORD("training.dtype", "optimizer.master_weights", NULL,
            .values = DT_VALUES({"float32", NULL}, {"bfloat16", "false"})), /* since 0.2 */
    DT_WORD("training.max_norm", "optimizer.clip_norm", "1"),
    DT_WORD("training.enable_cpu_offload", "parameter_offload", "false"),
    DT_WORD("training.global_batch_size", "job.global_batch", NULL),
    DT_WORD("model.converters", NULL, "[]", DT_ONLY("[]"), .why = "products are of model.dtype here"),
    DT_WORD("optimizer.name", "optimizer.name", "AdamW", .values = DT_VALUES({"AdamW", "adam"}, {"AdamW", "adamw"}, {"Adam", "adam"})),
    DT_WORD("optimizer.lr", "optimizer.learning_rate", "8e-4"),
    DT_WORD("optimizer.beta1", "optimizer.beta1", "0.9"),
    DT_WORD("optimizer.beta2", "optimizer.beta2", "0.95"),
    DT_WORD("optimizer.eps", "optimizer.epsilon", "1e-8"),
    DT_WORD("parallelism.tensor_parallel_degree", "tensor.size", "1"),
    DT_WORD("parallelism.pipeline_parallel_degree", "pipeline.stages", "1"),
    DT_WORD("parallelism.pipeline_parallel_schedule", "pipeline.order", "1F1B",
            .values = DT_VALUES({"1F1B", "1f1b"}, {"1f1b", "1f1b"}, {"GPipe", "gpipe"}, {"Interleaved1F1B", "interleaved"},
                                {"ZBVZeroBubble", "zb_v"}),
            .why = "torchtitan and dtbench have 1F1B, GPipe, Interleaved1F1B and ZBVZeroBubble in common"),
    DT_WORD("parallelism.context_parallel_degree", NULL, "1", DT_ONLY("1"), .why = "a sequence is on one rank here"),
    DT_WORD("parallelism.expert_parallel_degree", NULL, "1", DT_ONLY("1"), .why = "mixtures of experts cannot be"),
    DT_WORD("activation_checkpoint.mode", "activation", "selective", .values = DT_VALUES({"none", "keep"}, {"full", "checkpoint"}),
            .why = "torchtitan and dtbench have none and full in common (keep, checkpoint)"),
    {0},
};

static const char no_bearing[] =
    "job. profiling. metrics. lr_scheduler. checkpoint. comm. experimental. validation. float8. quantize. mx. fault_tolerance. "
    "memory_estimation. model.tokenizer_path model.hf_assets_path model.print_after training.dataset "
    "training.steps training.compile training.gc_ training.seed training.deterministic training.mixed_precision_reduce "
    "optimizer.weight_decay optimizer.implementation optimizer.early_step parallelism.disable_loss_parallel compile. "
    "parallelism.enable_async_tensor_parallel parallelism.enable_compiled_autograd "
    "parallelism.pipeline_parallel_schedule_csv parallelism.context_parallel_rotate_method "
    "activation_checkpoint.selective_ac_option activation_checkpoint.per_op";

static const struct {
    const char *flavor, *preset;
} llamas[] = {{"8B", "Llama-3.1-8B"}, {"70B", "Llama-3.1-70B"}, {"405B", "Llama-3.1-405B"}};

enum { LLAMAS = sizeof llamas / sizeof *llamas };

static void settle_model(struct dt_translation *t)
{
    struct cJSON *name = dt_json_take(t->theirs, "model.name"), *flavor = dt_json_take(t->theirs, "model.flavor");
    const char *preset = NULL;
    for (int i = 0; i < LLAMAS; i++)
        if (dt_json_is(name, "llama3") && dt_json_is(flavor, llamas[i].flavor))
            preset = llamas[i].preset;
    if (preset)
        dt_remark(t, DT_REMARK_READ, "model.name, model.flavor: model.preset %s", preset);
    else
        dt_remark(t, DT_REMARK_CANNOT, "model.flavor: %s of %s; not a model of dtbench list: --model config.json; Llama-3.1-8B is assumed",
                  flavor ? cJSON_GetStringValue(flavor) : "debugmodel", name ? cJSON_GetStringValue(name) : "llama3");
    dt_json_put(t->ours, "model.preset", dt_json_text(preset ? preset : llamas[0].preset));
    dt_json_destroy(name);
    dt_json_destroy(flavor);
}

/* Gradients of bf16 products are reduced in fp32. With bf16 weights there is no other copy of them. */
static void settle_numbers(struct dt_translation *t)
{
    if (dt_json_is(dt_json_at(t->ours, "optimizer.master_weights"), "false")) {
        dt_json_put(t->ours, "model.dtype", dt_json_text("bf16"));
        dt_remark(t, DT_REMARK_ASSUMED, "training.dtype: bfloat16; Adam's moments are bf16 there, and fp32 here: 4 bytes a parameter more");
    }
    if (!dt_json_is(dt_json_at(t->ours, "model.dtype"), "fp32"))
        dt_json_put(t->ours, "reduce_dtype", dt_json_text("fp32"));
}

/* Weights are replicated, sharded, or sharded within groups that are replicated; -1: over the ranks that are left. */
static void settle_sharding(struct dt_translation *t)
{
    double replicas = dt_json_number(t->theirs, "parallelism.data_parallel_replicate_degree", 1);
    double shard = dt_json_number(t->theirs, "parallelism.data_parallel_shard_degree", -1);
    double stages = dt_json_number(t->ours, "pipeline.stages", 1);
    dt_json_drop(t->theirs, "parallelism.data_parallel_replicate_degree");
    dt_json_drop(t->theirs, "parallelism.data_parallel_shard_degree");
    dt_json_put(t->ours, "job.sharding", dt_json_text(shard == 1 ? "none" : "parameters"));
    if (shard > 0)
        dt_json_put_number(t->ours, "job.data", replicas * shard);
    if (shard > 1)
        dt_json_put_number(t->ours, "job.shard", shard);
    else if (shard < 0 && replicas > 1)
        dt_remark(t, DT_REMARK_CANNOT,
                  "parallelism.data_parallel_shard_degree: -1; how many copies of %g ranks there are follows from the "
                  "number of GPUs: say it",
                  replicas);
    struct cJSON *reshard = dt_json_take(t->theirs, "parallelism.fsdp_reshard_after_forward");
    bool once = dt_json_is(reshard, "never") || (!dt_json_is(reshard, "always") && stages > 1);
    dt_json_put(t->ours, "fsdp.gather", dt_json_text(once ? "step" : "micro_batch"));
    dt_json_destroy(reshard);
}

static void settle_batch(struct dt_translation *t)
{
    double stages = dt_json_number(t->ours, "pipeline.stages", 1), local = dt_json_number(t->theirs, "training.local_batch_size", 8);
    double micro = stages > 1 ? dt_json_number(t->theirs, "parallelism.pipeline_parallel_microbatch_size", 1) : local;
    dt_json_drop(t->theirs, "training.local_batch_size");
    dt_json_drop(t->theirs, "parallelism.pipeline_parallel_microbatch_size");
    if (dt_json_number(t->ours, "job.global_batch", -1) < 0)
        dt_json_drop(t->ours, "job.global_batch");
    dt_json_put_number(t->ours, "job.micro_batch", micro);
    dt_json_put_number(t->ours, "job.window", local / micro);
}

static void settle(struct dt_translation *t)
{
    settle_model(t);
    settle_numbers(t);
    settle_sharding(t);
    settle_batch(t);
    if (!dt_json_at(t->ours, "optimizer.master_weights"))
        dt_remark(t, DT_REMARK_ASSUMED, "shards of the parameters are fp32 there, and in %s here with an fp32 copy in the optimizer",
                  cJSON_GetStringValue(dt_json_at(t->ours, "model.dtype")));
    if (dt_json_is(dt_json_at(t->ours, "pipeline.order"), "interleaved"))
        dt_remark(t, DT_REMARK_ASSUMED, "parallelism.pipeline_parallel_layers_per_stage: two parts on each rank, the default of " ORIGIN);
}

static void prepare(struct dt_translation *t, const struct experiment *e)
{
    const char *flavor = NULL;
    for (int i = 0; i < LLAMAS; i++)
        if (model_is_preset(&e->model, llamas[i].preset))
            flavor = llamas[i].flavor;
    struct cJSON *model = dt_json_take(t->ours, "model");
    if (flavor) {
        dt_json_put(t->theirs, "model.name", dt_json_text("llama3"));
        dt_json_put(t->theirs, "model.flavor", dt_json_text(flavor));
    } else {
        dt_remark(t, DT_REMARK_CANNOT, "model: torchtitan's models are written in Python; of dtbench's it has Llama 3.1");
    }
    dt_json_put(t->ours, "model.block_size", dt_json_take(model, "block_size"));
    dt_json_put(t->ours, "model.dtype", dt_json_take(model, "dtype"));
    dt_json_destroy(model);

    if (e->model.dtype == DT_BF16 && e->reduce_dtype == REDUCE_AS_MODEL)
        dt_remark(t, DT_REMARK_ASSUMED, "reduce_dtype: model; torchtitan reduces gradients in fp32: twice the bytes");
    if (e->model.dtype == DT_BF16)
        dt_json_drop(t->ours, "reduce_dtype");
    bool sharded = dt_json_is(dt_json_at(t->ours, "job.sharding"), "parameters");
    if (!sharded && !dt_json_is(dt_json_at(t->ours, "job.sharding"), "none"))
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: %s; torchtitan shards parameters or nothing", paradigm_name(e->paradigm));
    double data = dt_json_number(t->ours, "job.data", 1), shard = sharded ? dt_json_number(t->ours, "job.shard", data) : 1;
    dt_json_put_number(t->theirs, "parallelism.data_parallel_replicate_degree", data / shard);
    dt_json_put_number(t->theirs, "parallelism.data_parallel_shard_degree", shard);
    if (sharded)
        dt_json_put(t->theirs, "parallelism.fsdp_reshard_after_forward", dt_json_text(e->fsdp.gather == GATHER_ONCE ? "never" : "always"));
    dt_json_drop(t->ours, "fsdp.gather");

    double micro = dt_json_number(t->ours, "job.micro_batch", 1);
    dt_json_put_number(t->theirs, "training.local_batch_size", micro * e->strategy.window);
    if (e->strategy.has_pipeline)
        dt_json_put_number(t->theirs, "parallelism.pipeline_parallel_microbatch_size", micro);
    if (e->strategy.parts == 2)
        dt_json_drop(t->ours, "pipeline.virtual_stages");
    if (e->strategy.has_pipeline && strcmp(e->pipeline.split, "balanced") != 0)
        dt_remark(t, DT_REMARK_CANNOT, "pipeline.split: %s; torchtitan divides evenly unless it is told each module", e->pipeline.split);
    dt_json_drop(t->ours, "pipeline.split");
    if (e->activation_blocks != 1)
        dt_remark(t, DT_REMARK_CANNOT, "activation_blocks: %d; torchtitan recomputes each block by itself", e->activation_blocks);
    dt_json_drop(t->ours, "activation_blocks");
}

const struct framework framework_torchtitan = {
    .name = "torchtitan",
    .title = "torchtitan",
    .origin = ORIGIN,
    .format = TEXT_TOML,
    .marks = (const char *const[]){"training", "parallelism", NULL},
    .fixed = "{" FIXED_IN_ALL("") ", \"mesh\": {\"order\": \"tensor-data-pipeline\"}, \"tensor\": {\"sequence_parallel\": true}, "
                                  "\"ddp\": {\"bucket_mib\": 25, \"overlap\": true}}",
    .space = (const char *const[]){"paradigm=none,ddp,pdp,fsdp,hsdp", "pipeline.order=gpipe,1f1b,interleaved,zb_v",
                                   "activation=keep,checkpoint", NULL},
    .words = words,
    .no_bearing = no_bearing,
    .settle = settle,
    .prepare = prepare,
};

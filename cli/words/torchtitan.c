/* torchtitan's TOML. Names and defaults are those of its JobConfig in version 0.1.0
 * (torchtitan/config_manager.py); Its Llamas, and how each parallelism divides them, are those of
 * torchtitan/models/llama3. */
#include "cli/words/words.h"

#include "lib/config/json.h"
#include "schedules/config/families.h"

#include <cjson/cJSON.h>
#include <string.h>

#define ORIGIN "torchtitan 0.1.0"
#define NOT_DDP "torchtitan replicates whole weights only without tensor parallelism and pipelines"

static const double BUCKET_MIB = 100; /* DDP's buckets in bytes of the gradients' type; ddp.bucket_mib counts bytes of the model's type */

static const struct dt_word words[] = {
    DT_WORD("training.seq_len", "model.block_size", "2048"),
    DT_WORD("training.mixed_precision_param", "model.dtype", "bfloat16", .values = DT_VALUES({"bfloat16", "bf16"}, {"float32", "fp32"})),
    DT_WORD("training.dtype", "optimizer.master_weights", NULL,
            .values = DT_VALUES({"float32", NULL}, {"bfloat16", "false"})), /* since 0.2 */
    DT_WORD("training.mixed_precision_reduce", NULL, NULL, DT_ONLY("float32"), .why = ORIGIN " reduces in fp32 alone"),
    DT_WORD("training.max_norm", "optimizer.clip_norm", "1"),
    DT_WORD("training.enable_cpu_offload", "parameter_offload", "false"),
    DT_WORD("training.global_batch_size", "job.global_batch", NULL),
    DT_WORD("float8.recipe_name", "fp8.recipe", NULL, .values = DT_VALUES({"tensorwise", "tensorwise"}, {"rowwise", "rowwise"}),
            .why = "recipes are tensorwise and rowwise here"),
    DT_WORD("float8.enable_fsdp_float8_all_gather", "fp8.gather", NULL),
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
    DT_WORD("parallelism.pipeline_parallel_schedule_csv", NULL, NULL, DT_ONLY(""), .why = "--set pipeline.order says that"),
    DT_WORD("parallelism.enable_async_tensor_parallel", "tensor.overlap", NULL),
    DT_WORD("parallelism.context_parallel_degree", "context.size", "1"),
    DT_WORD("parallelism.context_parallel_rotate_method", "context.comm_type", NULL,
            .values = DT_VALUES({"allgather", "all_gather"}, {"alltoall", "p2p"}),
            .why = "torchtitan and dtbench have allgather and alltoall (all_gather and p2p) in common"),
    DT_WORD("parallelism.expert_parallel_degree", NULL, "1", DT_ONLY("1"), .why = "dtbench has no mixtures of experts"),
    DT_WORD("parallelism.expert_tensor_parallel_degree", NULL, NULL, DT_ONLY("1"), .why = "dtbench has no mixtures of experts"),
    DT_WORD("activation_checkpoint.mode", "activation", "selective",
            .values = DT_VALUES({"none", "keep"}, {"full", "checkpoint"}, {"selective", "selective_op"}),
            .why = "torchtitan and dtbench have none, full and selective in common (keep, checkpoint, selective_op)"),
    {0},
};

static const char no_bearing[] =
    "job. profiling. metrics. lr_scheduler. checkpoint. comm. experimental. validation. float8. quantize. mx. fault_tolerance. "
    "memory_estimation. model.tokenizer_path model.hf_assets_path model.print_after training.dataset training.steps training.compile "
    "training.gc_ training.seed training.deterministic optimizer.weight_decay optimizer.implementation optimizer.early_step "
    "parallelism.disable_loss_parallel compile. parallelism.enable_compiled_autograd activation_checkpoint.per_op";

static const struct {
    const char *flavor, *preset;
} llamas[] = {{"8B", "Llama-3.1-8B"}, {"70B", "Llama-3.1-70B"}, {"405B", "Llama-3.1-405B"}};

enum { LLAMAS = sizeof llamas / sizeof *llamas };

static void settle_model(struct dt_translation *t)
{
    struct cJSON *name = dt_json_at(t->theirs, "model.name"), *flavor = dt_json_at(t->theirs, "model.flavor");
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
    dt_json_drop(t->theirs, "model.name model.flavor");
}

/* Gradients have the weights' type, also from bf16 products. FSDP reduces them in fp32, DDP in
 * their own type. bf16 weights have no fp32 copy. Products in bf16 with weights in fp32 need FSDP,
 * or DDP without other parallelism. */
static void settle_numbers(struct dt_translation *t)
{
    bool alone = dt_json_number(t->ours, "tensor.size", 1) * dt_json_number(t->ours, "pipeline.stages", 1) == 1;
    bool sharded = dt_json_is(dt_json_at(t->ours, "job.sharding"), "parameters");
    bool bf16_weights = dt_json_is(dt_json_at(t->ours, "optimizer.master_weights"), "false");
    if (bf16_weights) {
        dt_json_put(t->ours, "model.dtype", dt_json_text("bf16"));
        dt_remark(t, DT_REMARK_ASSUMED, "training.dtype: bfloat16; Adam's moments are bf16 there, and fp32 here: 4 bytes a parameter more");
    } else if (!sharded && !alone && dt_json_is(dt_json_at(t->ours, "model.dtype"), "bf16")) {
        dt_json_put(t->ours, "model.dtype", dt_json_text("fp32"));
        dt_remark(t, DT_REMARK_ASSUMED, "training.mixed_precision_param: not used with tensor parallelism or pipelines without FSDP: fp32");
    }
    bool fp32 = dt_json_is(dt_json_at(t->ours, "model.dtype"), "fp32");
    if (!fp32 && !bf16_weights)
        dt_json_put(t->ours, "gradient_dtype", dt_json_text("fp32"));
    if (bf16_weights && sharded)
        dt_json_put(t->ours, "reduce_dtype", dt_json_text("fp32"));
    dt_json_put_number(t->ours, "ddp.bucket_mib", fp32 || bf16_weights ? BUCKET_MIB : BUCKET_MIB / 2);
}

/* The same rules for export: remark on what torchtitan cannot do, or does otherwise. */
static void prepare_numbers(struct dt_translation *t, const struct experiment *e, bool sharded)
{
    bool fp32 = e->model.dtype == DT_FP32, bf16_weights = !fp32 && !e->optimizer.master_weights;
    enum dt_dtype gradients = bf16_weights ? DT_BF16 : DT_FP32, travel = sharded ? DT_FP32 : gradients;
    bool alone = e->tensor.size == 1 && !e->strategy.has_pipeline;
    if (!sharded && !alone && !fp32 && !bf16_weights)
        dt_remark(t, DT_REMARK_CANNOT, "model.dtype: bf16; without FSDP torchtitan computes in fp32 with tensor parallelism or pipelines");
    if (experiment_gradient_dtype(e) != gradients)
        dt_remark(t, DT_REMARK_ASSUMED, "gradient_dtype: with torchtitan %s, as its weights", dt_dtype_name(gradients));
    if (experiment_reduce_dtype(e) != travel)
        dt_remark(t, DT_REMARK_ASSUMED, "reduce_dtype: with torchtitan gradients travel in %s", dt_dtype_name(travel));
    double mib = gradients == DT_FP32 && !fp32 ? BUCKET_MIB / 2 : BUCKET_MIB;
    if (!sharded && dt_json_number(t->ours, "ddp.bucket_mib", mib) != mib)
        dt_remark(t, DT_REMARK_ASSUMED, "ddp.bucket_mib: with torchtitan %g", mib);
    dt_json_drop(t->ours, "gradient_dtype reduce_dtype ddp.bucket_mib");
}

/* Weights are replicated, sharded, or sharded within groups that are replicated. A degree of -1
 * takes the remaining ranks. */
static void settle_sharding(struct dt_translation *t)
{
    double replicas = dt_json_number(t->theirs, "parallelism.data_parallel_replicate_degree", 1);
    double shard = dt_json_number(t->theirs, "parallelism.data_parallel_shard_degree", -1);
    double stages = dt_json_number(t->ours, "pipeline.stages", 1), contexts = dt_json_number(t->ours, "context.size", 1);
    dt_json_drop(t->theirs, "parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree");
    if (replicas < 1 || (shard < 1 && shard != -1))
        dt_remark(t, DT_REMARK_CANNOT, "parallelism.data_parallel_%s_degree: %g; %sa number from 1 on is expected",
                  replicas < 1 ? "replicate" : "shard", replicas < 1 ? replicas : shard, replicas < 1 ? "" : "-1, or ");
    bool sharded = shard * contexts != 1; /* over context ranks, too */
    if (contexts > 1 && !dt_json_at(t->ours, "context.comm_type"))
        dt_json_put(t->ours, "context.comm_type", dt_json_text(context_kind_name(DT_CONTEXT_ALL_GATHER)));
    dt_json_put(t->ours, "job.sharding", dt_json_text(sharded ? "parameters" : "none"));
    if (shard > 0)
        dt_json_put_number(t->ours, "job.data", replicas * shard);
    if (shard > 0 && sharded)
        dt_json_put_number(t->ours, "job.shard", shard);
    else if (shard < 0 && replicas > 1)
        dt_remark(
            t, DT_REMARK_CANNOT,
            "parallelism.data_parallel_shard_degree: -1; the number of copies, of %g ranks each, follows from the number of GPUs: give it",
            replicas);
    if (!sharded && replicas > 1 && stages * dt_json_number(t->ours, "tensor.size", 1) > 1)
        dt_remark(t, DT_REMARK_CANNOT, "parallelism.data_parallel_replicate_degree: %g; " NOT_DDP, replicas);
    struct cJSON *reshard = dt_json_at(t->theirs, "parallelism.fsdp_reshard_after_forward");
    bool once = dt_json_is(reshard, "never") || (!dt_json_is(reshard, "always") && stages > 1);
    dt_json_put(t->ours, "fsdp.gather", dt_json_text(once ? "step" : "micro_batch"));
    dt_json_drop(t->theirs, "parallelism.fsdp_reshard_after_forward");
}

/* All linear layers except the output's become torchao's, which by default have one scale a
 * tensor. */
static void settle_fp8(struct dt_translation *t)
{
    char quote[80] = "";
    struct cJSON *converters = dt_json_at(t->theirs, "model.converters");
    bool fp8 = dt_json_is(converters, "[\"float8\"]") || dt_json_is(converters, "[\"quantize.linear.float8\"]");
    if (converters && !fp8 && !dt_json_is(converters, "[]")) {
        dt_json_quote(converters, quote, sizeof quote);
        dt_remark(t, DT_REMARK_CANNOT, "model.converters: %s; products are of model.dtype here, or in FP8 (float8)", quote);
    }
    if (!fp8)
        dt_json_drop(t->ours, "fp8");
    else if (!dt_json_at(t->ours, "fp8.recipe"))
        dt_json_put(t->ours, "fp8.recipe", dt_json_text("tensorwise"));
    if (fp8 && dt_json_is(dt_json_at(t->ours, "fp8.recipe"), "rowwise"))
        dt_json_drop(t->ours, "fp8.gather"); /* FP8 gathers need scales of whole tensors */
    dt_json_drop(t->theirs, "model.converters");
}

static void prepare_fp8(struct dt_translation *t, const struct experiment *e)
{
    if (!e->model.fp8)
        return;
    if (e->model.fp8 != DT_FP8_TENSORWISE && e->model.fp8 != DT_FP8_ROWWISE)
        dt_remark(t, DT_REMARK_CANNOT, "fp8.recipe: %s; torchtitan has tensorwise and rowwise scales", dt_fp8_recipe(e->model.fp8)->name);
    dt_json_put(t->theirs, "model.converters", dt_json_value("[\"float8\"]"));
}

/* Since version 0.2 float8's settings are in quantize.linear.float8. */
static void adapt(struct dt_translation *t)
{
    struct cJSON *moved = dt_json_take(t->theirs, "quantize.linear.float8");
    if (moved)
        dt_json_put(t->theirs, "float8", moved);
}

/* Selective recomputation is of single operations, or of whole blocks, every n-th one; n is 2 by
 * default. */
static void settle_activation(struct dt_translation *t)
{
    struct cJSON *option = dt_json_at(t->theirs, "activation_checkpoint.selective_ac_option");
    bool selective = dt_json_is(dt_json_at(t->ours, "activation"), "selective_op");
    if (selective && !dt_json_is(option, "op")) {
        const char *every = option && cJSON_GetStringValue(option) ? cJSON_GetStringValue(option) : "2";
        dt_json_put(t->ours, "activation", dt_json_text("checkpoint"));
        dt_json_put(t->ours, "activation_every", dt_json_value(every));
        dt_remark(t, option ? DT_REMARK_READ : DT_REMARK_ASSUMED, "activation_checkpoint.selective_ac_option: \"%s\": activation_every %s",
                  every, every);
    }
    dt_json_drop(t->theirs, "activation_checkpoint.selective_ac_option");
}

static void settle_batch(struct dt_translation *t)
{
    struct cJSON *said = dt_json_take(t->theirs, "training.local_batch_size");
    double stages = dt_json_number(t->ours, "pipeline.stages", 1), local = said ? cJSON_GetNumberValue(said) : 8;
    double micro = stages > 1 ? dt_json_number(t->theirs, "parallelism.pipeline_parallel_microbatch_size", 1) : local;
    dt_json_drop(t->theirs, "parallelism.pipeline_parallel_microbatch_size");
    if (dt_json_number(t->ours, "job.global_batch", -1) < 0)
        dt_json_drop(t->ours, "job.global_batch");
    if (!(local >= 1)) { /* job.c says so */
        dt_json_put(t->ours, "job.micro_batch", said);
        return;
    }
    dt_json_destroy(said);
    dt_json_put_number(t->ours, "job.micro_batch", micro);
    dt_json_put_number(t->ours, "job.window", local / micro);
}

static void settle(struct dt_translation *t)
{
    settle_model(t);
    settle_sharding(t);
    settle_numbers(t);
    settle_batch(t);
    settle_activation(t);
    settle_fp8(t);
    job_say_copies(t);
    if (dt_json_is(dt_json_at(t->ours, "pipeline.order"), "interleaved"))
        dt_remark(t, DT_REMARK_ASSUMED, "parallelism.pipeline_parallel_layers_per_stage: two parts on each rank, the default of " ORIGIN);
}

static void prepare_activation(struct dt_translation *t, const struct experiment *e)
{
    char every[16];
    snprintf(every, sizeof every, "%d", e->activation_every);
    bool rare = e->activation == ACTIVATION_CHECKPOINT && e->activation_every > 1;
    if (rare || e->activation == ACTIVATION_SELECTIVE_OP)
        dt_json_put(t->theirs, "activation_checkpoint.selective_ac_option", dt_json_text(rare ? every : "op"));
    if (!rare)
        return;
    dt_json_put(t->theirs, "activation_checkpoint.mode", dt_json_text("selective"));
    dt_json_drop(t->ours, "activation activation_every");
}

/* Has the model the shapes of the preset, apart from the sequence length? */
static bool model_is_preset(const struct dt_model *model, const char *preset)
{
    const struct dt_model_family *family;
    const struct dt_model_preset *row = model_find_preset(preset, &family);
    if (!row || family != model->family)
        return false;
    struct dt_model other = model_of_preset(row, family);
    for (int i = 0; i < family->key_count; i++) {
        bool length = strcmp(family->keys[i].path, "model.block_size") == 0;
        if (!length && !dt_field_same(&family->keys[i], dt_model_own(model), dt_model_own(&other)))
            return false;
    }
    return true;
}

static void prepare(struct dt_translation *t, const struct experiment *e)
{
    const char *flavor = NULL;
    for (int i = 0; i < LLAMAS; i++)
        if (model_is_preset(&e->model, llamas[i].preset))
            flavor = llamas[i].flavor;
    DT_DESTROYED(dt_json_destroy) struct cJSON *model = dt_json_take(t->ours, "model");
    if (flavor) {
        dt_json_put(t->theirs, "model.name", dt_json_text("llama3"));
        dt_json_put(t->theirs, "model.flavor", dt_json_text(flavor));
    } else {
        dt_remark(t, DT_REMARK_CANNOT, "model: torchtitan's models are written in Python; of dtbench's presets it has Llama 3.1");
    }
    dt_json_put(t->ours, "model.block_size", dt_json_take(model, "block_size"));
    dt_json_put(t->ours, "model.dtype", dt_json_take(model, "dtype"));

    bool sharded = dt_json_is(dt_json_at(t->ours, "job.sharding"), "parameters");
    if (!sharded && !dt_json_is(dt_json_at(t->ours, "job.sharding"), "none"))
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: %s; torchtitan shards parameters or nothing", paradigm_name(e->paradigm));
    prepare_numbers(t, e, sharded);
    if (!sharded && e->strategy.mesh.size[MESH_REPLICA] > 1 && e->strategy.mesh.size[MESH_REPLICA] < e->world_size)
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: %s; " NOT_DDP, paradigm_name(e->paradigm));
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
    if (e->strategy.has_pipeline && (e->strategy.split_points || e->strategy.split != DT_SPLIT_BALANCED))
        dt_remark(t, DT_REMARK_CANNOT, "pipeline.split: %s; torchtitan divides evenly unless each module's stage is given",
                  e->pipeline.split);
    dt_json_drop(t->ours, "pipeline.split");
    prepare_fp8(t, e);
    prepare_activation(t, e);
    if (e->activation_blocks != 1)
        dt_remark(t, DT_REMARK_CANNOT, "activation_blocks: %d; torchtitan recomputes each block by itself", e->activation_blocks);
    dt_json_drop(t->ours, "activation_blocks");
}

const struct framework framework_torchtitan = {
    .name = "torchtitan",
    .title = "torchtitan",
    .origin = ORIGIN,
    .format = TEXT_TOML,
    .marks = (const char *const[]){"training parallelism", NULL},
    .fixed = "{\"gradient_reduction\": \"each\", " FIXED_BUT_REDUCTION(
        "") ", \"mesh\": {\"order\": \"tensor-data-pipeline\"}, \"tensor\": {\"sequence_parallel\": true}, "
            "\"ddp\": {\"overlap\": true}}",
    /* DDP is left out: these models are too large for it, and with tensor or pipeline parallelism
     * only FSDP computes in bf16 from fp32 weights. */
    .space = (const char *const[]){"paradigm=fsdp,hsdp", "pipeline.order=gpipe,1f1b,interleaved,zb_v",
                                   "activation=keep,checkpoint,selective_op", NULL},
    .words = words,
    .no_bearing = no_bearing,
    .adapt = adapt,
    .settle = settle,
    .prepare = prepare,
};

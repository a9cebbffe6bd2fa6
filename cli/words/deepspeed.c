/* DeepSpeed's JSON. Names and defaults are those of DeepSpeed 0.19.5 (deepspeed/runtime/config.py,
 * zero/config.py, zero/offload_config.py, precision_config.py; for sequence parallelism
 * __init__.py, which makes the mesh); what its stages do with gradients is in zero/stage_1_and_2.py
 * and engine.py. */
#include "cli/words/words.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#define ORIGIN "DeepSpeed 0.19.5"
#define SCRIPT "the script that calls DeepSpeed"
#define NOT_STAGE_0 "without ZeRO gradients have the model's type there"

static const struct dt_word words[] = {
    DT_WORD("train_batch_size", "job.global_batch", NULL),
    DT_WORD("train_micro_batch_size_per_gpu", "job.micro_batch", NULL),
    DT_WORD("gradient_accumulation_steps", "job.parts", NULL),
    DT_WORD("zero_optimization.stage", "job.sharding", "0",
            .values = DT_VALUES({"0", "none"}, {"1", "optimizer"}, {"2", "gradients"}, {"3", "parameters"})),
    DT_WORD("zero_optimization.mics_shard_size", "job.shard", NULL),
    DT_WORD("zero_optimization.zero_hpz_partition_size", NULL, NULL, DT_ONLY("1"), .why = "there is no second shard here"),
    DT_WORD("zero_optimization.zero_quantized_weights", NULL, NULL, DT_ONLY("false"), .why = "messages have the model's data type here"),
    DT_WORD("zero_optimization.zero_quantized_gradients", NULL, NULL, DT_ONLY("false"), .why = "messages have the model's data type here"),
    DT_WORD("zero_optimization.offload_param.device", "parameter_offload", "none", .values = DT_VALUES({"none", "false"}, {"cpu", "true"}),
            .why = "parameters are on the GPU or in host memory"),
    DT_WORD("sequence_parallel_size", "context.size", "1"),
    DT_WORD("data_parallel_size", "job.data", NULL),
    DT_WORD("communication_data_type", "reduce_dtype", NULL),
    DT_WORD("gradient_clipping", "optimizer.clip_norm", "1"),
    DT_WORD("optimizer.type", "optimizer.name", NULL,
            .values =
                DT_VALUES({"AdamW", "adam"}, {"AdamW", "adamw"}, {"Adam", "adam"}, {"adamw", "adam"}, {"adam", "adam"}, {"SGD", "sgd"})),
    DT_WORD("optimizer.params.lr", "optimizer.learning_rate", NULL),
    DT_WORD("optimizer.params.momentum", "optimizer.momentum", NULL),
    DT_WORD("optimizer.params.eps", "optimizer.epsilon", NULL),
    DT_WORD("bf16.bf16_master_weights_and_grads", "optimizer.master_weights", NULL,
            .values = DT_VALUES({"true", "false"}, {"false", NULL})),
    DT_WORD("fp16.fp16_master_weights_and_grads", "optimizer.master_weights", NULL,
            .values = DT_VALUES({"true", "false"}, {"false", NULL})),
    DT_WORD("bf16.bf16_optimizer_states", NULL, NULL, DT_ONLY("false"), .why = "Adam's moments are fp32 here"),
    DT_WORD("activation_checkpointing.partition_activations", NULL, NULL, DT_ONLY("false"), .why = "what is kept is whole here"),
    DT_WORD("activation_checkpointing.cpu_checkpointing", NULL, NULL, DT_ONLY("false"), .why = "use --set activation=offload"),
    DT_WORD("fp16.loss_scale", "loss_scaling", NULL),
    DT_WORD("fp16.loss_scale_window", "dynamic_loss_scale.window", NULL),
    {0},
};

static const char no_bearing[] =
    "steps_per_print wall_clock scheduler. prescale_gradients optimizer.params.weight_decay optimizer.params.adam_w_mode "
    "optimizer.params.torch_adam optimizer.params.bias_correction zero_optimization.contiguous zero_optimization.allgather "
    "zero_optimization.sub_group_size zero_optimization.stage3_ zero_optimization.round_robin zero_optimization.offload_param. "
    "zero_optimization.offload_optimizer. zero_optimization.ignore_unused zero_optimization.load_from_fp32 zero_optimization.elastic "
    "zero_optimization.mics_hierarchical zero_allow_untested fp16. bf16. bfloat16. activation_checkpointing. tensorboard. wandb. "
    "csv_monitor. comms_logger. flops_profiler. dump_state checkpoint. zero_force_ds_cpu";

static bool is_on(const struct cJSON *tree, const char *path)
{
    return dt_json_is(dt_json_at(tree, path), "true");
}

/* Drop settings of "auto": the script decides them. */
static void drop_auto(struct cJSON *tree)
{
    for (struct cJSON *child = tree->child, *next; child; child = next) {
        next = child->next;
        if (cJSON_IsObject(child))
            drop_auto(child);
        else if (dt_json_is(child, "auto"))
            cJSON_Delete(cJSON_DetachItemViaPointer(tree, child));
    }
}

static void adapt(struct dt_translation *t)
{
    static const char *const types[] = {"bf16.enabled", "fp16.enabled"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (dt_json_is(dt_json_at(t->theirs, types[i]), "auto") && !is_on(t->theirs, types[0])) {
            dt_json_put(t->theirs, types[i], dt_json_truth(true));
            dt_remark(t, DT_REMARK_CANNOT, "%s: auto, which " SCRIPT " says; true is assumed", types[i]);
        }
    drop_auto(t->theirs);
}

/* Two of the three batch numbers give the third; one alone means no accumulation. */
static void settle_batch(struct dt_translation *t)
{
    double parts = dt_json_number(t->ours, "job.parts", 0), micro = dt_json_number(t->ours, "job.micro_batch", 0);
    double global = dt_json_number(t->ours, "job.global_batch", 0);
    if (parts == 0 && (micro == 0) != (global == 0))
        dt_json_put_number(t->ours, "job.parts", 1);
    if (micro > 0 && global > 0 && parts > 0)
        dt_json_put_number(t->ours, "job.data", global / (micro * parts));
}

/* What is accumulated is reduced part by part where gradients are partitioned, stages 2 and 3
 * (stage_1_and_2.py, reduce_ready_partitions_and_remove_grads).
 * Stage 0 reduces after the backward pass; so does stage 1 in bf16 with fp32 gradients on the GPU
 * (BF16_Optimizer). Stages 1 and 2 reduce during the backward pass, which waits for them unless
 * overlap_comm is set. */
static void settle_gradients(struct dt_translation *t, double bytes)
{
    double elements = dt_json_number(t->theirs, "zero_optimization.reduce_bucket_size", 5e8);
    const struct cJSON *sharding = dt_json_at(t->ours, "job.sharding");
    bool whole = dt_json_is(sharding, "parameters"), none = dt_json_is(sharding, "none");
    if (job_reduces_each(t, PARTITIONED))
        dt_json_put(t->ours, "gradient_reduction", dt_json_text("each"));
    bool late = none || (dt_json_is(sharding, "optimizer") && dt_json_is(dt_json_at(t->ours, "model.dtype"), "bf16") &&
                         dt_json_at(t->ours, "gradient_dtype") && !is_on(t->ours, "parameter_offload"));
    bool overlap = dt_json_at(t->theirs, "zero_optimization.overlap_comm") ? is_on(t->theirs, "zero_optimization.overlap_comm") : whole;
    dt_json_put(t->ours, "ddp.overlap", dt_json_truth(overlap && !late));
    dt_json_put_number(t->ours, "ddp.bucket_mib", late ? AT_THE_END_MIB : elements * bytes / 0x1p20);
    if (whole && !overlap)
        dt_remark(t, DT_REMARK_ASSUMED,
                  "zero_optimization.overlap_comm: with sharded parameters dtbench's reductions always overlap the backward pass");
    const struct cJSON *all = dt_json_at(t->theirs, "zero_optimization.use_multi_rank_bucket_allreduce");
    if (!none && !whole && !dt_json_is(all, "false"))
        dt_remark(t, DT_REMARK_ASSUMED,
                  "gradients of a bucket are all-reduced there (use_multi_rank_bucket_allreduce), and reduce-scattered "
                  "here: half of the bytes");
    if (whole)
        dt_remark(t, DT_REMARK_ASSUMED,
                  "dtbench gathers one block at a time; DeepSpeed keeps up to %g parameters gathered (stage3_max_live_parameters)",
                  dt_json_number(t->theirs, "zero_optimization.stage3_max_live_parameters", 1e9));
    dt_json_drop(t->theirs, "zero_optimization.reduce_bucket_size zero_optimization.overlap_comm zero_optimization.reduce_scatter "
                            "zero_optimization.use_multi_rank_bucket_allreduce");
}

/* Put the type in which gradients are sent, where it differs from the one in which they are kept.
 * Both 16-bit types send as many bytes. */
static void put_travel(struct dt_translation *t, const char *sent, const char *kept)
{
    bool narrow = strcmp(sent, "fp32") != 0 && strcmp(kept, "fp32") != 0;
    if (strcmp(sent, kept) == 0)
        return;
    if (narrow)
        dt_remark(t, DT_REMARK_ALIKE, "communication_data_type: %s; gradients travel in %s here, which has as many bytes", sent, kept);
    else
        dt_json_put(t->ours, "reduce_dtype", dt_json_text(sent));
}

/* Without a section of a 16-bit type, numbers are fp32. */
static const char *take_dtype(struct dt_translation *t)
{
    static const char *const sections[][2] = {{"fp16.enabled", "fp16"}, {"bfloat16.enabled", "bf16"}, {"bf16.enabled", "bf16"}};
    const char *dtype = "fp32";
    if (is_on(t->theirs, "fp16.enabled") && (is_on(t->theirs, "bf16.enabled") || is_on(t->theirs, "bfloat16.enabled")))
        dt_remark(t, DT_REMARK_CANNOT, "fp16.enabled: true, and bf16.enabled too; one of them computes, and bf16 is assumed");
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        struct cJSON *enabled = dt_json_at(t->theirs, sections[i][0]);
        if (enabled)
            dt_remark(t, DT_REMARK_READ, "%s: %s", sections[i][0], dt_json_is(enabled, "true") ? "true" : "false");
        if (dt_json_is(enabled, "true"))
            dtype = sections[i][1];
        dt_json_drop(t->theirs, sections[i][0]);
    }
    return dtype;
}

static void settle_numbers(struct dt_translation *t)
{
    const char *dtype = take_dtype(t);
    bool is_narrow = strcmp(dtype, "fp32") != 0;
    struct cJSON *sums = dt_json_take(t->theirs, "data_types.grad_accum_dtype"), *sent = dt_json_take(t->ours, "reduce_dtype");
    bool in_fp32 = dt_json_is(sums, "fp32");
    if (sums && !in_fp32 && !dt_json_is(sums, dtype))
        dt_remark(t, DT_REMARK_CANNOT, "data_types.grad_accum_dtype: %s; gradients are added up in %s or fp32 here",
                  cJSON_GetStringValue(sums), dtype);
    if (in_fp32 && is_narrow)
        dt_json_put(t->ours, "gradient_dtype", dt_json_text("fp32"));
    if (in_fp32 && is_narrow && dt_json_is(dt_json_at(t->ours, "job.sharding"), "none"))
        dt_remark(t, DT_REMARK_CANNOT, "data_types.grad_accum_dtype: fp32; " NOT_STAGE_0);
    dt_json_destroy(sums);
    dt_json_put(t->ours, "model.dtype", dt_json_text(dtype));
    put_travel(t, sent ? cJSON_GetStringValue(sent) : dtype, in_fp32 ? "fp32" : dtype);
    dt_json_destroy(sent);
    settle_gradients(t, is_narrow ? 2 : 4);
}

static void settle_optimizer(struct dt_translation *t)
{
    if (dt_json_number(t->ours, "loss_scaling", 0) == 0) /* 0: 0: dynamic, adapted during training */
        job_scale_dynamically(t, exp2(dt_json_number(t->theirs, "fp16.initial_scale_power", 16)));
    const struct cJSON *betas = dt_json_at(t->theirs, "optimizer.params.betas");
    for (int i = 0; i < 2 && cJSON_GetArrayItem(betas, i); i++)
        dt_json_put(t->ours, i ? "optimizer.beta2" : "optimizer.beta1", cJSON_Duplicate(cJSON_GetArrayItem(betas, i), true));
    dt_json_drop(t->theirs, "optimizer.params.betas");
    DT_DESTROYED(dt_json_destroy) struct cJSON *device = dt_json_take(t->theirs, "zero_optimization.offload_optimizer.device");
    bool offloads = dt_json_is(device, "cpu");
    if (device && !offloads && !dt_json_is(device, "none"))
        dt_remark(t, DT_REMARK_CANNOT, "zero_optimization.offload_optimizer.device: only cpu and none are possible here");
    else if (offloads != is_on(t->ours, "parameter_offload"))
        dt_remark(t, DT_REMARK_CANNOT, "zero_optimization.offload_optimizer.device: parameters and optimizer are offloaded together here");
    if (dt_json_at(t->ours, "optimizer.name"))
        return;
    dt_remark(t, DT_REMARK_ASSUMED, "optimizer.name: adam; the file leaves it to " SCRIPT);
    dt_json_put(t->ours, "optimizer.name", dt_json_text("adam"));
}

static void settle(struct dt_translation *t)
{
    if (dt_json_number(t->ours, "job.shard", -1) <= 0) /* -1: shared by all data-parallel ranks */
        dt_json_drop(t->ours, "job.shard");
    if (dt_json_number(t->ours, "context.size", 1) > 1) /* Ulysses */
        dt_json_put(t->ours, "context.comm_type", dt_json_text(context_kind_name(DT_CONTEXT_HEADS)));
    settle_batch(t);
    settle_numbers(t);
    settle_optimizer(t);
    if (!dt_json_at(t->ours, "activation"))
        dt_remark(t, DT_REMARK_ASSUMED,
                  "activation: keep; whether activations are recomputed is left to " SCRIPT " (--set activation=checkpoint)");
}

/* ---- the reverse ---- */

static void prepare_gradients(struct dt_translation *t, const struct experiment *e)
{
    double mib = dt_json_number(t->ours, "ddp.bucket_mib", 0), bytes = e->model.dtype == DT_FP32 ? 4 : 2;
    bool none = dt_json_is(dt_json_at(t->ours, "job.sharding"), "none"),
         wide = e->model.dtype != DT_FP32 && e->gradient_dtype == REDUCE_IN_FP32;
    bool late = none || (dt_json_is(dt_json_at(t->ours, "job.sharding"), "optimizer") && e->model.dtype == DT_BF16 && wide &&
                         !e->parameter_offload);
    struct cJSON *overlap = dt_json_take(t->ours, "ddp.overlap");
    dt_json_drop(t->ours, "ddp.bucket_mib gradient_dtype reduce_dtype");
    if (wide)
        dt_json_put(t->theirs, "data_types.grad_accum_dtype", dt_json_text("fp32"));
    if (wide && none)
        dt_remark(t, DT_REMARK_CANNOT, "gradient_dtype: fp32; " NOT_STAGE_0);
    if (experiment_reduce_dtype(e) != e->model.dtype)
        dt_json_put(t->theirs, "communication_data_type", dt_json_text(dt_dtype_name(experiment_reduce_dtype(e))));
    if (late && (dt_json_is(overlap, "true") || (mib > 0 && mib < AT_THE_END_MIB)))
        dt_remark(t, DT_REMARK_ASSUMED, "ddp: %s gradients are reduced after the backward pass, not during it",
                  none ? "without ZeRO" : "with ZeRO-1 of bf16 and fp32");
    if (!late && mib > 0)
        dt_json_put_number(t->theirs, "zero_optimization.reduce_bucket_size", floor(mib * 0x1p20 / bytes));
    if (!late)
        dt_json_put(t->theirs, "zero_optimization.overlap_comm", overlap);
    else
        dt_json_destroy(overlap);
}

/* DeepSpeed makes a mesh only of both sizes, data and sequence parallel. */
static void prepare_context(struct dt_translation *t, const struct experiment *e)
{
    if (e->context.size == 1)
        dt_json_drop(t->ours, "job.data");
    else if (e->context.comm_type != DT_CONTEXT_HEADS)
        dt_remark(t, DT_REMARK_CANNOT, "context.comm_type: %s; DeepSpeed Ulysses is a2a", context_kind_name(e->context.comm_type));
    dt_json_drop(t->ours, "context.comm_type");
}

static void prepare(struct dt_translation *t, const struct experiment *e)
{
    struct cJSON *betas = dt_json_array(), *beta1 = dt_json_take(t->ours, "optimizer.beta1"),
                 *beta2 = dt_json_take(t->ours, "optimizer.beta2");
    prepare_gradients(t, e);
    prepare_context(t, e);
    if (e->model.dtype != DT_FP32)
        dt_json_put(t->theirs, e->model.dtype == DT_BF16 ? "bf16.enabled" : "fp16.enabled", dt_json_truth(true));
    if (e->model.dtype == DT_FP16 && experiment_scales_dynamically(e)) {
        double power = log2(dt_json_number(t->ours, "dynamic_loss_scale.initial", 65536));
        if (power != floor(power))
            dt_remark(t, DT_REMARK_ALIKE, "dynamic_loss_scale.initial: with DeepSpeed it is a power of two");
        dt_json_put_number(t->theirs, "fp16.initial_scale_power", floor(power));
        dt_json_drop(t->ours, "dynamic_loss_scale.initial");
    }
    if (e->model.dtype != DT_BF16) { /* two rows have the same key of dtbench: write the one of this data type */
        if (e->model.dtype == DT_FP16 && dt_json_at(t->ours, "optimizer.master_weights"))
            dt_json_put(t->theirs, "fp16.fp16_master_weights_and_grads", dt_json_truth(true));
        dt_json_drop(t->ours, "optimizer.master_weights");
    }
    if (beta1 && beta2) {
        dt_json_append(&betas, beta1);
        dt_json_append(&betas, beta2);
        dt_json_put(t->theirs, "optimizer.params.betas", betas);
    } else {
        dt_json_destroy(betas);
    }
    if (e->parameter_offload)
        dt_json_put(t->theirs, "zero_optimization.offload_optimizer.device", dt_json_text("cpu"));
    if (e->parameter_offload && e->paradigm != PARADIGM_FSDP && e->paradigm != PARADIGM_HSDP)
        dt_remark(t, DT_REMARK_CANNOT, "parameter_offload: DeepSpeed offloads parameters only with ZeRO-3");
    if (e->activation != ACTIVATION_KEEP)
        dt_remark(t, DT_REMARK_LEFT, "activation: %s; for " SCRIPT, activation_name(e->activation));
    if (e->strategy.has_pipeline || e->tensor.size > 1)
        dt_remark(t, DT_REMARK_CANNOT, "%s: the JSON alone has no pipeline and no tensor parallelism; for Megatron-LM: --for megatron",
                  e->strategy.has_pipeline ? "pipeline.stages" : "tensor.size");
    dt_json_drop(t->ours, "model.dtype fsdp.gather activation activation_blocks tensor pipeline");
}

const struct framework framework_deepspeed = {
    .name = "deepspeed",
    .title = "DeepSpeed",
    .origin = ORIGIN,
    .format = TEXT_JSON,
    .marks = (const char *const[]){"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", NULL},
    .fixed = "{" FIXED_IN_ALL("") "}",
    .reduces_each = PARTITIONED,
    .space = (const char *const[]){"paradigm=none,zero1,zero2,fsdp", DATA_PARALLEL_SPACE, NULL},
    .words = words,
    .no_bearing = no_bearing,
    .without_model = SCRIPT,
    .settle = settle,
    .prepare = prepare,
    .adapt = adapt,
};

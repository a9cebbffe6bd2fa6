/* Megatron-LM's flags. Names, defaults and the rules between flags are those of Megatron-LM core
 * 0.14.0 (megatron/training/arguments.py). */
#include "cli/words/megatron.h"

#include "lib/config/json.h"
#include "schedules/config/split.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ORIGIN "Megatron-LM core 0.14.0"
#define FLAG(theirs, ours, on, off) DT_WORD(theirs, ours, "false", .values = DT_VALUES({"false", off}, {"true", on}))

const struct dt_word megatron_words[] = {
    /* the model */
    DT_WORD("num-layers", "model.layers", NULL),
    DT_WORD("num-attention-heads", "model.heads", NULL),
    DT_WORD("hidden-size", "model.hidden", NULL),
    DT_WORD("ffn-hidden-size", "model.ffn", NULL),
    DT_WORD("vocab-size", "model.vocab_size", NULL),
    DT_WORD("seq-length", "model.block_size", NULL),
    FLAG("swiglu", "model.mlp", "swiglu", "gelu"),
    DT_WORD("squared-relu", NULL, NULL, DT_ONLY("false"), .why = "the MLP of a decoder is gelu, relu or swiglu", .alike = true),
    DT_WORD("normalization", "model.norm", "LayerNorm", .values = DT_VALUES({"LayerNorm", "layer"}, {"RMSNorm", "rms"})),
    DT_WORD("norm-epsilon", "model.norm_epsilon", "1e-5"),
    DT_WORD("position-embedding-type", "model.position", "learned_absolute",
            .values = DT_VALUES({"learned_absolute", "learned"}, {"rope", "rope"})),
    DT_WORD("use-rotary-position-embeddings", "model.position", NULL, .values = DT_VALUES({"true", "rope"})),
    DT_WORD("rotary-base", "model.rope.base", NULL),
    DT_WORD("rotary-percent", NULL, NULL, DT_ONLY("1"), .why = "rope turns all features of a head here", .alike = true),
    FLAG("use-rope-scaling", "model.rope.scaling", "llama3", "none"),
    DT_WORD("rope-scaling-factor", "model.rope.factor", NULL),
    DT_WORD("num-query-groups", "model.kv_heads", NULL),
    DT_WORD("untie-embeddings-and-output-weights", "model.tied", "false", .values = DT_VALUES({"false", "true"}, {"true", "false"})),
    FLAG("qk-layernorm", "model.qk_norm", "true", "false"),
    DT_WORD("hidden-dropout", "model.dropout", "0.1"),
    DT_WORD("attention-backend", "model.attention", "auto",
            .values = DT_VALUES({"auto", "fused"}, {"flash", "fused"}, {"fused", "fused"}, {"unfused", "unfused"}, {"local", "unfused"})),
    DT_WORD("num-experts", NULL, NULL, DT_ONLY("null"), .why = "dtbench has no mixtures of experts"),
    DT_WORD("multi-latent-attention", NULL, NULL, DT_ONLY("false"), .why = "dtbench has no latent attention"),
    DT_WORD("mtp-num-layers", NULL, NULL, DT_ONLY("null"), .why = "dtbench predicts one token"),
    /* numbers */
    DT_WORD("fp8-recipe", "fp8.recipe", NULL,
            .values = DT_VALUES({"delayed", "delayed"}, {"tensorwise", "current"}, {"blockwise", "blockwise"}, {"mxfp8", "mxfp8"}),
            .why = "recipes are delayed, tensorwise, blockwise and mxfp8 here"),
    DT_WORD("fp4-format", NULL, NULL, DT_ONLY("null"), .why = "products are in 16 bits or in FP8 here"),
    DT_WORD("fp8-param-gather", "fp8.gather", NULL),
    DT_WORD("first-last-layers-bf16", NULL, NULL, DT_ONLY("false"), .why = "all blocks' products are in FP8, or none"),
    DT_WORD("loss-scale", "loss_scaling", NULL),
    DT_WORD("initial-loss-scale", "dynamic_loss_scale.initial", NULL),
    DT_WORD("loss-scale-window", "dynamic_loss_scale.window", NULL),
    DT_WORD("main-params-dtype", NULL, NULL, DT_ONLY("fp32"), .why = "the optimizer's copy is fp32 here"),
    DT_WORD("exp-avg-dtype", NULL, NULL, DT_ONLY("fp32"), .why = "Adam's moments are fp32 here"),
    DT_WORD("exp-avg-sq-dtype", NULL, NULL, DT_ONLY("fp32"), .why = "Adam's moments are fp32 here"),
    /* ranks */
    DT_WORD("nnodes", "job.nodes", NULL),
    DT_WORD("nproc-per-node", "job.gpus_per_node", NULL),
    DT_WORD("tensor-model-parallel-size", "tensor.size", "1"),
    FLAG("sequence-parallel", "tensor.sequence_parallel", "true", "false"),
    FLAG("tp-comm-overlap", "tensor.overlap", "true", "false"),
    DT_WORD("pipeline-model-parallel-size", "pipeline.stages", "1"),
    DT_WORD("num-virtual-stages-per-pipeline-rank", "pipeline.virtual_stages", NULL),
    DT_WORD("context-parallel-size", "context.size", "1"),
    DT_WORD("cp-comm-type", "context.comm_type", NULL, .values = DT_VALUES({"p2p", "p2p"}, {"all_gather", "all_gather"}, {"a2a", "a2a"}),
            .why = "Megatron-LM and dtbench have p2p, all_gather and a2a in common"),
    DT_WORD("expert-model-parallel-size", NULL, "1", DT_ONLY("1"), .why = "dtbench has no mixtures of experts"),
    DT_WORD("num-distributed-optimizer-instances", NULL, NULL, DT_ONLY("1"),
            .why = "the optimizer is sharded over all data-parallel ranks here"),
    DT_WORD("outer-dp-sharding-strategy", NULL, NULL, DT_ONLY("no_shard"), .why = "there is one level of shards here"),
    DT_WORD("gtp-weight-remat-size", NULL, NULL, DT_ONLY("1"), .why = "weights are sharded by fsdp here"),
    DT_WORD("fine-grained-activation-offloading", NULL, NULL, DT_ONLY("false"), .why = "activations are offloaded by blocks here"),
    DT_WORD("optimizer-cpu-offload", NULL, NULL, DT_ONLY("false"), .why = "the optimizer's state alone is not offloaded here"),
    DT_WORD("cpu-offloading-num-layers", NULL, NULL, DT_ONLY("0"), .why = "activations of some layers alone are not offloaded here"),
    DT_WORD("decoder-first-pipeline-num-layers", NULL, NULL, DT_ONLY("null"), .why = "use --set pipeline.split"),
    DT_WORD("decoder-last-pipeline-num-layers", NULL, NULL, DT_ONLY("null"), .why = "use --set pipeline.split"),
    DT_WORD("pipeline-model-parallel-layout", NULL, NULL, DT_ONLY("null"), .why = "use --set pipeline.split"),
    /* samples */
    DT_WORD("micro-batch-size", "job.micro_batch", NULL),
    DT_WORD("global-batch-size", "job.global_batch", NULL),
    DT_WORD("rampup-batch-size", NULL, NULL, DT_ONLY("null"), .why = "the batch is of one size here", .alike = true),
    /* optimizer */
    DT_WORD("optimizer", "optimizer.name", "adam", .values = DT_VALUES({"adam", "adam"}, {"adam", "adamw"}, {"sgd", "sgd"})),
    DT_WORD("lr", "optimizer.learning_rate", NULL),
    DT_WORD("sgd-momentum", "optimizer.momentum", NULL),
    DT_WORD("adam-beta1", "optimizer.beta1", "0.9"),
    DT_WORD("adam-beta2", "optimizer.beta2", "0.999"),
    DT_WORD("adam-eps", "optimizer.epsilon", "1e-8"),
    DT_WORD("clip-grad", "optimizer.clip_norm", "1"),
    {0},
};

/* ---- settings that several flags decide ---- */

/* Drop settings of theirs that were read, with blanks between, and say so of those that are on. */
static void drop_read(struct dt_translation *t, const char *flags)
{
    char flag[64], quote[80];
    for (size_t bytes; (bytes = strcspn(flags, " ")) > 0; flags += bytes + strspn(flags + bytes, " ")) {
        snprintf(flag, sizeof flag, "%.*s", (int)bytes, flags);
        DT_DESTROYED(dt_json_destroy) struct cJSON *value = dt_json_take(t->theirs, flag);
        dt_json_quote(value, quote, sizeof quote);
        if (value && !dt_json_is(value, "false"))
            dt_remark(t, DT_REMARK_READ, "%s: %s", flag, quote);
    }
}

/* Take a flag. Returns whether it was given. */
static bool take_flag(struct dt_translation *t, const char *flag)
{
    bool on = megatron_is_on(t, flag);
    drop_read(t, flag);
    return on;
}

static void put_text(struct cJSON *tree, const char *path, const char *text)
{
    dt_json_put(tree, path, dt_json_text(text));
}

static void put_flag(struct dt_translation *t, const char *flag, bool on)
{
    if (on)
        dt_json_put(t->theirs, flag, dt_json_truth(true));
}

/* The token table is padded, so that every tensor rank has the same number of rows. */
static void settle_model(struct dt_translation *t)
{
    double hidden = dt_json_number(t->ours, "model.hidden", 0), tensor = fmax(1, dt_json_number(t->ours, "tensor.size", 1));
    double vocabulary = dt_json_number(t->ours, "model.vocab_size", 0), dropout = dt_json_number(t->ours, "model.dropout", 0);
    double multiple = dt_json_number(t->theirs, "make-vocab-size-divisible-by", 128) * tensor;
    bool swiglu = dt_json_is(dt_json_at(t->ours, "model.mlp"), "swiglu");
    if (swiglu && !dt_json_at(t->ours, "model.ffn")) {
        dt_json_put_number(t->ours, "model.ffn", floor(floor(hidden * 8 / 3) / 64) * 64);
        dt_remark(t, DT_REMARK_ASSUMED, "ffn-hidden-size: with swiglu 8/3 of hidden-size in whole 64s: model.ffn %g",
                  dt_json_number(t->ours, "model.ffn", 0));
    }
    if (take_flag(t, "openai-gelu") && !swiglu)
        put_text(t->ours, "model.mlp", "gelu_new");
    if (!take_flag(t, "group-query-attention"))
        dt_json_drop(t->ours, "model.kv_heads");
    bool none = take_flag(t, "disable-bias-linear"), qkv = take_flag(t, "add-qkv-bias");
    put_text(t->ours, "model.bias", none && qkv ? "qkv" : none ? "none" : "all");
    if (vocabulary == 0) {
        if (!dt_json_at(t->ours, "job.model")) /* --model has its own */
            dt_remark(t, DT_REMARK_CANNOT, "vocab-size: not given, because it is the tokenizer's; 50257 is assumed");
        vocabulary = 50257;
    }
    double padded = ceil(vocabulary / multiple) * multiple;
    if (padded != vocabulary)
        dt_remark(t, DT_REMARK_ASSUMED, "vocab-size: %g, a multiple of %g as make-vocab-size-divisible-by has it: model.vocab_size %g",
                  vocabulary, multiple, padded);
    dt_json_put_number(t->ours, "model.vocab_size", padded);
    double of_attention = dt_json_number(t->theirs, "attention-dropout", 0.1);
    if (of_attention == 0 && dropout != 0)
        put_text(t->ours, "model.attention_dropout", "none");
    else if (of_attention != dropout)
        dt_remark(t, DT_REMARK_CANNOT,
                  "attention-dropout: %g; dtbench's dropout of attention weights is that of the other layers, %g, or none", of_attention,
                  dropout);
    drop_read(t, "attention-dropout");
    double width = hidden / dt_json_number(t->ours, "model.heads", 1), channels = dt_json_number(t->theirs, "kv-channels", width);
    if (channels != width)
        dt_remark(t, DT_REMARK_CANNOT, "kv-channels: %g; a head's width is hidden-size / num-attention-heads here, %g", channels, width);
}

static void settle_numbers(struct dt_translation *t)
{
    bool bf16 = take_flag(t, "bf16"), fp16 = take_flag(t, "fp16"), as_they_are = take_flag(t, "grad-reduce-in-bf16");
    struct cJSON *said = dt_json_at(t->theirs, "accumulate-allreduce-grads-in-fp32"), *kept = dt_json_at(t->theirs, "main-grads-dtype");
    bool in_fp32 = said ? dt_json_is(said, "true") : bf16 && !dt_json_is(kept, "bf16");
    put_text(t->ours, "model.dtype", bf16 ? "bf16" : fp16 ? "fp16" : "fp32");
    if ((fp16 || (bf16 && !as_they_are)) && in_fp32) {
        put_text(t->ours, "gradient_dtype", "fp32");
        dt_remark(t, said ? DT_REMARK_READ : DT_REMARK_ASSUMED, "gradients are added up and reduced in fp32%s: gradient_dtype fp32",
                  said ? "" : ", the default of " ORIGIN " with bf16");
    }
    drop_read(t, "accumulate-allreduce-grads-in-fp32 main-grads-dtype");
    if (fp16 && !dt_json_at(t->ours, "loss_scaling"))
        job_scale_dynamically(t, 0x1p32);
}

static void settle_activation(struct dt_translation *t)
{
    bool selective = take_flag(t, "recompute-activations");
    struct cJSON *granularity = dt_json_at(t->theirs, "recompute-granularity"), *method = dt_json_at(t->theirs, "recompute-method"),
                 *modules = dt_json_at(t->theirs, "recompute-modules");
    double layers = dt_json_number(t->theirs, "recompute-num-layers", 1);
    if (dt_json_is(granularity, "full")) {
        put_text(t->ours, "activation", "checkpoint");
        dt_json_put_number(t->ours, "activation_blocks", layers);
        if (!dt_json_is(method, "uniform"))
            dt_remark(t, DT_REMARK_CANNOT, "recompute-method: %s; all layers are recomputed here", cJSON_GetStringValue(method));
    } else {
        put_text(t->ours, "activation", selective || granularity ? "core_attention" : "keep");
    }
    if (modules && (cJSON_GetArraySize(modules) > 1 || !dt_json_is(cJSON_IsArray(modules) ? modules->child : modules, "core_attn")))
        dt_remark(t, DT_REMARK_CANNOT, "recompute-modules: of Megatron-LM's modules dtbench can recompute only core_attn");
    drop_read(t, "recompute-granularity recompute-method recompute-modules recompute-num-layers");
}

/* Equal numbers of layers on each stage, or part of one. */
static void put_split(struct dt_translation *t, double layers, int parts)
{
    struct cJSON *points = dt_json_array();
    for (int i = 1; i < parts; i++)
        dt_json_append(&points, cJSON_CreateNumber(i * layers / parts));
    dt_json_put(t->ours, "pipeline.split", points);
}

static void settle_pipeline(struct dt_translation *t)
{
    double stages = dt_json_number(t->ours, "pipeline.stages", 1), layers = dt_json_number(t->ours, "model.layers", 1);
    double of_part = dt_json_number(t->theirs, "num-layers-per-virtual-pipeline-stage", 0);
    drop_read(t, "num-layers-per-virtual-pipeline-stage");
    double parts = of_part > 0 ? layers / (stages * of_part) : dt_json_number(t->ours, "pipeline.virtual_stages", 1);
    dt_json_drop(t->ours, "pipeline.virtual_stages");
    if (stages == 1)
        return;
    put_text(t->ours, "pipeline.order", parts > 1 ? "interleaved" : "1f1b");
    if (parts > 1)
        dt_json_put_number(t->ours, "pipeline.virtual_stages", parts);
    if (fmod(layers, stages * parts) != 0)
        dt_remark(t, DT_REMARK_CANNOT, "num-layers: %g is not a multiple of the pipeline's %g parts", layers, stages * parts);
    else
        put_split(t, layers, (int)(stages * parts));
}

/* Without overlap all gradients are reduced at once, like one bucket. */
static void settle_sharding(struct dt_translation *t)
{
    bool optimizer = take_flag(t, "use-distributed-optimizer"), fsdp2 = take_flag(t, "use-torch-fsdp2");
    bool fsdp = take_flag(t, "use-megatron-fsdp"), kept = take_flag(t, "torch-fsdp2-no-reshard-after-forward");
    struct cJSON *strategy = dt_json_at(t->theirs, "data-parallel-sharding-strategy");
    const char *sharding = optimizer ? "optimizer" : "none";
    if (fsdp2 || (fsdp && dt_json_is(strategy, "optim_grads_params")))
        sharding = "parameters";
    else if (fsdp)
        sharding = dt_json_is(strategy, "optim_grads") ? "gradients" : dt_json_is(strategy, "optim") ? "optimizer" : "none";
    put_text(t->ours, "job.sharding", sharding);
    if (job_reduces_each(t, PARTITIONED)) /* core/distributed/fsdp, grad_reduce_every_bprop */
        put_text(t->ours, "gradient_reduction", "each");
    put_text(t->ours, "fsdp.gather", kept ? "step" : "micro_batch");
    double elements = dt_json_number(t->theirs, "ddp-bucket-size", 0),
           bytes = dt_json_is(dt_json_at(t->ours, "model.dtype"), "fp32") ? 4 : 2;
    drop_read(t, "data-parallel-sharding-strategy ddp-bucket-size");
    dt_json_put(t->ours, "ddp.overlap_param_gather", dt_json_truth(take_flag(t, "overlap-param-gather")));
    bool overlap = take_flag(t, "overlap-grad-reduce");
    if (overlap && elements == 0)
        dt_remark(t, DT_REMARK_ASSUMED, "ddp-bucket-size: 40 million elements, the default of " ORIGIN " on up to 40 ranks");
    dt_json_put(t->ours, "ddp.overlap", dt_json_truth(overlap));
    dt_json_put_number(t->ours, "ddp.bucket_mib", !overlap ? AT_THE_END_MIB : (elements > 0 ? elements : 40e6) * bytes / 0x1p20);
}

/* Gradients in e4m3 and in e5m2 cost the same. */
static void settle_fp8(struct dt_translation *t)
{
    char quote[80] = "";
    struct cJSON *format = dt_json_at(t->theirs, "fp8-format");
    bool known = dt_json_is(format, "hybrid") || dt_json_is(format, "e4m3");
    if (format && !known && !dt_json_is(format, "null") && !dt_json_is(format, "false")) {
        dt_json_quote(format, quote, sizeof quote);
        dt_remark(t, DT_REMARK_CANNOT, "fp8-format: %s; formats are hybrid and e4m3 here", quote);
    }
    if (!known)
        dt_json_drop(t->ours, "fp8");
    else if (!dt_json_at(t->ours, "fp8.recipe"))
        put_text(t->ours, "fp8.recipe", "delayed");
    struct cJSON *recipe = dt_json_at(t->ours, "fp8.recipe"), *gather = dt_json_at(t->ours, "fp8.gather");
    if (known && dt_json_is(gather, "true") && !dt_json_is(recipe, "delayed") && !dt_json_is(recipe, "current")) {
        dt_json_quote(recipe, quote, sizeof quote);
        dt_remark(t, DT_REMARK_CANNOT, "fp8-param-gather: true; parameters with scales of blocks are of model.dtype here (recipe %s)",
                  quote);
        dt_json_drop(t->ours, "fp8.gather");
    }
    drop_read(t, "fp8-format");
}

static void prepare_fp8(struct dt_translation *t, const struct experiment *e)
{
    if (e->model.fp8 == DT_FP8_ROWWISE || e->model.fp8 == DT_FP8_TENSORWISE)
        dt_remark(t, DT_REMARK_CANNOT, "fp8.recipe: %s; Megatron-LM has delayed and current scales of whole tensors, and those of blocks",
                  dt_fp8_recipe(e->model.fp8)->name);
    if (e->model.fp8)
        put_text(t->theirs, "fp8-format", "hybrid");
}

/* SGD has momentum unless it is said to be 0; Adam's jobs may name it, too. */
static void settle_momentum(struct dt_translation *t)
{
    if (!dt_json_is(dt_json_at(t->ours, "optimizer.name"), "sgd")) {
        dt_json_drop(t->ours, "optimizer.momentum");
    } else if (!dt_json_at(t->ours, "optimizer.momentum")) {
        dt_json_put_number(t->ours, "optimizer.momentum", 0.9);
        dt_remark(t, DT_REMARK_ASSUMED, "sgd-momentum: 0.9, the default of %s: optimizer.momentum 0.9", t->origin);
    }
}

void megatron_settle(struct dt_translation *t)
{
    settle_fp8(t);
    settle_momentum(t);
    settle_model(t);
    settle_numbers(t);
    settle_activation(t);
    settle_pipeline(t);
    settle_sharding(t);
}

/* ---- the reverse ---- */

/* Megatron-LM sends gradients in the type in which it keeps them. */
static void prepare_gradients(struct dt_translation *t, const struct experiment *e)
{
    bool in_fp32 = experiment_reduce_dtype(e) == DT_FP32;
    put_flag(t, "grad-reduce-in-bf16", e->model.dtype == DT_BF16 && !in_fp32);
    put_flag(t, "accumulate-allreduce-grads-in-fp32", e->model.dtype == DT_FP16 && in_fp32);
    if (in_fp32 && experiment_gradient_dtype(e) != DT_FP32)
        dt_remark(t, DT_REMARK_ASSUMED, "reduce_dtype: fp32; Megatron-LM keeps gradients in fp32, too: two bytes a parameter more");
    if (in_fp32)
        dt_json_drop(t->ours, "reduce_dtype");
    if (in_fp32 || e->reduce_dtype == REDUCE_AS_MODEL)
        dt_json_drop(t->ours, "gradient_dtype");
}

static void prepare_model(struct dt_translation *t, const struct experiment *e)
{
    struct cJSON *bias = dt_json_at(t->ours, "model.bias"), *dtype = dt_json_at(t->ours, "model.dtype");
    put_flag(t, "disable-bias-linear", !dt_json_is(bias, "all"));
    put_flag(t, "add-qkv-bias", dt_json_is(bias, "qkv"));
    if (!dt_json_is(bias, "all") && dt_json_is(dt_json_at(t->ours, "model.norm"), "layer"))
        dt_remark(t, DT_REMARK_ALIKE, "model.bias: layer norms have a bias with Megatron-LM");
    put_flag(t, "openai-gelu", dt_json_is(dt_json_at(t->ours, "model.mlp"), "gelu_new"));
    if (megatron_is_on(t, "openai-gelu")) /* the flag chooses the form of GELU, and not the kind of MLP */
        put_text(t->ours, "model.mlp", "gelu");
    if (dt_json_number(t->ours, "model.ffn", 0) == 0)
        dt_json_put_number(t->ours, "model.ffn", 4 * dt_json_number(t->ours, "model.hidden", 0));
    if (dt_json_number(t->ours, "model.kv_heads", 0) == 0)
        dt_json_drop(t->ours, "model.kv_heads");
    else
        put_flag(t, "group-query-attention", true);
    double vocabulary = dt_json_number(t->ours, "model.vocab_size", 0);
    if (fmod(vocabulary, e->tensor.size) != 0)
        dt_remark(t, DT_REMARK_ASSUMED, "model.vocab_size: %g is padded to a multiple of %d", vocabulary, e->tensor.size);
    dt_json_put_number(t->theirs, "make-vocab-size-divisible-by", 1);
    dt_json_put_number(t->theirs, "attention-dropout",
                       dt_json_at(t->ours, "model.attention_dropout") ? 0 : dt_json_number(t->ours, "model.dropout", 0));
    dt_json_put_number(t->theirs, "max-position-embeddings", dt_json_number(t->ours, "model.block_size", 0));
    put_flag(t, "bf16", dt_json_is(dtype, "bf16"));
    put_flag(t, "fp16", dt_json_is(dtype, "fp16"));
    prepare_gradients(t, e);
    if (dt_json_is(dt_json_at(t->ours, "model.rope.scaling"), "llama3") &&
        (dt_json_number(t->ours, "model.rope.low_frequency_factor", 1) != 1 ||
         dt_json_number(t->ours, "model.rope.high_frequency_factor", 4) != 4 ||
         dt_json_number(t->ours, "model.rope.original_length", 8192) != 8192))
        dt_remark(t, DT_REMARK_ALIKE, "model.rope: Megatron-LM's scaling has the factors 1 and 4, and 8192 tokens");
    dt_json_drop(t->ours, "model.bias model.dtype model.attention_dropout");
    dt_json_drop(t->ours, "model.rope.low_frequency_factor model.rope.high_frequency_factor model.rope.original_length");
}

static void prepare_activation(struct dt_translation *t, const struct experiment *e)
{
    switch (e->activation) {
    case ACTIVATION_KEEP: break;
    case ACTIVATION_SELECTIVE:
        dt_remark(t, DT_REMARK_ASSUMED, "activation: selective; Megatron-LM keeps the heads' outputs, too"); /* fall through */
    case ACTIVATION_CORE_ATTENTION: put_text(t->theirs, "recompute-granularity", "selective"); break;
    case ACTIVATION_CHECKPOINT:
        put_text(t->theirs, "recompute-granularity", "full");
        put_text(t->theirs, "recompute-method", "uniform");
        dt_json_put_number(t->theirs, "recompute-num-layers", e->activation_blocks);
        break;
    case ACTIVATION_SELECTIVE_OP:
        dt_remark(t, DT_REMARK_CANNOT, "activation: selective_op; Megatron-LM recomputes attention, or whole modules");
        break;
    case ACTIVATION_OFFLOAD:
        dt_remark(t, DT_REMARK_CANNOT, "activation: offload; Megatron-LM offloads those of some layers, and recomputes nothing there");
    }
    dt_json_drop(t->ours, "activation activation_blocks");
}

/* Does every part have the same number of blocks? */
static bool is_even_split(const struct experiment *e, int parts)
{
    int first_layer[SPLIT_MOST_POINTS + 2], blocks = dt_model_blocks(&e->model);
    bool even = e->strategy.split_points == parts - 1 && blocks % parts == 0 && experiment_partition(e, parts, first_layer) == DT_OK;
    for (int i = 1; i < parts && even; i++)
        even = first_layer[i] == dt_block_layer(e->model.family, i * blocks / parts);
    return even;
}

static void prepare_pipeline(struct dt_translation *t, const struct experiment *e)
{
    const char *order = e->pipeline.order;
    int parts = e->strategy.parts > 1 ? e->strategy.parts : 1, blocks = dt_model_blocks(&e->model);
    if (!e->strategy.has_pipeline)
        return;
    if (strcmp(order, "1f1b") != 0 && strcmp(order, "interleaved") != 0)
        dt_remark(t, DT_REMARK_CANNOT, "pipeline.order: %s; Megatron-LM has 1f1b and interleaved", order);
    if (blocks % (e->strategy.stages * parts) != 0)
        dt_remark(t, DT_REMARK_CANNOT, "model.layers: %d is not a multiple of the pipeline's %d parts", blocks, e->strategy.stages * parts);
    else if (e->strategy.split_points == 0)
        dt_remark(t, DT_REMARK_ASSUMED, "pipeline.split: %s; Megatron-LM gives every part the same number of layers", e->pipeline.split);
    else if (!is_even_split(e, e->strategy.stages * parts))
        dt_remark(t, DT_REMARK_CANNOT, "pipeline.split: %s; Megatron-LM gives every part the same number of layers", e->pipeline.split);
    if (e->micro_batches > 1)
        dt_remark(t, DT_REMARK_ASSUMED, "micro_batches: Megatron-LM does not empty the pipeline between parts of a step");
    dt_json_drop(t->ours, "pipeline.order pipeline.split");
}

static void prepare_sharding(struct dt_translation *t, const struct experiment *e)
{
    struct cJSON *sharding = dt_json_at(t->ours, "job.sharding"), *overlap = dt_json_at(t->ours, "ddp.overlap");
    bool gradients = dt_json_is(sharding, "gradients"), parameters = dt_json_is(sharding, "parameters");
    if (parameters || gradients) {
        put_flag(t, "use-megatron-fsdp", true);
        put_text(t->theirs, "data-parallel-sharding-strategy", parameters ? "optim_grads_params" : "optim_grads");
    }
    put_flag(t, "use-distributed-optimizer", dt_json_is(sharding, "optimizer") || parameters || gradients);
    if (dt_json_at(t->ours, "job.shard"))
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: hsdp; --num-distributed-optimizer-instances is not written here");
    if ((parameters || gradients) && e->strategy.has_pipeline)
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: %s; dtbench writes Megatron-FSDP only without a pipeline", paradigm_name(e->paradigm));
    double mib = dt_json_number(t->ours, "ddp.bucket_mib", AT_THE_END_MIB), bytes = e->model.dtype == DT_FP32 ? 4 : 2;
    put_flag(t, "overlap-grad-reduce", dt_json_is(overlap, "true"));
    if (dt_json_is(overlap, "true"))
        dt_json_put_number(t->theirs, "ddp-bucket-size", floor(mib * 0x1p20 / bytes));
    else if (overlap && mib < AT_THE_END_MIB)
        dt_remark(t, DT_REMARK_ASSUMED, "ddp.bucket_mib: without overlap Megatron-LM reduces all gradients after the backward pass");
    bool gathers_late = dt_json_is(dt_json_at(t->ours, "ddp.overlap_param_gather"), "true");
    put_flag(t, "overlap-param-gather", gathers_late);
    if (gathers_late && !dt_json_is(overlap, "true"))
        dt_remark(t, DT_REMARK_CANNOT, "ddp.overlap_param_gather: Megatron-LM has it only with ddp.overlap");
    dt_json_drop(t->ours, "job.sharding ddp.overlap ddp.bucket_mib ddp.overlap_param_gather");
}

static void prepare(struct dt_translation *t, const struct experiment *e)
{
    prepare_model(t, e);
    prepare_activation(t, e);
    prepare_fp8(t, e);
    prepare_pipeline(t, e);
    prepare_sharding(t, e);
    if (e->optimizer.name == OPTIMIZER_SGD)
        dt_json_put_number(t->ours, "optimizer.momentum", e->optimizer.momentum); /* theirs is another one where nothing is said */
}

const struct framework framework_megatron = {
    .name = "megatron",
    .title = "Megatron-LM",
    .origin = ORIGIN,
    .format = TEXT_FLAGS,
    .marks = (const char *const[]){"num-layers", NULL},
    .fixed = MEGATRON_FIXED,
    .reduces_each = PARTITIONED,
    .space = (const char *const[]){"paradigm=none,ddp,pdp,zero1", "pipeline.order=1f1b,interleaved",
                                   "activation=keep,core_attention,checkpoint", NULL},
    .words = megatron_words,
    .no_bearing = MEGATRON_NO_BEARING,
    .settle = megatron_settle,
    .prepare = prepare,
};

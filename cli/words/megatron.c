/* Megatron-LM's flags, and the YAML of what is built on it. Names, defaults and the rules between
 * flags are those of Megatron-LM core 0.14.0 (megatron/training/arguments.py). Megatron-Bridge's
 * are those of 0.6.0 (training/config.py, models/gpt_provider.py, and the dataclasses of
 * Megatron-LM that they build on), NeMo's those of 1.23.0
 * (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml, megatron_base_model.py). */
#include "cli/words/words.h"

#include "lib/base/text.h"
#include "lib/config/json.h"
#include "schedules/config/split.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#define ORIGIN "Megatron-LM core 0.14.0"
#define FLAG(theirs, ours, on, off) DT_WORD(theirs, ours, "false", .values = DT_VALUES({"false", off}, {"true", on}))

static const struct dt_word words[] = {
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

/* Beginnings of flags that matter to neither time nor memory. Flags of parts that a word above
 * requires to be off (moe-, mtp-, fp8-, tp-comm-) do not matter either. */
#define NO_BEARING                                                                                                                         \
    "lr- min-lr save load no-save no-load ckpt dist-ckpt use-dist-ckpt async-save data- train- valid- test- split mock-data "              \
    "num-workers no-mmap no-create-attention-mask tokenizer vocab-file merge-file tiktoken make-vocab-size eval log- "                     \
    "tensorboard wandb timing no-one-logger one-logger exit- profile weight-decay init-method seed master- "                               \
    "node-rank rdzv local-rank tee max-restarts distributed- use-mcore-models no-masked-softmax-fusion no-bias- "                          \
    "no-rope-fusion no-gradient-accumulation-fusion cross-entropy- transformer-impl use-flash-attn "                                       \
    "attention-softmax-in-fp32 calculate-per-token-loss manual-gc empty-unused-memory min-loss-scale "                                     \
    "hysteresis finetune override-opt use-checkpoint use-precision-aware-optimizer decoupled- apply-layernorm-1p overlap-param-gather "    \
    "max-position-embeddings bf16 kv-channels check-for-nan no-check-for-nan enable-experimental use-cpu-initialization "                  \
    "ddp-average-in-collective deterministic disable-gloo te-rng-tracker reset- eod-mask-loss max-steps max-epochs moe- mtp- fp8- "        \
    "fp4- tp-comm- batch-p2p cpu-offloading- masked-softmax-fusion"

/* The same for the fields of Megatron-Bridge's recorded configs. */
#define BRIDGE_NO_BEARING                                                                                                                  \
    " fsdp-all-gather gradient-reduce-div align- flight-recorder use-gloo activation-offload delta-offload clone-scatter cuda-graph- "     \
    "deallocate- dsa- expert-gtp inference- kitchen- linear- mamba- mlp-chunks mup- num-layers-at- parallel-output perform- qk-clip- "     \
    "scatter-embedding softmax-type use-mamba wgrad-deferral adaptive-muon lion- muon- soap- optimizer-offload pin-cpu "                   \
    "store-param check-optimizer glu-linear rope-scaling-factor window-attn hf-model mixed-precision autocast params-dtype pipeline-dtype"

#define NEMO_NO_BEARING                                                                                                                    \
    " restore-from fsdp- use-scaled-init pre-process post-process persist- normalize-attention native-amp grad-div-ar bias- "              \
    "get-attention-mask apex- gradient-as-bucket reduce-amax gc-interval use-emha contiguous- overlap-param-sync param-sync-dtype "        \
    "grad-allreduce-chunk async-grad-allreduce megatron-amp"

/* ---- settings that several flags decide ---- */

static bool is_on(const struct dt_translation *t, const char *flag)
{
    return dt_json_is(dt_json_at(t->theirs, flag), "true");
}

/* Take a flag. Returns whether it was given. */
static bool take_flag(struct dt_translation *t, const char *flag)
{
    bool on = is_on(t, flag);
    dt_json_drop(t->theirs, flag);
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
    dt_json_drop(t->theirs, "attention-dropout");
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
    dt_json_drop(t->theirs, "accumulate-allreduce-grads-in-fp32 main-grads-dtype");
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
    dt_json_drop(t->theirs, "recompute-granularity recompute-method recompute-modules recompute-num-layers");
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
    dt_json_drop(t->theirs, "num-layers-per-virtual-pipeline-stage");
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
    put_text(t->ours, "fsdp.gather", kept ? "step" : "micro_batch");
    double elements = dt_json_number(t->theirs, "ddp-bucket-size", 0),
           bytes = dt_json_is(dt_json_at(t->ours, "model.dtype"), "fp32") ? 4 : 2;
    dt_json_drop(t->theirs, "data-parallel-sharding-strategy ddp-bucket-size");
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
    dt_json_drop(t->theirs, "fp8-format");
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

static void settle(struct dt_translation *t)
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
    if (is_on(t, "openai-gelu")) /* the flag chooses the form of GELU, and not the kind of MLP */
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
    dt_json_drop(t->ours, "job.sharding ddp.overlap ddp.bucket_mib");
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

#define FIXED                                                                                                                              \
    "{" FIXED_IN_ALL(", \"gather\": \"micro_batch\"") ", \"mesh\": {\"order\": \"tensor-data-pipeline\"}, \"parameter_offload\": false}"

const struct framework framework_megatron = {
    .name = "megatron",
    .title = "Megatron-LM",
    .origin = ORIGIN,
    .format = TEXT_FLAGS,
    .marks = (const char *const[]){"num-layers", NULL},
    .fixed = FIXED,
    .space = (const char *const[]){"paradigm=none,ddp,pdp,zero1", "pipeline.order=1f1b,interleaved",
                                   "activation=keep,core_attention,checkpoint", NULL},
    .words = words,
    .no_bearing = NO_BEARING,
    .settle = settle,
    .prepare = prepare,
};

/* ---- YAML: the same words by other names ---- */

/* The YAML leaf `from`, in any section, becomes the flag `to`; its value becomes the flag's
 * value. */
#define RENAMED(from, to, ...) DT_WORD(from, to, NULL, __VA_ARGS__)
#define NOT(from, to) RENAMED(from, to, .values = DT_VALUES({"true", "false"}, {"false", "true"}))

static const struct dt_word bridge_names[] = {
    NOT("add_bias_linear", "disable-bias-linear"),
    NOT("share_embeddings_and_output_weights", "untie-embeddings-and-output-weights"),
    RENAMED("grad_reduce_in_fp32", "accumulate-allreduce-grads-in-fp32"),
    RENAMED("gated_linear_unit", "swiglu"),
    RENAMED("layernorm_epsilon", "norm-epsilon"),
    RENAMED("rope_scaling", "use-rope-scaling"),
    RENAMED("virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"),
    RENAMED("num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers"),
    RENAMED("num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers"),
    RENAMED("bucket_size", "ddp-bucket-size"),
    RENAMED("fp4", "fp8-format"),
    RENAMED("fp8", "fp8-format"),
    RENAMED("num_moe_experts", "num-experts"),
    {0},
};

static const struct dt_word nemo_names[] = {
    RENAMED("devices", "nproc-per-node"),
    RENAMED("num_nodes", "nnodes"),
    RENAMED("encoder_seq_length", "seq-length"),
    NOT("bias", "disable-bias-linear"),
    NOT("share_embeddings_and_output_weights", "untie-embeddings-and-output-weights"),
    RENAMED("activation", "swiglu", .values = DT_VALUES({"gelu", "false"}, {"fast-swiglu", "true"}, {"swiglu", "true"}),
            .why = "the MLP of a decoder is gelu, relu or swiglu"),
    RENAMED("normalization", "normalization",
            .values = DT_VALUES({"layernorm", "LayerNorm"}, {"layernorm1p", "LayerNorm"}, {"rmsnorm", "RMSNorm"})),
    RENAMED("layernorm_epsilon", "norm-epsilon"),
    RENAMED("rotary_percentage", "rotary-percent"),
    RENAMED("virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"),
    RENAMED("activations_checkpoint_granularity", "recompute-granularity"),
    RENAMED("activations_checkpoint_method", "recompute-method"),
    RENAMED("activations_checkpoint_num_layers", "recompute-num-layers"),
    RENAMED("fp8", "fp8-format", .values = DT_VALUES({"false", NULL}, {"true", "hybrid"})),
    RENAMED("ub_tp_comm_overlap", "tp-comm-overlap"),
    RENAMED("native_amp_init_scale", "initial-loss-scale"),
    RENAMED("native_amp_growth_interval", "loss-scale-window"),
    DT_WORD("transformer_block_type", NULL, NULL, DT_ONLY("pre_ln"), .why = "dtbench's norms are before attention and MLP"),
    DT_WORD("attention_type", NULL, NULL, DT_ONLY("multihead")),
    DT_WORD("dtype", NULL, NULL, .values = DT_VALUES({"fp32", NULL}, {"float32", NULL}, {"torch.float32", NULL}, {"32", NULL}),
            .why = "Adam's moments are fp32 here"),
    RENAMED("grad_sync_dtype", "accumulate-allreduce-grads-in-fp32",
            .values = DT_VALUES({"fp32", "true"}, {"float32", "true"}, {"torch.float32", "true"}, {"32", "true"}, {"bf16", "false"},
                                {"bfloat16", "false"}, {"torch.bfloat16", "false"}, {"fp16", "false"}, {"float16", "false"}),
            .why = "dtbench sends gradients in fp32 or in the model's type"),
    DT_WORD("ffn_dropout", NULL, NULL, DT_ONLY("0"), .why = "dtbench has no dropout inside the MLP", .alike = true),
    RENAMED("distributed_optimizer", "use-distributed-optimizer",
            .values = DT_VALUES({"fused_adam", "false"}, {"adam", "false"}, {"adamw", "false"}, {"distributed_fused_adam", "true"},
                                {"mcore_distributed_optim", "true"})),
    RENAMED("overlap_grad_sync", "overlap-grad-reduce"),
    {0},
};

enum { LIST_BYTES = 2000 };

/* The first two lists name the sections of Bridge and of NeMo that describe a step; the last one
 * names subsections that do not. Other sections (who runs the job, where data and checkpoints are,
 * targets of YAML's anchors) do not change a step, or no framework reads them. */
static const char bridge_sections[] = " model train optimizer ddp dist comm_overlap mixed_precision peft ";
static const char nemo_sections[] = " model devices num_nodes ";
static const char other_sections[] = " data tokenizer nsys_profile megatron_timer_kwargs sched ";

static bool is_one_of(const char *name, const char *names)
{
    char word[96];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(names, word) != NULL;
}

/* Make a flag of each leaf of the sections that describe a step. `list` gets the names of the
 * sections left out. */
static void flatten(const struct cJSON *tree, const struct dt_word *names, struct cJSON *flags, const char *sections, char list[LIST_BYTES])
{
    for (const struct cJSON *child = tree->child; child; child = child->next) {
        char flag[96];
        bool other = sections ? !is_one_of(child->string, sections) : cJSON_IsObject(child) && is_one_of(child->string, other_sections);
        if (other)
            dt_append(list, LIST_BYTES, ", ", "%s", child->string);
        if (other || *child->string == '_') /* _target_ names the framework's class */
            continue;
        if (cJSON_IsObject(child)) {
            flatten(child, names, flags, NULL, list);
            continue;
        }
        bool renamed = false;
        for (const struct dt_word *name = names; name->theirs; name++)
            renamed |= strcmp(name->theirs, child->string) == 0;
        snprintf(flag, sizeof flag, "%s", child->string);
        for (char *c = flag; *c && !renamed; c++)
            *c = *c == '_' ? '-' : *c;
        dt_json_put(flags, flag, cJSON_IsString(child) ? dt_json_value(child->valuestring) : cJSON_Duplicate(child, true));
    }
}

static void adapt(struct dt_translation *t, const struct dt_word *names, const char *sections)
{
    struct cJSON *flags = cJSON_CreateObject();
    struct dt_translation inner;
    char list[LIST_BYTES] = "";
    flatten(t->theirs, names, flags, sections, list);
    if (*list)
        dt_remark(t, DT_REMARK_LEFT, "%s: not part of a step", list);
    dt_json_destroy(t->theirs);
    t->theirs = flags;
    if (dt_translation_init(&inner, t->origin, flags, NULL) < 0) {
        t->theirs = NULL;
        return;
    }
    dt_words_read(names, &inner);
    for (struct cJSON *child; (child = inner.ours->child);)
        dt_json_put(flags, child->string, dt_json_take(inner.ours, child->string));
    for (const struct cJSON *text = inner.remarks[DT_REMARK_CANNOT]->child; text; text = text->next)
        dt_remark(t, DT_REMARK_CANNOT, "%s", text->valuestring);
    inner.theirs = NULL;
    dt_translation_finish(&inner);
    const struct cJSON *betas = dt_json_at(flags, "betas");
    for (int i = 0; i < 2 && cJSON_GetArrayItem(betas, i); i++)
        dt_json_put(flags, i ? "adam-beta2" : "adam-beta1", cJSON_Duplicate(cJSON_GetArrayItem(betas, i), true));
    dt_json_drop(flags, "betas");
    if (dt_json_at(flags, "num-query-groups"))
        dt_json_put(flags, "group-query-attention", dt_json_truth(true));
}

/* A vocabulary size in the model is used unchanged; the tokenizer's is padded. The name of a mixed
 * precision stands for several settings. */
static void adapt_bridge(struct dt_translation *t)
{
    static const char *const precisions[] = {"bf16", "fp16"};
    bool padded = is_on(t, "model.should_pad_vocab");
    if (!dt_json_at(t->theirs, "model.vocab_size")) {
        dt_json_put(t->theirs, "model.vocab_size", dt_json_take(t->theirs, "tokenizer.vocab_size"));
        padded = true;
    }
    if (!padded)
        dt_json_put_number(t->theirs, "model.make_vocab_size_divisible_by", 1);
    const char *precision = cJSON_GetStringValue(dt_json_at(t->theirs, "mixed_precision"));
    for (size_t i = 0; precision && i < sizeof precisions / sizeof *precisions; i++)
        if (strncmp(precision, precisions[i], strlen(precisions[i])) == 0)
            dt_json_put(t->theirs, i ? "model.fp16" : "model.bf16", dt_json_truth(true));
    static const struct {
        const char *part, *recipe;
    } recipes[] = {{"with_fp8_delayed_scaling", "delayed"},
                   {"with_fp8_current_scaling", "tensorwise"},
                   {"with_fp8_subchannel_scaling", "blockwise"},
                   {"with_mxfp8", "mxfp8"}};
    const char *recipe = NULL;
    for (size_t i = 0; precision && i < sizeof recipes / sizeof *recipes; i++)
        recipe = strstr(precision, recipes[i].part) ? recipes[i].recipe : recipe;
    if (recipe) {
        put_text(t->theirs, "model.fp8", "hybrid");
        put_text(t->theirs, "model.fp8_recipe", recipe);
        /* its recipes with scales of whole tensors say so (training/mixed_precision.py, fp8_param_gather) */
        if (strcmp(recipe, "delayed") == 0 || strcmp(recipe, "tensorwise") == 0)
            dt_json_put(t->theirs, "model.fp8_param_gather", dt_json_truth(true));
    } else if (precision && strstr(precision, "with")) {
        dt_remark(t, DT_REMARK_CANNOT, "mixed_precision: %s; recipes are delayed, tensorwise, blockwise and mxfp8 here", precision);
    }
    adapt(t, bridge_names, bridge_sections);
}

/* Apex' distributed Adam reduces during the backward pass, in buckets of 100 MiB of fp32. Another
 * optimizer does so only with bf16 parameters, without pipeline and sequence parallelism. Gradients
 * are fp32: for fp32 parameters anyway, for bf16 ones because of MainParamsOptimizerWrapper;
 * distributed Adam has a key for their type. */
static void adapt_nemo_gradients(struct dt_translation *t)
{
    enum { FP32_ELEMENTS_OF_MIB = (1 << 20) / 4 };
    struct cJSON *optimizer = dt_json_take(t->theirs, "model.optim.name");
    bool distributed = !dt_json_is(optimizer, "fused_adam") && !dt_json_is(optimizer, "adam") && !dt_json_is(optimizer, "adamw");
    bool alone = is_on(t, "model.megatron_amp_O2") && dt_json_number(t->theirs, "model.pipeline_model_parallel_size", 1) == 1 &&
                 !is_on(t, "model.sequence_parallel") && !is_on(t, "model.gradient_accumulation_fusion") &&
                 !dt_json_is(dt_json_at(t->theirs, "model.async_grad_allreduce"), "false");
    double mib = distributed ? dt_json_number(t->theirs, "model.optim.bucket_cap_mb", 100)
                             : dt_json_number(t->theirs, "model.grad_allreduce_chunk_size_mb", 125);
    if (!dt_json_at(t->theirs, "model.optim.overlap_grad_sync"))
        dt_json_put(t->theirs, "model.optim.overlap_grad_sync", dt_json_truth(distributed || alone));
    if (!distributed || !dt_json_at(t->theirs, "model.optim.grad_sync_dtype"))
        dt_json_put(t->theirs, "model.optim.grad_sync_dtype", dt_json_text("fp32"));
    dt_json_drop(t->theirs, "model.optim.bucket_cap_mb");
    dt_json_put_number(t->theirs, "model.ddp_bucket_size", mib * FP32_ELEMENTS_OF_MIB);
    dt_json_put(t->theirs, "model.distributed_optimizer", optimizer);
}

/* The precisions that megatron_trainer_builder.py handles; others are PyTorch Lightning's own. */
static void adapt_nemo_precision(struct dt_translation *t, const char *precision)
{
    static const struct {
        const char *name, *flag;
    } rows[] = {{"bf16", "model.bf16"}, {"bf16-mixed", "model.bf16"}, {"16", "model.fp16"}, {"16-mixed", "model.fp16"}, {"32", NULL},
                {"32-true", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(precision, rows[i].name) != 0)
            continue;
        if (rows[i].flag)
            dt_json_put(t->theirs, rows[i].flag, dt_json_truth(true));
        if (rows[i].flag && !is_on(t, "model.megatron_amp_O2"))
            dt_remark(t, DT_REMARK_ASSUMED,
                      "megatron_amp_O2: false; parameters are fp32 there and cast for each product, and of the model's type here with "
                      "an fp32 copy in the optimizer");
        return;
    }
    dt_remark(t, DT_REMARK_CANNOT, "trainer.precision: %s; products are bf16, fp16 or fp32 here", precision);
}

/* Of the trainer's settings, only GPUs, precision and the gradient limit are part of a step. The
 * limit is on the norm, whatever gradient_clip_algorithm says. */
static void adapt_nemo(struct dt_translation *t)
{
    struct cJSON *trainer = dt_json_take(t->theirs, "trainer"), *precision = dt_json_at(trainer, "precision");
    static const char *const places[] = {"devices", "num_nodes"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        dt_json_put(t->theirs, places[i], dt_json_take(trainer, places[i]));
    dt_json_put_number(t->theirs, "model.clip_grad", dt_json_number(trainer, "gradient_clip_val", 0));
    dt_remark(t, DT_REMARK_LEFT, "trainer: only devices, num_nodes, precision and gradient_clip_val are part of a step");
    char number[16];
    snprintf(number, sizeof number, "%g", precision ? precision->valuedouble : 32);
    adapt_nemo_precision(t, cJSON_IsString(precision) ? precision->valuestring : number);
    if (!is_on(t, "model.transformer_engine"))
        dt_json_put(t->theirs, "model.attention_backend", dt_json_text(is_on(t, "model.use_flash_attention") ? "flash" : "unfused"));
    if (!is_on(t, "model.cpu_offloading"))
        dt_json_drop(t->theirs, "model.cpu_offloading_num_layers");
    dt_json_drop(t->theirs, "model.use_flash_attention model.transformer_engine");
    adapt_nemo_gradients(t);
    dt_json_destroy(trainer);
    adapt(t, nemo_names, nemo_sections);
}

const struct framework framework_bridge = {
    .name = "megatron-bridge",
    .title = "Megatron-Bridge",
    .origin = "Megatron-Bridge 0.6.0",
    .format = TEXT_YAML,
    .marks = (const char *const[]){"model train", NULL},
    .fixed = FIXED,
    .words = words,
    .no_bearing = NO_BEARING BRIDGE_NO_BEARING,
    .settle = settle,
    .adapt = adapt_bridge,
};

const struct framework framework_nemo = {
    .name = "nemo",
    .title = "NeMo",
    .origin = "NeMo 1.23.0",
    .format = TEXT_YAML,
    .marks = (const char *const[]){"trainer model", NULL},
    .fixed = FIXED,
    .words = words,
    .no_bearing = NO_BEARING NEMO_NO_BEARING,
    .settle = settle,
    .adapt = adapt_nemo,
};

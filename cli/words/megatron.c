/* Megatron-LM's flags, and the YAML of what is built on it. Names, defaults and what flags do to each other are those of Megatron-LM core 0.14.0
 * (megatron/training/arguments.py), Megatron-Bridge 0.1 and NeMo 1.23 (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml). */
#include "cli/words/words.h"

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
    DT_WORD("squared-relu", NULL, NULL, DT_ONLY("false"), .why = "the MLP of a decoder is gelu or swiglu", .alike = true),
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
    DT_WORD("num-experts", NULL, NULL, DT_ONLY("null"), .why = "mixtures of experts cannot be"),
    DT_WORD("multi-latent-attention", NULL, NULL, DT_ONLY("false"), .why = "latent attention cannot be"),
    DT_WORD("mtp-num-layers", NULL, NULL, DT_ONLY("null"), .why = "there is one token to predict here"),
    /* numbers */
    DT_WORD("fp8-format", NULL, NULL, DT_ONLY("null"), .why = "products are bf16 here"),
    DT_WORD("loss-scale", "loss_scaling", NULL),
    /* ranks */
    DT_WORD("nnodes", "job.nodes", NULL),
    DT_WORD("nproc-per-node", "job.gpus_per_node", NULL),
    DT_WORD("tensor-model-parallel-size", "tensor.size", "1"),
    FLAG("sequence-parallel", "tensor.sequence_parallel", "true", "false"),
    DT_WORD("pipeline-model-parallel-size", "pipeline.stages", "1"),
    DT_WORD("num-virtual-stages-per-pipeline-rank", "pipeline.virtual_stages", NULL),
    DT_WORD("context-parallel-size", NULL, "1", DT_ONLY("1"), .why = "a sequence is on one rank here"),
    DT_WORD("expert-model-parallel-size", NULL, "1", DT_ONLY("1"), .why = "mixtures of experts cannot be"),
    DT_WORD("optimizer-cpu-offload", NULL, NULL, DT_ONLY("false"), .why = "the optimizer's state alone is not offloaded here"),
    DT_WORD("cpu-offloading-num-layers", NULL, NULL, DT_ONLY("0"), .why = "activations of some layers alone are not offloaded here"),
    DT_WORD("decoder-first-pipeline-num-layers", NULL, NULL, DT_ONLY("null"), .why = "--set pipeline.split says that"),
    DT_WORD("decoder-last-pipeline-num-layers", NULL, NULL, DT_ONLY("null"), .why = "--set pipeline.split says that"),
    DT_WORD("pipeline-model-parallel-layout", NULL, NULL, DT_ONLY("null"), .why = "--set pipeline.split says that"),
    /* samples */
    DT_WORD("micro-batch-size", "job.micro_batch", NULL),
    DT_WORD("global-batch-size", "job.global_batch", NULL),
    DT_WORD("rampup-batch-size", NULL, NULL, DT_ONLY("null"), .why = "the batch is of one size here", .alike = true),
    /* optimizer */
    DT_WORD("optimizer", "optimizer.name", "adam", .values = DT_VALUES({"adam", "adam"}, {"adam", "adamw"}, {"sgd", "sgd"})),
    DT_WORD("lr", "optimizer.learning_rate", NULL),
    DT_WORD("adam-beta1", "optimizer.beta1", "0.9"),
    DT_WORD("adam-beta2", "optimizer.beta2", "0.999"),
    DT_WORD("adam-eps", "optimizer.epsilon", "1e-8"),
    {0},
};

static const char no_bearing[] =
    "lr- min-lr save load no-save no-load ckpt dist-ckpt use-dist-ckpt async-save data- train- valid- test- split mock-data "
    "num-workers no-mmap no-create-attention-mask tokenizer vocab-file merge-file tiktoken make-vocab-size eval log- "
    "tensorboard wandb timing no-one-logger one-logger exit- profile weight-decay clip-grad init-method seed master- "
    "node-rank rdzv local-rank tee max-restarts distributed- use-mcore-models no-masked-softmax-fusion no-bias- "
    "no-rope-fusion no-gradient-accumulation-fusion cross-entropy- transformer-impl use-flash-attn "
    "attention-softmax-in-fp32 calculate-per-token-loss manual-gc empty-unused-memory initial-loss-scale min-loss-scale "
    "loss-scale-window hysteresis finetune override-opt use-checkpoint decoupled- apply-layernorm-1p overlap-param-gather "
    "max-position-embeddings bf16 kv-channels check-for-nan no-check-for-nan enable-experimental use-cpu-initialization "
    "ddp-average-in-collective deterministic disable-gloo te-rng-tracker reset- eod-mask-loss max-steps max-epochs "
    "accelerator";

/* ---- what is said by several flags ---- */

static bool is_on(const struct dt_translation *t, const char *flag)
{
    return dt_json_is(dt_json_at(t->theirs, flag), "true");
}

/* Take a flag; whether it was given. */
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

/* The table of tokens is padded, so that each tensor rank has as many. */
static void settle_model(struct dt_translation *t)
{
    double hidden = dt_json_number(t->ours, "model.hidden", 0), tensor = dt_json_number(t->ours, "tensor.size", 1);
    double vocabulary = dt_json_number(t->ours, "model.vocab_size", 0), dropout = dt_json_number(t->ours, "model.dropout", 0);
    double multiple = dt_json_number(t->theirs, "make-vocab-size-divisible-by", 128) * tensor;
    bool swiglu = dt_json_is(dt_json_at(t->ours, "model.mlp"), "swiglu");
    if (swiglu && !dt_json_at(t->ours, "model.ffn")) {
        dt_json_put_number(t->ours, "model.ffn", floor(floor(hidden * 8 / 3) / 64) * 64);
        dt_remark(t, DT_REMARK_ASSUMED, "ffn-hidden-size: with swiglu 8/3 of hidden-size in whole 64s: model.ffn %g",
                  dt_json_number(t->ours, "model.ffn", 0));
    }
    if (!take_flag(t, "group-query-attention"))
        dt_json_drop(t->ours, "model.kv_heads");
    bool none = take_flag(t, "disable-bias-linear"), qkv = take_flag(t, "add-qkv-bias");
    put_text(t->ours, "model.bias", none && qkv ? "qkv" : none ? "none" : "all");
    if (vocabulary == 0) {
        dt_remark(t, DT_REMARK_CANNOT, "vocab-size: not said, as the tokenizer has it; 50257 are assumed");
        vocabulary = 50257;
    }
    double padded = ceil(vocabulary / multiple) * multiple;
    if (padded != vocabulary)
        dt_remark(t, DT_REMARK_ASSUMED, "vocab-size: %g, a multiple of %g as make-vocab-size-divisible-by has it: model.vocab_size %g",
                  vocabulary, multiple, padded);
    dt_json_put_number(t->ours, "model.vocab_size", padded);
    double of_attention = dt_json_number(t->theirs, "attention-dropout", 0.1);
    dt_json_drop(t->theirs, "attention-dropout");
    if (of_attention != dropout)
        dt_remark(t, DT_REMARK_CANNOT, "attention-dropout: %g; all dropouts are the same here, %g", of_attention, dropout);
    double width = hidden / dt_json_number(t->ours, "model.heads", 1), channels = dt_json_number(t->theirs, "kv-channels", width);
    if (channels != width)
        dt_remark(t, DT_REMARK_CANNOT, "kv-channels: %g; a head's width is hidden-size / num-attention-heads here, %g", channels, width);
}

static void settle_numbers(struct dt_translation *t)
{
    bool bf16 = take_flag(t, "bf16"), fp16 = take_flag(t, "fp16");
    put_text(t->ours, "model.dtype", bf16 ? "bf16" : fp16 ? "fp16" : "fp32");
    if ((bf16 || fp16) && !take_flag(t, "grad-reduce-in-bf16"))
        dt_remark(t, DT_REMARK_ASSUMED,
                  "gradients are added up in fp32 there, and in %s here: two bytes a parameter fewer, and half of the bytes "
                  "of their reduction",
                  bf16 ? "bf16" : "fp16");
    dt_json_drop(t->theirs, "accumulate-allreduce-grads-in-fp32");
}

static void settle_activation(struct dt_translation *t)
{
    bool selective = take_flag(t, "recompute-activations");
    struct cJSON *granularity = dt_json_take(t->theirs, "recompute-granularity"), *method = dt_json_take(t->theirs, "recompute-method");
    double layers = dt_json_number(t->theirs, "recompute-num-layers", 1);
    dt_json_drop(t->theirs, "recompute-num-layers");
    if (dt_json_is(granularity, "full")) {
        put_text(t->ours, "activation", "checkpoint");
        dt_json_put_number(t->ours, "activation_blocks", layers);
        if (!dt_json_is(method, "uniform"))
            dt_remark(t, DT_REMARK_CANNOT, "recompute-method: %s; all layers are recomputed here", cJSON_GetStringValue(method));
    } else {
        put_text(t->ours, "activation", selective || granularity ? "selective" : "keep");
    }
    dt_json_destroy(granularity);
    dt_json_destroy(method);
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
        dt_remark(t, DT_REMARK_CANNOT, "num-layers: %g are no multiple of the pipeline's %g parts", layers, stages * parts);
    else
        put_split(t, layers, (int)(stages * parts));
}

/* Without overlap all gradients are reduced at once, as in one bucket. */
static void settle_sharding(struct dt_translation *t)
{
    bool optimizer = take_flag(t, "use-distributed-optimizer"), fsdp2 = take_flag(t, "use-torch-fsdp2");
    bool fsdp = take_flag(t, "use-megatron-fsdp"), kept = take_flag(t, "torch-fsdp2-no-reshard-after-forward");
    struct cJSON *strategy = dt_json_take(t->theirs, "data-parallel-sharding-strategy");
    const char *sharding = optimizer ? "optimizer" : "none";
    if (fsdp2 || (fsdp && dt_json_is(strategy, "optim_grads_params")))
        sharding = "parameters";
    else if (fsdp)
        sharding = dt_json_is(strategy, "optim_grads") ? "gradients" : dt_json_is(strategy, "optim") ? "optimizer" : "none";
    dt_json_destroy(strategy);
    put_text(t->ours, "job.sharding", sharding);
    put_text(t->ours, "fsdp.gather", kept ? "step" : "micro_batch");
    double elements = dt_json_number(t->theirs, "ddp-bucket-size", 0),
           bytes = dt_json_is(dt_json_at(t->ours, "model.dtype"), "fp32") ? 4 : 2;
    dt_json_drop(t->theirs, "ddp-bucket-size");
    bool overlap = take_flag(t, "overlap-grad-reduce");
    if (overlap && elements == 0)
        dt_remark(t, DT_REMARK_ASSUMED, "ddp-bucket-size: 40 million elements, the default of " ORIGIN " on up to 40 ranks");
    dt_json_put_number(t->ours, "ddp.bucket_mib", !overlap ? 65536 : (elements > 0 ? elements : 40e6) * bytes / 0x1p20);
}

static void settle(struct dt_translation *t)
{
    settle_model(t);
    settle_numbers(t);
    settle_activation(t);
    settle_pipeline(t);
    settle_sharding(t);
}

/* ---- the reverse ---- */

static void prepare_model(struct dt_translation *t, const struct experiment *e)
{
    struct cJSON *bias = dt_json_take(t->ours, "model.bias");
    put_flag(t, "disable-bias-linear", !dt_json_is(bias, "all"));
    put_flag(t, "add-qkv-bias", dt_json_is(bias, "qkv"));
    if (!dt_json_is(bias, "all") && dt_json_is(dt_json_at(t->ours, "model.norm"), "layer"))
        dt_remark(t, DT_REMARK_ALIKE, "model.bias: layer norms have a bias with Megatron-LM");
    dt_json_destroy(bias);
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
    dt_json_put_number(t->theirs, "attention-dropout", dt_json_number(t->ours, "model.dropout", 0));
    dt_json_put_number(t->theirs, "max-position-embeddings", dt_json_number(t->ours, "model.block_size", 0));
    struct cJSON *dtype = dt_json_take(t->ours, "model.dtype");
    put_flag(t, "bf16", dt_json_is(dtype, "bf16"));
    put_flag(t, "fp16", dt_json_is(dtype, "fp16"));
    dt_json_destroy(dtype);
    if (e->model.dtype != DT_FP16)
        dt_json_drop(t->ours, "loss_scaling");
    if (dt_json_is(dt_json_at(t->ours, "model.rope.scaling"), "llama3") &&
        (dt_json_number(t->ours, "model.rope.low_frequency_factor", 1) != 1 ||
         dt_json_number(t->ours, "model.rope.high_frequency_factor", 4) != 4 ||
         dt_json_number(t->ours, "model.rope.original_length", 8192) != 8192))
        dt_remark(t, DT_REMARK_ALIKE, "model.rope: Megatron-LM's scaling has the factors 1 and 4, and 8192 tokens");
    dt_json_drop(t->ours, "model.rope.low_frequency_factor");
    dt_json_drop(t->ours, "model.rope.high_frequency_factor");
    dt_json_drop(t->ours, "model.rope.original_length");
}

static void prepare_activation(struct dt_translation *t, const struct experiment *e)
{
    switch (e->activation) {
    case ACTIVATION_KEEP: break;
    case ACTIVATION_SELECTIVE: put_text(t->theirs, "recompute-granularity", "selective"); break;
    case ACTIVATION_CHECKPOINT:
        put_text(t->theirs, "recompute-granularity", "full");
        put_text(t->theirs, "recompute-method", "uniform");
        dt_json_put_number(t->theirs, "recompute-num-layers", e->activation_blocks);
        break;
    case ACTIVATION_OFFLOAD:
        dt_remark(t, DT_REMARK_CANNOT, "activation: offload; Megatron-LM offloads those of some layers, and recomputes nothing there");
    }
    dt_json_drop(t->ours, "activation");
    dt_json_drop(t->ours, "activation_blocks");
}

/* The first block of each part but the first, where all parts have as many: "4-8" of 12. */
static bool is_even_split(const struct experiment *e, int parts)
{
    char expected[sizeof e->pipeline.split] = "";
    int blocks = dt_model_blocks(&e->model);
    for (int i = 1; i < parts; i++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%d", i > 1 ? "-" : "", i * blocks / parts);
    return blocks % parts == 0 && strcmp(expected, e->pipeline.split) == 0;
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
        dt_remark(t, DT_REMARK_CANNOT, "model.layers: %d are no multiple of the pipeline's %d parts", blocks, e->strategy.stages * parts);
    else if (!experiment_has_split_points(e))
        dt_remark(t, DT_REMARK_ASSUMED, "pipeline.split: %s; each part has as many layers with Megatron-LM", e->pipeline.split);
    else if (!is_even_split(e, e->strategy.stages * parts))
        dt_remark(t, DT_REMARK_CANNOT, "pipeline.split: %s; each part has as many layers with Megatron-LM", e->pipeline.split);
    if (e->micro_batches > 1)
        dt_remark(t, DT_REMARK_ASSUMED, "micro_batches: the pipeline is not emptied between parts of a step with Megatron-LM");
    dt_json_drop(t->ours, "pipeline.order");
    dt_json_drop(t->ours, "pipeline.split");
}

static void prepare_sharding(struct dt_translation *t, const struct experiment *e)
{
    struct cJSON *sharding = dt_json_take(t->ours, "job.sharding");
    bool gradients = dt_json_is(sharding, "gradients"), parameters = dt_json_is(sharding, "parameters");
    if (parameters || gradients) {
        put_flag(t, "use-megatron-fsdp", true);
        put_text(t->theirs, "data-parallel-sharding-strategy", parameters ? "optim_grads_params" : "optim_grads");
    }
    put_flag(t, "use-distributed-optimizer", dt_json_is(sharding, "optimizer") || parameters || gradients);
    dt_json_destroy(sharding);
    if (dt_json_at(t->ours, "job.shard"))
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: hsdp; --num-distributed-optimizer-instances is not written here");
    if ((parameters || gradients) && e->strategy.has_pipeline)
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: %s; Megatron-FSDP goes without a pipeline here", paradigm_name(e->paradigm));
    double mib = dt_json_number(t->ours, "ddp.bucket_mib", 65536), bytes = e->model.dtype == DT_FP32 ? 4 : 2;
    dt_json_drop(t->ours, "ddp.bucket_mib");
    put_flag(t, "overlap-grad-reduce", mib < 65536);
    if (mib < 65536)
        dt_json_put_number(t->theirs, "ddp-bucket-size", floor(mib * 0x1p20 / bytes));
}

static void prepare(struct dt_translation *t, const struct experiment *e)
{
    prepare_model(t, e);
    prepare_activation(t, e);
    prepare_pipeline(t, e);
    prepare_sharding(t, e);
}

#define FIXED                                                                                                                              \
    "{\"mesh\": {\"order\": \"tensor-data-pipeline\"}, \"gradient_reduction\": \"last\", \"parameter_offload\": false, \"loss\": "         \
    "\"cross_entropy\", \"fsdp\": {\"unit\": \"block\", \"gather\": \"micro_batch\"}}"

const struct framework framework_megatron = {
    .name = "megatron",
    .title = "Megatron-LM",
    .origin = ORIGIN,
    .format = TEXT_FLAGS,
    .marks = (const char *const[]){"num-layers", NULL},
    .fixed = FIXED,
    .space = (const char *const[]){"mesh.order=tensor-data-pipeline", "paradigm=none,ddp,pdp,zero1", "pipeline.order=1f1b,interleaved",
                                   "activation=keep,selective,checkpoint", "parameter_offload=false", NULL},
    .words = words,
    .no_bearing = no_bearing,
    .settle = settle,
    .prepare = prepare,
};

/* ---- YAML: the same words by other names ---- */

/* Leaf `from` of theirs, or of any of their sections, becomes flag `to`; a value becomes the flag's. */
#define RENAMED(from, to, ...) DT_WORD(from, to, NULL, __VA_ARGS__)
#define NOT(from, to) RENAMED(from, to, .values = DT_VALUES({"true", "false"}, {"false", "true"}))

static const struct dt_word bridge_names[] = {
    NOT("add_bias_linear", "disable-bias-linear"),
    NOT("share_embeddings_and_output_weights", "untie-embeddings-and-output-weights"),
    RENAMED("gated_linear_unit", "swiglu"),
    RENAMED("layernorm_epsilon", "norm-epsilon"),
    RENAMED("virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"),
    RENAMED("bucket_size", "ddp-bucket-size"),
    RENAMED("fp8", "fp8-format"),
    RENAMED("num_moe_experts", "num-experts"),
    {0},
};

static const struct dt_word nemo_names[] = {
    RENAMED("devices", "nproc-per-node"),
    RENAMED("num_nodes", "nnodes"),
    RENAMED("precision", "bf16", .values = DT_VALUES({"bf16", "true"}, {"bf16-mixed", "true"}, {"16", "false"}, {"32", "false"})),
    RENAMED("encoder_seq_length", "seq-length"),
    NOT("bias", "disable-bias-linear"),
    NOT("share_embeddings_and_output_weights", "untie-embeddings-and-output-weights"),
    RENAMED("activation", "swiglu", .values = DT_VALUES({"gelu", "false"}, {"fast-swiglu", "true"}, {"swiglu", "true"})),
    RENAMED("normalization", "normalization",
            .values = DT_VALUES({"layernorm", "LayerNorm"}, {"layernorm1p", "LayerNorm"}, {"rmsnorm", "RMSNorm"})),
    RENAMED("layernorm_epsilon", "norm-epsilon"),
    RENAMED("rotary_percentage", "rotary-percent"),
    RENAMED("virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"),
    RENAMED("activations_checkpoint_granularity", "recompute-granularity"),
    RENAMED("activations_checkpoint_method", "recompute-method"),
    RENAMED("activations_checkpoint_num_layers", "recompute-num-layers"),
    RENAMED("distributed_optimizer", "use-distributed-optimizer",
            .values = DT_VALUES({"fused_adam", "false"}, {"distributed_fused_adam", "true"})),
    {0},
};

/* Sections of what is no part of a step. */
static const char other_sections[] = "exp_manager data tokenizer nsys_profile run logger checkpoint sched rng profiling straggler "
                                     "rerun_state_machine ft validation hydra";

/* All leaves of the other sections, a flag each. */
static void flatten(const struct cJSON *tree, const struct dt_word *names, struct cJSON *flags)
{
    for (const struct cJSON *child = tree->child; child; child = child->next) {
        char flag[96];
        if (begins_with_one(child->string, other_sections))
            continue;
        if (cJSON_IsObject(child)) {
            flatten(child, names, flags);
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

static void adapt(struct dt_translation *t, const struct dt_word *names)
{
    struct cJSON *flags = cJSON_CreateObject();
    struct dt_translation inner;
    flatten(t->theirs, names, flags);
    dt_json_destroy(t->theirs);
    t->theirs = flags;
    if (dt_translation_init(&inner, t->origin, flags, NULL) < 0) {
        t->theirs = NULL;
        return;
    }
    dt_words_read(names, &inner);
    for (struct cJSON *child; (child = inner.ours->child);)
        dt_json_put(flags, child->string, dt_json_take(inner.ours, child->string));
    inner.theirs = NULL;
    dt_translation_finish(&inner);
    const struct cJSON *betas = dt_json_at(flags, "betas");
    for (int i = 0; i < 2 && cJSON_GetArrayItem(betas, i); i++)
        dt_json_put(flags, i ? "adam-beta2" : "adam-beta1", cJSON_Duplicate(cJSON_GetArrayItem(betas, i), true));
    dt_json_drop(flags, "betas");
    if (dt_json_at(flags, "num-query-groups"))
        dt_json_put(flags, "group-query-attention", dt_json_truth(true));
}

static void adapt_bridge(struct dt_translation *t)
{
    adapt(t, bridge_names);
}

static void adapt_nemo(struct dt_translation *t)
{
    struct cJSON *optimizer = dt_json_take(t->theirs, "model.optim.name");
    dt_json_drop(t->theirs, "name");
    dt_json_put(t->theirs, "distributed_optimizer", optimizer);
    adapt(t, nemo_names);
}

const struct framework framework_bridge = {
    .name = "megatron-bridge",
    .title = "Megatron-Bridge",
    .origin = ORIGIN,
    .format = TEXT_YAML,
    .marks = (const char *const[]){"model", "train", NULL},
    .fixed = FIXED,
    .words = words,
    .no_bearing = no_bearing,
    .settle = settle,
    .adapt = adapt_bridge,
};

const struct framework framework_nemo = {
    .name = "nemo",
    .title = "NeMo",
    .origin = ORIGIN,
    .format = TEXT_YAML,
    .marks = (const char *const[]){"trainer", "model", NULL},
    .fixed = FIXED,
    .words = words,
    .no_bearing = no_bearing,
    .settle = settle,
    .adapt = adapt_nemo,
};

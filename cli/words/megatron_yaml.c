/* The YAML of what is built on Megatron-LM: its words by other names. Megatron-Bridge's are those of
 * 0.6.0 (training/config.py, models/gpt_provider.py, and the dataclasses of Megatron-LM that they
 * build on), NeMo's those of 1.23.0
 * (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml, megatron_base_model.py). */
#include "cli/words/megatron.h"

#include "lib/base/text.h"

#include <cjson/cJSON.h>
#include <string.h>

/* Beginnings of fields of Megatron-Bridge's recorded configs that matter to neither time nor memory.
 * Those of Megatron-LM are added to them. */
#define BRIDGE_NO_BEARING                                                                                                                  \
    " fsdp-all-gather gradient-reduce-div align- flight-recorder use-gloo activation-offload delta-offload clone-scatter cuda-graph- "     \
    "deallocate- dsa- expert-gtp inference- kitchen- linear- mamba- mlp-chunks mup- num-layers-at- parallel-output perform- qk-clip- "     \
    "scatter-embedding softmax-type use-mamba wgrad-deferral adaptive-muon lion- muon- soap- optimizer-offload pin-cpu "                   \
    "store-param check-optimizer glu-linear rope-scaling-factor window-attn hf-model mixed-precision autocast params-dtype pipeline-dtype"

#define NEMO_NO_BEARING                                                                                                                    \
    " restore-from fsdp- use-scaled-init pre-process post-process persist- normalize-attention native-amp grad-div-ar bias- "              \
    "get-attention-mask apex- gradient-as-bucket reduce-amax gc-interval use-emha contiguous- param-sync-dtype "                           \
    "grad-allreduce-chunk async-grad-allreduce megatron-amp mcore-gpt apply-query-key-layer-scaling apply-rope-fusion "                    \
    "gradient-accumulation-fusion"

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
    DT_WORD("overlap_p2p_comm", NULL, NULL, DT_ONLY("true"), .why = "a pipeline's messages go beside its passes here"),
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
    RENAMED("overlap_param_sync", "overlap-param-gather"),
    {0},
};

enum { LIST_BYTES = 2000 };

/* The first two lists name the sections of Bridge and of NeMo that describe a step; the last one
 * names subsections that do not. Other sections (who runs the job, where data and checkpoints are,
 * targets of YAML's anchors) do not change a step, or no framework reads them. */
static const char bridge_sections[] = "model train optimizer ddp dist comm_overlap mixed_precision peft";
static const char nemo_sections[] = "model devices num_nodes";
static const char other_sections[] = "data tokenizer nsys_profile megatron_timer_kwargs sched";

/* Make a flag of each leaf of the sections that describe a step. `list` gets the names of the
 * sections left out. */
static void flatten(const struct cJSON *tree, const struct dt_word *names, struct cJSON *flags, const char *sections, char list[LIST_BYTES])
{
    for (const struct cJSON *child = tree->child; child; child = child->next) {
        char flag[96];
        bool other =
            sections ? !dt_is_one_of(child->string, sections) : cJSON_IsObject(child) && dt_is_one_of(child->string, other_sections);
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
    bool padded = megatron_is_on(t, "model.should_pad_vocab");
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
        dt_json_put(t->theirs, "model.fp8", dt_json_text("hybrid"));
        dt_json_put(t->theirs, "model.fp8_recipe", dt_json_text(recipe));
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
    bool alone = megatron_is_on(t, "model.megatron_amp_O2") && dt_json_number(t->theirs, "model.pipeline_model_parallel_size", 1) == 1 &&
                 !megatron_is_on(t, "model.sequence_parallel") && !megatron_is_on(t, "model.gradient_accumulation_fusion") &&
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
        if (rows[i].flag && !megatron_is_on(t, "model.megatron_amp_O2"))
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
    if (cJSON_IsObject(dt_json_at(trainer, "strategy")))
        dt_remark(t, DT_REMARK_CANNOT, "trainer.strategy: a recipe of NeMo 2, whose parallelism, batch and model are not read here");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        dt_json_put(t->theirs, places[i], dt_json_take(trainer, places[i]));
    dt_json_put_number(t->theirs, "model.clip_grad", dt_json_number(trainer, "gradient_clip_val", 0));
    dt_remark(t, DT_REMARK_LEFT, "trainer: only devices, num_nodes, precision and gradient_clip_val are part of a step");
    char number[16];
    snprintf(number, sizeof number, "%g", precision ? precision->valuedouble : 32);
    adapt_nemo_precision(t, cJSON_IsString(precision) ? precision->valuestring : number);
    if (!megatron_is_on(t, "model.transformer_engine"))
        dt_json_put(t->theirs, "model.attention_backend",
                    dt_json_text(megatron_is_on(t, "model.use_flash_attention") ? "flash" : "unfused"));
    if (!megatron_is_on(t, "model.cpu_offloading"))
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
    .fixed = MEGATRON_FIXED,
    .words = megatron_words,
    .no_bearing = MEGATRON_NO_BEARING BRIDGE_NO_BEARING,
    .settle = megatron_settle,
    .adapt = adapt_bridge,
};

const struct framework framework_nemo = {
    .name = "nemo",
    .title = "NeMo",
    .origin = "NeMo 1.23.0",
    .format = TEXT_YAML,
    .marks = (const char *const[]){"trainer model.micro_batch_size", NULL}, /* other projects have a trainer and a model, too */
    .fixed = MEGATRON_FIXED,
    .words = megatron_words,
    .no_bearing = MEGATRON_NO_BEARING NEMO_NO_BEARING,
    .settle = megatron_settle,
    .adapt = adapt_nemo,
};

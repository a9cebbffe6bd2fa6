/* Arguments of Hugging Face's Trainer, as YAML, JSON, or the command line of a script that reads
 * them, and axolotl's YAML, which becomes such arguments. Names and defaults are those of
 * transformers 4.57 (training_args.py, trainer_utils.py; what a string of fsdp means is in
 * training_args.py, __post_init__), of TRL and LLaMA-Factory for the length of a sample, and of
 * axolotl 0.13 (utils/schemas, utils/config/__init__.py).
 *
 * What runs below the Trainer is DeepSpeed where the arguments name its JSON, and accelerate
 * otherwise: their words are read after those of the arguments. */
#include "cli/words/words.h"

#include "lib/config/json.h"
#include "schedules/config/families.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SCRIPT "the checkpoint that it names"
#define ALL_TRAINED "all parameters are trained here, in the model's type, and no adapters"
#define MOMENTS "Adam's moments are fp32 here"
#define SIZE(name) "parallelism_config.parallelism_config_" name "_size"

enum { TEXT_BYTES = 256 };

static const struct dt_word words[] = {
    DT_WORD("nnodes", "job.nodes", NULL),
    DT_WORD("num_nodes", "job.nodes", NULL),    /* of the launcher deepspeed */
    DT_WORD("num_machines", "job.nodes", NULL), /* of accelerate */
    DT_WORD("num_processes", "job.world", NULL),
    DT_WORD("nproc_per_node", "job.gpus_per_node", NULL),
    DT_WORD("num_gpus", "job.gpus_per_node", NULL),
    DT_WORD("per_device_train_batch_size", "job.micro_batch", "8"),
    DT_WORD("gradient_accumulation_steps", "job.parts", "1"),
    DT_WORD("max_seq_length", "model.block_size", NULL), /* of a sample: TRL, ... */
    DT_WORD("max_length", "model.block_size", NULL),
    DT_WORD("model_max_length", "model.block_size", NULL), /* FastChat, Alpaca */
    DT_WORD("cutoff_len", "model.block_size", NULL),       /* LLaMA-Factory */
    DT_WORD("block_size", "model.block_size", NULL),       /* run_clm.py */
    DT_WORD("gradient_checkpointing", "activation", "false", .values = DT_VALUES({"false", "keep"}, {"true", "checkpoint"}),
            .why = "blocks are recomputed, or nothing"),
    DT_WORD("optim", "optimizer.name", "adamw_torch_fused",
            .values = DT_VALUES({"adamw_torch_fused", "adam"}, {"adamw_torch", "adam"}, {"adamw_hf", "adam"}, {"adamw_apex_fused", "adam"},
                                {"paged_adamw_32bit", "adam"}, {"sgd", "sgd"}),
            .why = "optimizers are AdamW and SGD here, and " MOMENTS),
    DT_WORD("learning_rate", "optimizer.learning_rate", NULL),
    DT_WORD("adam_beta1", "optimizer.beta1", "0.9"),
    DT_WORD("adam_beta2", "optimizer.beta2", "0.999"),
    DT_WORD("adam_epsilon", "optimizer.epsilon", "1e-8"),
    DT_WORD("max_grad_norm", "optimizer.clip_norm", "1"),
    DT_WORD("ddp_bucket_cap_mb", NULL, NULL, DT_ONLY("25"), .why = "buckets are those of DDP's default; --set ddp.bucket_mib says another"),
    DT_WORD("attn_implementation", NULL, NULL,
            .values = DT_VALUES({"sdpa", NULL}, {"flash_attention_2", NULL}, {"flash_attention_3", NULL}, {"fa2", NULL}, {"auto", NULL}),
            .why = "attention is a fused kernel here; --set model.attention=unfused says another"),
    DT_WORD("use_peft", NULL, NULL, DT_ONLY("false"), .why = ALL_TRAINED),
    DT_WORD("finetuning_type", NULL, NULL, DT_ONLY("full"), .why = ALL_TRAINED),
    DT_WORD("adapter", NULL, NULL, DT_ONLY("null"), .why = ALL_TRAINED),
    DT_WORD("load_in_8bit", NULL, NULL, DT_ONLY("false"), .why = ALL_TRAINED),
    DT_WORD("load_in_4bit", NULL, NULL, DT_ONLY("false"), .why = ALL_TRAINED),
    DT_WORD("stage", NULL, NULL, .values = DT_VALUES({"sft", NULL}, {"pt", NULL}), .why = "one model is trained here, on one loss"),
    {0},
};

/* Of the files below, their own lists have more. */
#define NO_BEARING                                                                                                                         \
    "output_dir overwrite_ do_ eval per_device_eval lr_scheduler warmup num_train_epochs max_steps logging_ log_ save_ seed data_ "        \
    "dataloader_ dataset remove_unused report_to run_name push_to_hub hub_ ddp_timeout ddp_find_unused ddp_broadcast group_by_length "     \
    "metric_ load_best greater_is label_ disable_tqdm resume weight_decay include_ auto_find full_determinism "                            \
    "gradient_checkpointing_kwargs template max_samples preprocessing_ plot_loss trust_remote model_revision tokenizer "                   \
    "use_fast_tokenizer "                                                                                                                  \
    "cache_dir train_file validation_file val_ lazy_preprocess prediction_loss torch_compile torch_empty_cache flash_attn lora_ bnb_4bit " \
    "master_ node_rank local_rank accelerator_config length_column average_tokens past_index half_precision fp16_ project trackio "        \
    "skip_memory fsdp_config.fsdp_limit_all fsdp_config.fsdp_min_num fsdp_config.fsdp_xla"

/* ---- into the form of the words ---- */

/* Keys of a command line have minus signs, and values are Python's: True, False, None. */
static void adapt_python(struct dt_translation *t)
{
    struct cJSON *fresh = cJSON_CreateObject();
    for (struct cJSON *child; fresh && (child = cJSON_DetachItemFromArray(t->theirs, 0));) {
        char key[TEXT_BYTES];
        snprintf(key, sizeof key, "%s", child->string);
        for (char *c = key; *c; c++)
            *c = *c == '-' ? '_' : *c;
        bool yes = dt_json_is(child, "True"), no = dt_json_is(child, "False");
        bool none = dt_json_is(child, "None");
        if (yes || no || none)
            dt_json_destroy(child);
        dt_json_put(fresh, key, none ? NULL : yes || no ? dt_json_truth(yes) : child);
    }
    if (!fresh)
        return;
    dt_json_destroy(t->theirs);
    t->theirs = fresh;
}

static void rename_key(struct cJSON *tree, const char *from, const char *to)
{
    struct cJSON *value = dt_json_take(tree, from);
    if (value)
        dt_json_put(tree, to, value);
}

/* The members of the object at `path` become members of the tree, unless it has them, or they are
 * "auto": what the tree says. */
static void lift(struct cJSON *tree, const char *path)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *inner = dt_json_take(tree, path);
    for (struct cJSON *child; cJSON_IsObject(inner) && (child = cJSON_DetachItemFromArray(inner, 0));) {
        char key[TEXT_BYTES];
        snprintf(key, sizeof key, "%s", child->string);
        if (dt_json_at(tree, key) || dt_json_is(child, "auto"))
            dt_json_destroy(child);
        else
            dt_json_put(tree, key, child);
    }
}

/* The settings of fsdp_config as accelerate has them: "backward_prefetch": "backward_pre" as
 * fsdp_backward_prefetch: BACKWARD_PRE. */
static void adapt_fsdp_config(struct cJSON *theirs)
{
    static const char *const upper[] = {"fsdp_config.fsdp_backward_prefetch", "fsdp_config.fsdp_sharding_strategy",
                                        "fsdp_config.fsdp_auto_wrap_policy"};
    DT_DESTROYED(dt_json_destroy) struct cJSON *config = dt_json_take(theirs, "fsdp_config");
    for (struct cJSON *child; cJSON_IsObject(config) && (child = cJSON_DetachItemFromArray(config, 0));) {
        char path[TEXT_BYTES];
        snprintf(path, sizeof path, "fsdp_config.%s%s", strncmp(child->string, "fsdp_", 5) == 0 ? "" : "fsdp_", child->string);
        dt_json_put(theirs, path, child);
    }
    for (size_t i = 0; i < sizeof upper / sizeof *upper; i++)
        for (char *c = cJSON_GetStringValue(dt_json_at(theirs, upper[i])); c && *c; c++)
            *c = (char)toupper((unsigned char)*c);
}

/* Kernels of Liger (axolotl has a key for each), which fuse norms, SwiGLU, rope, and the loss with
 * the head. */
static void adapt_liger(struct dt_translation *t)
{
    bool on = false;
    for (struct cJSON *child = t->theirs->child, *next; child; child = next) {
        next = child->next;
        if (strncmp(child->string, "liger_", 6) != 0 && strcmp(child->string, "use_liger_kernel") != 0 &&
            strcmp(child->string, "enable_liger_kernel") != 0)
            continue;
        on |= cJSON_IsTrue(child);
        cJSON_Delete(cJSON_DetachItemViaPointer(t->theirs, child));
    }
    if (on)
        dt_remark(t, DT_REMARK_ASSUMED,
                  "kernels of Liger: norms, SwiGLU and rope are one kernel each there, and the loss is in chunks, without logits of "
                  "a whole batch: less time and memory than is predicted");
}

/* The launcher's flags, which are settings of fsdp_config. */
static void take_fsdp_flags(struct cJSON *theirs)
{
    for (struct cJSON *child = theirs->child, *next; child; child = next) {
        char path[TEXT_BYTES];
        next = child->next;
        if (strncmp(child->string, "fsdp_", 5) != 0 || strcmp(child->string, "fsdp_config") == 0)
            continue;
        snprintf(path, sizeof path, "fsdp_config.%s", child->string);
        dt_json_put(theirs, path, cJSON_DetachItemViaPointer(theirs, child));
    }
}

/* One word of fsdp: "full_shard", "offload", "auto_wrap". */
static void take_fsdp_word(struct cJSON *theirs, const char *word)
{
    char strategy[TEXT_BYTES];
    snprintf(strategy, sizeof strategy, "%s", word);
    for (char *c = strategy; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    if (strcmp(word, "offload") == 0)
        dt_json_put(theirs, "fsdp_config.fsdp_offload_params", dt_json_truth(true));
    else if (strcmp(word, "auto_wrap") == 0 && dt_json_number(theirs, "fsdp_config.fsdp_min_num_params", 0) == 0)
        dt_json_put(theirs, "fsdp_config.fsdp_auto_wrap_policy", dt_json_text("TRANSFORMER_BASED_WRAP"));
    else if (strcmp(word, "auto_wrap") == 0)
        dt_json_put(theirs, "fsdp_config.fsdp_auto_wrap_policy", dt_json_text("SIZE_BASED_WRAP"));
    else if (!dt_json_at(theirs, "fsdp_config.fsdp_sharding_strategy"))
        dt_json_put(theirs, "fsdp_config.fsdp_sharding_strategy", dt_json_text(strategy));
}

/* fsdp: "full_shard auto_wrap", or a list of such words; since transformers 5 true. Without it
 * fsdp_config has no effect, except accelerate's own (distributed_type) and axolotl's
 * (fsdp_version). */
static void adapt_fsdp(struct cJSON *theirs)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *fsdp = dt_json_take(theirs, "fsdp");
    const char *text = cJSON_GetStringValue(fsdp);
    bool on = (text && *text) || cJSON_GetArraySize(fsdp) > 0 || cJSON_IsTrue(fsdp);
    DT_DESTROYED(dt_json_destroy) struct cJSON *use = dt_json_take(theirs, "use_fsdp");
    if (dt_json_is(use, "true"))
        dt_json_put(theirs, "distributed_type", dt_json_text("FSDP"));
    take_fsdp_flags(theirs);
    adapt_fsdp_config(theirs);
    if (!on && !dt_json_is(dt_json_at(theirs, "distributed_type"), "FSDP") && !dt_json_at(theirs, "fsdp_config.fsdp_version"))
        dt_json_drop(theirs, "fsdp_config");
    for (const char *word = text; on && word && *word; word += strspn(word, " ,")) {
        char one[TEXT_BYTES];
        size_t bytes = strcspn(word, " ,");
        snprintf(one, sizeof one, "%.*s", (int)bytes, word);
        take_fsdp_word(theirs, one);
        word += bytes;
    }
    for (const struct cJSON *word = cJSON_IsArray(fsdp) ? fsdp->child : NULL; word; word = word->next)
        if (cJSON_IsString(word))
            take_fsdp_word(theirs, word->valuestring);
    if (cJSON_IsTrue(fsdp)) {
        take_fsdp_word(theirs, "full_shard");
        take_fsdp_word(theirs, "auto_wrap");
    }
}

/* accelerate's section of DeepSpeed, or its launcher's flags, in DeepSpeed's own words. */
static void adapt_deepspeed_config(struct cJSON *theirs)
{
    static const char *const names[][2] = {
        {"deepspeed_config.zero_stage", "deepspeed.zero_optimization.stage"},
        {"deepspeed_config.offload_optimizer_device", "deepspeed.zero_optimization.offload_optimizer.device"},
        {"deepspeed_config.offload_param_device", "deepspeed.zero_optimization.offload_param.device"},
        {"deepspeed_config.gradient_clipping", "deepspeed.gradient_clipping"}};
    rename_key(theirs, "deepspeed_config_file", "deepspeed");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        rename_key(theirs, names[i][0] + strlen("deepspeed_config."), names[i][0]); /* a flag of the launcher */
        rename_key(theirs, names[i][0], names[i][1]);
    }
    dt_json_drop(theirs, "deepspeed_config.gradient_accumulation_steps deepspeed_config.zero3_init_flag "
                         "deepspeed_config.zero3_save_16bit_model deepspeed_config.deepspeed_multinode_launcher use_deepspeed multi_gpu");
}

/* bf16 and fp16 are the arguments' own, and sections of DeepSpeed's JSON, where "auto" is what the
 * arguments say. */
static void adapt_numbers(struct dt_translation *t)
{
    static const char *const types[] = {"bf16", "fp16"};
    bool deepspeed = cJSON_IsObject(dt_json_at(t->theirs, "deepspeed"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char enabled[TEXT_BYTES];
        DT_DESTROYED(dt_json_destroy) struct cJSON *said = dt_json_take(t->theirs, types[i]);
        bool on = dt_json_is(said, "true") || dt_json_is(dt_json_at(t->theirs, "mixed_precision"), types[i]);
        snprintf(enabled, sizeof enabled, "deepspeed.%s.enabled", types[i]);
        if (said)
            dt_remark(t, DT_REMARK_READ, "%s: %s", types[i], on ? "true" : "false");
        const struct cJSON *section = dt_json_at(t->theirs, enabled);
        if (deepspeed && (section ? dt_json_is(section, "auto") : on))
            dt_json_put(t->theirs, enabled, dt_json_truth(on));
        if (!deepspeed && on)
            dt_json_put(t->theirs, "mixed_precision", dt_json_text(types[i]));
    }
}

static void adapt(struct dt_translation *t)
{
    adapt_python(t);
    adapt_liger(t);
    lift(t->theirs, "config_file"); /* accelerate's, which launches the script */
    adapt_fsdp(t->theirs);
    adapt_deepspeed_config(t->theirs);
    adapt_numbers(t);
    lift(t->theirs, "deepspeed");
    rename_key(t->theirs, "dtype", "torch_dtype");
}

/* axolotl's words for the arguments. */
static void adapt_axolotl(struct dt_translation *t)
{
    static const char *const names[][2] = {{"base_model", "model_name_or_path"},
                                           {"micro_batch_size", "per_device_train_batch_size"},
                                           {"sequence_len", "max_seq_length"},
                                           {"optimizer", "optim"},
                                           {"sample_packing", "packing"},
                                           {"tensor_parallel_size", SIZE("tp")},
                                           {"context_parallel_size", SIZE("cp")},
                                           {"dp_shard_size", SIZE("dp_shard")},
                                           {"dp_replicate_size", SIZE("dp_replicate")},
                                           {"bfloat16", "torch_dtype"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rename_key(t->theirs, names[i][0], names[i][1]);
    static const char *const types[] = {"bf16", "fp16", "float16", "float32", "torch_dtype"};
    bool is_said = false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        is_said |= dt_json_at(t->theirs, types[i]) != NULL;
    if (!is_said) {
        dt_json_put(t->theirs, "bf16", dt_json_text("auto"));
        dt_remark(t, DT_REMARK_ASSUMED, "bf16: auto, the default of axolotl 0.13");
    }
    const struct cJSON *bf16 = dt_json_at(t->theirs, "bf16");
    if (dt_json_is(bf16, "auto") || dt_json_is(bf16, "full"))
        dt_json_put(t->theirs, "bf16", dt_json_truth(true));
    if (dt_json_is(dt_json_at(t->theirs, "bf16"), "true"))
        dt_json_put(t->theirs, "torch_dtype", dt_json_text("bfloat16")); /* it loads the weights so */
    adapt(t);
}

/* ---- what words alone do not say ---- */

static void settle_model(struct dt_translation *t)
{
    static const char *const keys[] = {"model_name_or_path", "model_id"};
    const struct dt_model_family *family;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        DT_DESTROYED(dt_json_destroy) struct cJSON *name = dt_json_take(t->theirs, keys[i]);
        const char *text = cJSON_GetStringValue(name);
        const struct dt_model_preset *preset = text ? model_find_abroad(text, &family) : NULL;
        if (preset)
            dt_json_put(t->ours, "model.preset", dt_json_text(preset->name));
        if (preset)
            dt_remark(t, DT_REMARK_READ, "%s: %s: model.preset %s", keys[i], text, preset->name);
    }
    dt_json_drop(t->theirs, "model_type");
    if (!dt_json_at(t->ours, "model.block_size"))
        dt_remark(t, DT_REMARK_ASSUMED, "model.block_size: the longest sample of the model; the file does not say how long samples are");
    bool packed = dt_json_is(dt_json_at(t->theirs, "packing"), "true") || dt_json_is(dt_json_at(t->theirs, "neat_packing"), "true") ||
                  dt_json_is(dt_json_at(t->theirs, "pad_to_sequence_len"), "true");
    if (!packed)
        dt_remark(t, DT_REMARK_ASSUMED, "each sample has all the tokens that it may have; shorter ones that are not packed take less");
    dt_json_drop(t->theirs, "packing neat_packing pad_to_sequence_len pad_to_max_length");
}

/* Weights that are loaded in 16 bits stay so without FSDP and DeepSpeed, which make fp32 ones of
 * them. */
static void settle_weights(struct dt_translation *t, bool whole)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *dtype = dt_json_take(t->theirs, "torch_dtype");
    bool is_bf16 = dt_json_is(dtype, "bfloat16") || dt_json_is(dtype, "bf16") || dt_json_is(dtype, "true");
    if (!whole || !is_bf16)
        return;
    dt_json_put(t->theirs, "mixed_precision", dt_json_text("bf16"));
    dt_json_put(t->ours, "optimizer.master_weights", dt_json_truth(false));
    dt_remark(t, DT_REMARK_ASSUMED, "weights are loaded in bf16; Adam's moments are bf16 there, and fp32 here: 4 bytes a parameter more");
}

/* Numbers of ranks, as accelerate's file gives them. */
static void settle_ranks(struct dt_translation *t)
{
    double nodes = dt_json_number(t->ours, "job.nodes", 0), per_node = dt_json_number(t->ours, "job.gpus_per_node", 0);
    if (per_node > 0 && !dt_json_at(t->ours, "job.world"))
        dt_json_put_number(t->ours, "job.world", per_node * (nodes > 0 ? nodes : 1));
    if (nodes == 0 && strstr(dt_json_text_at(t->theirs, "fsdp_config.fsdp_sharding_strategy"), "HYBRID_SHARD"))
        dt_remark(t, DT_REMARK_CANNOT,
                  "fsdp: hybrid_shard; the file does not say how many machines: --set paradigm=hsdp --set hsdp.shard_size=N");
}

/* Products of fp32 in TF32 are faster. */
static void settle_tf32(struct dt_translation *t)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *tf32 = dt_json_take(t->theirs, "tf32");
    if (dt_json_is(tf32, "true") && dt_json_is(dt_json_at(t->ours, "model.dtype"), "fp32"))
        dt_remark(t, DT_REMARK_CANNOT, "tf32: true; products of fp32 are in fp32 here");
}

static void settle(struct dt_translation *t)
{
    const char *origin = t->origin;
    bool deepspeed = dt_json_at(t->theirs, "zero_optimization");
    const struct framework *below = deepspeed ? &framework_deepspeed : &framework_accelerate;
    bool whole = !deepspeed && !dt_json_at(t->theirs, "fsdp_config");
    settle_model(t);
    settle_weights(t, whole);
    settle_ranks(t);
    if (!dt_json_at(t->ours, "optimizer.name")) /* one that dtbench has not: said already */
        dt_json_put(t->ours, "optimizer.name", dt_json_text("adam"));
    if (deepspeed)
        dt_json_drop(t->theirs, "distributed_type mixed_precision optimizer.params.lr train_batch_size");
    t->origin = below->origin;
    if (below->adapt)
        below->adapt(t);
    dt_words_read(below->words, t);
    below->settle(t);
    t->origin = origin;
    settle_tf32(t);
    if (whole && dt_json_at(t->ours, "optimizer.master_weights"))
        dt_json_drop(t->ours, "gradient_dtype reduce_dtype");
}

const struct framework framework_trainer = {
    .name = "trainer",
    .title = "Hugging Face's Trainer",
    .origin = "transformers 4.57",
    .format = TEXT_YAML,
    .marks = (const char *const[]){"per_device_train_batch_size", "per-device-train-batch-size", NULL},
    .fixed = "{" FIXED_IN_ALL("") ", \"ddp\": {\"overlap\": true}}",
    .words = words,
    .no_bearing = NO_BEARING,
    .below = (const struct framework *const[]){&framework_accelerate, &framework_deepspeed, NULL},
    .files = "deepspeed fsdp_config config-file deepspeed-config-file",
    .without_model = SCRIPT,
    .settle = settle,
    .adapt = adapt,
};

const struct framework framework_axolotl = {
    .name = "axolotl",
    .title = "axolotl",
    .origin = "axolotl 0.13 and transformers 4.57",
    .format = TEXT_YAML,
    .marks = (const char *const[]){"base_model micro_batch_size", NULL},
    .fixed = "{" FIXED_IN_ALL("") ", \"ddp\": {\"overlap\": true}}",
    .words = words,
    .no_bearing =
        NO_BEARING " chat_template special_tokens wandb_ strict plugins flash_attention sdp_attention xformers_ attention "
                   "flex_ cosine_ train_on_inputs early_stopping debug num_epochs tokens saves_per_epoch evals_per_epoch rl_beta shuffle_",
    .below = (const struct framework *const[]){&framework_accelerate, &framework_deepspeed, NULL},
    .files = "deepspeed",
    .without_model = SCRIPT,
    .settle = settle,
    .adapt = adapt_axolotl,
};

/* torchtune's YAML of full fine-tuning, distributed or on one GPU. Names and defaults are those of
 * torchtune 0.6 (recipes/full_finetune_distributed.py, training/_distributed.py). */
#include "cli/words/words.h"

#include "lib/config/json.h"
#include "schedules/config/families.h"

#include <cjson/cJSON.h>
#include <string.h>

#define ORIGIN "torchtune 0.6"

static const struct dt_word words[] = {
    DT_WORD("tokenizer.max_seq_len", "model.block_size", NULL),
    DT_WORD("dtype", "model.dtype", NULL, .values = DT_VALUES({"bf16", "bf16"}, {"fp32", "fp32"}),
            .why = "recipes compute in bf16 or fp32"),
    DT_WORD("batch_size", "job.micro_batch", NULL),
    DT_WORD("gradient_accumulation_steps", "job.parts", "1"),
    DT_WORD("enable_activation_checkpointing", "activation", "false", .values = DT_VALUES({"false", "keep"}, {"true", "checkpoint"})),
    DT_WORD("enable_activation_offloading", NULL, NULL, DT_ONLY("false"),
            .why = "what recomputed blocks keep stays on the GPU here; --set activation=offload keeps all in host memory"),
    DT_WORD("ac_mode", NULL, NULL, DT_ONLY("null"), .why = "--set activation_every says which blocks are recomputed"),
    DT_WORD("fsdp_cpu_offload", "parameter_offload", "false"),
    DT_WORD("fsdp_reshard_after_forward", "job.sharding", "true", .values = DT_VALUES({"true", "parameters"}, {"false", "gradients"})),
    DT_WORD("tensor_parallel_dim", "tensor.size", "1"),
    DT_WORD("context_parallel_dim", "context.size", "1"),
    DT_WORD("optimizer.lr", "optimizer.learning_rate", NULL),
    DT_WORD("optimizer.eps", "optimizer.epsilon", NULL),
    DT_WORD("optimizer_in_bwd", NULL, NULL, DT_ONLY("false"),
            .why = "the update is after the backward pass here, which keeps all gradients"),
    DT_WORD("clip_grad_norm", "optimizer.clip_norm", "0"),
    DT_WORD("fp8_recipe_name", "fp8.recipe", NULL, .values = DT_VALUES({"tensorwise", "tensorwise"}, {"rowwise", "rowwise"}),
            .why = "recipes are tensorwise and rowwise here"),
    {0},
};

static const char no_bearing[] =
    "tokenizer. dataset checkpointer. seed shuffle epochs max_steps resume_ device metric_logger. output_dir log_ profiler. compile "
    "memory_efficient_fsdp custom_sharded lr_scheduler. loss. optimizer. optimizer_in_bwd num_warmup enable_async_checkpointing "
    "save_ cudnn_ run_val batch_size_val tensor_parallel_plan. keep_last val_ model. ";

/* "torchtune.models.llama3_1.llama3_1_8b" */
static void settle_model(struct dt_translation *t)
{
    const struct dt_model_family *family;
    const char *component = dt_json_text_at(t->theirs, "model._component_"), *dot = strrchr(component, '.');
    const char *name = dot ? dot + 1 : component;
    const struct dt_model_preset *preset = model_find_abroad(name, &family);
    if (preset) {
        dt_json_put(t->ours, "model.preset", dt_json_text(preset->name));
        dt_remark(t, DT_REMARK_READ, "model._component_: %s: model.preset %s", name, preset->name);
    }
    if (strncmp(name, "lora_", 5) == 0 || strncmp(name, "qlora_", 6) == 0)
        dt_remark(t, DT_REMARK_CANNOT, "model._component_: %s; all parameters are trained here, and no adapters", name);
    if (!dt_json_at(t->ours, "model.block_size"))
        dt_remark(t, DT_REMARK_ASSUMED, "model.block_size: the longest sample of the model; tokenizer.max_seq_len is not given");
    if (!dt_json_is(dt_json_at(t->theirs, "dataset.packed"), "true"))
        dt_remark(t, DT_REMARK_ASSUMED, "each sample has all the tokens that it may have; shorter ones that are not packed take less");
}

/* "torch.optim.AdamW" */
static void settle_optimizer(struct dt_translation *t)
{
    const char *component = dt_json_text_at(t->theirs, "optimizer._component_");
    bool sgd = strcmp(component, "torch.optim.SGD") == 0;
    if (!sgd && strcmp(component, "torch.optim.AdamW") != 0 && strcmp(component, "torch.optim.Adam") != 0)
        dt_remark(t, DT_REMARK_CANNOT, "optimizer._component_: %s; optimizers are torch's AdamW, Adam and SGD here, and moments are fp32",
                  *component ? component : "not given");
    dt_json_put(t->ours, "optimizer.name", dt_json_text(sgd ? "sgd" : "adam"));
    if (strstr(dt_json_text_at(t->theirs, "loss._component_"), "Chunked") ||
        strstr(dt_json_text_at(t->theirs, "loss._component_"), "Linear"))
        dt_remark(t, DT_REMARK_ASSUMED, "loss: in chunks there, and of a whole micro-batch at once here: more memory");
}

/* Weights, gradients and Adam's moments have the type of products, and gradients travel in it. */
static void settle_numbers(struct dt_translation *t)
{
    if (!dt_json_is(dt_json_at(t->ours, "model.dtype"), "bf16"))
        return;
    dt_json_put(t->ours, "optimizer.master_weights", dt_json_truth(false));
    dt_remark(t, DT_REMARK_ASSUMED, "dtype: bf16; Adam's moments are bf16 there, and fp32 here: 4 bytes a parameter more");
}

static void settle_sharding(struct dt_translation *t)
{
    double replicas = dt_json_number(t->theirs, "data_parallel_replicate_dim", 1),
           shard = dt_json_number(t->theirs, "data_parallel_shard_dim", -1);
    if (shard > 0)
        dt_json_put_number(t->ours, "job.data", replicas * shard);
    if (shard > 0)
        dt_json_put_number(t->ours, "job.shard", shard);
    else if (replicas > 1)
        dt_remark(t, DT_REMARK_CANNOT,
                  "data_parallel_replicate_dim: %g; give data_parallel_shard_dim, too: it follows from the number of GPUs", replicas);
    if (dt_json_number(t->ours, "context.size", 1) > 1)
        dt_json_put(t->ours, "context.comm_type", dt_json_text(context_kind_name(DT_CONTEXT_ALL_GATHER)));
    dt_json_drop(t->theirs, "data_parallel_replicate_dim data_parallel_shard_dim");
}

static void settle(struct dt_translation *t)
{
    bool fp8 = dt_json_is(dt_json_at(t->theirs, "enable_fp8_training"), "true");
    settle_model(t);
    settle_optimizer(t);
    settle_numbers(t);
    settle_sharding(t);
    if (!fp8)
        dt_json_drop(t->ours, "fp8");
    else if (!dt_json_at(t->ours, "fp8.recipe"))
        dt_json_put(t->ours, "fp8.recipe", dt_json_text("tensorwise"));
    dt_json_drop(t->theirs, "enable_fp8_training");
}

const struct framework framework_torchtune = {
    .name = "torchtune",
    .title = "torchtune",
    .origin = ORIGIN,
    .format = TEXT_YAML,
    .marks = (const char *const[]){"model._component_", NULL},
    .fixed = "{\"gradient_reduction\": \"each\", " FIXED_BUT_REDUCTION("") "}", /* its recipes only call backward() */
    .words = words,
    .no_bearing = no_bearing,
    .without_model = "the function that model._component_ names",
    .settle = settle,
};

/* Megatron-LM's words, which the frameworks built on it use by other names (megatron_yaml.c). */
#pragma once

#include "cli/words/words.h"
#include "lib/config/json.h"

extern const struct dt_word megatron_words[]; /* a row without a name ends them */

/* The settings that several flags decide. */
void megatron_settle(struct dt_translation *t);

#define MEGATRON_FIXED                                                                                                                     \
    "{" FIXED_IN_ALL(", \"gather\": \"micro_batch\"") ", \"mesh\": {\"order\": \"tensor-data-pipeline\"}, \"parameter_offload\": false}"

/* Beginnings of flags that matter to neither time nor memory. Flags of parts that a word above
 * requires to be off (moe-, mtp-, fp8-, tp-comm-) do not matter either. */
#define MEGATRON_NO_BEARING                                                                                                                \
    "lr- min-lr save load no-save no-load ckpt dist-ckpt use-dist-ckpt async-save data- train- valid- test- split mock-data "              \
    "num-workers no-mmap no-create-attention-mask tokenizer vocab-file merge-file tiktoken make-vocab-size eval log- "                     \
    "tensorboard wandb timing no-one-logger one-logger exit- profile weight-decay init-method seed master- "                               \
    "node-rank rdzv local-rank tee max-restarts distributed- use-mcore-models no-masked-softmax-fusion no-bias- "                          \
    "no-rope-fusion no-gradient-accumulation-fusion cross-entropy- transformer-impl use-flash-attn "                                       \
    "attention-softmax-in-fp32 calculate-per-token-loss manual-gc empty-unused-memory min-loss-scale "                                     \
    "hysteresis finetune override-opt use-checkpoint use-precision-aware-optimizer decoupled- apply-layernorm-1p "                         \
    "max-position-embeddings bf16 kv-channels check-for-nan no-check-for-nan enable-experimental use-cpu-initialization "                  \
    "ddp-average-in-collective deterministic disable-gloo te-rng-tracker reset- eod-mask-loss max-steps max-epochs moe- mtp- fp8- "        \
    "fp4- tp-comm- batch-p2p cpu-offloading- masked-softmax-fusion"

/* Whether a flag is given, or a key of YAML is true. */
static inline bool megatron_is_on(const struct dt_translation *t, const char *flag)
{
    return dt_json_is(dt_json_at(t->theirs, flag), "true");
}

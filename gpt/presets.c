#include "gpt/model.h"

/* The keys that models of one kind have in common. Sequence lengths are those with which they were
 * first trained. */
/* clang-format off */
#define LLAMA_1                                                                                                                            \
    .vocab_size = 32000, .block_size = 2048, .mlp = GPT_MLP_SWIGLU, .norm = GPT_NORM_RMS, .norm_epsilon = 1e-6,                              \
    .position = GPT_POSITION_ROPE, .rope = {.base = 10000}, .bias = GPT_BIAS_NONE
#define LLAMA_2                                                                                                                            \
    .vocab_size = 32000, .block_size = 4096, .mlp = GPT_MLP_SWIGLU, .norm = GPT_NORM_RMS, .norm_epsilon = 1e-5,                              \
    .position = GPT_POSITION_ROPE, .rope = {.base = 10000}, .bias = GPT_BIAS_NONE
#define LLAMA_3                                                                                                                            \
    .vocab_size = 128256, .block_size = 8192, .mlp = GPT_MLP_SWIGLU, .norm = GPT_NORM_RMS, .norm_epsilon = 1e-5,                             \
    .position = GPT_POSITION_ROPE, .kv_heads = 8, .bias = GPT_BIAS_NONE
#define LLAMA_ROPE(factor) .rope = {500000, GPT_ROPE_LLAMA3, factor, 1, 4, 8192}
#define MPT                                                                                                                                \
    .block_size = 2048, .norm_epsilon = 1e-5, .position = GPT_POSITION_ALIBI, .bias = GPT_BIAS_NONE, .tied = true
#define OPT                                                                                                                                \
    .vocab_size = 50272, .block_size = 2048, .position_rows = 2050, .mlp = GPT_MLP_RELU, .norm_epsilon = 1e-5, .dropout = 0.1f,              \
    .attention_dropout = GPT_ATTENTION_DROPOUT_NONE, .tied = true
#define QWEN_2_5                                                                                                                           \
    .block_size = 4096, .mlp = GPT_MLP_SWIGLU, .norm = GPT_NORM_RMS, .norm_epsilon = 1e-6, .position = GPT_POSITION_ROPE,                    \
    .rope = {.base = 1000000}, .bias = GPT_BIAS_QKV
#define GPT_2 .vocab_size = 50257, .block_size = 1024, .norm_epsilon = 1e-5, .dropout = 0.1f, .tied = true
#define DECODER(...) &(const struct gpt_model) {__VA_ARGS__}
#define SIZES(l, h, d) DECODER(.layers = l, .heads = h, .hidden = d), true
/* clang-format on */

const struct dt_model_preset gpt_presets[] = {
    /* The study's models. Only sizes are given; all other keys are the config's or defaults.
     * Source  Li et al., "PyTorch Data Parallel Best Practices on Google Cloud", 2022, Table 1. */
    {"GPTSmall", SIZES(12, 12, 768)},
    {"GPTMedium", SIZES(24, 16, 1024)},
    {"GPTLarge", SIZES(24, 16, 1536)},
    {"GPTXL", SIZES(24, 24, 2064)},
    {"GPT2.7B", SIZES(32, 32, 2560)},
    {"GPT6.7B", SIZES(32, 32, 4096)},
    {"GPT13B", SIZES(48, 48, 5184)},
    {"GPT39B", SIZES(48, 64, 7680)},
    {"GPT76B", SIZES(64, 80, 10240)},
    {"GPT100B", SIZES(80, 80, 10240)},
    {"GPT175B", SIZES(96, 96, 12288)},
    {"GPT1T", SIZES(128, 128, 25600)},
    /* Source  Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, Table 2,
     *         and facebookresearch/llama, llama/model.py (multiples of 256). */
    {"Llama-7B", DECODER(LLAMA_1, .layers = 32, .heads = 32, .hidden = 4096, .ffn = 11008), false},
    {"Llama-13B", DECODER(LLAMA_1, .layers = 40, .heads = 40, .hidden = 5120, .ffn = 13824), false},
    {"Llama-30B", DECODER(LLAMA_1, .layers = 60, .heads = 52, .hidden = 6656, .ffn = 17920), false},
    {"Llama-65B", DECODER(LLAMA_1, .layers = 80, .heads = 64, .hidden = 8192, .ffn = 22016), false},
    /* Source  Touvron et al., "Llama 2: Open Foundation and Fine-Tuned Chat Models", 2023, Table 1,
     *         and config.json as published by Meta. */
    {"Llama-2-7B", DECODER(LLAMA_2, .layers = 32, .heads = 32, .hidden = 4096, .ffn = 11008), false},
    {"Llama-2-13B", DECODER(LLAMA_2, .layers = 40, .heads = 40, .hidden = 5120, .ffn = 13824), false},
    {"Llama-2-70B", DECODER(LLAMA_2, .layers = 80, .heads = 64, .hidden = 8192, .ffn = 28672, .kv_heads = 8), false},
    /* Source  the models' config.json as published by Meta; Llama Team, "The Llama 3 Herd of
     *         Models", 2024, Table 3. */
    {"Llama-3.2-1B", DECODER(LLAMA_3, LLAMA_ROPE(32), .layers = 16, .heads = 32, .hidden = 2048, .ffn = 8192, .tied = true), false},
    {"Llama-3.2-3B", DECODER(LLAMA_3, LLAMA_ROPE(32), .layers = 28, .heads = 24, .hidden = 3072, .ffn = 8192, .tied = true), false},
    {"Llama-3-8B", DECODER(LLAMA_3, .rope = {.base = 500000}, .layers = 32, .heads = 32, .hidden = 4096, .ffn = 14336), false},
    {"Llama-3-70B", DECODER(LLAMA_3, .rope = {.base = 500000}, .layers = 80, .heads = 64, .hidden = 8192, .ffn = 28672), false},
    {"Llama-3.1-8B", DECODER(LLAMA_3, LLAMA_ROPE(8), .layers = 32, .heads = 32, .hidden = 4096, .ffn = 14336), false},
    {"Llama-3.1-70B", DECODER(LLAMA_3, LLAMA_ROPE(8), .layers = 80, .heads = 64, .hidden = 8192, .ffn = 28672), false},
    {"Llama-3.1-405B", DECODER(LLAMA_3, LLAMA_ROPE(8), .layers = 126, .heads = 128, .hidden = 16384, .ffn = 53248), false},
    /* Source  Jiang et al., "Mistral 7B", 2023, Table 1, and config.json of v0.1. Its attention
     *         sees the last 4,096 tokens. The sequence length here is the same unless block_size is
     *         given, so attention sees all tokens. */
    {"Mistral-7B",
     DECODER(.layers = 32, .heads = 32, .hidden = 4096, .vocab_size = 32000, .block_size = 4096, .mlp = GPT_MLP_SWIGLU, .ffn = 14336,
             .norm = GPT_NORM_RMS, .norm_epsilon = 1e-5, .position = GPT_POSITION_ROPE, .rope = {.base = 10000}, .kv_heads = 8,
             .bias = GPT_BIAS_NONE),
     false},
    /* Source  Qwen Team, "Qwen2.5 Technical Report", 2024, and config.json. */
    {"Qwen2.5-0.5B",
     DECODER(QWEN_2_5, .vocab_size = 151936, .layers = 24, .heads = 14, .hidden = 896, .ffn = 4864, .kv_heads = 2, .tied = true), false},
    {"Qwen2.5-1.5B",
     DECODER(QWEN_2_5, .vocab_size = 151936, .layers = 28, .heads = 12, .hidden = 1536, .ffn = 8960, .kv_heads = 2, .tied = true), false},
    {"Qwen2.5-3B",
     DECODER(QWEN_2_5, .vocab_size = 151936, .layers = 36, .heads = 16, .hidden = 2048, .ffn = 11008, .kv_heads = 2, .tied = true), false},
    {"Qwen2.5-7B", DECODER(QWEN_2_5, .vocab_size = 152064, .layers = 28, .heads = 28, .hidden = 3584, .ffn = 18944, .kv_heads = 4), false},
    {"Qwen2.5-14B", DECODER(QWEN_2_5, .vocab_size = 152064, .layers = 48, .heads = 40, .hidden = 5120, .ffn = 13824, .kv_heads = 8), false},
    {"Qwen2.5-32B", DECODER(QWEN_2_5, .vocab_size = 152064, .layers = 64, .heads = 40, .hidden = 5120, .ffn = 27648, .kv_heads = 8), false},
    {"Qwen2.5-72B", DECODER(QWEN_2_5, .vocab_size = 152064, .layers = 80, .heads = 64, .hidden = 8192, .ffn = 29568, .kv_heads = 8), false},
    /* Source  7B and 30B: config.json of the published models; sizes of the others: MosaicML's
     *         llm-foundry, scripts/train/yamls/pretrain. */
    {"MPT-125M", DECODER(MPT, .vocab_size = 50368, .layers = 12, .heads = 12, .hidden = 768), false},
    {"MPT-350M", DECODER(MPT, .vocab_size = 50368, .layers = 24, .heads = 16, .hidden = 1024), false},
    {"MPT-760M", DECODER(MPT, .vocab_size = 50368, .layers = 24, .heads = 12, .hidden = 1536), false},
    {"MPT-1B", DECODER(MPT, .vocab_size = 50368, .layers = 24, .heads = 16, .hidden = 2048), false},
    {"MPT-3B", DECODER(MPT, .vocab_size = 50368, .layers = 32, .heads = 20, .hidden = 2560), false},
    {"MPT-7B", DECODER(MPT, .vocab_size = 50432, .layers = 32, .heads = 32, .hidden = 4096), false},
    {"MPT-13B", DECODER(MPT, .vocab_size = 50368, .layers = 40, .heads = 40, .hidden = 5120), false},
    {"MPT-30B", DECODER(MPT, .vocab_size = 50432, .layers = 48, .heads = 64, .hidden = 7168), false},
    {"MPT-70B", DECODER(MPT, .vocab_size = 50368, .layers = 80, .heads = 64, .hidden = 8192), false},
    /* Source  Zhang et al., "OPT: Open Pre-trained Transformer Language Models", 2022, Table 1, and
     *         config.json of the published weights. OPT-350M normalises after its branches, which
     *         no block here does. */
    {"OPT-125M", DECODER(OPT, .layers = 12, .heads = 12, .hidden = 768), false},
    {"OPT-1.3B", DECODER(OPT, .layers = 24, .heads = 32, .hidden = 2048), false},
    {"OPT-2.7B", DECODER(OPT, .layers = 32, .heads = 32, .hidden = 2560), false},
    {"OPT-6.7B", DECODER(OPT, .layers = 32, .heads = 32, .hidden = 4096), false},
    {"OPT-13B", DECODER(OPT, .layers = 40, .heads = 40, .hidden = 5120), false},
    {"OPT-30B", DECODER(OPT, .layers = 48, .heads = 56, .hidden = 7168), false},
    {"OPT-66B", DECODER(OPT, .layers = 64, .heads = 72, .hidden = 9216), false},
    {"OPT-175B", DECODER(OPT, .layers = 96, .heads = 96, .hidden = 12288), false},
    /* Source  Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, and
     *         config.json of the published weights. */
    {"GPT-2-small", DECODER(GPT_2, .layers = 12, .heads = 12, .hidden = 768), false},
    {"GPT-2-medium", DECODER(GPT_2, .layers = 24, .heads = 16, .hidden = 1024), false},
    {"GPT-2-large", DECODER(GPT_2, .layers = 36, .heads = 20, .hidden = 1280), false},
    {"GPT-2-XL", DECODER(GPT_2, .layers = 48, .heads = 25, .hidden = 1600), false},
    /* Source  Brown et al., "Language Models are Few-Shot Learners", 2020, Table 2.1. Differs:
     *         attention here is dense in every block. */
    {"GPT-3-175B",
     DECODER(.layers = 96, .heads = 96, .hidden = 12288, .vocab_size = 50257, .block_size = 2048, .norm_epsilon = 1e-5, .tied = true),
     false},
    {0},
};

#include "gpt/model.h"

const struct dt_model_preset gpt_presets[] = {
    {"GPTSmall", 12, 12, 768}, {"GPTMedium", 24, 16, 1024}, {"GPTLarge", 24, 16, 1536}, {"GPTXL", 24, 24, 2064},
    {"GPT2.7B", 32, 32, 2560}, {"GPT6.7B", 32, 32, 4096},   {"GPT13B", 48, 48, 5184},   {"GPT39B", 48, 64, 7680},
    {"GPT76B", 64, 80, 10240}, {"GPT100B", 80, 80, 10240},  {"GPT175B", 96, 96, 12288}, {"GPT1T", 128, 128, 25600},
    {NULL, 0, 0, 0},
};

uint64_t gpt_parameter_count(const struct dt_model *model)
{
    uint64_t L = (uint64_t)model->layers, d = (uint64_t)model->hidden, V = (uint64_t)model->vocab_size, T = (uint64_t)model->block_size;
    return L * (12 * d * d + 13 * d) + 2 * V * d + T * d + 2 * d;
}

double gpt_forward_flops_per_token(const struct dt_model *model)
{
    double L = model->layers, d = model->hidden, V = model->vocab_size, T = model->block_size;
    double linears = L * 12 * d * d + V * d; /* the embedding looks rows up and multiplies nothing */
    double attention = L * 2 * T * d;        /* scores and weighted values, T keys per query each */
    return 2 * (linears + attention);
}

double gpt_step_flops(const struct dt_model *model, uint64_t tokens)
{
    return 3 * gpt_forward_flops_per_token(model) * (double)tokens;
}

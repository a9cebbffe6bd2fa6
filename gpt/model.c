#include "gpt/model.h"

const struct dt_model_preset gpt_presets[] = {
    {"GPTSmall", 12, 12, 768}, {"GPTMedium", 24, 16, 1024}, {"GPTLarge", 24, 16, 1536}, {"GPTXL", 24, 24, 2064},
    {"GPT2.7B", 32, 32, 2560}, {"GPT6.7B", 32, 32, 4096},   {"GPT13B", 48, 48, 5184},   {"GPT39B", 48, 64, 7680},
    {"GPT76B", 64, 80, 10240}, {"GPT100B", 80, 80, 10240},  {"GPT175B", 96, 96, 12288}, {"GPT1T", 128, 128, 25600},
    {NULL, 0, 0, 0},
};

static dt_status refuse(const char *key, const char *what)
{
    return dt_fail(DT_ERR_INVALID, "model.%s: %s cannot be trained yet; leave the key out", key, what);
}

/* What has no kernels or no layers yet. */
static dt_status check_supported(const struct dt_model *model)
{
    if (model->mlp != DT_MLP_GELU)
        return refuse("mlp", "swiglu");
    if (gpt_ffn(model) != 4 * model->hidden)
        return refuse("ffn", "a hidden layer of other than 4 * hidden features");
    if (model->norm != DT_NORM_LAYER)
        return refuse("norm", "rms");
    if (gpt_norm_epsilon(model) != 1e-5)
        return refuse("norm_epsilon", "a model with other than 1e-5");
    if (model->position != DT_POSITION_LEARNED)
        return refuse("position", model->position == DT_POSITION_ROPE ? "rope" : "alibi");
    if (gpt_kv_heads(model) != model->heads)
        return refuse("kv_heads", "a model with fewer of them than heads");
    if (model->bias != DT_BIAS_ALL)
        return refuse("bias", "a model without all its biases");
    if (model->tied)
        return refuse("tied", "a model with one table for embedding and head");
    if (model->qk_norm)
        return refuse("qk_norm", "a model with norms of q and k");
    return DT_OK;
}

dt_status gpt_check_model(const struct dt_model *model)
{
    if (model->hidden % model->heads != 0)
        return dt_fail(DT_ERR_INVALID, "model.heads: %d does not divide model.hidden %d", model->heads, model->hidden);
    if (model->heads % gpt_kv_heads(model) != 0)
        return dt_fail(DT_ERR_INVALID, "model.kv_heads: %d does not divide model.heads %d", model->kv_heads, model->heads);
    if (model->position == DT_POSITION_ROPE && gpt_head_width(model) % 2 != 0)
        return dt_fail(DT_ERR_INVALID,
                       "model.position: rope rotates pairs of features, and model.hidden / model.heads is %d, an odd number",
                       gpt_head_width(model));
    if (model->position == DT_POSITION_ROPE && model->rope.scaling == DT_ROPE_LLAMA3 &&
        model->rope.low_frequency_factor >= model->rope.high_frequency_factor)
        return dt_fail(DT_ERR_INVALID, "model.rope.low_frequency_factor: %g is not below model.rope.high_frequency_factor %g",
                       model->rope.low_frequency_factor, model->rope.high_frequency_factor);
    return check_supported(model);
}

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

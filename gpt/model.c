#include "gpt/model.h"

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
    return DT_OK;
}

size_t gpt_block_columns(const struct dt_model *model)
{
    size_t qkv = (size_t)gpt_qkv_features(model) * (model->qk_norm ? 2 : 1);
    return 3 * (size_t)model->hidden + qkv + (size_t)gpt_mlp_features(model);
}

/* Weights that tokens are multiplied with; the embedding looks rows up and multiplies nothing. */
static double linear_weights(const struct dt_model *model)
{
    double d = model->hidden, V = model->vocab_size;
    double block = d * gpt_qkv_features(model) + d * d + d * gpt_mlp_features(model) + d * gpt_ffn(model);
    return model->layers * block + V * d;
}

/* Scores and weighted values, T keys per query each. */
static double attention_products(const struct dt_model *model)
{
    return (double)model->layers * 2 * model->block_size * model->hidden;
}

double gpt_forward_flops_per_token(const struct dt_model *model)
{
    return 2 * (linear_weights(model) + attention_products(model));
}

double gpt_step_flops(const struct dt_model *model, uint64_t tokens)
{
    return 3 * gpt_forward_flops_per_token(model) * (double)tokens;
}

double gpt_causal_step_flops(const struct dt_model *model, uint64_t tokens)
{
    return 3 * 2 * (linear_weights(model) + attention_products(model) / 2) * (double)tokens;
}

const char *gpt_flops_formula(const struct dt_model *model)
{
    bool as_in_study = gpt_qkv_features(model) == 3 * model->hidden && gpt_mlp_features(model) + gpt_ffn(model) == 8 * model->hidden;
    return as_in_study ? "3 * 2 * (L * 12 d^2 + V d + 2 L T d) per token, PaLM appendix B"
                       : "3 * 2 * (N + 2 L T d) per token, N weights of all linear layers with the head, PaLM appendix B";
}

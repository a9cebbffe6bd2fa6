/* Pre-norm decoders: presets and operation counts.
 *
 * Token embedding, dropout; per block x + dropout(projection(attention(norm(x)))) and x + dropout(mlp(norm(x))); final norm; head. The
 * study's is minGPT's: learned positions added to the tokens' embedding, layer norms, down(gelu(up(x))), a bias in every projection, and a
 * head of its own without one. The keys of `struct dt_model` change each of these: Llama, Mistral, Qwen2.5, MPT and GPT-2 are presets.
 * Source  Li et al., "PyTorch Data Parallel Best Practices on Google Cloud", 2022; karpathy/minGPT; Touvron et al., "LLaMA", 2023, section
 *         2.2 (rms norm, swiglu, rope); Ainslie et al., "GQA", 2023; Press et al., "Train Short, Test Long", ICLR 2022 (ALiBi). */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include "lib/model/model.h"

/* Published models (presets.c); the last entry has a NULL name. */
extern const struct dt_model_preset gpt_presets[];

/* ---- what a model's description stands for where it says 0 ---- */

/* f, features of the MLP's hidden layer. */
static inline int gpt_ffn(const struct dt_model *model)
{
    return model->ffn ? model->ffn : 4 * model->hidden;
}

/* Output features of the MLP's first product: gate and up, or up alone. */
static inline int gpt_mlp_features(const struct dt_model *model)
{
    return model->mlp == DT_MLP_SWIGLU ? 2 * gpt_ffn(model) : gpt_ffn(model);
}

/* w, features of a head. */
static inline int gpt_head_width(const struct dt_model *model)
{
    return model->hidden / model->heads;
}

/* K, heads of keys and values. */
static inline int gpt_kv_heads(const struct dt_model *model)
{
    return model->kv_heads ? model->kv_heads : model->heads;
}

/* Columns of qkv: q's h heads, k's and v's K each. */
static inline int gpt_qkv_features(const struct dt_model *model)
{
    return (model->heads + 2 * gpt_kv_heads(model)) * gpt_head_width(model);
}

static inline bool gpt_norm_has_bias(const struct dt_model *model)
{
    return model->norm == DT_NORM_LAYER && model->bias == DT_BIAS_ALL;
}

/* Elements of a norm's gain and bias together. */
static inline size_t gpt_norm_elems(const struct dt_model *model)
{
    return (size_t)model->hidden * (gpt_norm_has_bias(model) ? 2 : 1);
}

static inline double gpt_norm_epsilon(const struct dt_model *model)
{
    return model->norm_epsilon > 0 ? model->norm_epsilon : 1e-5;
}

static inline double gpt_rope_base(const struct dt_model *model)
{
    return model->rope.base > 0 ? model->rope.base : 10000;
}

/* Whether its parts go together, and can be trained. DT_ERR_INVALID: the key that does not, and why. */
dt_status gpt_check_model(const struct dt_model *model);

/* Elements per token that the layers of a block keep between them for backward: the inputs of its two halves, q, k, v (before their norms,
 * too), the heads' outputs, and what the MLP's first product makes. */
size_t gpt_block_columns(const struct dt_model *model);

/* Multiply-adds counted as 2, per token, forward only: every matrix product that a step does (linears, head, and attention's two products
 * over the full T x T square, as PaLM's appendix B and the usual MFU count do). Backward is twice that. What keys and values are shared by
 * changes the products that make them, and not attention's own. */
double gpt_forward_flops_per_token(const struct dt_model *model);
/* 3 * forward * tokens: the numerator of TFLOP/s and MFU. Recomputation is not counted. */
double gpt_step_flops(const struct dt_model *model, uint64_t tokens);
/* The same with the half of the T x T square that a causal mask leaves. */
double gpt_causal_step_flops(const struct dt_model *model, uint64_t tokens);
const char *gpt_flops_formula(const struct dt_model *model);

#endif

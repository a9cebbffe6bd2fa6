/* Pre-norm decoders: presets and operation counts.
 *
 * Token embedding, dropout; per block x + dropout(projection(attention(norm(x)))) and x +
 * dropout(mlp(norm(x))); final norm; head. The study's model is minGPT's: learned positions added
 * to the tokens' embedding, layer norms, down(gelu(up(x))), a bias in every projection, and a
 * separate head without bias. The members of `struct gpt_model` change each of these: Llama,
 * Mistral, Qwen2.5, MPT and GPT-2 are presets.
 * Source  Li et al., "PyTorch Data Parallel Best Practices on Google Cloud", 2022; karpathy/minGPT;
 *         Touvron et al., "LLaMA", 2023, section 2.2 (rms norm, swiglu, rope); Ainslie et al.,
 *         "GQA", 2023; Press et al., "Train Short, Test Long", ICLR 2022 (ALiBi). */
#pragma once

#include "lib/model/model.h"

enum gpt_attention_kind { GPT_ATTENTION_FUSED, GPT_ATTENTION_UNFUSED };

enum gpt_mlp_kind { GPT_MLP_GELU, GPT_MLP_SWIGLU, GPT_MLP_GELU_NEW, GPT_MLP_RELU };
enum gpt_attention_dropout { GPT_ATTENTION_DROPOUT_SAME, GPT_ATTENTION_DROPOUT_NONE };
enum gpt_norm_kind { GPT_NORM_LAYER, GPT_NORM_RMS };
enum gpt_position_kind { GPT_POSITION_LEARNED, GPT_POSITION_ROPE, GPT_POSITION_ALIBI };
enum gpt_bias_kind { GPT_BIAS_ALL, GPT_BIAS_QKV, GPT_BIAS_NONE }; /* of linear layers; layer norms have a bias only with GPT_BIAS_ALL */

/* Rotary position embedding: pair i of a head's w features is rotated by position * base^(-2i/w),
 * which `scaling` changes.
 * Source  Su et al., "RoFormer", 2021; llama3: how Llama 3.1 slows the low frequencies (its
 *         published inference code). */
enum gpt_rope_scaling { GPT_ROPE_UNSCALED, GPT_ROPE_LLAMA3 };
struct gpt_rope_scheme {
    double base; /* 0: 10000 */
    enum gpt_rope_scaling scaling;
    double factor, low_frequency_factor, high_frequency_factor; /* llama3 */
    int original_length;                                        /* llama3: length of the sequences before it was extended */
};

/* A decoder, as configs describe it. Members from `mlp` on are 0 or false as in the study's GPT;
 * the functions below give the values that 0 stands for. */
struct __attribute__((may_alias)) gpt_model {
    int layers;     /* L, transformer blocks */
    int heads;      /* h, divides hidden */
    int hidden;     /* d */
    int vocab_size; /* V */
    int block_size; /* T, the sequence length */
    float dropout;  /* [0, 1): embedding, residual branches, and attention weights unless attention_dropout says none */
    enum gpt_attention_kind attention;
    enum gpt_mlp_kind mlp;
    int ffn; /* features of the MLP's hidden layer; 0: 4 d */
    enum gpt_norm_kind norm;
    double norm_epsilon; /* added to the variance; 0: 1e-5 */
    enum gpt_position_kind position;
    struct gpt_rope_scheme rope;
    int kv_heads; /* K, the heads of keys and values; divides h, and h / K query heads share each; 0: h */
    enum gpt_bias_kind bias;
    bool tied;    /* the head's weight is the embedding's token table; if they are in two parts of the model, each has a copy */
    bool qk_norm; /* each head of q and k has an rms norm before rope, with a gain for q and one for k */
    enum gpt_attention_dropout attention_dropout;
    int position_rows; /* rows of the table of learned positions, of which the first T are read; 0: T */
};

/* The decoder of a model of this family. */
static inline const struct gpt_model *gpt_of(const struct dt_model *model)
{
    return (const struct gpt_model *)dt_model_own(model);
}

static inline struct gpt_model *gpt_change(struct dt_model *model)
{
    return (struct gpt_model *)(void *)(model->own + model->own_at);
}

/* A model of these sizes, for kernels and layouts; its `family` is not set. */
struct dt_model gpt_model_of(enum dt_dtype dtype, const struct gpt_model *gpt);

/* Published models (presets.c); the last entry has a NULL name. */
extern const struct dt_model_preset gpt_presets[];

/* ---- the values that 0 stands for in a model's description ---- */

/* f, features of the MLP's hidden layer. */
static inline int gpt_ffn(const struct dt_model *model)
{
    return gpt_of(model)->ffn ? gpt_of(model)->ffn : 4 * gpt_of(model)->hidden;
}

/* Output features of the MLP's first product: gate and up, or up alone. */
static inline int gpt_mlp_features(const struct dt_model *model)
{
    return gpt_of(model)->mlp == GPT_MLP_SWIGLU ? 2 * gpt_ffn(model) : gpt_ffn(model);
}

/* w, features of a head. */
static inline int gpt_head_width(const struct dt_model *model)
{
    return gpt_of(model)->hidden / gpt_of(model)->heads;
}

static inline int gpt_position_rows(const struct dt_model *model)
{
    return gpt_of(model)->position_rows ? gpt_of(model)->position_rows : gpt_of(model)->block_size;
}

/* K, heads of keys and values. */
static inline int gpt_kv_heads(const struct dt_model *model)
{
    return gpt_of(model)->kv_heads ? gpt_of(model)->kv_heads : gpt_of(model)->heads;
}

/* Columns of qkv: h heads of q, K heads each of k and v. */
static inline int gpt_qkv_features(const struct dt_model *model)
{
    return (gpt_of(model)->heads + 2 * gpt_kv_heads(model)) * gpt_head_width(model);
}

static inline bool gpt_norm_has_bias(const struct dt_model *model)
{
    return gpt_of(model)->norm == GPT_NORM_LAYER && gpt_of(model)->bias == GPT_BIAS_ALL;
}

/* Elements of a norm's gain and bias together. */
static inline size_t gpt_norm_elems(const struct dt_model *model)
{
    return (size_t)gpt_of(model)->hidden * (gpt_norm_has_bias(model) ? 2 : 1);
}

static inline double gpt_norm_epsilon(const struct dt_model *model)
{
    return gpt_of(model)->norm_epsilon > 0 ? gpt_of(model)->norm_epsilon : 1e-5;
}

static inline double gpt_rope_base(const struct dt_model *model)
{
    return gpt_of(model)->rope.base > 0 ? gpt_of(model)->rope.base : 10000;
}

/* Whether the members fit together, and the model can be trained. DT_ERR_INVALID names the key that
 * does not fit, and the reason. */
dt_status gpt_check_model(struct dt_model *model);

void gpt_facts(const struct dt_model *model, struct dt_model_facts *out);
void gpt_describe(const struct dt_model *model, struct dt_model_texts *out);
void gpt_divide_evenly(struct dt_model *model, int ranks);
double gpt_largest_tensor(const struct dt_model *model, double samples, const char **keys);
double gpt_end_elems(const struct dt_model *model, int ranks);

/* Elements per token that the layers of a block keep for backward: the inputs of its two halves, q,
 * k, v (also before their norms, if any), the heads' outputs, and the output of the MLP's first
 * product. */
size_t gpt_block_columns(const struct dt_model *model);
/* The number of the `rows` of logits to compute at a time, so that they take no more bytes than the
 * layers of a segment of `blocks` blocks keep. */
size_t gpt_logit_rows(const struct dt_model *model, int blocks, size_t rows);

/* Operations of a step's forward and backward (dt_model_step_flops), counting only the half of the
 * T x T square that a causal mask leaves. */
double gpt_causal_step_flops(const struct dt_model *model, uint64_t tokens);

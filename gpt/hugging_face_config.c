/* The decoders that a Hugging Face config describes: names and defaults of the configuration
 * classes of transformers 4.57.1, and how its models use them
 * (src/transformers/models/TYPE/configuration_TYPE.py, modeling_TYPE.py). */
#include "gpt/family_parts.h"

#include "gpt/hugging_face_tensors.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>

/* ---- values that several types have ---- */

#define HIDDEN_SIZES                                                                                                                       \
    DT_WORD("num_hidden_layers", "model.layers", NULL), DT_WORD("num_attention_heads", "model.heads", NULL),                               \
        DT_WORD("hidden_size", "model.hidden", NULL)

#define GELU                                                                                                                               \
    .values = DT_VALUES({"gelu", "gelu"}, {"gelu_new", "gelu_new"}, {"gelu_fast", "gelu_new"}, {"gelu_pytorch_tanh", "gelu_new"},          \
                        {"gelu_python", "gelu"}, {"relu", "relu"})
#define NO_OTHER_ACTIVATION .why = "the MLP of a decoder is gelu, relu or swiglu", .alike = true

#define TIED(by_default) DT_WORD("tie_word_embeddings", "model.tied", by_default)

#define ROPE_TYPES                                                                                                                         \
    .values = DT_VALUES({"default", "none"}, {"llama3", "llama3"}), .why = "this scaling of rope's frequencies is not supported",          \
    .alike = true
#define ROPE_SCALING(object)                                                                                                               \
    DT_WORD(object ".rope_type", "model.rope.scaling", NULL, ROPE_TYPES), DT_WORD(object ".type", "model.rope.scaling", NULL, ROPE_TYPES), \
        DT_WORD(object ".factor", "model.rope.factor", NULL), DT_WORD(object ".low_freq_factor", "model.rope.low_frequency_factor", NULL), \
        DT_WORD(object ".high_freq_factor", "model.rope.high_frequency_factor", NULL),                                                     \
        DT_WORD(object ".original_max_position_embeddings", "model.rope.original_length", NULL)
#define ROPE                                                                                                                               \
    DT_WORD("rope_parameters.rope_theta", "model.rope.base", NULL), DT_WORD("rope_theta", "model.rope.base", "10000"),                     \
        ROPE_SCALING("rope_parameters"), ROPE_SCALING("rope_scaling")

/* Words of Llama, Mistral and Qwen. */
#define LLAMA_WORDS(ffn_by_default, length_by_default)                                                                                     \
    HIDDEN_SIZES, DT_WORD("vocab_size", "model.vocab_size", NULL), DT_WORD("intermediate_size", "model.ffn", ffn_by_default),              \
        DT_WORD("num_key_value_heads", "model.kv_heads", NULL), DT_WORD("max_position_embeddings", "model.block_size", length_by_default), \
        DT_WORD("rms_norm_eps", "model.norm_epsilon", "1e-6"), TIED("false"), ROPE,                                                        \
        DT_WORD("hidden_act", NULL, "silu", DT_ONLY("silu"), NO_OTHER_ACTIVATION),                                                         \
        DT_WORD("attention_dropout", "model.dropout", "0", .values = DT_VALUES({"0", "0"}),                                                \
                .why = "dropout of attention alone is not supported")
#define LLAMA_FIXED(bias) "{\"model\": {\"mlp\": \"swiglu\", \"norm\": \"rms\", \"position\": \"rope\", \"bias\": \"" bias "\"}}"

#define NO_BIAS(key) DT_WORD(key, NULL, "false", DT_ONLY("false"), .why = "biases of these layers alone are not supported")
#define NO_WINDOW DT_WORD("use_sliding_window", NULL, "false", DT_ONLY("false"), .why = "attention looks at the whole sequence here")

/* null: as many as there are heads. */
#define KV_HEADS(by_default) DT_WORD("num_key_value_heads", "model.kv_heads", by_default, .null_is_none = true)
#define QWEN_WORDS KV_HEADS("32"), LLAMA_WORDS("22016", "32768"), NO_WINDOW

/* ---- settings that words alone do not give ---- */

/* A number in their config that must be `expected` if it is given. */
static void expect(struct dt_translation *t, const char *key, double expected, const char *why)
{
    double number = dt_json_number(t->theirs, key, expected);
    if (number != expected)
        dt_remark(t, DT_REMARK_CANNOT, "%s: %g; %s, %g", key, number, why, expected);
}

/* The sequence length is the one with which the model was first trained. Longer ones came later,
 * with scaled frequencies or with a window. */
static void settle_length(struct dt_translation *t)
{
    double given = dt_json_number(t->ours, "model.block_size", 0);
    double length = fmin(given, dt_json_number(t->ours, "model.rope.original_length", given));
    double window = dt_json_number(t->theirs, "sliding_window", length);
    bool windowed = window < length && !dt_json_at(t->theirs, "use_sliding_window");
    length = windowed ? window : length;
    if (length == given)
        return;
    dt_remark(t, DT_REMARK_ASSUMED, "%s: becomes the sequence length, model.block_size %g",
              windowed ? "sliding_window" : "original_max_position_embeddings", length);
    dt_json_put_number(t->ours, "model.block_size", length);
}

static void settle_heads(struct dt_translation *t)
{
    double hidden = dt_json_number(t->ours, "model.hidden", 0), heads = dt_json_number(t->ours, "model.heads", 1);
    if (heads > 0) /* otherwise the check of model.heads reports it */
        expect(t, "head_dim", hidden / heads, "a head's width is hidden_size / num_attention_heads here");
}

static void settle_llama(struct dt_translation *t)
{
    settle_heads(t);
    const struct cJSON *kind;
    cJSON_ArrayForEach(kind, dt_json_at(t->theirs, "layer_types")) if (!dt_json_is(kind, "full_attention"))
    {
        dt_remark(t, DT_REMARK_CANNOT, "layer_types: %s; attention looks at the whole sequence here", cJSON_GetStringValue(kind));
        break;
    }
    settle_length(t);
}

/* A window of 4,096 unless the config has another one, or null. */
static void settle_mistral(struct dt_translation *t)
{
    if (!cJSON_HasObjectItem(t->theirs, "sliding_window"))
        dt_json_put(t->theirs, "sliding_window", cJSON_CreateNumber(4096));
    settle_llama(t);
}

/* Heads have 128 features unless the config says otherwise. */
static void settle_qwen3(struct dt_translation *t)
{
    if (!dt_json_at(t->theirs, "head_dim"))
        dt_json_put(t->theirs, "head_dim", cJSON_CreateNumber(128));
    settle_llama(t);
}

/* One number for all dropouts. The words have read it already. */
static void same_dropout(struct dt_translation *t, const char *key, double by_default)
{
    double dropout = dt_json_number(t->ours, "model.dropout", 0), said = dt_json_number(t->theirs, key, by_default);
    if (said != dropout)
        dt_remark(t, DT_REMARK_CANNOT, "%s: %g; all dropouts are the same here, %g", key, said, dropout);
}

/* The dropout of attention weights may be 0 while all others have one value. */
static void attention_dropout(struct dt_translation *t, const char *key, double by_default)
{
    double dropout = dt_json_number(t->ours, "model.dropout", 0), said = dt_json_number(t->theirs, key, by_default);
    if (said == 0 && dropout != 0)
        dt_json_put(t->ours, "model.attention_dropout", dt_json_text("none"));
    else if (said != dropout)
        dt_remark(t, DT_REMARK_CANNOT, "%s: %g; attention weights have the dropout of all else here, %g, or none", key, said, dropout);
}

static void settle_gpt2(struct dt_translation *t)
{
    same_dropout(t, "embd_pdrop", 0.1);
    attention_dropout(t, "attn_pdrop", 0.1);
}

static void settle_neox(struct dt_translation *t)
{
    attention_dropout(t, "attention_dropout", 0);
}

static void settle_mpt(struct dt_translation *t)
{
    same_dropout(t, "emb_pdrop", 0);
    attention_dropout(t, "attn_config.attn_pdrop", 0);
    dt_json_put_number(t->ours, "model.ffn", dt_json_number(t->theirs, "expansion_ratio", 4) * dt_json_number(t->ours, "model.hidden", 0));
}

/* Token t uses row t + 2 of OPT's table of positions, which is row t here. */
static void settle_opt(struct dt_translation *t)
{
    attention_dropout(t, "attention_dropout", 0);
    expect(t, "word_embed_proj_dim", dt_json_number(t->ours, "model.hidden", 0), "embeddings are as wide as the model here");
    dt_json_put_number(t->ours, "model.position_rows", dt_json_number(t->ours, "model.block_size", 0) + 2);
}

static void settle_falcon(struct dt_translation *t)
{
    bool grouped = dt_json_is(dt_json_at(t->theirs, "new_decoder_architecture"), "true");
    bool shared = !dt_json_is(dt_json_at(t->theirs, "multi_query"), "false");
    double heads = dt_json_number(t->ours, "model.heads", 0),
           given = dt_json_number(t->theirs, "n_head_kv", dt_json_number(t->theirs, "num_kv_heads", heads));
    dt_json_put_number(t->ours, "model.kv_heads", grouped ? given : shared ? 1 : heads);
    attention_dropout(t, "attention_dropout", 0);
    settle_heads(t);
}

/* ---- the reverse: from our config to theirs ---- */

static const struct dt_word old_scaling[] = {ROPE_SCALING("rope_scaling"), {0}};

/* Write heads of keys and values and the MLP's features as numbers, and rope's keys in the old
 * form, which all versions read. */
static void unsettle_llama(struct dt_translation *t)
{
    double hidden = dt_json_number(t->ours, "model.hidden", 0), heads = dt_json_number(t->ours, "model.heads", 1);
    double ffn = dt_json_number(t->ours, "model.ffn", 0), kv_heads = dt_json_number(t->ours, "model.kv_heads", 0);
    dt_json_put_number(t->ours, "model.ffn", ffn > 0 ? ffn : 4 * hidden);
    dt_json_put_number(t->ours, "model.kv_heads", kv_heads > 0 ? kv_heads : heads);
    dt_json_put_number(t->theirs, "head_dim", hidden / heads);
    dt_json_put(t->theirs, "sliding_window", cJSON_CreateNull());
    dt_json_put(t->theirs, "rope_theta", dt_json_take(t->ours, "model.rope.base"));
    if (!dt_json_is(dt_json_at(t->ours, "model.rope.scaling"), "llama3"))
        dt_json_drop(t->ours, "model.rope");
    dt_words_write(old_scaling, t);
}

static void same_as_dropout(struct dt_translation *t, const char *second, const char *of_attention)
{
    double dropout = dt_json_number(t->ours, "model.dropout", 0);
    dt_json_put_number(t->theirs, second, dropout);
    dt_json_put_number(t->theirs, of_attention, dt_json_at(t->ours, "model.attention_dropout") ? 0 : dropout);
}

static void unsettle_gpt2(struct dt_translation *t)
{
    same_as_dropout(t, "embd_pdrop", "attn_pdrop");
    if (dt_json_number(t->ours, "model.ffn", 0) == 0)
        dt_json_drop(t->ours, "model.ffn");
}

/* The MLP's hidden layer has four times the model's features in transformers, whatever the config
 * says. */
static void unsettle_mpt(struct dt_translation *t)
{
    same_as_dropout(t, "emb_pdrop", "attn_config.attn_pdrop");
}

/* ---- the types ---- */

#define LLAMA_FILES(class) unsettle_llama, class, "model.", llama_tensors, "layers"

static const struct dt_word gpt2[] = {
    DT_WORD("n_layer", "model.layers", "12"),
    DT_WORD("n_head", "model.heads", "12"),
    DT_WORD("n_embd", "model.hidden", "768"),
    DT_WORD("vocab_size", "model.vocab_size", "50257"),
    DT_WORD("n_positions", "model.block_size", "1024"),
    DT_WORD("n_inner", "model.ffn", NULL),
    DT_WORD("layer_norm_epsilon", "model.norm_epsilon", "1e-5"),
    DT_WORD("resid_pdrop", "model.dropout", "0.1"),
    DT_WORD("activation_function", "model.mlp", "gelu_new", GELU, NO_OTHER_ACTIVATION),
    DT_WORD("scale_attn_by_inverse_layer_idx", NULL, NULL, DT_ONLY("false"), .alike = true),
    DT_WORD("scale_attn_weights", NULL, NULL, DT_ONLY("true"), .alike = true),
    DT_WORD("add_cross_attention", NULL, NULL, DT_ONLY("false"), .why = "there is no encoder here"),
    TIED("true"),
    {0},
};

static const struct dt_word gpt_neox[] = {
    HIDDEN_SIZES,
    DT_WORD("vocab_size", "model.vocab_size", "50432"),
    DT_WORD("intermediate_size", "model.ffn", "24576"),
    DT_WORD("max_position_embeddings", "model.block_size", "2048"),
    DT_WORD("layer_norm_eps", "model.norm_epsilon", "1e-5"),
    DT_WORD("hidden_dropout", "model.dropout", "0"),
    DT_WORD("hidden_act", "model.mlp", "gelu", GELU, NO_OTHER_ACTIVATION),
    DT_WORD("use_parallel_residual", NULL, "true", DT_ONLY("false"), .why = "attention and MLP of a block are one after the other here"),
    DT_WORD("rotary_pct", NULL, "0.25", DT_ONLY("1"), .why = "rope rotates all features of a head here", .alike = true),
    DT_WORD("attention_bias", NULL, "true", DT_ONLY("true"), .why = "biases of some layers alone are not supported"),
    DT_WORD("rotary_emb_base", "model.rope.base", "10000"),
    ROPE_SCALING("rope_scaling"),
    TIED("false"),
    {0},
};

static const struct dt_word llama[] = {LLAMA_WORDS("11008", "2048"), NO_BIAS("attention_bias"), NO_BIAS("mlp_bias"), {0}};
static const struct dt_word mistral[] = {KV_HEADS("8"), LLAMA_WORDS("14336", "131072"), {0}};
static const struct dt_word qwen2[] = {QWEN_WORDS, {0}};
static const struct dt_word qwen3[] = {QWEN_WORDS, NO_BIAS("attention_bias"), {0}};

static const struct dt_word mpt[] = {
    DT_WORD("n_layers", "model.layers", "24"),
    DT_WORD("n_heads", "model.heads", "16"),
    DT_WORD("d_model", "model.hidden", "2048"),
    DT_WORD("vocab_size", "model.vocab_size", "50368"),
    DT_WORD("max_seq_len", "model.block_size", "2048"),
    DT_WORD("layer_norm_epsilon", "model.norm_epsilon", "1e-5"),
    DT_WORD("resid_pdrop", "model.dropout", "0"),
    DT_WORD("no_bias", NULL, NULL, DT_ONLY("true"), .why = "these decoders have no biases"),
    DT_WORD("attn_config.attn_type", NULL, NULL, DT_ONLY("multihead_attention"), .why = "every head has separate keys and values here"),
    DT_WORD("attn_config.alibi", NULL, NULL, DT_ONLY("true"), .why = "these decoders use alibi for positions"),
    DT_WORD("attn_config.qk_ln", NULL, NULL, DT_ONLY("false"), .why = "q and k have no layer norms here"),
    DT_WORD("attn_config.prefix_lm", NULL, NULL, DT_ONLY("false"), .alike = true),
    DT_WORD("attn_config.clip_qkv", NULL, NULL, DT_ONLY("null"), .why = "q, k and v are not clipped here", .alike = true),
    TIED("true"),
    {0},
};

static const struct dt_word opt[] = {
    HIDDEN_SIZES,
    DT_WORD("vocab_size", "model.vocab_size", "50272"),
    DT_WORD("ffn_dim", "model.ffn", "3072"),
    DT_WORD("max_position_embeddings", "model.block_size", "2048"),
    DT_WORD("dropout", "model.dropout", "0.1"),
    DT_WORD("activation_function", "model.mlp", "relu", GELU, NO_OTHER_ACTIVATION),
    DT_WORD("do_layer_norm_before", NULL, "true", DT_ONLY("true"), .why = "norms are before attention and MLP here"),
    DT_WORD("_remove_final_layer_norm", NULL, "false", DT_ONLY("false"), .why = "a norm is before the head here"),
    DT_WORD("enable_bias", NULL, "true", DT_ONLY("true"), .why = "biases of norms alone are not supported"),
    DT_WORD("layer_norm_elementwise_affine", NULL, "true", DT_ONLY("true"), .why = "norms have gain and bias here"),
    TIED("true"),
    {0},
};

static const struct dt_word falcon[] = {
    DT_WORD("n_layer", "model.layers", NULL),
    DT_WORD("n_head", "model.heads", NULL),
    DT_WORD("n_embed", "model.hidden", NULL),
    DT_WORD("num_hidden_layers", "model.layers", "32"),
    DT_WORD("num_attention_heads", "model.heads", "71"),
    DT_WORD("hidden_size", "model.hidden", "4544"),
    DT_WORD("vocab_size", "model.vocab_size", "65024"),
    DT_WORD("ffn_hidden_size", "model.ffn", NULL),
    DT_WORD("max_position_embeddings", "model.block_size", "2048"),
    DT_WORD("layer_norm_epsilon", "model.norm_epsilon", "1e-5"),
    DT_WORD("hidden_dropout", "model.dropout", "0"),
    DT_WORD("alibi", "model.position", "false", .values = DT_VALUES({"false", "rope"}, {"true", "alibi"})),
    DT_WORD("bias", NULL, "false", DT_ONLY("true"), .why = "biases of norms alone are not supported"),
    DT_WORD("parallel_attn", NULL, "true", DT_ONLY("false"), .why = "attention and MLP of a block are one after the other here"),
    DT_WORD("activation", "model.mlp", "gelu", GELU, NO_OTHER_ACTIVATION),
    DT_WORD("rope_theta", "model.rope.base", "10000"),
    TIED("true"),
    {0},
};

#define NO_EXPERTS DT_ONLY("0"), .why = "mixtures of experts are not supported"

/* For all other types: keys that show what dtbench cannot represent. */
static const struct dt_word others[] = {
    DT_WORD("num_local_experts", NULL, NULL, NO_EXPERTS),
    DT_WORD("num_experts", NULL, NULL, NO_EXPERTS),
    DT_WORD("n_routed_experts", NULL, NULL, NO_EXPERTS),
    DT_WORD("moe_num_experts", NULL, NULL, NO_EXPERTS),
    DT_WORD("kv_lora_rank", NULL, NULL, DT_ONLY("0"), .why = "latent attention is not supported"),
    DT_WORD("is_encoder_decoder", NULL, NULL, DT_ONLY("false"), .why = "there is no encoder here"),
    {0},
};

const struct dt_model_dialect gpt_hugging_face[] = {
    {"gpt2", NULL, gpt2, settle_gpt2, unsettle_gpt2, "GPT2LMHeadModel", "transformer.", gpt2_tensors, "h"},
    {.type = "gpt_neox", .fixed = "{\"model\": {\"position\": \"rope\"}}", .words = gpt_neox, .settle = settle_neox},
    {"llama", LLAMA_FIXED("none"), llama, settle_llama, LLAMA_FILES("LlamaForCausalLM")},
    {"mistral", LLAMA_FIXED("none"), mistral, settle_mistral, LLAMA_FILES("MistralForCausalLM")},
    {"qwen2", LLAMA_FIXED("qkv"), qwen2, settle_llama, LLAMA_FILES("Qwen2ForCausalLM")},
    {"qwen3", "{\"model\": {\"mlp\": \"swiglu\", \"norm\": \"rms\", \"position\": \"rope\", \"bias\": \"none\", \"qk_norm\": true}}", qwen3,
     settle_qwen3, LLAMA_FILES("Qwen3ForCausalLM")},
    {"mpt", "{\"model\": {\"position\": \"alibi\", \"bias\": \"none\"}}", mpt, settle_mpt, unsettle_mpt, "MptForCausalLM", "transformer.",
     mpt_tensors, "blocks"},
    {.type = "opt", .words = opt, .settle = settle_opt},
    {.type = "falcon", .words = falcon, .settle = settle_falcon},
    {.type = "", .words = others},
    {0},
};

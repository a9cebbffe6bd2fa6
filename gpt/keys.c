/* The keys that describe a decoder in a config: rows of the table of an experiment's keys
 * (schedules/config/fields.c), below "model". After a change run scripts/generate. */
#include "gpt/family_parts.h"
#include "gpt/model.h"

/* ---- which keys have a part in an experiment, which begins with its model ---- */

static bool of_own_sizes(const void *source)
{
    const struct dt_model *model = source;
    return !*model->preset;
}

static bool of_rope(const void *source)
{
    return gpt_of(source)->position == GPT_POSITION_ROPE;
}

static bool of_scaled_rope(const void *source)
{
    return of_rope(source) && gpt_of(source)->rope.scaling != GPT_ROPE_UNSCALED;
}

static bool of_dropout_elsewhere(const void *source)
{
    return gpt_of(source)->attention_dropout != GPT_ATTENTION_DROPOUT_SAME;
}

static bool of_longer_table(const void *source)
{
    return gpt_of(source)->position == GPT_POSITION_LEARNED && gpt_of(source)->position_rows > 0;
}

static const char *const bias_of_booleans[] = {"none", "all"};

#define AT(member) .offset = offsetof(struct gpt_model, member), .size = sizeof(((struct gpt_model *)0)->member)

const struct dt_field gpt_keys[] = {
    {"model.layers", DT_FIELD_INT, AT(layers), .min = 1, .max = 4096, .matters = of_own_sizes, .description = "Transformer blocks."},
    {"model.heads", DT_FIELD_INT, AT(heads), .min = 1, .max = 4096, .matters = of_own_sizes,
     .description = "Attention heads; must divide hidden."},
    {"model.hidden", DT_FIELD_INT, AT(hidden), .min = 1, .max = 65536, .matters = of_own_sizes,
     .description = "Hidden size d: the width of the residual stream."},
    {"model.vocab_size", DT_FIELD_INT, AT(vocab_size), .min = 2, .max = 2147483647, .initial = "50000",
     .description = "Vocabulary size V; tokens are random integers below it."},
    {"model.block_size", DT_FIELD_INT, AT(block_size), .min = 1, .max = 1048576, .initial = "256", .description = "Sequence length T."},
    {"model.dropout", DT_FIELD_FLOAT, AT(dropout), .min = 0, .max = 0.999, .initial = "0.1",
     .description = "Dropout probability, of the embedding, the attention weights and the residual branches."},
    {"model.attention_dropout", DT_FIELD_ENUM, AT(attention_dropout),
     .names = DT_NAMES([GPT_ATTENTION_DROPOUT_SAME] = "same", [GPT_ATTENTION_DROPOUT_NONE] = "none"), .initial = "\"same\"",
     .matters = of_dropout_elsewhere, .description = "Dropout of the attention weights. same: model.dropout; none: 0, as in OPT."},
    {"model.attention", DT_FIELD_ENUM, AT(attention),
     .names = DT_NAMES([GPT_ATTENTION_FUSED] = "fused", [GPT_ATTENTION_UNFUSED] = "unfused"), .initial = "\"fused\"",
     .description = "fused does not store the T x T attention weights; unfused does, as the study's framework did."},

    {"model.mlp", DT_FIELD_ENUM, AT(mlp),
     .names = DT_NAMES([GPT_MLP_GELU] = "gelu", [GPT_MLP_SWIGLU] = "swiglu", [GPT_MLP_GELU_NEW] = "gelu_new", [GPT_MLP_RELU] = "relu"),
     .initial = "\"gelu\"",
     .description = "The MLP of a block. gelu: down(gelu(up(x))); gelu_new: the same with GELU's tanh form, as GPT-2 has it; relu: with "
                    "max(x, 0), as OPT; swiglu: down(silu(gate(x)) * up(x)), with three weights."},
    {"model.ffn", DT_FIELD_INT, AT(ffn), .min = 0, .max = 1048576, .initial = "0",
     .description = "Features of the MLP's hidden layer; 0: 4 * hidden."},
    {"model.norm", DT_FIELD_ENUM, AT(norm), .names = DT_NAMES([GPT_NORM_LAYER] = "layer", [GPT_NORM_RMS] = "rms"), .initial = "\"layer\"",
     .description =
         "Normalisation before attention, MLP and head. layer: layer norm; rms: divided by the root of the mean square, without bias."},
    {"model.norm_epsilon", DT_FIELD_NUMBER, AT(norm_epsilon), .min = 0, .above = true, .max = 1, .initial = "1e-5",
     .description = "Added to a norm's variance, or mean square."},
    {"model.position", DT_FIELD_ENUM, AT(position),
     .names = DT_NAMES([GPT_POSITION_LEARNED] = "learned", [GPT_POSITION_ROPE] = "rope", [GPT_POSITION_ALIBI] = "alibi"),
     .initial = "\"learned\"",
     .description = "How the model knows positions. learned: a table of block_size rows, added to the tokens' embedding; rope: q and k are "
                    "rotated; alibi: scores get a bias that grows with the distance."},
    {"model.position_rows", DT_FIELD_INT, AT(position_rows), .min = 0, .max = 1048576, .initial = "0", .matters = of_longer_table,
     .description = "learned: rows of the table, of which the first block_size are read; OPT's has two more. 0: block_size."},
    {"model.rope.base", DT_FIELD_NUMBER, AT(rope.base), .min = 1, .above = true, .max = 1e12, .initial = "10000", .matters = of_rope,
     .description = "rope: base of the frequencies, often called theta."},
    {"model.rope.scaling", DT_FIELD_ENUM, AT(rope.scaling), .names = DT_NAMES([GPT_ROPE_UNSCALED] = "none", [GPT_ROPE_LLAMA3] = "llama3"),
     .initial = "\"none\"", .matters = of_rope,
     .description =
         "rope: how frequencies are changed for sequences longer than original_length. llama3: slow ones are divided by factor."},
    {"model.rope.factor", DT_FIELD_NUMBER, AT(rope.factor), .min = 1, .max = 1e6, .initial = "8", .matters = of_scaled_rope,
     .description = "llama3 scaling: the divisor of the slow frequencies."},
    {"model.rope.low_frequency_factor", DT_FIELD_NUMBER, AT(rope.low_frequency_factor), .min = 0, .above = true, .max = 1e6, .initial = "1",
     .matters = of_scaled_rope, .description = "llama3 scaling: frequencies with fewer turns in original_length than this are slow."},
    {"model.rope.high_frequency_factor", DT_FIELD_NUMBER, AT(rope.high_frequency_factor), .min = 0, .above = true, .max = 1e6,
     .initial = "4", .matters = of_scaled_rope,
     .description = "llama3 scaling: frequencies with more turns in original_length than this do not change."},
    {"model.rope.original_length", DT_FIELD_INT, AT(rope.original_length), .min = 1, .max = 1048576, .initial = "8192",
     .matters = of_scaled_rope, .description = "llama3 scaling: the sequence length before it was extended."},
    {"model.kv_heads", DT_FIELD_INT, AT(kv_heads), .min = 0, .max = 4096, .initial = "0",
     .description = "Heads of keys and values (grouped-query attention); must divide heads. 0: heads."},
    {"model.bias", DT_FIELD_ENUM, AT(bias), .names = DT_NAMES([GPT_BIAS_ALL] = "all", [GPT_BIAS_QKV] = "qkv", [GPT_BIAS_NONE] = "none"),
     .booleans = bias_of_booleans, .initial = "\"all\"",
     .description = "Biases. all: of every linear layer but the head, and of layer norms; qkv: of q, k and v alone; none. true is all, "
                    "false none."},
    {"model.tied", DT_FIELD_BOOL, AT(tied), .max = 1, .initial = "false",
     .description = "The head's weight is the embedding's token table."},
    {"model.qk_norm", DT_FIELD_BOOL, AT(qk_norm), .max = 1, .initial = "false",
     .description = "Each head of q and k has a separate rms norm, before rope."},
};

_Static_assert(sizeof gpt_keys / sizeof *gpt_keys == GPT_KEYS, "gpt_keys has GPT_KEYS rows");

const char *const gpt_key_titles[] = {"layers", "heads", "hidden", "vocab", "tokens"};

const char *const gpt_shape[] = {"model.layers", "model.heads", "model.hidden",       "model.kv_heads", "model.mlp",
                                 "model.ffn",    "model.norm",  "model.norm_epsilon", "model.position", "model.position_rows",
                                 "model.rope",   "model.bias",  "model.tied",         "model.qk_norm",  NULL};

const struct dt_schema_section gpt_sections[] = {{"model.rope", "Rotary position embedding.", NULL}, {0}};

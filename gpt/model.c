#include "gpt/model.h"

#include "gpt/position.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct dt_model gpt_model_of(enum dt_dtype dtype, const struct gpt_model *gpt)
{
    struct dt_model model = {.dtype = dtype};
    memcpy(model.own, gpt, sizeof *gpt);
    return model;
}

dt_status gpt_check_model(struct dt_model *model)
{
    struct gpt_model *m = gpt_change(model);
    m->ffn = m->ffn == 4 * m->hidden ? 0 : m->ffn;
    m->kv_heads = m->kv_heads == m->heads ? 0 : m->kv_heads;
    if (gpt_of(model)->hidden % gpt_of(model)->heads != 0)
        return dt_fail(DT_ERR_INVALID, "model.heads: %d does not divide model.hidden %d", gpt_of(model)->heads, gpt_of(model)->hidden);
    if (gpt_of(model)->heads % gpt_kv_heads(model) != 0)
        return dt_fail(DT_ERR_INVALID, "model.kv_heads: %d does not divide model.heads %d", gpt_of(model)->kv_heads, gpt_of(model)->heads);
    m->position_rows = m->position_rows == m->block_size ? 0 : m->position_rows;
    if (m->position_rows > 0 && m->position_rows < m->block_size)
        return dt_fail(DT_ERR_INVALID, "model.position_rows: %d, and model.block_size is %d: each position has a row", m->position_rows,
                       m->block_size);
    if (gpt_of(model)->position == GPT_POSITION_ROPE && gpt_head_width(model) % 2 != 0)
        return dt_fail(DT_ERR_INVALID,
                       "model.position: rope rotates pairs of features, and model.hidden / model.heads is %d, an odd number",
                       gpt_head_width(model));
    if (gpt_of(model)->position == GPT_POSITION_ROPE && gpt_of(model)->rope.scaling == GPT_ROPE_LLAMA3 &&
        gpt_of(model)->rope.low_frequency_factor >= gpt_of(model)->rope.high_frequency_factor)
        return dt_fail(DT_ERR_INVALID, "model.rope.low_frequency_factor: %g is not below model.rope.high_frequency_factor %g",
                       gpt_of(model)->rope.low_frequency_factor, gpt_of(model)->rope.high_frequency_factor);
    return DT_OK;
}

void gpt_facts(const struct dt_model *model, struct dt_model_facts *out)
{
    /* Logits of a large vocabulary are not kept. Large means that 16 bits cannot number its
     * entries: the 50 thousand of GPT-2 and the study are not large, Llama 3's 128 thousand are. */
    enum { LARGE_VOCABULARY = 1 << 16 };
    const struct gpt_model *m = gpt_of(model);
    *out = (struct dt_model_facts){.blocks = m->layers,
                                   .units = m->block_size,
                                   .loss_terms = m->block_size,
                                   .outputs = (double)m->block_size * m->vocab_size,
                                   .least_boundary_elems = (double)m->block_size * m->hidden,
                                   .ends_share = m->tied,
                                   .late_head = m->vocab_size > LARGE_VOCABULARY};
}

static const char *flops_formula(const struct dt_model *model)
{
    bool as_in_study =
        gpt_qkv_features(model) == 3 * gpt_of(model)->hidden && gpt_mlp_features(model) + gpt_ffn(model) == 8 * gpt_of(model)->hidden;
    return as_in_study ? "3 * 2 * (L * 12 d^2 + V d + 2 L T d) per token, PaLM appendix B"
                       : "3 * 2 * (N + 2 L T d) per token, N weights of all linear layers with the head, PaLM appendix B";
}

/* ---- positions ---- */

struct gpt_positions gpt_positions_of(const struct dt_model *model, int rank, int ranks, enum dt_context_kind kind)
{
    uint32_t count = (uint32_t)(gpt_of(model)->block_size / ranks), half = count / 2;
    if (kind == DT_CONTEXT_HEADS)
        return (struct gpt_positions){count, {(uint32_t)rank * count, (uint32_t)rank * count + half}};
    return (struct gpt_positions){count, {(uint32_t)rank * half, (uint32_t)(2 * ranks - 1 - rank) * half}};
}

double gpt_rope_frequency(const struct dt_model *model, int pair)
{
    const struct gpt_rope_scheme *r = &gpt_of(model)->rope;
    double plain = pow(gpt_rope_base(model), -2.0 * pair / gpt_head_width(model));
    if (r->scaling != GPT_ROPE_LLAMA3)
        return plain;
    double turns = r->original_length * plain / (2 * M_PI);
    double kept = (turns - r->low_frequency_factor) / (r->high_frequency_factor - r->low_frequency_factor);
    kept = fmin(fmax(kept, 0), 1);
    return kept * plain + (1 - kept) * plain / r->factor;
}

double gpt_alibi_slope(int heads, int head)
{
    int power = 1;
    while (2 * power <= heads)
        power *= 2;
    if (head < power)
        return exp2(-8.0 * (head + 1) / power);
    return exp2(-8.0 * (2 * (head - power) + 1) / (2 * power));
}

void gpt_describe(const struct dt_model *model, struct dt_model_texts *out)
{
    const struct gpt_model *m = gpt_of(model);
    snprintf(out->label, sizeof out->label, "%dx%d", m->layers, m->hidden);
    snprintf(out->sizes, sizeof out->sizes, "%d layers, %d heads, hidden %d, vocabulary %d", m->layers, m->heads, m->hidden, m->vocab_size);
    snprintf(out->sample, sizeof out->sample, "%d tokens a sample", m->block_size);
    out->flops_formula = flops_formula(model);
}

void gpt_divide_evenly(struct dt_model *model, int ranks)
{
    struct gpt_model *m = gpt_change(model);
    m->vocab_size -= m->vocab_size % ranks;
}

double gpt_largest_tensor(const struct dt_model *model, double samples, const char **keys)
{
    const struct gpt_model *m = gpt_of(model);
    double tokens = samples * m->block_size, logits = tokens * m->vocab_size, wide = tokens * 4 * m->hidden * m->layers;
    double weights = tokens * m->heads * m->block_size * m->layers, largest = fmax(logits, fmax(wide, weights));
    *keys = "model.block_size and model.heads";
    if (largest == logits)
        *keys = "model.block_size and model.vocab_size";
    else if (largest == wide)
        *keys = "model.block_size and model.hidden";
    return largest;
}

/* An upper bound for both ends of the model: the tables of tokens and positions, or the head; each
 * with norms. */
double gpt_end_elems(const struct dt_model *model, int ranks)
{
    const struct gpt_model *m = gpt_of(model);
    return ((double)m->vocab_size / ranks + gpt_position_rows(model) + 3) * m->hidden;
}

size_t gpt_block_columns(const struct dt_model *model)
{
    size_t qkv = (size_t)gpt_qkv_features(model) * (gpt_of(model)->qk_norm ? 2 : 1);
    return 3 * (size_t)gpt_of(model)->hidden + qkv + (size_t)gpt_mlp_features(model);
}

/* The layers of a segment keep a block's columns for each block; the first input exists before the
 * recomputation. When the head runs, one more segment's input is kept than in any recomputation,
 * and the head has another input after its norm. So three inputs' columns are not available for the
 * logits. */
size_t gpt_logit_rows(const struct dt_model *model, int blocks, size_t rows)
{
    size_t columns = gpt_block_columns(model) * (size_t)blocks - 3 * (size_t)gpt_of(model)->hidden;
    size_t pieces = ((size_t)gpt_of(model)->vocab_size + columns - 1) / columns;
    return (rows + pieces - 1) / pieces;
}

/* Weights by which tokens are multiplied; the embedding looks up rows and multiplies nothing. */
static double linear_weights(const struct dt_model *model)
{
    double d = gpt_of(model)->hidden, V = gpt_of(model)->vocab_size;
    double block = d * gpt_qkv_features(model) + d * d + d * gpt_mlp_features(model) + d * gpt_ffn(model);
    return gpt_of(model)->layers * block + V * d;
}

/* Products of scores and of weighted values, with T keys per query each. */
static double attention_products(const struct dt_model *model)
{
    return (double)gpt_of(model)->layers * 2 * gpt_of(model)->block_size * gpt_of(model)->hidden;
}

double gpt_causal_step_flops(const struct dt_model *model, uint64_t tokens)
{
    return 3 * 2 * (linear_weights(model) + attention_products(model) / 2) * (double)tokens;
}

/* Tensors of decoders in files of Hugging Face models: names and layouts of transformers 4.57.1
 * (src/transformers/models/TYPE/modeling_TYPE.py).
 *
 * GPT-2's weights are those of its class Conv1D, [in, out]. GPT-2 and MPT have q, k and v in one
 * tensor: first all of q, then k, then v. Heads of Llama and similar models rotate features i and i
 * + w/2 together, as rope does here, because Hugging Face's files are permuted from Meta's. */
#include "gpt/hugging_face_tensors.h"

#include "gpt/layout.h"

#include <stdio.h>
#include <string.h>

const struct dt_tensor_word gpt2_tensors[] = {
    DT_TENSOR_WORD("embedding.token.weight", "wte.weight", .rows = DT_ROWS_ANY),
    DT_TENSOR_WORD("embedding.position.weight", "wpe.weight", .rows = DT_ROWS_AT_LEAST),
    DT_TENSOR_WORD("attention.norm.gain", "ln_1.weight"),
    DT_TENSOR_WORD("attention.norm.bias", "ln_1.bias"),
    DT_TENSOR_WORD("attention.q.weight", "attn.c_attn.weight", .transposed = true),
    DT_TENSOR_WORD("attention.k.weight", "attn.c_attn.weight", .transposed = true),
    DT_TENSOR_WORD("attention.v.weight", "attn.c_attn.weight", .transposed = true),
    DT_TENSOR_WORD("attention.q.bias", "attn.c_attn.bias"),
    DT_TENSOR_WORD("attention.k.bias", "attn.c_attn.bias"),
    DT_TENSOR_WORD("attention.v.bias", "attn.c_attn.bias"),
    DT_TENSOR_WORD("attention.projection.weight", "attn.c_proj.weight", .transposed = true),
    DT_TENSOR_WORD("attention.projection.bias", "attn.c_proj.bias"),
    DT_TENSOR_WORD("mlp_up.norm.gain", "ln_2.weight"),
    DT_TENSOR_WORD("mlp_up.norm.bias", "ln_2.bias"),
    DT_TENSOR_WORD("mlp_up.weight", "mlp.c_fc.weight", .transposed = true),
    DT_TENSOR_WORD("mlp_up.bias", "mlp.c_fc.bias"),
    DT_TENSOR_WORD("mlp_down.weight", "mlp.c_proj.weight", .transposed = true),
    DT_TENSOR_WORD("mlp_down.bias", "mlp.c_proj.bias"),
    DT_TENSOR_WORD("final_norm.norm.gain", "ln_f.weight"),
    DT_TENSOR_WORD("final_norm.norm.bias", "ln_f.bias"),
    DT_TENSOR_WORD("head.weight", "lm_head.weight", .rows = DT_ROWS_ANY),
    {0},
};

const struct dt_tensor_word llama_tensors[] = {
    DT_TENSOR_WORD("embedding.token.weight", "embed_tokens.weight", .rows = DT_ROWS_ANY),
    DT_TENSOR_WORD("attention.norm.gain", "input_layernorm.weight"),
    DT_TENSOR_WORD("attention.q.weight", "self_attn.q_proj.weight"),
    DT_TENSOR_WORD("attention.k.weight", "self_attn.k_proj.weight"),
    DT_TENSOR_WORD("attention.v.weight", "self_attn.v_proj.weight"),
    DT_TENSOR_WORD("attention.q.bias", "self_attn.q_proj.bias"),
    DT_TENSOR_WORD("attention.k.bias", "self_attn.k_proj.bias"),
    DT_TENSOR_WORD("attention.v.bias", "self_attn.v_proj.bias"),
    DT_TENSOR_WORD("attention.q_norm.gain", "self_attn.q_norm.weight"),
    DT_TENSOR_WORD("attention.k_norm.gain", "self_attn.k_norm.weight"),
    DT_TENSOR_WORD("attention.projection.weight", "self_attn.o_proj.weight"),
    DT_TENSOR_WORD("mlp_up.norm.gain", "post_attention_layernorm.weight"),
    DT_TENSOR_WORD("mlp_up.gate.weight", "mlp.gate_proj.weight"),
    DT_TENSOR_WORD("mlp_up.weight", "mlp.up_proj.weight"),
    DT_TENSOR_WORD("mlp_down.weight", "mlp.down_proj.weight"),
    DT_TENSOR_WORD("final_norm.norm.gain", "norm.weight"),
    DT_TENSOR_WORD("head.weight", "lm_head.weight", .rows = DT_ROWS_ANY),
    {0},
};

const struct dt_tensor_word mpt_tensors[] = {
    DT_TENSOR_WORD("embedding.token.weight", "wte.weight", .rows = DT_ROWS_ANY),
    DT_TENSOR_WORD("attention.norm.gain", "norm_1.weight"),
    DT_TENSOR_WORD("attention.q.weight", "attn.Wqkv.weight"),
    DT_TENSOR_WORD("attention.k.weight", "attn.Wqkv.weight"),
    DT_TENSOR_WORD("attention.v.weight", "attn.Wqkv.weight"),
    DT_TENSOR_WORD("attention.projection.weight", "attn.out_proj.weight"),
    DT_TENSOR_WORD("mlp_up.norm.gain", "norm_2.weight"),
    DT_TENSOR_WORD("mlp_up.weight", "ffn.up_proj.weight"),
    DT_TENSOR_WORD("mlp_down.weight", "ffn.down_proj.weight"),
    DT_TENSOR_WORD("final_norm.norm.gain", "norm_f.weight"),
    DT_TENSOR_WORD("head.weight", "lm_head.weight", .rows = DT_ROWS_ANY),
    {0},
};

/* "attention.q.weight" */
static bool is_tensor(const struct gpt_layer *layer, const struct gpt_tensor *tensor, const char *name)
{
    char text[96];
    snprintf(text, sizeof text, "%s.%s", gpt_layer_kind_name(layer->kind), gpt_tensor_text(tensor->name));
    return strcmp(text, name) == 0;
}

static size_t rows_of(const struct dt_model *model, const struct gpt_layer *layer, const char *name)
{
    for (const struct gpt_tensor *t = layer->tensors; t < layer->tensors + layer->tensor_count; t++)
        if (is_tensor(layer, t, name))
            return t->count_elems / gpt_tensor_columns(model, layer->kind, t->name);
    return 0;
}

/* The first row of this tensor in the tensor of the file that contains it. */
static void place(const struct dt_model *model, const struct gpt_layer *layer, const struct dt_tensor_word *words,
                  const struct dt_tensor_word *word, struct dt_foreign_tensor *out)
{
    for (const struct dt_tensor_word *w = words; w->ours; w++) {
        if (strcmp(w->theirs, word->theirs) != 0)
            continue;
        size_t rows = rows_of(model, layer, w->ours);
        out->first += w < word ? rows : 0;
        out->their_rows += rows;
    }
}

static void name_both(const struct dt_model_dialect *d, const struct gpt_layer *layer, const struct dt_tensor_word *word,
                      struct dt_foreign_tensor *out)
{
    const char *base = layer->kind == GPT_HEAD ? "" : d->base;
    if (layer->block >= 0) {
        snprintf(out->ours, sizeof out->ours, "blocks.%d.%s", layer->block, word->ours);
        snprintf(out->theirs, sizeof out->theirs, "%s%s.%d.%s", base, d->block, layer->block, word->theirs);
    } else {
        snprintf(out->ours, sizeof out->ours, "%s", word->ours);
        snprintf(out->theirs, sizeof out->theirs, "%s%s", base, word->theirs);
    }
}

bool gpt_foreign_tensor(const struct dt_model *model, const struct dt_model_dialect *dialect, int index, struct dt_foreign_tensor *out)
{
    struct gpt_layer layer = {0};
    for (int i = 0, layers = gpt_layer_count(model); index >= layer.tensor_count; i++) {
        if (i == layers)
            return false;
        index -= layer.tensor_count;
        gpt_describe_layer(model, (struct gpt_cut){0, 1}, i, &layer);
    }
    const struct gpt_tensor *tensor = &layer.tensors[index];
    const struct dt_tensor_word *word = dialect->tensors;
    while (word->ours && !is_tensor(&layer, tensor, word->ours))
        word++;
    size_t columns = gpt_tensor_columns(model, layer.kind, tensor->name);
    *out = (struct dt_foreign_tensor){.rows = tensor->count_elems / columns, .columns = columns};
    if (!word->ours)
        return true;
    out->transposed = word->transposed;
    out->may_have = word->rows;
    place(model, &layer, dialect->tensors, word, out);
    name_both(dialect, &layer, word, out);
    return true;
}

#include "gpt/cost/kept.h"

/* What dtbench itself keeps, in elements per token and per d: a layer's input, which belongs to the
 * residual stream; and q, k, v and the heads' outputs, or the wide activation. */
enum { OWN_STREAM_ELEMS = 1, OWN_SHARED_ELEMS = 4 };

/* The residual stream's share of the bytes that a framework keeps for a block. */
static const double STREAM_SHARE = 10.0 / 34;

static size_t above(double kept, double own)
{
    return kept > own ? (size_t)(kept - own) : 0;
}

size_t gpt_cost_kept_bytes(const struct dt_profile *p, const struct dt_model *model, enum gpt_layer_kind layer, double samples, int ranks,
                           bool sequence_parallel)
{
    double element = (double)dt_dtype_bytes(model->dtype), tokens = samples * gpt_of(model)->block_size, d = gpt_of(model)->hidden;
    double square = tokens * gpt_of(model)->block_size * gpt_of(model)->heads / ranks,
           logits = element * tokens * gpt_of(model)->vocab_size / ranks;
    double shared = 1.0 / ranks, stream = sequence_parallel ? shared : 1;
    bool unfused = gpt_of(model)->attention == GPT_ATTENTION_UNFUSED;
    double wider = (double)gpt_block_columns(model) / (10 * d); /* relative to the block whose bytes the profile knows: 10 d columns */
    size_t of_block = above(wider * (p->memory.block_elems * element + p->memory.block_mask_bytes) / 2 * tokens * d *
                                (STREAM_SHARE * stream + (1 - STREAM_SHARE) * shared),
                            wider * (OWN_STREAM_ELEMS * stream + OWN_SHARED_ELEMS * shared) * element * tokens * d);
    /* FP8 halves the outputs of the MLP's norm and activation. Of attention it halves only the
     * norm's output, because its own output is kept twice */
    double narrower = dt_fp8_recipe(model->fp8)->keeps_fp8 ? element / 2 * tokens * (d * stream + gpt_ffn(model) * shared) : 0;
    double gathered = sequence_parallel && ranks > 1 ? p->memory.gathered_elems / 2 * element * tokens * d * (1 - shared) : 0;
    double of_norm = gpt_of(model)->norm == GPT_NORM_RMS ? p->memory.rms_norm_elems * element * tokens * d * stream : 0;
    of_block += (size_t)(gathered + of_norm); /* rows gathered from other ranks; the block's bytes include those of this rank */
    size_t of_weights = unfused ? above((p->memory.weights_elems * element + p->memory.weights_mask_bytes) * square, element * square) : 0;
    switch (layer) {
    case GPT_ATTENTION: return of_block + of_weights;
    case GPT_MLP_UP: return above((double)of_block, narrower);
    case GPT_MLP_DOWN: return (size_t)(p->memory.last_product_elems * element * tokens * d); /* before ranks sum it up */
    case GPT_HEAD: return above(p->memory.logits_elems * logits, logits);
    case GPT_EMBEDDING:
    case GPT_FINAL_NORM: break;
    }
    return 0;
}

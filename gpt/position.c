#include "gpt/position.h"

#include <math.h>

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

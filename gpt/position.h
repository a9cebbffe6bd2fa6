/* Where tokens are: which positions a rank has of each sample; and for models that learn no table of them angles of rope, slopes of alibi.
 * Numbers of the description alone. */
#ifndef GPT_POSITION_H
#define GPT_POSITION_H

#include "gpt/model.h"

/* The positions of each sample whose rows a rank has, or a kernel is called for: the first half of `count` are those from first[0] on, the
 * second half those from first[1] on, which are greater. count 0: all T, in their order. */
struct gpt_positions {
    uint32_t count, first[2];
};

/* Of rank `rank` among `ranks` that share samples: two pieces of 2 N, number `rank` from the front and its counterpart from the back, so that
 * a causal mask leaves all ranks as many pairs; where they exchange heads, one of N. */
struct gpt_positions gpt_positions_of(const struct dt_model *model, int rank, int ranks, enum dt_context_kind kind);

static inline size_t gpt_positions_count(const struct gpt_positions *positions, const struct dt_model *model)
{
    return positions->count ? positions->count : (size_t)gpt_of(model)->block_size;
}

/* Of row `row`, where each sample has rows of these positions, T of them if all. */
struct gpt_place {
    size_t sample, position;
};

static inline struct gpt_place gpt_place_of(const struct gpt_positions *positions, size_t T, size_t row)
{
    size_t count = positions->count ? positions->count : T, place = row % count, half = count / 2;
    if (positions->count)
        place = place < half ? positions->first[0] + place : positions->first[1] + place - half;
    return (struct gpt_place){row / count, place};
}

/* Radians per position by which pair i in [0, w / 2) of a head turns: base^(-2i / w), or what the model's scaling makes of it. llama3: pairs
 * that turn less than low_frequency_factor times within original_length are slowed by `factor`, those with more than
 * high_frequency_factor turns stay, and between them the two are mixed in proportion to the turns.
 * Source  Su et al., "RoFormer", 2021, equation 15; scaling: "rope_type": "llama3" of Llama 3.1's published configuration and code. */
double gpt_rope_frequency(const struct dt_model *model, int pair);

/* What a score loses for each position between query and key, for query head `head` of `heads`. 2^(-8 (head + 1) / heads) where that is a
 * power of two; otherwise those of the next smaller power of two, and then every second one of twice that power.
 * Source  Press, Smith and Lewis, "Train Short, Test Long", ICLR 2022, section 3, and its published code for other numbers of heads. */
double gpt_alibi_slope(int heads, int head);

#endif

/* Positions of tokens: those that a rank has of each sample, and, for models without a table of
 * positions, angles of rope and slopes of alibi. Computed from the model's description alone. */
#pragma once

#include "gpt/model.h"

/* The positions of each sample whose rows a rank has, or a kernel computes. The first half of
 * `count` are those from first[0] on, the second half those from first[1] on, which are greater.
 * count 0: all T, in their order. */
struct gpt_positions {
    uint32_t count, first[2];
};

/* The positions of rank `rank` of N = `ranks` that share samples. Samples are divided into 2 N
 * pieces, and a rank has piece `rank` counted from the front and from the back, so that under a
 * causal mask all ranks have equally many pairs. If ranks exchange heads, a rank has one of N
 * pieces. */
struct gpt_positions gpt_positions_of(const struct dt_model *model, int rank, int ranks, enum dt_context_kind kind);

static inline size_t gpt_positions_count(const struct gpt_positions *positions, const struct dt_model *model)
{
    return positions->count ? positions->count : (size_t)gpt_of(model)->block_size;
}

/* The sample and position of row `row`, if each sample has rows of these positions (of all T with
 * count 0). */
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

/* Radians per position by which pair i in [0, w / 2) of a head is rotated: base^(-2i / w), changed
 * by the model's scaling. llama3: pairs with fewer than low_frequency_factor turns within
 * original_length are slowed by `factor`; those with more than high_frequency_factor turns are not
 * changed; between the two, both values are mixed in proportion to the turns.
 * Source  Su et al., "RoFormer", 2021, equation 15; scaling: "rope_type": "llama3" of Llama 3.1's
 *         published configuration and code. */
double gpt_rope_frequency(const struct dt_model *model, int pair);

/* The amount subtracted from a score for each position between query and key, for query head `head`
 * of `heads`: 2^(-8 (head + 1) / heads) if `heads` is a power of two. Otherwise the first heads
 * have the slopes for the next smaller power of two, and the others every second slope for twice
 * that power.
 * Source  Press, Smith and Lewis, "Train Short, Test Long", ICLR 2022, section 3, and its published
 *         code for other numbers of heads. */
double gpt_alibi_slope(int heads, int head);

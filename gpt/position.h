/* Where tokens are, for models that learn no table of it: angles of rope, slopes of alibi. Numbers of the description alone. */
#ifndef GPT_POSITION_H
#define GPT_POSITION_H

#include "gpt/model.h"

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

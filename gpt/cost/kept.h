/* What frameworks keep of a decoder's layers in addition to what dtbench keeps. */
#pragma once

#include "gpt/layout.h"
#include "lib/cost/profile.h"

/* Bytes that the profile's framework keeps for a layer's backward in addition to dtbench's, for
 * `samples` samples; 0 if it keeps no more. Attention and the first half of the MLP have half of a
 * block's bytes each. If `ranks` share the layer, each keeps its part, except of the residual
 * stream: that is 10 of a block's 34 bytes per token and d (in 16 bits), and whole on every rank
 * without sequence_parallel. A block that is wider than GPT's is assumed to keep more in
 * proportion. Products in FP8 may keep their inputs in FP8. The second half of the MLP has what is kept
 * of its product's output, which is whole on every rank.
 * Source  Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
 *         2022, equations 1 to 4. */
size_t gpt_cost_kept_bytes(const struct dt_profile *profile, const struct dt_model *model, enum gpt_layer_kind layer, double samples,
                           int ranks, bool sequence_parallel);

/* What frameworks keep of a decoder's layers in addition to what dtbench keeps. */
#ifndef GPT_COST_KEPT_H
#define GPT_COST_KEPT_H

#include "gpt/layout.h"
#include "lib/cost/profile.h"

/* Bytes that the profile's framework keeps for a layer's backward in addition to dtbench's, for
 * `samples` samples; 0 if it keeps no more. Attention and the first half of the MLP carry half a
 * block's each. Where `ranks` share the layer each has its part; a block that is wider than GPT's
 * is taken to keep more in proportion; but of a block's 34 bytes a token and d in 16 bits, 10 are
 * of the residual stream, which is whole on every rank without sequence_parallel. Products in FP8
 * may keep their inputs so.
 * Source  Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, equations 1 to 4. */
size_t gpt_cost_kept_bytes(const struct dt_profile *profile, const struct dt_model *model, enum gpt_layer_kind layer, double samples,
                           int ranks, bool sequence_parallel);

#endif

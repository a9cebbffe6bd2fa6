/* Which layers the stages of a pipeline get. */
#ifndef GPT_PARTITION_H
#define GPT_PARTITION_H

#include "gpt/model.h"

/* first_layer [stages + 1] gets the layer with which each stage begins. Stages are runs of whole pieces: embedding, each block, final norm,
 * head. DT_ERR_INVALID: there are more stages than pieces.
 *
 * DT_SPLIT_BALANCED: the slowest stage is as fast as it can be, by the floating-point operations of its matrix products; the embedding has
 * none, the head those of its logits. Of the many splits that do this one is taken whose stages are near their mean. It depends on the
 * model alone, so that every device and every rank finds the same.
 * Source  Pinar, Aykanat, "Fast optimal load balancing algorithms for 1D partitioning", 2004: the bound is found by bisection; section 2.
 *
 * DT_SPLIT_PARAMETERS, the study's: walk the pieces, add up parameter counts, close a stage when the total passes the next multiple of
 * total / stages, fold what is left into the last stage. Where that rule would leave the last stages empty (a large head passes several
 * multiples at once), the last pieces get a stage each. */
dt_status gpt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer);

/* How large these layers are, and what they are called. */
void gpt_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);

#endif

/* Which layers the stages of a pipeline get. */
#ifndef GPT_PARTITION_H
#define GPT_PARTITION_H

#include "gpt/model.h"

/* first_layer [stages + 1] gets the layer with which each stage begins. Stages are runs of whole pieces (lib/model/split.h): embedding, each
 * block, final norm, head. DT_ERR_INVALID: there are more stages than pieces. A piece costs the floating-point operations of its matrix
 * products; the embedding has none, the head those of its logits. It depends on the model alone, so that every device and every rank finds
 * the same. */
dt_status gpt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer);

/* How large these layers are, and what they are called. */
void gpt_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);

#endif

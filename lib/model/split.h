/* Consecutive pieces of a model dealt to the stages of a pipeline. Arithmetic: nothing is queued. */
#ifndef LIB_MODEL_SPLIT_H
#define LIB_MODEL_SPLIT_H

#include "lib/model/model.h"

/* What no stage has a part of: a transformer block, a residual block. */
struct dt_piece {
    int first_layer;
    uint64_t parameters;
    int64_t cost; /* operations of a sample, in any unit that all pieces share */
    int stages;   /* dt_split's own */
};

/* first_layer [stages] gets the layer with which each stage begins; 0 < stages <= count.
 *
 * DT_SPLIT_BALANCED: the slowest stage costs as little as it can. Of the many splits that do this one is taken whose stages are near their
 * mean.
 * Source  Pinar, Aykanat, "Fast optimal load balancing algorithms for 1D partitioning", 2004: the bound is found by bisection; section 2.
 *
 * DT_SPLIT_PARAMETERS, the study's: walk the pieces, add up parameter counts, close a stage when the total passes the next multiple of
 * total / stages, fold what is left into the last stage. Where that rule would leave the last stages empty (a large head passes several
 * multiples at once), the last pieces get a stage each. */
void dt_split(struct dt_piece *pieces, int count, enum dt_split_rule rule, int stages, int *first_layer);

#endif

/* Divide consecutive pieces of a model into the stages of a pipeline. Arithmetic; nothing is
 * queued. */
#pragma once

#include "lib/model/model.h"

/* Layers that a stage has all or none of: a transformer block, a residual block. */
struct dt_piece {
    int first_layer;
    uint64_t parameters;
    int64_t cost; /* operations of a sample, in the same unit for all pieces */
    int stages;   /* used by dt_split */
};

/* first_layer [stages] becomes the first layer of each stage; 0 < stages <= count.
 *
 * DT_SPLIT_BALANCED: the slowest stage has the lowest possible cost. Of all such splits, choose the
 * one whose stages are closest to their mean.
 * Source  Pinar, Aykanat, "Fast optimal load balancing algorithms for 1D partitioning", 2004:
 *         section 2, the bound is found by bisection.
 *
 * DT_SPLIT_PARAMETERS, the study's rule: go through the pieces, add up parameter counts, end a
 * stage when the total passes the next multiple of total / stages; the last stage gets the rest. If
 * that would leave the last stages empty (a large head passes several multiples at once), the last
 * pieces are one stage each. */
void dt_split(struct dt_piece *pieces, int count, enum dt_split_rule rule, int stages, int *first_layer);

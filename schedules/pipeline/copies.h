/* The table that embedding and tied head share, where they are in two parts of the model: the first and the last virtual stage of a pipeline
 * have a copy each. Their gradients are summed up once a step, after all passes, so that both make the same update and stay equal.
 * Source  Shoeybi et al., "Megatron-LM", 2019: its pipelines all-reduce the gradients of word embeddings between their ends.
 * Differs there after the reduction over replicas, here before it, since shards of the two ranks' parameters do not line up. */
#ifndef SCHEDULES_PIPELINE_COPIES_H
#define SCHEDULES_PIPELINE_COPIES_H

#include "lib/model/model.h"
#include "schedules/mesh/mesh.h"
#include "schedules/plan/plan.h"
#include "schedules/step/timeline.h"

struct copies {
    struct dt_comm *ends; /* the two ranks; NULL on others, and where both copies are on one rank */
    struct dt_event *ready, *done;
};

/* Collective over the mesh's world, for a model with tied tables. Errors: DT_ERR_COMM, DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY; finish them also
 * then. */
dt_status copies_init(struct copies *copies, const struct mesh *mesh, struct dt_device *device, const struct plan *plan);
void copies_finish(struct copies *copies); /* takes zeroed ones */

struct copies_streams {
    struct dt_stream *compute, *network;
    struct timeline *timeline; /* of compute, which waits for the sum */
};

/* The gradients of both copies become their sum. Called for each group that has one, whose gradients are complete and not reduced yet. */
dt_status copies_sum(struct copies *copies, struct dt_stage *stage, const struct dt_group *group, const struct copies_streams *streams);

#endif

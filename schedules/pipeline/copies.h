/* The table that embedding and tied head share, where they are in two parts of the model: the first and the last virtual stage of a pipeline
 * have a copy each. Their gradients are summed up once a step, after all passes, so that both make the same update and stay equal.
 * Source  Shoeybi et al., "Megatron-LM", 2019: its pipelines all-reduce the gradients of word embeddings between their ends.
 * Differs there after the reduction over replicas, here before it, since shards of the two ranks' parameters do not line up. */
#ifndef SCHEDULES_PIPELINE_COPIES_H
#define SCHEDULES_PIPELINE_COPIES_H

#include "schedules/data_parallel/mode.h"
#include "schedules/mesh/mesh.h"

struct copies {
    struct dt_comm *ends; /* the two ranks; NULL on others, and where both copies are on one rank */
    struct dt_event *ready, *done;
};

/* Collective over the mesh's world, for a model with tied tables. Errors: DT_ERR_COMM, DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY; finish them also
 * then. */
dt_status copies_init(struct copies *copies, const struct mesh *mesh, struct dt_device *device, const struct plan *plan);
void copies_finish(struct copies *copies); /* takes zeroed ones */

/* The gradients of both copies become their sum, which the mode's compute stream waits for. Called for each group that has one, whose
 * gradients are complete and not reduced yet. */
dt_status copies_sum(struct copies *copies, const struct dp_setup *setup, const struct dt_group *group);

#endif

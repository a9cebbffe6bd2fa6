/* The table that embedding and tied head share: in a pipeline the first and the last virtual stage
 * have a copy each. Their gradients are summed up once a step, after all passes, so that both make
 * the same update and stay equal.
 * Source  Shoeybi et al., "Megatron-LM", 2019: its pipelines all-reduce the gradients of word
 *         embeddings between their ends. Differs there after the reduction over replicas, here
 *         before it, since shards of the two ranks' parameters do not line up. */
#pragma once

#include "schedules/data_parallel/mode.h"
#include "schedules/mesh/mesh.h"

struct copies {
    struct dt_comm *ends; /* the two ranks with a copy; NULL on others, and if both copies are on one rank */
    struct dt_event *ready, *done;
};

/* Collective over the mesh's world, for a model with tied tables. Errors: DT_ERR_COMM,
 * DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY; call copies_finish also then. */
dt_status copies_init(struct copies *copies, const struct mesh *mesh, struct dt_device *device, const struct plan *plan);
void copies_finish(struct copies *copies); /* takes zeroed ones */

/* Replace the gradients of both copies by their sum; the mode's compute stream waits for it. Call
 * it for each group with a copy, after its gradients are complete and before they are reduced. */
dt_status copies_sum(struct copies *copies, const struct dp_setup *setup, const struct dt_group *group);

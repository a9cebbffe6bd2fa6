/* What ranks share besides parameters of the same layers, and make equal in each step. */
#pragma once

#include "schedules/data_parallel/mode.h"
#include "schedules/mesh/mesh.h"

/* The table that embedding and tied head share: in a pipeline the first and the last virtual stage
 * have a copy each. Their gradients are summed up once a step, after all passes, so that both make
 * the same update. With up to two replicas the copies stay equal to the last bit. With more only to
 * rounding: the sum over replicas adds in an order that depends on an element's place, and the table
 * has other places in the two ranks' parameters.
 * Source  Shoeybi et al., "Megatron-LM", 2019: its pipelines all-reduce the gradients of word
 *         embeddings between their ends. Differs there after the reduction over replicas, here
 *         before it, since shards of the two ranks' parameters do not line up. */

/* *out: the two ranks with a copy; unchanged on others, and if both copies are on one rank.
 * Collective over the mesh's world, for a model with tied tables. Errors: DT_ERR_COMM,
 * DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. Owner of *out: the caller. */
dt_status copies_connect(const struct mesh *mesh, const struct plan *plan, struct dt_comm **out);

/* Replace the gradients of both copies by their sum; the mode's compute stream waits for it. Call it
 * for each group with a copy, after its gradients are complete and before they are reduced. ends:
 * those of copies_connect, or NULL. */
dt_status copies_sum(struct dt_comm *ends, const struct dp_setup *setup, const struct dt_group *group);

/* State of a stage that is not trained, such as the running statistics of batch normalisations:
 * each replica's forward changes its own state, and at the end of a step all replicas get the same
 * one: the mean, or the first replica's.
 * Source  PyTorch's DistributedDataParallel: its buffers are rank 0's (broadcast_buffers). */

/* Queue it after the last forward of a step, at the same point on all ranks of the data axes; the
 * mode's compute stream waits for it. Does nothing if the stage has no state, or no other rank has
 * its layers. Errors: what communicators report while queueing. */
dt_status state_share(const struct dp_setup *setup);

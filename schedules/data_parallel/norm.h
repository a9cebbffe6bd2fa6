/* The norm of all gradients of a step, over shards, replicas, stages and tensor ranks: known on
 * every rank before the first update.
 *
 * Each rank adds up the squares of the gradients that it updates parameters with. Where several
 * replicas make the same update, each adds a part; where other ranks have copies of parameters
 * (tensor groups, tables that both ends of a pipeline share), one copy is counted. One all-reduce
 * of one number over the world gives the sum, from which every rank computes the same factor
 * (lib/kernels/norm.h).
 * Cost    a pass over this rank's part of the gradients; the all-reduce, which no work hides; and
 *         updates that were overlapped with backward or with other gradients' reduction now wait
 *         for the last gradient: a mode that frees gradients as it updates (none, and every mode
 *         with parameter offload) then holds all gradients at the end of the step. */
#pragma once

#include "schedules/data_parallel/mode.h"

struct gradient_norm;

/* Whether updates wait for the norm. */
bool norm_is_needed(const struct experiment *experiment);

/* The state before the first step. */
struct dt_norm_state norm_before_steps(const struct experiment *experiment);

/* Collective over world. World, experiment and stage outlive the norm. Errors: DT_ERR_OOM,
 * DT_ERR_HOST_MEMORY. Owner: the caller, also after a failure. */
dt_status norm_create(const struct experiment *experiment, const struct dt_stage *stage, struct dt_comm *world, struct dt_stream *compute,
                      struct gradient_norm **out);
void norm_destroy(struct gradient_norm *norm, struct dt_stream *compute); /* takes NULL */

/* A range of gradients of group `g`, beginning with its element first_elem: this rank updates with
 * them. */
struct norm_run {
    int g;
    size_t first_elem, count_elems;
    const void *grads;              /* ranks that have the same gradients; NULL: none */
    const struct dt_comm *replicas; /* ranks that have the same ones; NULL: no others do */
};

/* Add a range to the step's sum. Queues on compute, with offload on the host's update stream, which
 * has waited for the gradients. Queueing may happen in the next call or in norm_settle, since
 * adjacent ranges are merged. */
dt_status norm_add(struct gradient_norm *norm, const struct dp_setup *setup, const struct norm_run *run);
/* Call it after all ranges are added: updates that are queued from here on use the norm.
 * summed_ranks: as of optimizer_create. Collective. */
dt_status norm_settle(struct gradient_norm *norm, const struct dp_setup *setup, int summed_ranks);

/* The norm of all gradients of a step, over shards, replicas, stages and tensor ranks: known on every rank before the first update.
 *
 * Each rank adds up the squares of the gradients that it updates parameters with: of those that several replicas update alike a part, and of
 * parameters that other ranks have copies of (tensor groups, tables that both ends of a pipeline share) those of one copy. One all-reduce of
 * one number over the world makes the sum of all of it, from which every rank finds the same (lib/kernels/norm.h).
 * Cost    a pass over this rank's part of the gradients; the all-reduce, which no work hides; and updates that were overlapped with backward
 *         or with other gradients' reduction now wait for the last gradient: a mode that frees gradients as it updates (none, and all of
 *         parameter offload) has all of them at the end of the step. */
#ifndef SCHEDULES_DATA_PARALLEL_NORM_H
#define SCHEDULES_DATA_PARALLEL_NORM_H

#include "schedules/data_parallel/mode.h"

struct gradient_norm;

/* Whether updates wait for the norm. */
bool norm_is_needed(const struct experiment *experiment);

/* What no step has settled yet. */
struct dt_norm_state norm_before_steps(const struct experiment *experiment);

/* Collective over world, which outlives it as do experiment and stage. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. Owner: the caller. */
dt_status norm_create(const struct experiment *experiment, const struct dt_stage *stage, struct dt_device *device, struct dt_comm *world,
                      struct dt_stream *compute, struct gradient_norm **out);
void norm_destroy(struct gradient_norm *norm, struct dt_stream *compute); /* takes NULL */

/* A run of gradients of group `g`, from its element first_elem on: those that this rank updates with. */
struct norm_run {
    int g;
    size_t first_elem, count_elems;
    const void *grads;              /* [count_elems] */
    const struct dt_comm *replicas; /* ranks that have the same ones; NULL: no others do */
};

/* Add a run to the step's sum. Queues on compute, with offload on the host's update stream, which has waited for it: perhaps with the next call
 * or norm_settle, as neighbours in memory are added together. */
dt_status norm_add(struct gradient_norm *norm, const struct dp_setup *setup, const struct norm_run *run);
/* All runs are added: updates that are queued from here on do what the norm says. summed_ranks: as of optimizer_create. Collective. */
dt_status norm_settle(struct gradient_norm *norm, const struct dp_setup *setup, int summed_ranks);

#endif

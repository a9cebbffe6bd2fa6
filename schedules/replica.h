/* A whole copy of a stage's parameters, with gradients and optimizer state: what modes that do not shard hold.
 *
 * Parameters and gradients are one flat allocation each, the last group first: backward fills the gradients from front to back, and a run
 * of groups that finish one after the other is a contiguous bucket. */
#ifndef SCHEDULES_REPLICA_H
#define SCHEDULES_REPLICA_H

#include "schedules/data_parallel.h"
#include "schedules/optimizer.h"

struct replica {
    struct dt_buffer params; /* [stage->param_elems], the model's dtype */
    struct dt_buffer grads;  /* the same, or none where the mode keeps gradients itself */
    struct optimizer *optimizer;
    size_t *offset_elems; /* [group_count] where a group begins */
};

/* Allocate, initialise the parameters in place, and point every group at its part: of the gradients too, with keep_gradients. On failure
 * nothing is left. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
dt_status replica_init(struct replica *replica, const struct dp_setup *setup, bool keep_gradients);
void replica_finish(struct replica *replica, const struct dp_setup *setup);

/* Update elements [first, first + count) with grads [count]. */
dt_status replica_update(struct replica *replica, const struct dp_setup *setup, size_t first, size_t count, const void *grads, int step);

#endif

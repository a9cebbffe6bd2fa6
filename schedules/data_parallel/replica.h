/* A whole copy of a stage's parameters, with gradients and optimizer state: what modes that do not shard parameters hold.
 *
 * Parameters and gradients are one flat allocation each, the last group first: backward fills the gradients from front to back, and a run
 * of groups that finish one after the other is a contiguous bucket.
 *
 * With parameter offload the flat parameters and the optimizer state are in host memory. Gradients are the mode's business then. */
#ifndef SCHEDULES_DATA_PARALLEL_REPLICA_H
#define SCHEDULES_DATA_PARALLEL_REPLICA_H

#include "schedules/data_parallel/offload.h"
#include "schedules/data_parallel/residency.h"

/* What of it a mode wants. */
struct replica_options {
    const size_t *offset_elems; /* [group_count] where each group begins; NULL: one after the other */
    size_t flat_elems;          /* with offset_elems: the length of the whole run, gaps for padding included */
    bool keep_gradients;        /* a flat buffer for them; otherwise the mode keeps gradients itself */
    size_t state_elems;         /* parameters that this rank updates */
    int summed_ranks;           /* its gradients are sums over this number of ranks; 1: averages */
};

struct replica {
    struct dt_buffer params; /* [flat_elems], the model's dtype; padding is zero, or undefined in host memory */
    struct dt_buffer grads;  /* the same, or none */
    struct optimizer *optimizer;
    size_t *offset_elems; /* [group_count] where a group begins */
};

/* Allocate, initialise the parameters in place, and point every group at its part on the device: of the gradients too, where they are
 * kept. On failure nothing is left. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
dt_status replica_init(struct replica *replica, const struct dp_setup *setup, const struct replica_options *options);
void replica_finish(struct replica *replica, const struct dp_setup *setup);

/* Where element `element` of the flat parameters or gradients lies. */
void *replica_params(const struct replica *replica, const struct dp_setup *setup, size_t element);
void *replica_grads(const struct replica *replica, const struct dp_setup *setup, size_t element);

/* Visit elements [first, end) of the flat parameters, which are in group `g`; update: this rank updates them, and their optimizer state begins
 * at its element `state_first`; own: as of struct dp_held. */
dt_status replica_visit(const struct replica *replica, const struct dp_setup *setup, int g, size_t first, size_t end, bool update,
                        size_t state_first, bool own, dp_visit visit, void *context);

/* Update parameters [first, first + count) with grads [count]; their optimizer state begins at its element `state_first`. */
dt_status replica_update(struct replica *replica, const struct dp_setup *setup, size_t first, size_t count, size_t state_first,
                         const void *grads);

/* With offload: copy group `g` to the device, after what its home waits for. A residency's fetch. */
dt_status replica_fetch(const struct replica *replica, const struct dp_setup *setup, int g, const struct offload_home *home,
                        struct resident *to);

#endif

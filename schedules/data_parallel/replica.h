/* A whole copy of a stage's parameters, with gradients and optimizer state: what modes that do not
 * shard parameters hold.
 *
 * Parameters and gradients are one flat allocation each, with the last group first: backward fills
 * the gradients from front to back, and consecutive groups of backward are a contiguous bucket.
 *
 * With parameter offload the flat parameters and the optimizer state are in host memory. The mode
 * then keeps the gradients. */
#pragma once

#include "schedules/data_parallel/offload.h"
#include "schedules/data_parallel/residency.h"

/* What a mode wants of its replica. */
struct replica_options {
    const size_t *offset_elems; /* [group_count] beginning of each group; NULL: without gaps */
    size_t flat_elems;          /* with offset_elems: the total length, with gaps for padding */
    bool keep_gradients;        /* allocate a flat buffer for gradients; otherwise the mode keeps them */
    size_t state_elems;         /* parameters that this rank updates */
    int summed_ranks;           /* gradients are sums over this number of ranks; 1: averages */
};

struct replica {
    struct dt_buffer params; /* [flat_elems], the model's dtype; padding is zero, or undefined in host memory */
    struct dt_buffer grads;  /* like params, or none */
    struct optimizer *optimizer;
    size_t *offset_elems; /* [group_count] where a group begins */
};

/* Allocate, initialise the parameters in place, and point every group at its parameters on the
 * device, and at its gradients if they are kept here. Call replica_finish also after a failure.
 * Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
dt_status replica_init(struct replica *replica, const struct dp_setup *setup, const struct replica_options *options);
void replica_finish(struct replica *replica, const struct dp_setup *setup);

/* Address of element `element` of the flat parameters or gradients. */
void *replica_params(const struct replica *replica, const struct dp_setup *setup, size_t element);
void *replica_grads(const struct replica *replica, const struct dp_setup *setup, size_t element);

/* Visit elements [first, end) of the flat parameters, which are in group `g`; update: this rank
 * updates them, and their optimizer state begins at its element `state_first`; own: as of struct
 * dp_held. */
dt_status replica_visit(const struct replica *replica, const struct dp_setup *setup, int g, size_t first, size_t end, bool update,
                        size_t state_first, bool own, dp_visit visit, void *context);

/* Update parameters [first, first + count) with grads [count]; their optimizer state begins at its
 * element `state_first`. */
dt_status replica_update(struct replica *replica, const struct dp_setup *setup, size_t first, size_t count, size_t state_first,
                         const void *grads);

/* With offload: copy group `g` to the device, after the home's parameters are current. It is a
 * residency's fetch. */
dt_status replica_fetch(const struct replica *replica, const struct dp_setup *setup, int g, const struct offload_home *home,
                        struct resident *to);

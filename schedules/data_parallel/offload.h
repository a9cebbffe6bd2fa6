/* Parameter offload: the parameters that a rank owns are in host memory, with their gradients and
 * optimizer state.
 *
 * Parameters are copied to the device one group ahead of use and freed after it
 * (schedules/data_parallel/residency.h). Gradients are copied to the host as soon as they are
 * reduced, and after the last micro-batch the host updates the parameters, while the device goes on
 * with backward; the step ends with the last update. Gradients that were reduced earlier in the
 * step stay in host memory, where later ones are added to them. Gradients that are not reduced yet
 * (DDP's of all micro-batches but the last, for example) have to stay on the device.
 * Source  Ren et al., "ZeRO-Offload: Democratizing Billion-Scale Model Training", USENIX ATC 2021,
 *         sections 3 and 4.1. Differs: parameters are in host memory, too, as in Rajbhandari et
 *         al., "ZeRO-Infinity", SC 2021, section 5.1. */
#pragma once

#include "schedules/data_parallel/mode.h"
#include "schedules/data_parallel/optimizer.h"

struct offload {
    struct dt_stream *to_device, *to_host; /* copies, one stream for each direction */
    struct dt_stream *update;              /* computation on the host */
};

/* Errors: DT_ERR_HOST_MEMORY, DT_ERR_DEVICE; call offload_finish also then. */
dt_status offload_init(struct offload *offload, struct dt_device *device);
void offload_finish(struct offload *offload);           /* waits for queued work; takes a zeroed struct */
dt_status offload_synchronize(struct offload *offload); /* returns the first failure */

/* Allocate parameters where they live: in host memory with offload, else in the device's. Errors:
 * DT_ERR_OOM. */
dt_status offload_alloc_params(const struct dp_setup *setup, size_t bytes, struct dt_buffer *out);

/* Write the initial values of parameters [first, first + count) of the group to `to` in host
 * memory, then zeros up to `padded` elements. The values are made on the device. Queues on compute.
 * Errors: DT_ERR_OOM. */
dt_status offload_init_params(const struct dp_setup *setup, const struct dt_group *group, size_t first, size_t count, size_t padded,
                              void *to);

/* What this rank updates of parameters that are reduced together: its part of a bucket, or its
 * shard of a group. */
struct offload_home {
    size_t elems;
    struct dt_buffer grads;   /* [elems] in host memory */
    bool has_sum;             /* an earlier micro-batch's gradients are in grads */
    struct dt_event *current; /* parameters in host memory are those of the last step; recorded by the last writer */
};

/* Records `current` on compute: call it after the initialisation. Errors: DT_ERR_OOM,
 * DT_ERR_HOST_MEMORY; call offload_home_finish also then. */
dt_status offload_home_init(struct offload_home *home, const struct dp_setup *setup, size_t elems);
void offload_home_finish(struct offload_home *home, const struct dp_setup *setup);

/* Copy grads [elems], which are reduced and on the device once `ready` is recorded, to the home's
 * gradients, or add them there; then free `holder`, the device memory that they are in. Errors:
 * DT_ERR_OOM. */
dt_status offload_gradients(struct offload_home *home, const struct dp_setup *setup, const struct dt_event *ready, const void *grads,
                            struct dt_buffer *holder);

/* Update params [elems] in host memory, which are parameters [at, at + elems) of the optimizer's
 * range, with the home's gradients; their optimizer state begins at its element `state_first`. */
dt_status offload_update(struct offload_home *home, const struct dp_setup *setup, struct optimizer *optimizer, void *params, size_t at,
                         size_t state_first);

/* Have compute wait until the home's parameters are the step's result. The wait is for the update,
 * so it does not count as communication. */
dt_status offload_await(const struct offload_home *home, const struct dp_setup *setup);

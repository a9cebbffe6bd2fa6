/* Parameter offload: what a rank owns of the parameters lives in host memory, with its gradients and optimizer state.
 *
 * Parameters come to the device one group ahead of use and leave after it (schedules/data_parallel/residency.h). Gradients leave as soon as they are
 * reduced, and after the last micro-batch the host updates them, all of it while the device goes on with backward; the step ends when the
 * last update is made. Gradients that have been reduced earlier in the step wait in host memory, where later ones are added to them; those
 * that have not (DDP's of all micro-batches but the last, say) have to stay on the device.
 * Source  Ren et al., "ZeRO-Offload: Democratizing Billion-Scale Model Training", USENIX ATC 2021, sections 3 and 4.1. Differs: parameters
 *         are in host memory, too, as in Rajbhandari et al., "ZeRO-Infinity", SC 2021, section 5.1. */
#ifndef SCHEDULES_DATA_PARALLEL_OFFLOAD_H
#define SCHEDULES_DATA_PARALLEL_OFFLOAD_H

#include "schedules/data_parallel/mode.h"
#include "schedules/data_parallel/optimizer.h"

struct offload {
    struct dt_stream *to_device, *to_host; /* copies, each way by itself */
    struct dt_stream *update;              /* the host's own work */
};

/* Errors: DT_ERR_HOST_MEMORY, DT_ERR_DEVICE; nothing is left then. */
dt_status offload_init(struct offload *offload, struct dt_device *device);
void offload_finish(struct offload *offload);           /* waits for what is queued; takes a zeroed one */
dt_status offload_synchronize(struct offload *offload); /* the first failure wins */

/* Memory where parameters live: the host's with offload, else the device's. Errors: DT_ERR_OOM. */
dt_status offload_alloc_home(const struct dp_setup *setup, enum dt_category category, size_t bytes, struct dt_buffer *out);

/* Write parameters [first, first + count) of the group to `to` in host memory, freshly initialised, and zeros after them up to `padded`
 * elements. They are made on the device. Queues on compute. Errors: DT_ERR_OOM. */
dt_status offload_init_params(const struct dp_setup *setup, const struct dt_group *group, size_t first, size_t count, size_t padded,
                              void *to);

/* What this rank updates of a run of parameters that are reduced together: a bucket's own part, a group's shard. */
struct offload_home {
    size_t elems;
    struct dt_buffer grads;   /* [elems] in host memory */
    bool has_sum;             /* an earlier micro-batch's are there */
    struct dt_event *arrived; /* to_host: gradients are there */
    struct dt_event *current; /* parameters in host memory are the last step's: recorded by whoever wrote them last */
};

/* Records `current` on compute: call it after the initialisation. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY; finish it also then. */
dt_status offload_home_init(struct offload_home *home, const struct dp_setup *setup, size_t elems);
void offload_home_finish(struct offload_home *home, const struct dp_setup *setup);

/* grads [elems], reduced and on the device from `ready` on, go to the home's, or are added to them; after that `holder`, the device memory
 * they are in, is freed. Errors: DT_ERR_OOM. */
dt_status offload_gradients(struct offload_home *home, const struct dp_setup *setup, const struct dt_event *ready, const void *grads,
                            struct dt_buffer *holder);

/* Update params [elems], in host memory, which are parameters [at, at + elems) of the optimizer's run, with the home's gradients; their optimizer
 * state begins at its element `state_first`. */
dt_status offload_update(struct offload_home *home, const struct dp_setup *setup, struct optimizer *optimizer, void *params, size_t at,
                         size_t state_first);

/* compute goes on once the home's parameters are the step's result: what is waited for is the update, no communication. */
dt_status offload_await(const struct offload_home *home, const struct dp_setup *setup);

#endif

/* State of a stage that is not trained, such as the running statistics of batch normalisations: each replica's forward changes its own, and at
 * the end of a step all replicas have one again: the mean, or the first one's.
 * Source  PyTorch's DistributedDataParallel: its buffers are rank 0's (broadcast_buffers). */
#ifndef SCHEDULES_PIPELINE_STATE_H
#define SCHEDULES_PIPELINE_STATE_H

#include "lib/model/model.h"
#include "schedules/mesh/mesh.h"
#include "schedules/step/timeline.h"

struct state {
    struct dt_event *ready, *done;
};

dt_status state_init(struct state *state, struct dt_device *device);
void state_finish(struct state *state); /* takes a zeroed one */

struct state_streams {
    struct dt_stream *compute, *network;
    struct timeline *timeline; /* of compute, which waits */
};

/* Queued after the last forward of a step, in the same place on all ranks of the mesh's data axes. Nothing happens where the stage has no
 * state, or no other rank has its layers. Errors: what communicators report while queueing. */
dt_status state_make_common(struct state *state, const struct dt_stage *stage, const struct mesh *mesh,
                            const struct state_streams *streams);

#endif

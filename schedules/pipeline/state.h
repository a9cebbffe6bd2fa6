/* State of a stage that is not trained, such as the running statistics of batch normalisations:
 * each replica's forward changes its own state, and at the end of a step all replicas get the same
 * one: the mean, or the first replica's.
 * Source  PyTorch's DistributedDataParallel: its buffers are rank 0's (broadcast_buffers). */
#pragma once

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

/* Queue it after the last forward of a step, at the same point on all ranks of the mesh's data
 * axes. Does nothing if the stage has no state, or no other rank has its layers. Errors: what
 * communicators report while queueing. */
dt_status state_make_common(struct state *state, const struct dt_stage *stage, const struct mesh *mesh,
                            const struct state_streams *streams);

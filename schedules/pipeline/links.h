/* Messages between the neighbouring stages of a pipeline: activations forward, their gradients back.
 *
 * Every pair of neighbours has two communicators of its own, one for each direction, and each end drives its part on a stream of its own:
 * a message never queues behind another neighbour's. */
#ifndef SCHEDULES_PIPELINE_LINKS_H
#define SCHEDULES_PIPELINE_LINKS_H

#include "schedules/mesh/mesh.h"
#include "schedules/plan/plan.h"
#include "schedules/step/timeline.h"

/* One direction of traffic with one neighbour. */
struct link {
    struct dt_comm *comm; /* two ranks: the lower stage is 0; NULL where there is no neighbour */
    struct dt_stream *stream;
    struct dt_event *ready;    /* compute: what is to be sent is there */
    struct dt_event **arrived; /* [slots] stream: received */
};

enum { LINKS = 4 };

struct links {
    struct mesh_neighbours activations, gradients;
    struct link all[LINKS]; /* one for each ACTION_RECV_* and ACTION_SEND_* */
    int slots;
};

/* Collective over the mesh's world. slots: of the plan. Errors: DT_ERR_COMM, DT_ERR_HOST_MEMORY, DT_ERR_DEVICE; finish them also then. */
dt_status links_init(struct links *links, const struct mesh *mesh, struct dt_device *device, int slots);
void links_finish(struct links *links); /* takes zeroed ones */

/* What is received or sent; key: for the timeline. */
struct link_message {
    enum dt_dtype dtype;
    size_t elems;
    uint64_t key;
};

/* Receive a message into `buffer`, which is allocated; the timeline's compute stream goes on once it is there. */
dt_status links_recv(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer);
/* `buffer`, which compute, the timeline's, has just been given the work to fill, goes to the neighbour and is freed behind that. */
dt_status links_send(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_stream *compute, struct dt_buffer *buffer);

/* Theirs, to be synchronized at the end of a step; NULL where there is no neighbour. */
void links_streams(const struct links *links, struct dt_stream *streams[LINKS]);

#endif

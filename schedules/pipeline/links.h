/* Messages between the ranks of a pipeline: activations to the next virtual stage, their gradients to the one before.
 *
 * A channel is one kind of message from each rank to its neighbour on one side (schedules/plan/plan.h). Each has communicators of its own,
 * one for each pair of neighbours, and each end drives its part on a stream of its own: a message never queues after another channel's. */
#ifndef SCHEDULES_PIPELINE_LINKS_H
#define SCHEDULES_PIPELINE_LINKS_H

#include "schedules/mesh/mesh.h"
#include "schedules/plan/plan.h"
#include "schedules/step/timeline.h"

/* One end of a channel. */
struct link {
    struct dt_comm *comm; /* two ranks; NULL where there is no neighbour on that side */
    struct dt_stream *stream;
    struct dt_event **arrived; /* receiving. [parts, slots] stream: received */
    int received;              /* receiving. Messages of this step so far */

    struct dt_event *ready; /* sending. compute: what is to be sent is there */
    /* Sending. [room] by number % room: messages that the neighbour may not have received yet, and stream: sent. */
    struct dt_buffer *kept;
    struct dt_event **done;
    int room, sent, freed; /* of this step so far */
};

enum { LINKS = 2 * PLAN_CHANNELS };

struct links {
    struct mesh_neighbours neighbours[PLAN_CHANNELS];
    struct link senders[PLAN_CHANNELS], receivers[PLAN_CHANNELS];
    const struct plan *plan;
    const struct plan_receipts *receipts;
    struct dt_stream *compute;
};

/* The channels that the plan, with its slots, and those of the other ranks use. Collective over the mesh's world. The plan, its receipts and
 * compute, which the timeline of the messages is of, outlive the links. Errors: DT_ERR_COMM, DT_ERR_HOST_MEMORY, DT_ERR_DEVICE; finish them
 * also then. */
dt_status links_init(struct links *links, const struct mesh *mesh, struct dt_stream *compute, const struct plan *plan,
                     const struct plan_receipts *receipts);
void links_finish(struct links *links); /* takes zeroed ones */

/* What is received or sent; key: for the timeline. */
struct link_message {
    enum dt_dtype dtype;
    size_t elems;
    uint64_t key;
};

/* Receive a message into `buffer`, which is allocated; compute goes on once it is there. What this rank has sent, and the message proves to be
 * received, is freed on compute: memory freed on a stream that exchanges messages would be of no use to the others before the host has waited
 * for it (dt_cuda_stream_exchanges), and each message of a step would need its own. */
dt_status links_recv(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer);
/* `buffer`, which compute has just been given the work to fill, goes to the neighbour, and is kept until that has proved to have it. */
dt_status links_send(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer);
/* The step's last message is on its way: what is still kept is freed after it. The host waits for the links' streams before the next step. */
void links_end_step(struct links *links);

/* What this rank has sent so far, as dt_comm_bytes. */
uint64_t links_sent_bytes(const struct links *links);

/* Theirs, to be synchronized at the end of a step; NULL where there is none. */
void links_streams(const struct links *links, struct dt_stream *streams[LINKS]);

#endif

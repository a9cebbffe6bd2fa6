/* Messages between the ranks of a pipeline: activations to the next virtual stage, their gradients
 * to the one before.
 *
 * A channel is one kind of message from each rank to its neighbour on one side
 * (schedules/plan/plan.h). Each channel has its own communicators, one for each pair of neighbours,
 * and its own stream on each rank: a message never waits for another channel's. */
#pragma once

#include "schedules/mesh/mesh.h"
#include "schedules/plan/plan.h"
#include "schedules/step/timeline.h"

/* One end of a channel. */
struct link {
    struct dt_comm *comm; /* two ranks; NULL where there is no neighbour on that side */
    struct dt_stream *stream;
    struct dt_event **arrived; /* receiving: [parts, slots] stream: received */
    int received;              /* receiving: messages of this step so far */

    /* Sending: [room] by number % room: messages that the neighbour may not have received yet, and
     * the events of `stream` after each send. */
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

/* Make the channels that the plans of this and the other ranks use; slots must be assigned.
 * Collective over the mesh's world. The plan, its receipts and compute, to which the timeline
 * belongs, outlive the links. Errors: DT_ERR_COMM, DT_ERR_HOST_MEMORY, DT_ERR_DEVICE; call
 * links_finish also then. */
dt_status links_init(struct links *links, const struct mesh *mesh, struct dt_stream *compute, const struct plan *plan,
                     const struct plan_receipts *receipts);
void links_finish(struct links *links); /* takes zeroed ones */

/* What is received or sent. key: for the timeline. */
struct link_message {
    enum dt_dtype dtype;
    size_t elems;    /* that are sent */
    size_t gathered; /* elements of the receiver's buffer, if other ranks send the rest of them; 0: this rank sends all */
    uint64_t key;
};

/* Receive a message into `buffer`, which is allocated here; compute waits for it. The message
 * proves that some of this rank's sends have been received: their memory is freed on compute. If it
 * were freed on a stream that exchanges messages, other streams could not reuse it before the host
 * had waited for that stream (dt_cuda_stream_exchanges), and each message of a step would need new
 * memory. */
dt_status links_recv(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer);
/* Send `buffer`, which queued work on compute fills, to the neighbour. It is kept until a message
 * proves that the neighbour has received it. */
dt_status links_send(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer);
/* After the step's last message: free what is still kept. The host waits for the links' streams
 * before the next step. */
void links_end_step(struct links *links);

/* Bytes that this rank has sent so far, as dt_comm_bytes. */
uint64_t links_sent_bytes(const struct links *links);

/* The links' streams, to be synchronized at the end of a step; NULL if there is none. */
void links_streams(const struct links *links, struct dt_stream *streams[LINKS]);

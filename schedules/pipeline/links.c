#include "schedules/pipeline/links.h"

#include <stdlib.h>

/* ---- setting up ---- */

static bool goes_up(enum plan_channel channel)
{
    return channel == PLAN_ACTIVATIONS_UP || channel == PLAN_GRADIENTS_UP;
}

static bool is_used(const struct plan *plan, enum plan_channel channel)
{
    bool both_ways = plan->folded && plan->parts > 1;
    return both_ways || channel == PLAN_ACTIVATIONS_UP || channel == PLAN_GRADIENTS_DOWN;
}

/* comm: the neighbour's; NULL where there is none. events: of messages that arrive. */
static dt_status link_init(struct link *link, struct dt_comm *comm, struct dt_device *device, int events, const char *name)
{
    if (!comm)
        return DT_OK;
    link->comm = comm;
    DT_TRY(dt_stream_create(device, name, &link->stream));
    DT_TRY(dt_event_create(device, &link->ready));
    link->arrived = calloc((size_t)events + 1, sizeof(struct dt_event *));
    if (!link->arrived)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d micro-batches", events);
    for (int i = 0; i < events; i++)
        DT_TRY(dt_event_create(device, &link->arrived[i]));
    return DT_OK;
}

dt_status links_init(struct links *links, const struct mesh *mesh, struct dt_device *device, const struct plan *plan)
{
    static const char *const names[PLAN_CHANNELS] = {[PLAN_ACTIVATIONS_UP] = "activations",
                                                     [PLAN_ACTIVATIONS_DOWN] = "activations",
                                                     [PLAN_GRADIENTS_UP] = "gradients",
                                                     [PLAN_GRADIENTS_DOWN] = "gradients"};
    bool ring = !plan->folded && plan->parts > 1;
    links->plan = plan;
    for (int i = 0; i < PLAN_CHANNELS; i++) {
        struct mesh_neighbours *n = &links->neighbours[i];
        enum plan_channel channel = (enum plan_channel)i;
        if (!is_used(plan, channel))
            continue;
        DT_TRY(mesh_neighbours_init(n, mesh, MESH_PIPELINE, ring, names[i]));
        bool up = goes_up(channel);
        DT_TRY(link_init(&links->receivers[i], up ? n->previous : n->next, device, plan->parts * plan->slots, names[i]));
        DT_TRY(link_init(&links->senders[i], up ? n->next : n->previous, device, 0, names[i]));
    }
    return DT_OK;
}

static void link_finish(struct link *link, const struct plan *plan)
{
    for (int i = 0; link->arrived && link->arrived[i] && i < plan->parts * plan->slots; i++)
        dt_event_destroy(link->arrived[i]);
    free(link->arrived);
    dt_event_destroy(link->ready);
    dt_stream_destroy(link->stream);
}

void links_finish(struct links *links)
{
    for (int i = 0; i < PLAN_CHANNELS; i++) {
        link_finish(&links->receivers[i], links->plan);
        link_finish(&links->senders[i], links->plan);
        mesh_neighbours_finish(&links->neighbours[i]);
    }
}

/* ---- messages ---- */

dt_status links_recv(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer)
{
    struct link *link = &links->receivers[plan_channel(links->plan, action)];
    struct dt_event *arrived = link->arrived[action->part * links->plan->slots + action->slot];
    DT_TRY(dt_alloc(link->stream, DT_ACTIVATIONS, message->elems * dt_dtype_bytes(message->dtype), buffer));
    DT_TRY(dt_recv(link->comm, buffer->data, message->elems, message->dtype, 1 - dt_comm_rank(link->comm), link->stream));
    DT_TRY(dt_event_record(arrived, link->stream));
    return timeline_receive(timeline, arrived, message->key);
}

dt_status links_send(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_stream *compute, struct dt_buffer *buffer)
{
    struct link *link = &links->senders[plan_channel(links->plan, action)];
    DT_TRY(timeline_send(timeline, message->key));
    DT_TRY(dt_event_record(link->ready, compute));
    DT_TRY(dt_stream_wait(link->stream, link->ready));
    DT_TRY(dt_send(link->comm, buffer->data, message->elems, message->dtype, 1 - dt_comm_rank(link->comm), link->stream));
    dt_free(link->stream, buffer);
    return DT_OK;
}

uint64_t links_sent_bytes(const struct links *links)
{
    uint64_t bytes = 0;
    for (int i = 0; i < PLAN_CHANNELS; i++)
        bytes += links->senders[i].comm ? dt_comm_bytes(links->senders[i].comm, DT_COMM_SEND) : 0;
    return bytes;
}

void links_streams(const struct links *links, struct dt_stream *streams[LINKS])
{
    for (int i = 0; i < PLAN_CHANNELS; i++) {
        streams[2 * i] = links->receivers[i].stream;
        streams[2 * i + 1] = links->senders[i].stream;
    }
}

#include "schedules/pipeline/links.h"

#include <stdlib.h>

static struct link *link_of(struct links *links, uint8_t op)
{
    return &links->all[op - ACTION_RECV_INPUT];
}

/* comm: the neighbour's; NULL where there is none. */
static dt_status link_init(struct link *link, struct dt_comm *comm, struct dt_device *device, int slots, const char *name)
{
    if (!comm)
        return DT_OK;
    link->comm = comm;
    DT_TRY(dt_stream_create(device, name, &link->stream));
    DT_TRY(dt_event_create(device, &link->ready));
    link->arrived = calloc((size_t)slots, sizeof(struct dt_event *));
    if (!link->arrived)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d micro-batches", slots);
    for (int i = 0; i < slots; i++)
        DT_TRY(dt_event_create(device, &link->arrived[i]));
    return DT_OK;
}

dt_status links_init(struct links *links, const struct mesh *mesh, struct dt_device *device, int slots)
{
    static const char *const activations = "activations", *const gradients = "gradients";
    links->slots = slots;
    DT_TRY(mesh_neighbours_init(&links->activations, mesh, MESH_PIPELINE, activations));
    DT_TRY(mesh_neighbours_init(&links->gradients, mesh, MESH_PIPELINE, gradients));
    DT_TRY(link_init(link_of(links, ACTION_RECV_INPUT), links->activations.previous, device, slots, activations));
    DT_TRY(link_init(link_of(links, ACTION_SEND_OUTPUT), links->activations.next, device, slots, activations));
    DT_TRY(link_init(link_of(links, ACTION_RECV_GRADIENT), links->gradients.next, device, slots, gradients));
    return link_init(link_of(links, ACTION_SEND_GRADIENT), links->gradients.previous, device, slots, gradients);
}

void links_finish(struct links *links)
{
    for (int i = 0; i < LINKS; i++) {
        struct link *link = &links->all[i];
        for (int slot = 0; link->arrived && slot < links->slots; slot++)
            dt_event_destroy(link->arrived[slot]);
        free(link->arrived);
        dt_event_destroy(link->ready);
        dt_stream_destroy(link->stream);
    }
    mesh_neighbours_finish(&links->activations);
    mesh_neighbours_finish(&links->gradients);
}

dt_status links_recv(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer)
{
    struct link *link = link_of(links, action->op);
    struct dt_event *arrived = link->arrived[action->slot];
    DT_TRY(dt_alloc(link->stream, DT_ACTIVATIONS, message->elems * dt_dtype_bytes(message->dtype), buffer));
    DT_TRY(dt_recv(link->comm, buffer->data, message->elems, message->dtype, 1 - dt_comm_rank(link->comm), link->stream));
    DT_TRY(dt_event_record(arrived, link->stream));
    return timeline_receive(timeline, arrived, message->key);
}

dt_status links_send(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_stream *compute, struct dt_buffer *buffer)
{
    struct link *link = link_of(links, action->op);
    DT_TRY(timeline_send(timeline, message->key));
    DT_TRY(dt_event_record(link->ready, compute));
    DT_TRY(dt_stream_wait(link->stream, link->ready));
    DT_TRY(dt_send(link->comm, buffer->data, message->elems, message->dtype, 1 - dt_comm_rank(link->comm), link->stream));
    dt_free(link->stream, buffer);
    return DT_OK;
}

void links_streams(const struct links *links, struct dt_stream *streams[LINKS])
{
    for (int i = 0; i < LINKS; i++)
        streams[i] = links->all[i].stream;
}

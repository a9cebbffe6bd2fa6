#include "schedules/pipeline/links.h"

#include <stdlib.h>

/* ---- setting up ---- */

static bool is_used(const struct plan *plan, enum plan_channel channel)
{
    bool both_ways = plan->folded && plan->parts > 1;
    return both_ways || channel == PLAN_ACTIVATIONS_UP || channel == PLAN_GRADIENTS_DOWN;
}

static dt_status create_events(struct dt_device *device, int count, struct dt_event ***out)
{
    *out = calloc((size_t)count + 1, sizeof **out);
    DT_TRY(dt_allocated(*out, "no host memory for the events of %d messages", count));
    for (int i = 0; i < count; i++)
        DT_TRY(dt_event_create(device, &(*out)[i]));
    return DT_OK;
}

static void destroy_events(struct dt_event **events)
{
    for (int i = 0; events && events[i]; i++)
        dt_event_destroy(events[i]);
    free(events);
}

/* comm: that with the neighbour; NULL if there is none. */
static dt_status link_init(struct link *link, struct dt_comm *comm, struct dt_device *device, const char *name)
{
    link->comm = comm;
    return comm ? dt_stream_create(device, name, &link->stream) : DT_OK;
}

static dt_status sender_init(struct link *link, struct dt_comm *comm, struct dt_device *device, int most_kept, const char *name)
{
    DT_TRY(link_init(link, comm, device, name));
    if (!comm)
        return DT_OK;
    DT_TRY(create_events(device, most_kept, &link->done));
    link->room = most_kept;
    link->kept = calloc((size_t)most_kept + 1, sizeof *link->kept);
    return dt_allocated(link->kept, "no host memory for %d messages", most_kept);
}

static dt_status receiver_init(struct link *link, struct dt_comm *comm, struct dt_device *device, int slots, const char *name)
{
    DT_TRY(link_init(link, comm, device, name));
    return comm ? create_events(device, slots, &link->arrived) : DT_OK;
}

dt_status links_init(struct links *links, const struct mesh *mesh, struct dt_stream *compute, const struct plan *plan,
                     const struct plan_receipts *receipts)
{
    static const struct {
        const char *stream, *comm;
    } names[PLAN_CHANNELS] = {[PLAN_ACTIVATIONS_UP] = {"activations", "activations up"},
                              [PLAN_ACTIVATIONS_DOWN] = {"activations", "activations down"},
                              [PLAN_GRADIENTS_UP] = {"gradients", "gradients up"},
                              [PLAN_GRADIENTS_DOWN] = {"gradients", "gradients down"}};
    bool ring = !plan->folded && plan->parts > 1;
    struct dt_device *device = dt_stream_device(compute);
    int most_kept[PLAN_CHANNELS];
    *links = (struct links){.plan = plan, .receipts = receipts, .compute = compute};
    plan_receipts_most_kept(receipts, plan, most_kept);
    for (int i = 0; i < PLAN_CHANNELS; i++) {
        struct mesh_neighbours *n = &links->neighbours[i];
        enum plan_channel channel = (enum plan_channel)i;
        if (!is_used(plan, channel))
            continue;
        DT_TRY(mesh_neighbours_init(n, mesh, MESH_PIPELINE, ring, names[i].comm));
        bool up = plan_channel_goes_up(channel);
        DT_TRY(receiver_init(&links->receivers[i], up ? n->previous : n->next, device, plan->parts * plan->slots, names[i].stream));
        DT_TRY(sender_init(&links->senders[i], up ? n->next : n->previous, device, most_kept[i], names[i].stream));
    }
    return DT_OK;
}

static void link_finish(struct link *link)
{
    destroy_events(link->arrived);
    destroy_events(link->done);
    free(link->kept);
    dt_stream_destroy(link->stream);
}

void links_finish(struct links *links)
{
    links_end_step(links); /* of a failed step */
    for (int i = 0; i < PLAN_CHANNELS; i++) {
        link_finish(&links->receivers[i]);
        link_finish(&links->senders[i]);
        mesh_neighbours_finish(&links->neighbours[i]);
    }
}

/* ---- messages ---- */

/* Free what the neighbour has received: the first `count` messages of the step. */
static dt_status free_received(struct link *link, int count, struct dt_stream *compute)
{
    if (link->freed >= count)
        return DT_OK;
    DT_TRY(dt_stream_wait(compute, link->done[(count - 1) % link->room])); /* waits only if the send has not quite ended */
    for (; link->freed < count; link->freed++)
        dt_free(compute, &link->kept[link->freed % link->room]);
    return DT_OK;
}

dt_status links_recv(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer)
{
    enum plan_channel channel = plan_channel(links->plan, action);
    struct link *link = &links->receivers[channel];
    struct dt_event *arrived = link->arrived[action->part * links->plan->slots + action->slot];
    size_t elems = message->gathered ? message->gathered : message->elems;
    DT_TRY(dt_alloc(link->stream, DT_ACTIVATIONS, elems * dt_dtype_bytes(message->dtype), buffer));
    DT_TRY(dt_recv(link->comm, buffer->data, message->elems, message->dtype, 1 - dt_comm_rank(link->comm), link->stream));
    DT_TRY(dt_event_record(arrived, link->stream));
    DT_TRY(timeline_receive(timeline, arrived, message->key));
    const int *received = links->receipts->received[channel][link->received++];
    for (int i = 0; i < PLAN_CHANNELS; i++)
        DT_TRY(free_received(&links->senders[i], received[i], links->compute));
    return DT_OK;
}

dt_status links_send(struct links *links, const struct action *action, const struct link_message *message, struct timeline *timeline,
                     struct dt_buffer *buffer)
{
    struct link *link = &links->senders[plan_channel(links->plan, action)];
    int place = link->sent % link->room;
    DT_TRY(timeline_send(timeline, message->key));
    DT_TRY(dt_stream_follow(link->stream, links->compute));
    DT_TRY(dt_send(link->comm, buffer->data, message->elems, message->dtype, 1 - dt_comm_rank(link->comm), link->stream));
    DT_TRY(dt_event_record(link->done[place], link->stream));
    link->kept[place] = *buffer;
    *buffer = (struct dt_buffer){0};
    link->sent++;
    return DT_OK;
}

void links_end_step(struct links *links)
{
    for (int i = 0; i < PLAN_CHANNELS; i++) {
        struct link *sender = &links->senders[i];
        for (; sender->freed < sender->sent; sender->freed++)
            dt_free(sender->stream, &sender->kept[sender->freed % sender->room]);
        sender->sent = sender->freed = links->receivers[i].received = 0;
    }
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

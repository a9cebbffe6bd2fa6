/* The front of every device: checks arguments once, counts memory, and calls the backend. */
#include "lib/device/device.h"
#include "lib/device/backend.h"

#include <stdio.h>
#include <string.h>

const struct dt_device_kind *dt_device_kind_of(const struct dt_device *device)
{
    return device->kind;
}

void dt_device_info(const struct dt_device *device, struct dt_device_info *out)
{
    memset(out, 0, sizeof *out);
    out->kind = device->kind;
    device->backend->info(device, out);
}

void dt_device_condition(const struct dt_device *device, struct dt_device_condition *out)
{
    dt_condition_init(out);
    if (device->backend->condition)
        device->backend->condition(device, out);
}

void dt_memory_usage(const struct dt_device *device, struct dt_memory_usage *out)
{
    *out = (struct dt_memory_usage){.device = device->ledger.usage, .host = device->host_ledger.usage};
}

void dt_memory_reset_peak(struct dt_device *device)
{
    dt_ledger_reset_peak(&device->ledger);
    dt_ledger_reset_peak(&device->host_ledger);
}

uint64_t dt_device_reserved_bytes(const struct dt_device *device)
{
    return device->backend->reserved_bytes ? device->backend->reserved_bytes(device) : 0;
}

/* For calls that block, or that create or destroy streams. */
static dt_status not_capturing(const struct dt_device *device, const char *what)
{
    return device->capturing ? dt_fail(DT_ERR_INVALID, "%s: not while a graph is captured", what) : DT_OK;
}

dt_status dt_stream_create(struct dt_device *device, const char *name, struct dt_stream **out)
{
    *out = NULL;
    struct dt_stream *stream;
    DT_TRY(not_capturing(device, "stream create"));
    DT_TRY(device->backend->stream_create(device, name, &stream));
    stream->device = device;
    snprintf(stream->name, sizeof stream->name, "%s", name);
    *out = stream;
    return DT_OK;
}

void dt_stream_destroy(struct dt_stream *stream)
{
    if (!stream)
        return;
    if (stream->device->capturing) /* a step that failed in a capture may leave it open */
        dt_graph_end(stream->device->capturing, NULL);
    dt_event_destroy(stream->mark);
    stream->device->backend->stream_destroy(stream);
}

dt_status dt_stream_synchronize(struct dt_stream *stream)
{
    DT_TRY(not_capturing(stream->device, "stream synchronize"));
    return stream->device->backend->stream_synchronize(stream);
}

struct dt_device *dt_stream_device(const struct dt_stream *stream)
{
    return stream->device;
}

static dt_status create_event(struct dt_device *device, bool timed, struct dt_event **out)
{
    *out = NULL;
    struct dt_event *event;
    DT_TRY(device->backend->event_create(device, timed, &event));
    event->device = device;
    event->timed = timed;
    *out = event;
    return DT_OK;
}

dt_status dt_event_create(struct dt_device *device, struct dt_event **out)
{
    return create_event(device, false, out);
}

dt_status dt_event_create_timed(struct dt_device *device, struct dt_event **out)
{
    return create_event(device, true, out);
}

void dt_event_destroy(struct dt_event *event)
{
    if (event)
        event->device->backend->event_destroy(event);
}

static dt_status same_device(const struct dt_event *event, const struct dt_device *device, const char *what)
{
    if (event->device == device)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: the event belongs to another device (%s)", what, event->device->backend->kind);
}

dt_status dt_pass_enter(struct dt_device *device, struct dt_pass pass)
{
    device->pass = pass;
    return device->backend->pass_enter ? device->backend->pass_enter(device, pass) : DT_OK;
}

struct dt_pass dt_pass_now(const struct dt_device *device)
{
    return device->pass;
}

dt_status dt_event_record(struct dt_event *event, struct dt_stream *stream)
{
    DT_TRY(same_device(event, stream->device, "event record"));
    return stream->device->backend->event_record(event, stream);
}

dt_status dt_stream_wait(struct dt_stream *stream, const struct dt_event *event)
{
    DT_TRY(same_device(event, stream->device, "stream wait"));
    return stream->device->backend->stream_wait(stream, event);
}

dt_status dt_stream_mark(struct dt_stream *stream, const struct dt_event **out)
{
    if (!stream->mark)
        DT_TRY(dt_event_create(stream->device, &stream->mark));
    *out = stream->mark;
    return dt_event_record(stream->mark, stream);
}

dt_status dt_stream_follow(struct dt_stream *stream, struct dt_stream *source)
{
    const struct dt_event *mark;
    DT_TRY(dt_stream_mark(source, &mark));
    return dt_stream_wait(stream, mark);
}

dt_status dt_event_elapsed_ns(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns)
{
    *out_ns = 0;
    DT_TRY(same_device(end, start->device, "elapsed time"));
    DT_TRY(not_capturing(start->device, "elapsed time"));
    if (!start->timed || !end->timed)
        return dt_fail(DT_ERR_INVALID, "elapsed time: an event is not a timed one");
    return start->device->backend->event_elapsed_ns(start, end, out_ns);
}

dt_status dt_event_idle(const struct dt_event *start, const struct dt_event *end, struct dt_stream_idle *out)
{
    int64_t elapsed_ns;
    *out = (struct dt_stream_idle){0};
    DT_TRY(dt_event_elapsed_ns(start, end, &elapsed_ns)); /* start and end were checked in the same way */
    if (start->device->backend->event_idle)
        start->device->backend->event_idle(start, end, out);
    return DT_OK;
}

static struct dt_ledger *ledger_of(struct dt_device *device, bool on_host)
{
    return on_host ? &device->host_ledger : &device->ledger;
}

/* A hash of one allocation; dt_device.live is the sum over all live allocations. The mixing is
 * splitmix64's. */
static uint64_t allocation_number(const struct dt_buffer *buffer)
{
    uint64_t what = (uint64_t)buffer->bytes << 4 | (uint64_t)buffer->category << 1 | buffer->on_host;
    uint64_t x = (uintptr_t)buffer->data + what * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static dt_status allocate(struct dt_stream *stream, bool on_host, enum dt_category category, size_t bytes, struct dt_buffer *out)
{
    const struct dt_device_backend *backend = stream->device->backend;
    struct dt_ledger *ledger = ledger_of(stream->device, on_host);
    struct dt_buffer buffer = {.bytes = bytes, .category = category, .on_host = on_host};
    memset(out, 0, sizeof *out);
    if ((unsigned)category >= DT_CATEGORY_COUNT)
        return dt_fail(DT_ERR_INVALID, "allocation: %d is no memory category", (int)category);
    if (bytes == 0)
        return DT_OK;
    DT_TRY(dt_ledger_add(ledger, category, bytes));
    dt_status status = backend->alloc(stream, bytes, &buffer);
    if (status < 0) {
        dt_ledger_remove(ledger, category, bytes);
        return status;
    }
    stream->device->live += allocation_number(&buffer);
    *out = buffer;
    return DT_OK;
}

dt_status dt_alloc(struct dt_stream *stream, enum dt_category category, size_t bytes, struct dt_buffer *out)
{
    return allocate(stream, false, category, bytes, out);
}

dt_status dt_alloc_host(struct dt_stream *stream, enum dt_category category, size_t bytes, struct dt_buffer *out)
{
    return allocate(stream, true, category, bytes, out);
}

void dt_free(struct dt_stream *stream, struct dt_buffer *buffer)
{
    if (!buffer->data)
        return;
    dt_ledger_remove(ledger_of(stream->device, buffer->on_host), buffer->category, buffer->bytes);
    stream->device->live -= allocation_number(buffer);
    stream->device->backend->free(stream, buffer);
    memset(buffer, 0, sizeof *buffer);
}

bool dt_device_captures(const struct dt_device *device)
{
    return device->backend->captures;
}

dt_status dt_graph_begin(struct dt_stream *origin)
{
    struct dt_device *device = origin->device;
    DT_TRY(not_capturing(device, "graph begin"));
    if (!device->backend->captures)
        return dt_fail(DT_ERR_INVALID, "graph begin: the %s device has no graphs", device->backend->kind);
    DT_TRY(device->backend->graph_begin(origin));
    device->capturing = origin;
    device->live_at_begin = device->live;
    dt_memory_usage(device, &device->usage_at_begin);
    dt_memory_reset_peak(device);
    return DT_OK;
}

static void raise_peaks(struct dt_device *device, const struct dt_memory_usage *usage)
{
    dt_ledger_raise_peak(&device->ledger, &usage->device);
    dt_ledger_raise_peak(&device->host_ledger, &usage->host);
}

dt_status dt_graph_end(struct dt_stream *origin, struct dt_graph **out)
{
    struct dt_device *device = origin->device;
    struct dt_graph *graph;
    struct dt_memory_usage usage;
    if (out)
        *out = NULL;
    if (device->capturing != origin)
        return dt_fail(DT_ERR_INVALID, "graph end: no capture began on stream %s", origin->name);
    device->capturing = NULL;
    dt_memory_usage(device, &usage);
    raise_peaks(device, &device->usage_at_begin);
    if (!out)
        return device->backend->graph_end(origin, NULL);
    DT_TRY(device->backend->graph_end(origin, &graph));
    graph->device = device;
    graph->live = device->live_at_begin;
    graph->usage = usage;
    dt_status status = device->backend->graph_launch(graph, origin);
    if (status == DT_OK && device->live == graph->live) {
        *out = graph;
        return DT_OK;
    }
    device->backend->graph_destroy(graph);
    DT_TRY(status);
    return dt_fail(DT_ERR_INVALID, "graph end: other memory is allocated than at its begin, so it cannot be repeated");
}

dt_status dt_graph_launch(struct dt_graph *graph, struct dt_stream *stream)
{
    struct dt_device *device = graph->device;
    if (stream->device != device)
        return dt_fail(DT_ERR_INVALID, "graph launch: stream %s is on another device", stream->name);
    DT_TRY(not_capturing(device, "graph launch"));
    if (device->live != graph->live)
        return dt_fail(DT_ERR_INVALID, "graph launch: other memory is allocated than when the graph was captured");
    DT_TRY(device->backend->graph_launch(graph, stream));
    raise_peaks(device, &graph->usage);
    return DT_OK;
}

void dt_graph_destroy(struct dt_graph *graph)
{
    if (graph)
        graph->device->backend->graph_destroy(graph);
}

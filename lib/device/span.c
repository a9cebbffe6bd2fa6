#include "lib/device/span.h"
#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/device/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STREAMS = 64 };

struct marked {
    struct dt_span span;
    struct dt_event *start, *end; /* NULL: the times are those of the entry with this index: */
    int times;                    /* index in marked */
};

struct stream_spans {
    const struct dt_stream *stream; /* NULL: unused */
    int last;                       /* index of its latest span, in marked */
    int depth;                      /* number of open spans: the recorded one, and those nested in it */
};

struct dt_spans {
    struct dt_event *base;
    int64_t base_ns, base_error_ns; /* when the base mark was passed, as in struct dt_spans_recorded */
    struct marked *marked;          /* [count] */
    int count, capacity;
    struct stream_spans streams[MOST_STREAMS];
};

enum { BASE_TRIALS = 8 };

/* Mark time 0, and read the host's clock there. If the device does not say when a mark was passed,
 * that time lies between two readings of the clock; of several trials the one with the shortest
 * interval is used. */
static dt_status mark_base(struct dt_spans *spans, struct dt_stream *stream)
{
    const struct dt_device_backend *backend = stream->device->backend;
    spans->base_error_ns = INT64_MAX;
    for (int i = 0; i < BASE_TRIALS && spans->base_error_ns > 0; i++) {
        struct dt_event *event;
        DT_TRY(dt_event_create_timed(stream->device, &event));
        int64_t before_ns = dt_clock_ns();
        dt_status status = dt_event_record(event, stream);
        if (status == DT_OK)
            status = dt_stream_synchronize(stream); /* other streams' work must not start before time 0 */
        int64_t error_ns = backend->event_clock_ns ? 0 : (dt_clock_ns() - before_ns + 1) / 2;
        bool better = status == DT_OK && error_ns < spans->base_error_ns;
        if (better) {
            spans->base_error_ns = error_ns;
            spans->base_ns = backend->event_clock_ns ? backend->event_clock_ns(event) : before_ns + error_ns;
        }
        dt_event_destroy(better ? spans->base : event);
        spans->base = better ? event : spans->base;
        DT_TRY(status);
    }
    return DT_OK;
}

dt_status dt_spans_start(struct dt_stream *stream)
{
    if (stream->device->spans)
        return dt_fail(DT_ERR_INVALID, "spans: they are recorded already");
    struct dt_spans *spans = calloc(1, sizeof *spans);
    DT_TRY(dt_allocated(spans, "no host memory for spans"));
    dt_status status = mark_base(spans, stream);
    if (status == DT_OK) {
        stream->device->spans = spans;
        return DT_OK;
    }
    dt_event_destroy(spans->base);
    free(spans);
    return status;
}

/* The entry of the stream, existing or new; NULL: all are in use. */
static struct stream_spans *place_of(struct dt_spans *spans, const struct dt_stream *stream)
{
    for (int i = 0; i < MOST_STREAMS; i++) {
        if (!spans->streams[i].stream)
            spans->streams[i].stream = stream;
        if (spans->streams[i].stream == stream)
            return &spans->streams[i];
    }
    return NULL;
}

/* Add a span of the current pass, without marks. */
static dt_status add(struct dt_spans *spans, struct dt_device *device, struct marked **out)
{
    DT_TRY(dt_allocated(DT_ROOM(spans->marked, spans->count, spans->capacity), "no host memory for %d spans", spans->count + 1));
    *out = &spans->marked[spans->count++];
    **out = (struct marked){.span = {.pass = device->pass, .peer = -1}, .times = spans->count - 1};
    return DT_OK;
}

dt_status dt_span_begin(struct dt_stream *stream, const char *name, enum dt_span_category category, uint64_t bytes, const char *group)
{
    struct dt_spans *spans = stream->device->spans;
    struct marked *m = NULL;
    if (!spans)
        return DT_OK;
    struct stream_spans *place = place_of(spans, stream);
    if (!place)
        return dt_fail(DT_ERR_INVALID, "spans: more than %d streams", MOST_STREAMS);
    if (place->depth > 0) {
        place->depth++;
        return DT_OK;
    }
    DT_TRY(add(spans, stream->device, &m));
    DT_TRY(dt_event_create_timed(stream->device, &m->start));
    DT_TRY(dt_event_create_timed(stream->device, &m->end));
    m->span.category = category;
    m->span.bytes = bytes;
    m->span.stream_number = (int)(place - spans->streams);
    memcpy(m->span.held_bytes, stream->device->ledger.usage.current_bytes, sizeof m->span.held_bytes);
    snprintf(m->span.name, sizeof m->span.name, "%s", name);
    snprintf(m->span.stream, sizeof m->span.stream, "%s", stream->name);
    snprintf(m->span.group, sizeof m->span.group, "%s", group ? group : "");
    place->last = spans->count - 1;
    place->depth = 1;
    return dt_event_record(m->start, stream);
}

dt_status dt_span_end(struct dt_stream *stream)
{
    struct dt_spans *spans = stream->device->spans;
    struct stream_spans *place = spans ? place_of(spans, stream) : NULL;
    if (!place || place->depth == 0 || --place->depth > 0)
        return DT_OK;
    return dt_event_record(spans->marked[place->last].end, stream);
}

dt_status dt_span_message(struct dt_stream *stream, bool sends, int peer, uint64_t bytes)
{
    struct dt_spans *spans = stream->device->spans;
    struct stream_spans *place = spans ? place_of(spans, stream) : NULL;
    if (!place || place->depth == 0)
        return DT_OK;
    struct marked *m = &spans->marked[place->last];
    m->span.bytes += bytes;
    if (m->span.peer >= 0) {
        DT_TRY(add(spans, stream->device, &m));
        m->span = spans->marked[place->last].span;
        m->span.inside = true;
        m->span.bytes = bytes;
        m->times = place->last;
    }
    m->span.peer = peer;
    m->span.sends = sends;
    return DT_OK;
}

dt_status dt_spans_time_of(const struct dt_device *device, const struct dt_event *event, int64_t *out_ns)
{
    if (!device->spans)
        return dt_fail(DT_ERR_INVALID, "spans: none are recorded");
    return dt_event_elapsed_ns(device->spans->base, event, out_ns);
}

void dt_spans_forget(struct dt_device *device)
{
    struct dt_spans *spans = device->spans;
    device->spans = NULL;
    if (!spans)
        return;
    for (int i = 0; i < spans->count; i++) {
        dt_event_destroy(spans->marked[i].start);
        dt_event_destroy(spans->marked[i].end);
    }
    dt_event_destroy(spans->base);
    free(spans->marked);
    free(spans);
}

static dt_status read_times(const struct dt_spans *spans, struct dt_span *out)
{
    for (int i = 0; i < spans->count; i++) {
        const struct marked *m = &spans->marked[spans->marked[i].times];
        out[i] = spans->marked[i].span;
        DT_TRY(dt_event_elapsed_ns(spans->base, m->start, &out[i].start_ns));
        DT_TRY(dt_event_elapsed_ns(spans->base, m->end, &out[i].end_ns));
    }
    return DT_OK;
}

dt_status dt_spans_collect(struct dt_device *device, struct dt_spans_recorded *out)
{
    struct dt_spans *spans = device->spans;
    *out = (struct dt_spans_recorded){0};
    if (!spans)
        return dt_fail(DT_ERR_INVALID, "spans: none are recorded");
    struct dt_span *all = calloc((size_t)spans->count + 1, sizeof *all);
    dt_status status = all ? read_times(spans, all) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d spans", spans->count);
    if (status < 0)
        free(all);
    else
        *out = (struct dt_spans_recorded){all, spans->count, spans->base_ns, spans->base_error_ns};
    dt_spans_forget(device);
    return status;
}

#include "schedules/step/timeline.h"

#include "lib/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mark {
    struct dt_event *event;
    enum timeline_phase phase; /* the phase of the time from here to the next mark */
    uint64_t key;              /* the message that is waited for from here on, or was made before this mark */
    bool received, sent;
    struct dt_pass pass; /* the pass that the time belongs to */
};

struct timeline {
    struct dt_device *device;
    struct dt_stream *compute;
    struct mark *marks; /* their events are reused in the next step */
    int count, capacity;
    enum timeline_phase phase;
};

dt_status timeline_create(struct dt_device *device, struct dt_stream *compute, struct timeline **out)
{
    *out = calloc(1, sizeof **out);
    DT_TRY(dt_allocated(*out, "no host memory for a timeline"));
    (*out)->device = device;
    (*out)->compute = compute;
    return DT_OK;
}

void timeline_destroy(struct timeline *timeline)
{
    if (!timeline)
        return;
    for (int i = 0; i < timeline->capacity; i++)
        dt_event_destroy(timeline->marks[i].event);
    free(timeline->marks);
    free(timeline);
}

static dt_status grow(struct timeline *timeline)
{
    int capacity = timeline->capacity ? 2 * timeline->capacity : 64;
    DT_TRY(dt_allocated(dt_resize(&timeline->marks, (size_t)capacity * sizeof *timeline->marks), "no host memory for %d timeline marks",
                        capacity));
    while (timeline->capacity < capacity) {
        struct mark *mark = &timeline->marks[timeline->capacity];
        *mark = (struct mark){0};
        DT_TRY(dt_event_create_timed(timeline->device, &mark->event));
        timeline->capacity++;
    }
    return DT_OK;
}

static dt_status add_mark(struct timeline *timeline, struct mark like)
{
    if (timeline->count == timeline->capacity)
        DT_TRY(grow(timeline));
    struct mark *mark = &timeline->marks[timeline->count++];
    like.event = mark->event;
    like.pass = dt_pass_now(timeline->device);
    *mark = like;
    timeline->phase = like.phase;
    return dt_event_record(mark->event, timeline->compute);
}

dt_status timeline_enter(struct timeline *timeline, enum timeline_phase phase)
{
    return add_mark(timeline, (struct mark){.phase = phase});
}

dt_status streams_synchronize(struct dt_stream *const *streams, size_t count)
{
    dt_status first = DT_OK;
    char text[1024] = "";
    for (size_t i = 0; i < count; i++) {
        dt_status status = streams[i] ? dt_stream_synchronize(streams[i]) : DT_OK;
        if (status < 0 && first == DT_OK) {
            first = status;
            snprintf(text, sizeof text, "%s", dt_error_message());
        }
    }
    return first < 0 ? dt_fail(first, "%s", text) : DT_OK;
}

dt_status timeline_start(struct timeline *timeline)
{
    timeline->count = 0;
    return timeline_enter(timeline, TIMELINE_FORWARD);
}

/* After the wait the phase goes on as before. */
static dt_status wait_within(struct timeline *timeline, const struct dt_event *event, struct mark mark)
{
    enum timeline_phase before = timeline->phase;
    DT_TRY(add_mark(timeline, mark));
    DT_TRY(dt_stream_wait(timeline->compute, event));
    return timeline_enter(timeline, before);
}

dt_status timeline_wait(struct timeline *timeline, const struct dt_event *event)
{
    return wait_within(timeline, event, (struct mark){.phase = TIMELINE_EXPOSED});
}

dt_status timeline_follow(struct timeline *timeline, struct dt_stream *source)
{
    const struct dt_event *mark;
    DT_TRY(dt_stream_mark(source, &mark));
    return timeline_wait(timeline, mark);
}

dt_status timeline_receive(struct timeline *timeline, const struct dt_event *event, uint64_t key)
{
    return wait_within(timeline, event, (struct mark){.phase = TIMELINE_MESSAGE, .key = key, .received = true});
}

dt_status timeline_send(struct timeline *timeline, uint64_t key)
{
    return add_mark(timeline, (struct mark){.phase = timeline->phase, .key = key, .sent = true});
}

dt_status timeline_stop(struct timeline *timeline)
{
    return timeline_enter(timeline, timeline->phase);
}

dt_status timeline_collect(const struct timeline *timeline, struct timeline_times *out)
{
    *out = (struct timeline_times){0};
    for (int i = 0; i + 1 < timeline->count; i++) {
        const struct mark *mark = &timeline->marks[i];
        struct dt_stream_idle idle;
        int64_t ns;
        DT_TRY(dt_event_elapsed_ns(mark->event, mark[1].event, &ns));
        DT_TRY(dt_event_idle(mark->event, mark[1].event, &idle));
        out->phase_ns[mark->phase] += ns - idle.host_ns - idle.copy_ns;
        out->phase_ns[TIMELINE_EXPOSED] += idle.copy_ns;
        out->host_ns += idle.host_ns;
        out->all_ns += ns;
    }
    return DT_OK;
}

const struct dt_event *timeline_begin(const struct timeline *timeline)
{
    return timeline->marks[0].event;
}

dt_status timeline_messages(const struct timeline *timeline, bool sent, struct timeline_message **out, int *count)
{
    struct timeline_message *messages = calloc((size_t)timeline->count + 1, sizeof *messages);
    *out = messages;
    *count = 0;
    DT_TRY(dt_allocated(messages, "no host memory for the messages of a step"));
    for (int i = 0; i < timeline->count; i++) {
        const struct mark *mark = &timeline->marks[i];
        struct timeline_message *message = &messages[*count];
        if (sent ? !mark->sent : !mark->received)
            continue;
        message->key = mark->key;
        DT_TRY(dt_event_elapsed_ns(timeline->marks[0].event, mark->event, &message->begin_ns));
        DT_TRY(dt_event_elapsed_ns(timeline->marks[0].event, mark[sent ? 0 : 1].event, &message->end_ns));
        ++*count;
    }
    return DT_OK;
}

dt_status timeline_spans(const struct timeline *timeline, struct dt_span **out, int *count)
{
    static const char *const names[TIMELINE_PHASES] = {
        [TIMELINE_FORWARD] = "forward",
        [TIMELINE_BACKWARD] = "backward",
        [TIMELINE_OPTIMIZER] = "optimizer",
        [TIMELINE_EXPOSED] = "exposed",
        [TIMELINE_MESSAGE] = "waiting for a neighbour",
    };
    DT_FREED struct dt_span *spans = calloc((size_t)timeline->count + 1, sizeof *spans);
    *out = NULL;
    *count = 0;
    DT_TRY(dt_allocated(spans, "no host memory for %d phases", timeline->count));
    for (int i = 0; i + 1 < timeline->count; i++) {
        spans[i].category = DT_SPAN_PHASE;
        spans[i].pass = timeline->marks[i].pass;
        spans[i].peer = -1;
        snprintf(spans[i].name, sizeof spans[i].name, "%s", names[timeline->marks[i].phase]);
        DT_TRY(dt_spans_time_of(timeline->device, timeline->marks[i].event, &spans[i].start_ns));
        DT_TRY(dt_spans_time_of(timeline->device, timeline->marks[i + 1].event, &spans[i].end_ns));
    }
    *out = DT_PASSED_ON(spans);
    *count = timeline->count > 0 ? timeline->count - 1 : 0;
    return DT_OK;
}

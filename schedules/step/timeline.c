#include "schedules/step/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mark {
    struct dt_event *event;
    enum timeline_phase phase; /* of the time from here to the next mark */
};

struct timeline {
    struct dt_device *device;
    struct dt_stream *compute;
    struct mark *marks; /* events stay for the next step */
    int count, capacity;
    enum timeline_phase phase;
};

dt_status timeline_create(struct dt_device *device, struct dt_stream *compute, struct timeline **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a timeline");
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
    struct mark *marks = realloc(timeline->marks, (size_t)capacity * sizeof *marks);
    if (!marks)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d timeline marks", capacity);
    timeline->marks = marks;
    while (timeline->capacity < capacity) {
        struct mark *mark = &marks[timeline->capacity];
        *mark = (struct mark){0};
        DT_TRY(dt_event_create_timed(timeline->device, &mark->event));
        timeline->capacity++;
    }
    return DT_OK;
}

dt_status timeline_enter(struct timeline *timeline, enum timeline_phase phase)
{
    if (timeline->count == timeline->capacity)
        DT_TRY(grow(timeline));
    struct mark *mark = &timeline->marks[timeline->count++];
    mark->phase = timeline->phase = phase;
    return dt_event_record(mark->event, timeline->compute);
}

dt_status timeline_start(struct timeline *timeline)
{
    timeline->count = 0;
    return timeline_enter(timeline, TIMELINE_OTHER);
}

dt_status timeline_wait(struct timeline *timeline, const struct dt_event *event)
{
    enum timeline_phase before = timeline->phase;
    DT_TRY(timeline_enter(timeline, TIMELINE_EXPOSED));
    DT_TRY(dt_stream_wait(timeline->compute, event));
    return timeline_enter(timeline, before);
}

dt_status timeline_stop(struct timeline *timeline)
{
    return timeline_enter(timeline, TIMELINE_OTHER);
}

dt_status timeline_collect(const struct timeline *timeline, int64_t phase_ns[TIMELINE_PHASES])
{
    memset(phase_ns, 0, TIMELINE_PHASES * sizeof *phase_ns);
    for (int i = 0; i + 1 < timeline->count; i++) {
        int64_t ns;
        DT_TRY(dt_event_elapsed_ns(timeline->marks[i].event, timeline->marks[i + 1].event, &ns));
        phase_ns[timeline->marks[i].phase] += ns;
    }
    return DT_OK;
}

dt_status timeline_spans(const struct timeline *timeline, struct dt_span **out, int *count)
{
    static const char *const names[TIMELINE_PHASES] = {
        [TIMELINE_OTHER] = "other",         [TIMELINE_FORWARD] = "forward", [TIMELINE_BACKWARD] = "backward",
        [TIMELINE_OPTIMIZER] = "optimizer", [TIMELINE_EXPOSED] = "exposed",
    };
    struct dt_span *spans = calloc((size_t)timeline->count + 1, sizeof *spans);
    dt_status status = spans ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d phases", timeline->count);
    *out = NULL;
    *count = 0;
    for (int i = 0; status == DT_OK && i + 1 < timeline->count; i++) {
        spans[i].category = DT_SPAN_PHASE;
        snprintf(spans[i].name, sizeof spans[i].name, "%s", names[timeline->marks[i].phase]);
        status = dt_spans_time_of(timeline->device, timeline->marks[i].event, &spans[i].start_ns);
        if (status == DT_OK)
            status = dt_spans_time_of(timeline->device, timeline->marks[i + 1].event, &spans[i].end_ns);
    }
    if (status < 0) {
        free(spans);
        return status;
    }
    *out = spans;
    *count = timeline->count > 0 ? timeline->count - 1 : 0;
    return DT_OK;
}

#include "lib/device/cpu/stream.h"

#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/base/openmp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RING_ENTRIES = 4096 };

struct mark_arguments {
    struct cpu_event *event;
    uint64_t count;
};

struct wait_arguments {
    struct cpu_stream *source;
    uint64_t number;
    bool inherit;
};

/* Keep the first failure; later ones follow from it. */
static void set_failure(struct cpu_stream *stream, dt_status status, uint64_t number, const char *text)
{
    pthread_mutex_lock(&stream->mutex);
    struct cpu_failure *failure = &stream->failure;
    if (failure->status == DT_OK || failure->last != UINT64_MAX) {
        failure->first = number;
        failure->last = UINT64_MAX;
        failure->status = status;
        snprintf(failure->text, sizeof failure->text, "%s", text);
    }
    pthread_mutex_unlock(&stream->mutex);
}

static void wait_until_passed(struct cpu_stream *stream, uint64_t number) /* with the mutex held */
{
    while (stream->passed < number) {
        if (number < stream->awaited) /* all waiting threads are woken when the first may go on; the others set their number again */
            stream->awaited = number;
        pthread_cond_wait(&stream->advanced, &stream->mutex);
    }
}

static void run_wait(struct cpu_stream *stream, const struct wait_arguments *a, uint64_t number)
{
    char text[sizeof a->source->failure.text];
    dt_status status = DT_OK;
    pthread_mutex_lock(&a->source->mutex);
    wait_until_passed(a->source, a->number);
    const struct cpu_failure *failure = &a->source->failure;
    if (a->inherit && failure->status < 0 && failure->first <= a->number && a->number <= failure->last) {
        status = failure->status;
        memcpy(text, failure->text, sizeof text);
    }
    pthread_mutex_unlock(&a->source->mutex);
    if (status < 0)
        set_failure(stream, status, number, text);
}

static void run_mark(const struct cpu_stream *stream, const struct mark_arguments *a)
{
    int64_t now_ns = dt_clock_ns();
    pthread_mutex_lock(&a->event->mutex);
    if (a->event->passed < a->count) { /* an event that was recorded again on another stream may be passed there first */
        a->event->passed = a->count;
        a->event->time_ns = now_ns;
        a->event->starved_ns = stream->starved_ns;
    }
    pthread_mutex_unlock(&a->event->mutex);
}

static void run_entry(struct cpu_stream *stream, struct cpu_entry *entry, uint64_t number, bool failed)
{
    dt_status status = DT_OK;
    switch (entry->kind) {
    case CPU_TASK: status = failed ? DT_OK : entry->task(entry->arguments); break;
    case CPU_CLEANUP: status = entry->task(entry->arguments); break;
    case CPU_MARK: run_mark(stream, (const struct mark_arguments *)entry->arguments); break;
    case CPU_WAIT: run_wait(stream, (const struct wait_arguments *)entry->arguments, number); break;
    }
    if (status < 0) {
        dt_fail(status, "%s (stream %s): %s", entry->label, stream->base.name, dt_error_message());
        set_failure(stream, status, number, dt_error_message());
    }
}

/* Sleep until there is an entry, or the stream is stopped; with the mutex held. */
static void await_entry(struct cpu_stream *stream)
{
    int64_t start_ns = dt_clock_ns();
    while (stream->passed == stream->queued && !stream->stop) {
        stream->idle = true;
        pthread_cond_wait(&stream->added, &stream->mutex);
    }
    stream->idle = false;
    stream->starved_ns += dt_clock_ns() - start_ns;
}

static void *stream_main(void *argument)
{
    struct cpu_stream *stream = argument;
    dt_openmp_set_threads(stream->threads);
    pthread_mutex_lock(&stream->mutex);
    for (;;) {
        if (stream->passed == stream->queued)
            await_entry(stream);
        if (stream->passed == stream->queued)
            break;
        uint64_t number = stream->passed + 1;
        bool failed = stream->failure.status < 0 && stream->failure.last == UINT64_MAX;
        pthread_mutex_unlock(&stream->mutex);
        run_entry(stream, &stream->ring[(number - 1) % RING_ENTRIES], number, failed);
        pthread_mutex_lock(&stream->mutex);
        stream->passed = number;
        if (number >= stream->awaited) { /* with the mutex held, a woken thread would only sleep again */
            stream->awaited = UINT64_MAX;
            pthread_mutex_unlock(&stream->mutex);
            pthread_cond_broadcast(&stream->advanced);
            pthread_mutex_lock(&stream->mutex);
        }
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

dt_status dt_cpu_stream_start(const char *name, int threads, struct cpu_stream **out)
{
    DT_FREED struct cpu_stream *stream = calloc(1, sizeof *stream);
    DT_FREED struct cpu_entry *ring = calloc(RING_ENTRIES, sizeof *ring);
    *out = NULL;
    DT_TRY(dt_allocated(stream && ring, "stream %s: no host memory for its queue", name));
    stream->ring = ring;
    stream->threads = threads;
    stream->awaited = UINT64_MAX;
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->added, NULL);
    pthread_cond_init(&stream->advanced, NULL);
    int error = dt_thread_start(&stream->thread, stream_main, stream);
    if (error) {
        dt_cpu_stream_discard(DT_PASSED_ON(stream));
        return dt_fail(DT_ERR_DEVICE, "stream %s: cannot start a thread: %s", name, strerror(error));
    }
    char thread_name[16]; /* the kernel's limit, for debuggers and profilers */
    snprintf(thread_name, sizeof thread_name, "%.15s", name);
    pthread_setname_np(stream->thread, thread_name);
    stream->running = true;
    ring = NULL;
    *out = DT_PASSED_ON(stream);
    return DT_OK;
}

void dt_cpu_stream_stop(struct cpu_stream *stream)
{
    if (!stream->running)
        return;
    pthread_mutex_lock(&stream->mutex);
    stream->stop = true;
    pthread_cond_signal(&stream->added);
    pthread_mutex_unlock(&stream->mutex);
    pthread_join(stream->thread, NULL);
    free(stream->ring);
    stream->ring = NULL;
    stream->running = false;
}

void dt_cpu_stream_discard(struct cpu_stream *stream)
{
    pthread_cond_destroy(&stream->added);
    pthread_cond_destroy(&stream->advanced);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

void dt_cpu_stream_push(struct cpu_stream *stream, enum cpu_entry_kind kind, const char *label, dt_cpu_task task, const void *arguments,
                        size_t arguments_bytes)
{
    pthread_mutex_lock(&stream->mutex);
    if (stream->queued - stream->passed == RING_ENTRIES)
        wait_until_passed(stream, stream->queued - RING_ENTRIES / 2); /* half of the ring, so as not to be woken for every entry */
    struct cpu_entry *entry = &stream->ring[stream->queued % RING_ENTRIES];
    entry->kind = kind;
    entry->task = task;
    entry->label = label;
    memcpy(entry->arguments, arguments, arguments_bytes);
    stream->queued++;
    bool wakes = stream->idle;
    stream->idle = false;
    pthread_mutex_unlock(&stream->mutex);
    if (wakes)
        pthread_cond_signal(&stream->added);
}

void dt_cpu_stream_wait_for(struct cpu_stream *stream, struct cpu_stream *source, uint64_t number, bool inherit)
{
    struct wait_arguments a = {source, number, inherit && number > source->reported};
    if (source != stream)
        dt_cpu_stream_push(stream, CPU_WAIT, "wait", NULL, &a, sizeof a);
}

bool dt_cpu_stream_has_passed(struct cpu_stream *stream, uint64_t number)
{
    pthread_mutex_lock(&stream->mutex);
    bool passed = stream->passed >= number;
    pthread_mutex_unlock(&stream->mutex);
    return passed;
}

void dt_cpu_stream_drain(struct cpu_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    wait_until_passed(stream, stream->queued);
    pthread_mutex_unlock(&stream->mutex);
}

dt_status dt_cpu_stream_synchronize(struct dt_stream *base)
{
    struct cpu_stream *stream = (struct cpu_stream *)base;
    dt_status status = DT_OK;
    pthread_mutex_lock(&stream->mutex);
    wait_until_passed(stream, stream->queued);
    struct cpu_failure *failure = &stream->failure;
    if (failure->status < 0 && failure->last == UINT64_MAX) {
        failure->last = stream->queued;
        status = dt_fail(failure->status, "%s", failure->text);
    }
    stream->reported = stream->queued;
    pthread_mutex_unlock(&stream->mutex);
    return status;
}

dt_status dt_cpu_stream_wait(struct dt_stream *stream, const struct dt_event *event)
{
    const struct cpu_event *mark = (const struct cpu_event *)event;
    if (mark->stream)
        dt_cpu_stream_wait_for((struct cpu_stream *)stream, mark->stream, mark->number, true);
    return DT_OK;
}

dt_status dt_cpu_event_create(struct dt_device *device, bool timed, struct dt_event **out)
{
    struct cpu_event *event = calloc(1, sizeof *event);
    DT_TRY(dt_allocated(event, "event: no host memory"));
    pthread_mutex_init(&event->mutex, NULL);
    *out = &event->base;
    return DT_OK;
}

void dt_cpu_event_destroy(struct dt_event *base)
{
    struct cpu_event *event = (struct cpu_event *)base;
    if (event->stream) { /* a clean-up after a failure may come before the mark is passed */
        pthread_mutex_lock(&event->stream->mutex);
        wait_until_passed(event->stream, event->number);
        pthread_mutex_unlock(&event->stream->mutex);
    }
    pthread_mutex_destroy(&event->mutex);
    free(event);
}

dt_status dt_cpu_event_record(struct dt_event *base, struct dt_stream *stream)
{
    struct cpu_event *event = (struct cpu_event *)base;
    struct mark_arguments a = {event, ++event->recorded};
    event->stream = (struct cpu_stream *)stream;
    dt_cpu_stream_push(event->stream, CPU_MARK, "mark", NULL, &a, sizeof a);
    event->number = event->stream->queued; /* only this thread adds entries */
    return DT_OK;
}

/* Time of the last mark; false if it has not been passed or was never recorded. */
static bool mark_time_ns(const struct dt_event *base, int64_t *out_ns)
{
    struct cpu_event *event = (struct cpu_event *)base;
    pthread_mutex_lock(&event->mutex);
    bool passed = event->recorded && event->passed == event->recorded;
    *out_ns = event->time_ns;
    pthread_mutex_unlock(&event->mutex);
    return passed;
}

dt_status dt_cpu_event_elapsed_ns(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns)
{
    int64_t start_ns, end_ns;
    if (!mark_time_ns(start, &start_ns) || !mark_time_ns(end, &end_ns))
        return dt_fail(DT_ERR_INVALID, "elapsed time: a mark was never recorded or is still ahead of its stream");
    *out_ns = end_ns - start_ns;
    return DT_OK;
}

int64_t dt_cpu_event_clock_ns(const struct dt_event *event)
{
    int64_t time_ns;
    mark_time_ns(event, &time_ns);
    return time_ns;
}

void dt_cpu_event_idle(const struct dt_event *start, const struct dt_event *end, struct dt_stream_idle *out)
{
    out->host_ns = ((const struct cpu_event *)end)->starved_ns - ((const struct cpu_event *)start)->starved_ns;
}

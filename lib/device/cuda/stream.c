/* Streams, events, tasks on the host, and waiting for them. The host never blocks within CUDA: it
 * polls, sleeps briefly and calls the watches, so that a wait for a kernel that waits for a lost
 * rank ends with its communicator's failure. */
#include "lib/base/clock.h"
#include "lib/device/cuda/internal.h"

#include <cuda_runtime.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dt_status dt_cuda_status(int error, const char *what)
{
    if (error == cudaSuccess)
        return DT_OK;
    cudaGetLastError(); /* CUDA keeps an error for the next caller, which would report it as its own */
    return dt_fail(error == cudaErrorMemoryAllocation ? DT_ERR_OOM : DT_ERR_DEVICE, "%s: %s", what, cudaGetErrorString((cudaError_t)error));
}

static struct cuda_device *device_of(const struct cuda_stream *stream)
{
    return (struct cuda_device *)stream->base.device;
}

struct CUstream_st *dt_cuda_stream(const struct dt_stream *stream)
{
    return ((const struct cuda_stream *)stream)->handle;
}

void dt_cuda_stream_exchanges(struct dt_stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    device_of(stream)->order.exchanges[stream->index] = true;
}

/* ---- waiting ---- */

/* Pause between two polls: none at first, because short waits are common; later a small part of the
 * time waited so far, so that measured times grow little, and at most 100 microseconds. */
static void pause_after(int64_t waited_ns)
{
    enum { SPIN_NS = 50000, LONGEST_NS = 100000, PART = 256 };
    int64_t pause_ns = waited_ns / PART < LONGEST_NS ? waited_ns / PART : LONGEST_NS;
    if (waited_ns < SPIN_NS)
        return;
    if (pause_ns < SPIN_NS)
        sched_yield();
    else
        dt_sleep_ns(pause_ns);
}

static int query_stream(void *handle)
{
    return cudaStreamQuery(handle);
}

static int query_event(void *handle)
{
    return cudaEventQuery(handle);
}

static dt_status wait_for(struct cuda_device *device, int (*query)(void *handle), void *handle, const char *what, double limit_s)
{
    int64_t start_ns = dt_clock_ns();
    for (;;) {
        int64_t waited_ns = dt_clock_ns() - start_ns;
        for (struct dt_cuda_watch *watch = device->watches; watch; watch = watch->next)
            DT_TRY(watch->poll(watch->context, waited_ns));
        int error = query(handle);
        if (error != cudaErrorNotReady)
            return dt_cuda_status(error, what);
        cudaGetLastError();
        if (limit_s > 0 && (double)waited_ns > limit_s * 1e9)
            return dt_fail(DT_ERR_TIMEOUT, "%s: not done after %g s", what, limit_s);
        pause_after(waited_ns);
    }
}

dt_status dt_cuda_wait_for_stream(struct cuda_stream *stream, double limit_s)
{
    char what[64];
    snprintf(what, sizeof what, "stream %s", stream->base.name);
    DT_TRY(wait_for(device_of(stream), query_stream, stream->handle, what, limit_s));
    dt_cuda_order_after(&device_of(stream)->order, stream->index);
    return DT_OK;
}

dt_status dt_cuda_wait_for_event(struct cuda_device *device, struct CUevent_st *event, const char *what)
{
    return wait_for(device, query_event, event, what, 0);
}

dt_status dt_cuda_wait_for_all(struct cuda_device *device, double limit_s)
{
    for (int i = 0; i < CUDA_STREAMS; i++) {
        if (device->streams[i])
            DT_TRY(dt_cuda_wait_for_stream(device->streams[i], limit_s));
    }
    return DT_OK;
}

/* ---- streams ---- */

/* Kernels of other streams are short, and other work waits for them, so they have priority over
 * those of the compute stream.
 */
static dt_status create_handle(struct cuda_stream *stream, const char *name)
{
    int least = 0, greatest = 0;
    DT_TRY(dt_cuda_status(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities"));
    int priority = strcmp(name, "compute") == 0 ? least : greatest;
    DT_TRY(dt_cuda_status(cudaStreamCreateWithPriority(&stream->handle, cudaStreamNonBlocking, priority), name));
    return dt_cuda_status(cudaEventCreateWithFlags(&stream->join, cudaEventDisableTiming), name);
}

static void free_stream(struct cuda_stream *stream)
{
    for (int i = 0; i < CUDA_MARKS; i++) {
        if (stream->marks[i])
            cudaEventDestroy(stream->marks[i]);
    }
    if (stream->join)
        cudaEventDestroy(stream->join);
    if (stream->handle)
        cudaStreamDestroy(stream->handle);
    free(stream);
}

dt_status dt_cuda_stream_create(struct dt_device *base, const char *name, struct dt_stream **out)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int index = 0;
    while (index < CUDA_STREAMS && device->streams[index])
        index++;
    if (index == CUDA_STREAMS)
        return dt_fail(DT_ERR_DEVICE, "stream %s: a cuda device has at most %d", name, CUDA_STREAMS);
    struct cuda_stream *stream = calloc(1, sizeof *stream);
    DT_TRY(dt_allocated(stream, "stream %s: no host memory", name));
    stream->base.device = base;
    stream->index = index;
    dt_status status = create_handle(stream, name);
    DT_THEN(status, dt_cuda_join(stream)); /* it may get memory that other streams have freed */
    if (status < 0) {
        free_stream(stream);
        return status;
    }
    device->streams[index] = stream;
    dt_cuda_order_open(&device->order, index);
    *out = &stream->base;
    return DT_OK;
}

/* The index may be reused by another stream, whose places continue from here. */
void dt_cuda_stream_destroy(struct dt_stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    struct cuda_device *device = device_of(stream);
    dt_cuda_wait_for_stream(stream, 0); /* a failure has been returned, or will be */
    dt_cuda_order_close(&device->order, stream->index);
    device->streams[stream->index] = NULL;
    free_stream(stream);
}

/* ---- places ---- */

dt_status dt_cuda_mark(struct cuda_stream *stream, uint64_t *out)
{
    uint64_t place = dt_cuda_order_mark(&device_of(stream)->order, stream->index);
    struct CUevent_st **mark = &stream->marks[place % CUDA_MARKS];
    *out = place;
    if (!*mark)
        DT_TRY(dt_cuda_status(cudaEventCreateWithFlags(mark, cudaEventDisableTiming), "mark"));
    return dt_cuda_status(cudaEventRecord(*mark, stream->handle), "mark");
}

dt_status dt_cuda_wait_for_places(struct cuda_stream *stream, const struct cuda_places *places)
{
    struct cuda_device *device = device_of(stream);
    for (int i = 0; i < CUDA_STREAMS; i++) {
        struct cuda_stream *source = device->streams[i];
        if (places->at[i] == 0 || !source)
            continue;
        uint64_t newest = device->order.behind[i].at[i], oldest = newest < CUDA_MARKS ? 1 : newest - CUDA_MARKS + 1;
        uint64_t place = places->at[i] < oldest ? oldest : places->at[i];
        DT_TRY(dt_cuda_status(cudaStreamWaitEvent(stream->handle, source->marks[place % CUDA_MARKS], 0), "wait for memory"));
    }
    dt_cuda_places_merge(&device->order.behind[stream->index], places);
    return DT_OK;
}

dt_status dt_cuda_join(struct cuda_stream *stream)
{
    struct cuda_device *device = device_of(stream);
    for (int i = 0; i < CUDA_STREAMS; i++) {
        struct cuda_stream *other = device->streams[i];
        if (!other || other == stream)
            continue;
        DT_TRY(dt_cuda_status(cudaEventRecord(other->join, other->handle), "join"));
        DT_TRY(dt_cuda_status(cudaStreamWaitEvent(stream->handle, other->join, 0), "join"));
    }
    return DT_OK;
}

dt_status dt_cuda_fork(struct cuda_stream *stream)
{
    struct cuda_device *device = device_of(stream);
    DT_TRY(dt_cuda_status(cudaEventRecord(stream->join, stream->handle), "fork"));
    for (int i = 0; i < CUDA_STREAMS; i++) {
        if (device->streams[i] && device->streams[i] != stream)
            DT_TRY(dt_cuda_status(cudaStreamWaitEvent(device->streams[i]->handle, stream->join, 0), "fork"));
    }
    return DT_OK;
}

/* ---- events ---- */

static dt_status create_event_handles(struct cuda_event *event, bool timed)
{
    unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
    DT_TRY(dt_cuda_status(cudaEventCreateWithFlags(&event->handle, flags), "event"));
    return timed ? dt_cuda_status(cudaEventCreateWithFlags(&event->order, cudaEventDisableTiming), "event") : DT_OK;
}

dt_status dt_cuda_event_create(struct dt_device *device, bool timed, struct dt_event **out)
{
    struct cuda_event *event = calloc(1, sizeof *event);
    DT_TRY(dt_allocated(event, "event: no host memory"));
    dt_status status = create_event_handles(event, timed);
    if (status < 0) {
        dt_cuda_event_destroy(&event->base);
        return status;
    }
    *out = &event->base;
    return DT_OK;
}

/* CUDA keeps the resources of a mark until it has been passed. */
void dt_cuda_event_destroy(struct dt_event *base)
{
    struct cuda_event *event = (struct cuda_event *)base;
    if (event->handle)
        cudaEventDestroy(event->handle);
    if (event->order)
        cudaEventDestroy(event->order);
    free(event);
}

/* In a capture a timed mark must be an external one, which has the time of each launch. Work in the
 * graph cannot depend on such a mark, so a second, plain event orders it. */
dt_status dt_cuda_event_record(struct dt_event *base, struct dt_stream *base_stream)
{
    struct cuda_event *event = (struct cuda_event *)base;
    struct cuda_stream *stream = (struct cuda_stream *)base_stream;
    struct cuda_device *device = device_of(stream);
    if (device->capture && event->order) {
        DT_TRY(dt_cuda_status(cudaEventRecordWithFlags(event->handle, stream->handle, cudaEventRecordExternal), "event record"));
        DT_TRY(dt_cuda_status(cudaEventRecord(event->order, stream->handle), "event record"));
    } else {
        DT_TRY(dt_cuda_status(cudaEventRecord(event->handle, stream->handle), "event record"));
    }
    event->recorded = true;
    event->capture = device->capture;
    event->after = device->order.behind[stream->index];
    return DT_OK;
}

/* In a capture, marks from before it count as passed; after it, so do marks from within it. */
dt_status dt_cuda_stream_wait(struct dt_stream *base_stream, const struct dt_event *base)
{
    const struct cuda_event *event = (const struct cuda_event *)base;
    struct cuda_stream *stream = (struct cuda_stream *)base_stream;
    struct cuda_device *device = device_of(stream);
    if (!event->recorded || event->capture != device->capture)
        return DT_OK;
    struct CUevent_st *handle = event->capture && event->order ? event->order : event->handle;
    DT_TRY(dt_cuda_status(cudaStreamWaitEvent(stream->handle, handle, 0), "stream wait"));
    dt_cuda_places_merge(&device->order.behind[stream->index], &event->after);
    return DT_OK;
}

dt_status dt_cuda_event_elapsed_ns(const struct dt_event *start_base, const struct dt_event *end_base, int64_t *out_ns)
{
    const struct cuda_event *start = (const struct cuda_event *)start_base, *end = (const struct cuda_event *)end_base;
    float milliseconds = 0;
    if (!start->recorded || !end->recorded)
        return dt_fail(DT_ERR_INVALID, "elapsed time: a mark was never recorded");
    cudaError_t error = cudaEventElapsedTime(&milliseconds, start->handle, end->handle);
    if (error == cudaErrorNotReady || error == cudaErrorInvalidResourceHandle) {
        cudaGetLastError();
        return dt_fail(DT_ERR_INVALID, "elapsed time: a mark is still ahead of its stream");
    }
    DT_TRY(dt_cuda_status(error, "elapsed time"));
    *out_ns = (int64_t)((double)milliseconds * 1e6);
    return DT_OK;
}

/* ---- tasks on the host in a stream's order: a thread of the driver calls them ---- */

static void keep_failure(struct cuda_device *device, const char *label, dt_status status)
{
    pthread_mutex_lock(&device->mutex);
    if (device->failure == DT_OK) {
        device->failure = status;
        snprintf(device->failure_text, sizeof device->failure_text, "%s: %s", label, dt_error_message());
    }
    pthread_mutex_unlock(&device->mutex);
}

static bool has_failed(struct cuda_device *device)
{
    pthread_mutex_lock(&device->mutex);
    bool failed = device->failure < 0;
    pthread_mutex_unlock(&device->mutex);
    return failed;
}

dt_status dt_cuda_task_failure(struct cuda_device *device)
{
    dt_status status = DT_OK;
    pthread_mutex_lock(&device->mutex);
    if (device->failure < 0)
        status = dt_fail(device->failure, "%s", device->failure_text);
    device->failure = DT_OK;
    pthread_mutex_unlock(&device->mutex);
    return status;
}

static void run_task(void *data)
{
    struct cuda_task *task = data;
    if (!has_failed(task->device)) { /* work after a failure is not computed */
        dt_status status = task->run(task->arguments);
        if (status < 0)
            keep_failure(task->device, task->label, status);
    }
    atomic_store(&task->done, true);
}

/* The oldest task of the list if it is done and has room; else a new one. */
static struct cuda_task *take_task(struct cuda_tasks *tasks, size_t bytes)
{
    struct cuda_task *task = tasks->first;
    if (task && atomic_load(&task->done)) {
        tasks->first = task->next;
        if (!tasks->first)
            tasks->last = NULL;
        if (task->capacity >= bytes)
            return task;
        free(task);
    }
    size_t capacity = bytes < 128 ? 128 : (bytes + 15) / 16 * 16;
    task = aligned_alloc(_Alignof(struct cuda_task), (sizeof *task + capacity + 63) / 64 * 64);
    if (task)
        *task = (struct cuda_task){.capacity = capacity};
    return task;
}

static void add_task(struct cuda_tasks *tasks, struct cuda_task *task)
{
    task->next = NULL;
    if (tasks->last)
        tasks->last->next = task;
    else
        tasks->first = task;
    tasks->last = task;
}

void dt_cuda_tasks_free(struct cuda_tasks *tasks)
{
    while (tasks->first) {
        struct cuda_task *next = tasks->first->next;
        free(tasks->first);
        tasks->first = next;
    }
    tasks->last = NULL;
}

dt_status dt_cuda_submit_host(struct dt_stream *stream, const char *label, dt_cuda_host_task run, const void *arguments,
                              size_t arguments_bytes)
{
    struct cuda_device *device = (struct cuda_device *)stream->device;
    struct cuda_tasks *tasks = device->capture ? &device->captured_tasks : &device->tasks;
    struct cuda_task *task = take_task(tasks, arguments_bytes);
    DT_TRY(dt_allocated(task, "%s: no host memory", label));
    task->device = device;
    task->label = label;
    task->run = run;
    atomic_store(&task->done, false);
    memcpy(task->arguments, arguments, arguments_bytes);
    cudaError_t error = cudaLaunchHostFunc(dt_cuda_stream(stream), run_task, task);
    if (error != cudaSuccess)
        atomic_store(&task->done, true);
    add_task(tasks, task);
    return dt_cuda_status(error, label);
}

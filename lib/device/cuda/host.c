/* Tasks on the host in a stream's order: the driver calls them on a thread of its own. */
#include "lib/device/cuda/parts.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (!has_failed(task->device)) { /* what follows from a failure is not computed */
        dt_status status = task->run(task->arguments);
        if (status < 0)
            keep_failure(task->device, task->label, status);
    }
    atomic_store(&task->done, true);
}

/* The oldest task of the list, when it is done and has room; else a new one. */
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
    if (!task)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: no host memory", label);
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

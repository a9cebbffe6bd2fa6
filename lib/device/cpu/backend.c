/* The cpu device: streams are threads (stream.c), memory comes from a pool (pool.c), copies are
 * tasks. */
#include "lib/device/cpu/device.h"

#include "lib/base/machine.h"
#include "lib/base/openmp.h"
#include "lib/device/cpu/pool.h"
#include "lib/device/cpu/stream.h"

#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cpu_device {
    struct dt_device base;
    struct cpu_pool pool, host_pool; /* one memory, but two pools: data is really copied to the "host" */
    struct cpu_stream *streams;
    int threads;
    bool poison;
};

static dt_status cpu_create(const struct dt_device_options *options, struct dt_device **out)
{
    struct cpu_device *device = calloc(1, sizeof *device);
    DT_TRY(dt_allocated(device, "cpu device: no host memory"));
    device->threads = dt_threads_of_rank(options->threads, options->local_size, dt_machine_processors());
    device->poison = getenv("DTBENCH_POISON") != NULL;
    device->base.ledger.limit_bytes = device->base.host_ledger.limit_bytes = dt_machine_memory_bytes();
    device->pool.name = "device";
    device->host_pool.name = "host";
    *out = &device->base;
    return DT_OK;
}

static void cpu_destroy(struct dt_device *base)
{
    struct cpu_device *device = (struct cpu_device *)base;
    for (struct cpu_stream *stream = device->streams; stream; stream = stream->next)
        dt_cpu_stream_stop(stream);
    dt_cpu_pool_finish(&device->pool);
    dt_cpu_pool_finish(&device->host_pool);
    while (device->streams) {
        struct cpu_stream *next = device->streams->next;
        dt_cpu_stream_discard(device->streams);
        device->streams = next;
    }
    free(device);
}

static void cpu_info(const struct dt_device *base, struct dt_device_info *out)
{
    const dnnl_version_t *library = dnnl_version();
    dt_machine_processor_name(out->name, sizeof out->name);
    out->memory_bytes = dt_machine_memory_bytes();
    out->threads = ((const struct cpu_device *)base)->threads;
    snprintf(out->versions, sizeof out->versions, "oneDNN %d.%d.%d, %s", library->major, library->minor, library->patch,
             dt_openmp_version());
}

static uint64_t cpu_reserved_bytes(const struct dt_device *base)
{
    struct cpu_device *device = (struct cpu_device *)base;
    return atomic_load(&device->pool.mapped_bytes) + atomic_load(&device->host_pool.mapped_bytes);
}

static dt_status cpu_stream_create(struct dt_device *base, const char *name, struct dt_stream **out)
{
    struct cpu_device *device = (struct cpu_device *)base;
    struct cpu_stream *stream;
    DT_TRY(dt_cpu_stream_start(name, device->threads, &stream));
    stream->next = device->streams;
    device->streams = stream;
    *out = &stream->base;
    return DT_OK;
}

static void cpu_stream_destroy(struct dt_stream *stream)
{
    dt_cpu_stream_stop((struct cpu_stream *)stream);
}

/* Copies and fills. One thread cannot use a machine's whole memory bandwidth, so large ones are
 * divided among the stream's threads. */
struct move_arguments {
    char *to;
    const char *from; /* NULL: fill with `value` */
    size_t bytes;
    int value;
};

static dt_status run_move(void *arguments)
{
    const struct move_arguments *a = arguments;
    enum { PIECE_BYTES = 1 << 20 };
    size_t pieces = (a->bytes + PIECE_BYTES - 1) / PIECE_BYTES;
#pragma omp parallel for schedule(static) if (pieces >= 4)
    for (size_t i = 0; i < pieces; i++) {
        size_t start = i * PIECE_BYTES, bytes = a->bytes - start < PIECE_BYTES ? a->bytes - start : PIECE_BYTES;
        if (a->from)
            memcpy(a->to + start, a->from + start, bytes);
        else
            memset(a->to + start, a->value, bytes);
    }
    return DT_OK;
}

static dt_status cpu_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    struct move_arguments a = {.to = to, .from = from, .bytes = bytes};
    return dt_cpu_submit(stream, "copy", run_move, &a, sizeof a);
}

static dt_status cpu_zero(struct dt_stream *stream, void *to, size_t bytes)
{
    struct move_arguments a = {.to = to, .bytes = bytes};
    return dt_cpu_submit(stream, "zero", run_move, &a, sizeof a);
}

static struct cpu_pool *pool_of(struct dt_device *base, bool on_host)
{
    struct cpu_device *device = (struct cpu_device *)base;
    return on_host ? &device->host_pool : &device->pool;
}

static dt_status cpu_alloc(struct dt_stream *stream, size_t bytes, struct dt_buffer *out)
{
    struct cpu_block *block;
    DT_TRY(dt_cpu_pool_take(pool_of(stream->device, out->on_host), (struct cpu_stream *)stream, bytes, &block));
    out->data = block->data;
    out->block = block;
    struct move_arguments a = {.to = block->data, .bytes = block->bytes, .value = 0xFF};
    return ((struct cpu_device *)stream->device)->poison ? dt_cpu_submit(stream, "poison", run_move, &a, sizeof a) : DT_OK;
}

static void cpu_free(struct dt_stream *stream, const struct dt_buffer *buffer)
{
    dt_cpu_pool_give(pool_of(stream->device, buffer->on_host), (struct cpu_stream *)stream, buffer->block);
}

dt_status dt_cpu_submit(struct dt_stream *stream, const char *label, dt_cpu_task task, const void *arguments, size_t arguments_bytes)
{
    if (stream->device->backend != &dt_device_cpu)
        return dt_fail(DT_ERR_INVALID, "%s: stream %s is on the %s device, not on cpu", label, stream->name, stream->device->backend->kind);
    if (arguments_bytes > DT_CPU_ARGUMENT_BYTES)
        return dt_fail(DT_ERR_INVALID, "%s: %zu bytes of arguments, at most %d fit", label, arguments_bytes, DT_CPU_ARGUMENT_BYTES);
    dt_cpu_stream_push((struct cpu_stream *)stream, CPU_TASK, label, task, arguments, arguments_bytes);
    return DT_OK;
}

void dt_cpu_stream_exchanges(struct dt_stream *stream)
{
    ((struct cpu_stream *)stream)->exchanges = true;
}

int dt_cpu_threads(const struct dt_device *device)
{
    return ((const struct cpu_device *)device)->threads;
}

const struct dt_device_backend dt_device_cpu = {
    .kind = "cpu",
    .create = cpu_create,
    .destroy = cpu_destroy,
    .info = cpu_info,
    .reserved_bytes = cpu_reserved_bytes,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_synchronize = dt_cpu_stream_synchronize,
    .stream_wait = dt_cpu_stream_wait,
    .event_create = dt_cpu_event_create,
    .event_destroy = dt_cpu_event_destroy,
    .event_record = dt_cpu_event_record,
    .event_elapsed_ns = dt_cpu_event_elapsed_ns,
    .event_clock_ns = dt_cpu_event_clock_ns,
    .event_idle = dt_cpu_event_idle,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy = cpu_copy,
    .copy_from_host = cpu_copy,
    .copy_to_host = cpu_copy,
    .zero = cpu_zero,
};

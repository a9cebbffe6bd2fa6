/* The sim device: counts memory and computes nothing, for `dtbench check` and for schedules without a machine. Its addresses are unique and
 * lie where no process has memory, so that touching one by mistake is a fault and never a silent read. */
#include "lib/device_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_device {
    struct dt_device base;
    uintptr_t next_address;
};

struct sim_event {
    struct dt_event base;
    bool recorded;
};

/* Above what any process gets without asking for it: not canonical on x86-64, and outside the user half on arm64. */
#define SIM_FIRST_ADDRESS ((uintptr_t)1 << 55)

static bool sim_available(char *reason, size_t reason_bytes)
{
    snprintf(reason, reason_bytes, "predicts memory for `dtbench check`; it does not predict time yet");
    return false;
}

static dt_status sim_create(const struct dt_device_options *options, struct dt_device **out)
{
    struct sim_device *device = calloc(1, sizeof *device);
    if (!device)
        return dt_fail(DT_ERR_HOST_MEMORY, "sim device: no host memory");
    device->next_address = SIM_FIRST_ADDRESS;
    *out = &device->base;
    return DT_OK;
}

static void sim_destroy(struct dt_device *device)
{
    free(device);
}

static void sim_info(const struct dt_device *device, struct dt_device_info *out)
{
    snprintf(out->name, sizeof out->name, "simulated device");
    out->threads = 1;
}

static uint64_t sim_reserved_bytes(const struct dt_device *device)
{
    return 0;
}

static dt_status sim_stream_create(struct dt_device *device, const char *name, struct dt_stream **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "sim stream %s: no host memory", name);
}

static void sim_stream_destroy(struct dt_stream *stream)
{
    free(stream);
}

static dt_status sim_stream_synchronize(struct dt_stream *stream)
{
    return DT_OK;
}

static dt_status sim_stream_wait(struct dt_stream *stream, const struct dt_event *event)
{
    return DT_OK;
}

static dt_status sim_event_create(struct dt_device *device, struct dt_event **out)
{
    struct sim_event *event = calloc(1, sizeof *event);
    if (!event)
        return dt_fail(DT_ERR_HOST_MEMORY, "sim event: no host memory");
    *out = &event->base;
    return DT_OK;
}

static void sim_event_destroy(struct dt_event *event)
{
    free(event);
}

static dt_status sim_event_record(struct dt_event *event, struct dt_stream *stream)
{
    ((struct sim_event *)event)->recorded = true;
    return DT_OK;
}

static dt_status sim_event_elapsed_ns(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns)
{
    if (!((const struct sim_event *)start)->recorded || !((const struct sim_event *)end)->recorded)
        return dt_fail(DT_ERR_INVALID, "elapsed time: an event was never recorded");
    *out_ns = 0;
    return DT_OK;
}

static dt_status sim_alloc(struct dt_stream *stream, size_t bytes, struct dt_buffer *out)
{
    struct sim_device *device = (struct sim_device *)stream->device;
    uint64_t rounded = dt_ledger_rounded(bytes);
    if (rounded > UINTPTR_MAX - device->next_address)
        return dt_fail(DT_ERR_OOM, "sim device: out of addresses for %zu bytes", bytes);
    out->data = (void *)device->next_address;
    device->next_address += rounded;
    return DT_OK;
}

static void sim_free(struct dt_stream *stream, const struct dt_buffer *buffer)
{
}

static dt_status sim_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return DT_OK;
}

static dt_status sim_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to < SIM_FIRST_ADDRESS) /* the caller's own memory */
        memset(to, 0, bytes);
    return DT_OK;
}

static dt_status sim_zero(struct dt_stream *stream, void *to, size_t bytes)
{
    return DT_OK;
}

const struct dt_device_backend dt_device_sim = {
    .kind = "sim",
    .available = sim_available,
    .create = sim_create,
    .destroy = sim_destroy,
    .info = sim_info,
    .reserved_bytes = sim_reserved_bytes,
    .stream_create = sim_stream_create,
    .stream_destroy = sim_stream_destroy,
    .stream_synchronize = sim_stream_synchronize,
    .stream_wait = sim_stream_wait,
    .event_create = sim_event_create,
    .event_destroy = sim_event_destroy,
    .event_record = sim_event_record,
    .event_elapsed_ns = sim_event_elapsed_ns,
    .alloc = sim_alloc,
    .free = sim_free,
    .alloc_host = sim_alloc,
    .free_host = sim_free,
    .copy = sim_copy,
    .copy_from_host = sim_copy,
    .copy_to_host = sim_copy_to_host,
    .zero = sim_zero,
};

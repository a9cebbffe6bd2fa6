/* What the cpu device's tests share: a device with three streams, and a gate that holds a stream
 * up. */
#pragma once

#include "lib/base/clock.h"
#include "lib/device/cpu/device.h"
#include "test/check.h"

#include <stdatomic.h>

enum { STREAMS = 3 };
static struct dt_device *device;
static struct dt_stream *streams[STREAMS];

static inline void begin(void)
{
    static const char *const names[STREAMS] = {"compute", "network", "copies"};
    struct dt_device_options options = {.threads = 1};
    CHECK_OK(dt_device_create("cpu", &options, &device));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(dt_stream_create(device, names[i], &streams[i]));
}

static inline void end(void)
{
    for (int i = 0; i < STREAMS; i++)
        dt_stream_destroy(streams[i]);
    dt_device_destroy(device);
}

static inline void sleep_us(long us)
{
    dt_sleep_ns(us * 1000);
}

struct gate {
    atomic_int open;
};

static inline dt_status run_gate(void *arguments)
{
    struct gate *gate = *(struct gate **)arguments;
    while (!atomic_load(&gate->open))
        sleep_us(100);
    return DT_OK;
}

static inline void submit_gate(struct dt_stream *stream, struct gate *gate)
{
    CHECK_OK(dt_cpu_submit(stream, "gate", run_gate, &gate, sizeof gate));
}

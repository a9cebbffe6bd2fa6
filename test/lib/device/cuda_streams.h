/* A cuda device with three streams, for its tests; skipped with the reason where there is none. */
#pragma once

#include "lib/base/clock.h"
#include "lib/device/cuda/device.h"
#include "test/check.h"

#include <stdatomic.h>

enum { STREAMS = 3 };

static struct dt_device *device;
static struct dt_stream *streams[STREAMS];

static inline bool begin_with(const struct dt_device_options *options)
{
    static const char *const names[STREAMS] = {"compute", "network", "copies"};
    dt_status status = dt_device_create("cuda", options, &device);
    if (status == DT_ERR_UNAVAILABLE) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", dt_error_message());
        return false;
    }
    CHECK_OK(status);
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(dt_stream_create(device, names[i], &streams[i]));
    return true;
}

static inline bool begin(void)
{
    return begin_with(NULL);
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

/* A task that blocks a stream until it is opened. */
static inline dt_status run_until_open(void *arguments)
{
    _Atomic int *open = *(_Atomic int **)arguments;
    while (!atomic_load(open))
        sleep_us(100);
    return DT_OK;
}

/* Kernels whose arrays are on the device, each a buffer of its own, though bodies read and write
 * them on the host: before each call what it is given goes there, and after it comes back. So
 * compute-sanitizer, with DTBENCH_SEPARATE_BUFFERS, sees where each array ends. For
 * kernel_setup.h. */
#pragma once

#include "gpt/kernels.h"
#include "lib/kernels/backend.h"

#include <stdlib.h>
#include <string.h>

/* An array of a test body, and its place on the device. */
struct device_array {
    char *host;
    size_t bytes;
    struct dt_buffer buffer;
};

static struct {
    const struct gpt_kernel_table *kernels; /* that do the work; NULL: arrays stay on the host */
    const struct dt_kernel_backend *backend;
    struct device_array arrays[640];
    int count;
} on_device;

static inline dt_status device_array_add(struct dt_stream *stream, void *host, size_t bytes)
{
    struct device_array *a = &on_device.arrays[on_device.count++];
    *a = (struct device_array){.host = host, .bytes = bytes};
    return bytes > 0 ? dt_alloc(stream, DT_WORKSPACE, bytes, &a->buffer) : DT_OK;
}

static inline void device_arrays_free(struct dt_stream *stream)
{
    while (on_device.count > 0)
        dt_free(stream, &on_device.arrays[--on_device.count].buffer);
}

/* Those of the arguments' pointers that point into arrays become the device's, which gets what is
 * in them; used [count] says which. */
static inline dt_status device_arrays_send(struct dt_stream *stream, void *arguments, size_t bytes, bool *used)
{
    for (size_t at = 0; at + sizeof(char *) <= bytes; at += sizeof(char *)) {
        char *pointer;
        memcpy(&pointer, (char *)arguments + at, sizeof pointer);
        for (int i = 0; i < on_device.count; i++) {
            const struct device_array *a = &on_device.arrays[i];
            if ((uintptr_t)pointer - (uintptr_t)a->host >= a->bytes)
                continue;
            if (!used[i])
                DT_TRY(dt_copy_from_host(stream, a->buffer.data, a->host, a->bytes));
            used[i] = true;
            pointer = (char *)a->buffer.data + (pointer - a->host);
            memcpy((char *)arguments + at, &pointer, sizeof pointer);
            break;
        }
    }
    return DT_OK;
}

static inline dt_status device_arrays_fetch(struct dt_stream *stream, const bool *used)
{
    for (int i = 0; i < on_device.count; i++)
        if (used[i])
            DT_TRY(dt_copy_to_host(stream, on_device.arrays[i].host, on_device.arrays[i].buffer.data, on_device.arrays[i].bytes));
    return DT_OK;
}

#define ON_DEVICE(entry, arguments, ...)                                                                                                   \
    static inline GPT_KERNEL_FUNCTION(entry##_on_device, arguments)                                                                        \
    {                                                                                                                                      \
        struct arguments there = *a;                                                                                                       \
        bool used[sizeof on_device.arrays / sizeof on_device.arrays[0]] = {0};                                                             \
        DT_TRY(device_arrays_send(stream, &there, sizeof there, used));                                                                    \
        DT_TRY(on_device.kernels->entry(k, stream, &there));                                                                               \
        return device_arrays_fetch(stream, used);                                                                                          \
    }
GPT_KERNELS(ON_DEVICE, GPT_NO_KERNEL_ROW, ON_DEVICE)
#undef ON_DEVICE

/* A table whose kernels work on the device's arrays. */
static inline void device_arrays_table(const struct gpt_kernel_table *kernels, struct gpt_kernel_table *out)
{
    on_device.kernels = kernels;
    *out = *kernels;
#define ON_DEVICE(entry, arguments, ...) out->entry = entry##_on_device;
    GPT_KERNELS(ON_DEVICE, GPT_NO_KERNEL_ROW, ON_DEVICE)
#undef ON_DEVICE
}

/* ---- the kernels of all families ---- */

static inline dt_status update_on_device(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u)
{
    struct dt_update there = *u;
    bool used[sizeof on_device.arrays / sizeof on_device.arrays[0]] = {0};
    DT_TRY(device_arrays_send(stream, &there, sizeof there, used));
    DT_TRY(on_device.backend->calls->update(k, stream, &there));
    return device_arrays_fetch(stream, used);
}

static inline dt_status add_on_device(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from,
                                      size_t count)
{
    const void *there[] = {to, from};
    bool used[sizeof on_device.arrays / sizeof on_device.arrays[0]] = {0};
    DT_TRY(device_arrays_send(stream, there, sizeof there, used));
    DT_TRY(on_device.backend->calls->add(k, stream, on_host, (void *)there[0], there[1], count));
    return device_arrays_fetch(stream, used);
}

static inline dt_status fill_on_device(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    bool used[sizeof on_device.arrays / sizeof on_device.arrays[0]] = {0};
    DT_TRY(device_arrays_send(stream, &to, sizeof to, used));
    DT_TRY(on_device.backend->calls->fill(k, stream, to, count, value));
    return device_arrays_fetch(stream, used);
}

static inline dt_status draw_on_device(struct dt_kernels *k, struct dt_stream *stream, const struct dt_initial *a)
{
    struct dt_initial there = *a;
    bool used[sizeof on_device.arrays / sizeof on_device.arrays[0]] = {0};
    DT_TRY(device_arrays_send(stream, &there, sizeof there, used));
    DT_TRY(on_device.backend->calls->draw(k, stream, &there));
    return device_arrays_fetch(stream, used);
}

/* Kernels that compute on the host stay there. */
static inline const struct dt_kernel_backend *device_arrays_backend(const struct dt_kernel_backend *backend)
{
    static struct dt_kernel_backend there;
    static struct dt_kernel_calls calls;
    on_device.backend = backend;
    there = *backend;
    calls = *backend->calls;
    calls.update = update_on_device;
    calls.add = add_on_device;
    calls.fill = fill_on_device;
    calls.draw = draw_on_device;
    there.calls = &calls;
    return &there;
}

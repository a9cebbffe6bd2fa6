/* The functions that a backend of lib/kernels/kernels.h provides, without spans: for data on the
 * device, and for data in host memory. */
#pragma once

#include "lib/kernels/kernels.h"

/* The list: each function with its parameters after the kernels and the stream. overflows adds to
 * *to; draw writes random values alone. */
#define DT_KERNEL_CALLS(ROW)                                                                                                               \
    ROW(begin_step, int step)                                                                                                              \
    ROW(overflows, uint64_t *to)                                                                                                           \
    ROW(add_squares, bool on_host, enum dt_dtype dtype, const void *x, size_t count)                                                       \
    ROW(sum_squares, bool on_host, float *to)                                                                                              \
    ROW(settle_norm, bool on_host, const struct dt_norm_rule *rule, const float *squares)                                                  \
    ROW(norm, struct dt_norm_state *to)                                                                                                    \
    ROW(set_norm, const struct dt_norm_state *from)                                                                                        \
    ROW(convert, void *to, enum dt_dtype to_dtype, const void *from, enum dt_dtype from_dtype, size_t count)                               \
    ROW(update, const struct dt_update *update)                                                                                            \
    ROW(add, bool on_host, void *to, const void *from, size_t count)                                                                       \
    ROW(add_wide, bool on_host, float *to, enum dt_dtype dtype, const void *from, size_t count)                                            \
    ROW(fill, void *to, size_t count, float value)                                                                                         \
    ROW(draw, const struct dt_initial *initial)

/* DT_KERNEL_CALL(dt_cuda_fill, ...) declares dt_cuda_fill, or begins its definition. */
#define DT_KERNEL_CALL(name, ...) dt_status name(struct dt_kernels *k, struct dt_stream *stream, __VA_ARGS__)

struct dt_kernel_calls {
#define DT_KERNEL_ENTRY(entry, ...) DT_KERNEL_CALL((*entry), __VA_ARGS__);
    DT_KERNEL_CALLS(DT_KERNEL_ENTRY)
#undef DT_KERNEL_ENTRY
};

struct dt_kernel_backend {
    dt_status (*init)(struct dt_kernels *k);    /* optional; called with device and dtype set, all else zero */
    void (*finish)(struct dt_kernels *k);       /* optional; also called if init failed */
    const struct dt_kernel_calls *calls, *host; /* host: for arrays in host memory; the same as `calls` on cpu and sim */
};

extern const struct dt_kernel_backend dt_kernels_sim;
/* Each in the backend.c of its folder; or in none.c, without functions, if the build has no such
 * device. */
extern const struct dt_kernel_backend dt_kernels_cpu, dt_kernels_cuda;

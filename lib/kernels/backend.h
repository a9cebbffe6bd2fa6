/* The functions that a backend of lib/kernels/kernels.h provides, without spans: for data on the
 * device, and for data in host memory. */
#pragma once

#include "lib/kernels/kernels.h"

/* overflows adds to *to. */
struct dt_kernel_calls {
    dt_status (*begin_step)(struct dt_kernels *k, struct dt_stream *stream, int step);
    dt_status (*overflows)(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to);
    dt_status (*add_squares)(struct dt_kernels *k, struct dt_stream *stream, bool on_host, enum dt_dtype dtype, const void *x,
                             size_t count);
    dt_status (*sum_squares)(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to);
    dt_status (*settle_norm)(struct dt_kernels *k, struct dt_stream *stream, bool on_host, const struct dt_norm_rule *rule,
                             const float *squares);
    dt_status (*norm)(struct dt_kernels *k, struct dt_stream *stream, struct dt_norm_state *to);
    dt_status (*set_norm)(struct dt_kernels *k, struct dt_stream *stream, const struct dt_norm_state *from);
    dt_status (*convert)(struct dt_kernels *k, struct dt_stream *stream, void *to, enum dt_dtype to_dtype, const void *from,
                         enum dt_dtype from_dtype, size_t count);
    dt_status (*update)(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *update);
    dt_status (*add)(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count);
    dt_status (*add_wide)(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to, enum dt_dtype dtype, const void *from,
                          size_t count);
    dt_status (*fill)(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value);
    dt_status (*draw)(struct dt_kernels *k, struct dt_stream *stream, const struct dt_initial *initial); /* only random values */
};

struct dt_kernel_backend {
    dt_status (*init)(struct dt_kernels *k);    /* called with device and dtype set, all else zero */
    void (*finish)(struct dt_kernels *k);       /* optional; also called if init failed */
    const struct dt_kernel_calls *calls, *host; /* host: for arrays in host memory; the same as `calls` on cpu and sim */
};

extern const struct dt_kernel_backend dt_kernels_sim;
/* Each in the backend.c of its folder; or in none.c, without functions, if the build has no such
 * device. */
extern const struct dt_kernel_backend dt_kernels_cpu, dt_kernels_cuda;

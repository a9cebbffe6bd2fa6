/* The calls of lib/kernels/backend.h on the host's processor, by way of k->host: all of them on the cpu device; on the cuda device those for
 * parameters in host memory. */
#ifndef LIB_KERNELS_CPU_HOST_H
#define LIB_KERNELS_CPU_HOST_H

#include "lib/kernels/backend.h"

/* Step 1, on `threads` threads; k->host.submit is the caller's to set. Errors: DT_ERR_UNAVAILABLE where this build has no loops for the processor. */
dt_status dt_host_init(struct dt_kernels *k, int threads);
dt_status dt_host_begin_step(struct dt_kernels *k, struct dt_stream *stream, int step);
dt_status dt_host_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to); /* adds to *to */
dt_status dt_host_add_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, enum dt_dtype dtype, const void *x,
                              size_t count);
dt_status dt_host_sum_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to);
dt_status dt_host_settle_norm(struct dt_kernels *k, struct dt_stream *stream, bool on_host, const struct dt_norm_rule *rule,
                              const float *squares);
dt_status dt_host_norm(struct dt_kernels *k, struct dt_stream *stream, struct dt_norm_state *to);
dt_status dt_host_set_norm(struct dt_kernels *k, struct dt_stream *stream, const struct dt_norm_state *from);
dt_status dt_host_convert(struct dt_kernels *k, struct dt_stream *stream, void *to, enum dt_dtype to_dtype, const void *from,
                          enum dt_dtype from_dtype, size_t count);
dt_status dt_host_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *update);
dt_status dt_host_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count);
dt_status dt_host_add_wide(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to, enum dt_dtype dtype, const void *from,
                           size_t count);
dt_status dt_host_fill(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value);
dt_status dt_host_normal(struct dt_kernels *k, struct dt_stream *stream, const struct dt_normal *normal);

#endif

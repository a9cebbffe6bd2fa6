/* The cpu kernels' internal header: the object, and the entries of the table by file. */
#pragma once

#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/loops.h"
#include "lib/kernels/cpu/team.h"
#include "vision/cpu/loops/loops.h"
#include "vision/kernels.h"

#include <pthread.h>

struct vision_convolutions;

struct vision_backend {
    const struct vision_loops *loops;
    /* The scratch memory of convolutions is used by one kernel at a time, on any stream. */
    pthread_mutex_t mutex;
    struct vision_convolutions *convolutions;
};

/* convolution.c. Owner: the caller, who destroys. Errors: DT_ERR_DEVICE, DT_ERR_HOST_MEMORY,
 * DT_ERR_UNAVAILABLE for a dtype that oneDNN does not support. */
dt_status vision_convolutions_create(enum dt_dtype dtype, struct vision_convolutions **out);
void vision_convolutions_destroy(struct vision_convolutions *convolutions); /* takes NULL */

/* weight_gradient.c: whether this file computes the convolution's weight gradient instead of
 * oneDNN, because the processor lacks AVX-512 kernels, which are faster. x, dy, dw: as in
 * vision/kernels.h, in fp32. scratch: the caller's. Errors: DT_ERR_HOST_MEMORY. */
bool vision_weight_gradient_fits(const struct vision_sliding *over);
dt_status vision_weight_gradient(const struct vision_sliding *over, const float *x, const float *dy, float *dw, bool accumulate,
                                 int threads, struct dt_cpu_scratch *scratch);

/* The entries of the table: convolution.c, norm.c, pool.c, rows.c. */
#define DECLARE(entry, arguments) VISION_KERNEL_FUNCTION(vision_cpu_##entry, arguments);
VISION_KERNELS(DECLARE)
#undef DECLARE

/* The number of threads for `elems` elements: waking a second thread takes about as long as some
 * thousands of elements. */
static inline int vision_cpu_threads(const struct vision_kernels *k, size_t elems)
{
    return elems < 16384 ? 1 : k->base.host.threads;
}

/* Element `index` of an array of the model's dtype. */
static inline void *vision_cpu_at(const struct vision_kernels *k, const void *array, size_t index)
{
    return (char *)array + index * dt_dtype_bytes(k->base.dtype);
}

/* The cpu kernels' own header: the object, and the entries of the table by file. */
#ifndef VISION_CPU_KERNELS_H
#define VISION_CPU_KERNELS_H

#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/loops.h"
#include "lib/kernels/cpu/team.h"
#include "vision/cpu/loops/loops.h"
#include "vision/kernels.h"

#include <pthread.h>

struct vision_convolutions;

struct vision_backend {
    const struct vision_loops *loops;
    /* Convolutions keep scratch memory: one at a time, whatever streams they are queued on. */
    pthread_mutex_t mutex;
    struct vision_convolutions *convolutions;
};

/* convolution.c. Owner: the caller, who destroys. Errors: DT_ERR_DEVICE, DT_ERR_HOST_MEMORY, DT_ERR_UNAVAILABLE for a dtype that oneDNN
 * does not have. */
dt_status vision_convolutions_create(enum dt_dtype dtype, struct vision_convolutions **out);
void vision_convolutions_destroy(struct vision_convolutions *convolutions); /* takes NULL */

/* weight_gradient.c: whether it is to make the weight gradient of this convolution, rather than oneDNN: where no kernel of AVX-512 does it
 * faster. x, dy, dw: as vision/kernels.h has them, in fp32. scratch: the caller's. Errors: DT_ERR_HOST_MEMORY. */
bool vision_weight_gradient_fits(const struct vision_sliding *over);
dt_status vision_weight_gradient(const struct vision_sliding *over, const float *x, const float *dy, float *dw, bool accumulate,
                                 int threads, struct dt_cpu_scratch *scratch);

/* The entries of the table: convolution.c, norm.c, pool.c, rows.c. */
#define DECLARE(entry, arguments) VISION_KERNEL_FUNCTION(vision_cpu_##entry, arguments);
VISION_KERNELS(DECLARE)
#undef DECLARE

/* Threads for work over `elems` elements: waking a second one costs about what some thousands of them cost. */
static inline int vision_cpu_threads(const struct vision_kernels *k, size_t elems)
{
    return elems < 16384 ? 1 : k->base.host.threads;
}

/* Element `index` of an array of the model's dtype. */
static inline void *vision_cpu_at(const struct vision_kernels *k, const void *array, size_t index)
{
    return (char *)array + index * dt_dtype_bytes(k->base.dtype);
}

#endif

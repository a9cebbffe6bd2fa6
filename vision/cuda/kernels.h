/* The cuda kernels' internal header: the object, and the entries of the table by file. Host code is
 * in C, device code in CUDA C++ (*.cu). Both implement entries of vision/kernels.h, where they are
 * described. This header has no types of CUDA, so that C files can include it. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/kernels/cuda/kernels.h"
#include "vision/kernels.h"

struct vision_cuda_convolutions;

struct vision_backend {
    struct dt_cuda_scratch scratch;                /* used by one call at a time, only on the stream of a step's kernels */
    struct vision_cuda_convolutions *convolutions; /* convolution.c */
};

/* convolution.c. Owner: the caller, who destroys. Errors: DT_ERR_UNAVAILABLE without cuDNN,
 * DT_ERR_DEVICE, DT_ERR_HOST_MEMORY. */
dt_status vision_cuda_convolutions_create(enum dt_dtype dtype, struct vision_cuda_convolutions **out);
void vision_cuda_convolutions_destroy(struct vision_cuda_convolutions *convolutions); /* takes NULL */
DT_DESTROYS(vision_cuda_convolutions_destroy, struct vision_cuda_convolutions)

/* The entries of the table: convolution.c, norm.cu, pool.cu, rows.cu. */
#define VISION_CUDA_DECLARE(entry, arguments) VISION_KERNEL_FUNCTION(vision_cuda_##entry, arguments);
VISION_KERNELS(VISION_CUDA_DECLARE)
#undef VISION_CUDA_DECLARE

/* bias.cu: db [channels] = the sums over the rows of dy [rows, channels]; accumulate: added to the
 * old sums. */
dt_status vision_cuda_bias_gradient(struct vision_kernels *k, struct dt_stream *stream, void *db, const void *dy, size_t rows,
                                    size_t channels, bool accumulate);

#ifdef __cplusplus
}
#endif

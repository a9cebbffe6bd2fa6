/* The cuda backend's internal header: its object, and its entries by file. It has no types of CUDA,
 * so that C files can include it. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/device/cuda/device.h"
#include "lib/kernels/cpu/host.h"

/* Number of sums made at the same time: each belongs to one block, which adds to it in every
 * launch. */
enum { DT_CUDA_SUMS = 2048 };

/* Numbers that change from step to step, in device memory. A step that is replayed as a graph has
 * its arguments by value, so kernels read these numbers here. begin_step writes them; the kernels
 * of the norm write those of the norm. */
struct dt_cuda_step {
    uint32_t first_sample; /* added to first_sample of every call */
    int32_t number;        /* Adam's step, from 1 */
    float rate;            /* the factor of learning rates */
    uint64_t overflows;    /* gradient elements of this step that were not finite; their parameters were not updated */
    struct dt_norm_state norm;
    double squares[DT_CUDA_SUMS];
};

/* The backend's functions: backend.c, optimizer.cu and flat.cu. */
#define DT_CUDA_DECLARE(entry, ...) DT_KERNEL_CALL(dt_cuda_##entry, __VA_ARGS__);
DT_KERNEL_CALLS(DT_CUDA_DECLARE)
#undef DT_CUDA_DECLARE
dt_status dt_cuda_begin_first_step(struct dt_kernels *k,
                                   struct dt_stream *stream); /* begin_step, and the norm's state as before all steps */
/* *to += scale * the sum of from [count], always in the same order. For losses of rows, or of
 * blocks of rows. */
dt_status dt_cuda_add_sum(struct dt_stream *stream, double *to, const double *from, size_t count, float scale);

/* bias.cu: every row of to [rows, columns] becomes `row` [columns]. */
dt_status dt_cuda_repeat_row(struct dt_kernels *k, struct dt_stream *stream, void *to, const void *row, size_t rows, size_t columns);

/* scratch.c: device memory for one call at a time, only on the stream of a step's kernels. A zeroed
 * one has no memory. `reserve`: it has at least `bytes` afterwards; its content is lost. Errors:
 * DT_ERR_OOM; DT_ERR_INVALID if it would have to grow while a graph is captured: run the step once
 * without a graph first. */
struct dt_cuda_scratch {
    void *data;
    size_t bytes;
};
dt_status dt_cuda_scratch_reserve(struct dt_device *device, struct dt_cuda_scratch *scratch, size_t bytes);
void dt_cuda_scratch_free(struct dt_device *device, struct dt_cuda_scratch *scratch);

/* shared_memory.c: whether a block of the current GPU can have `bytes` of shared memory, as kernel
 * `name` needs. Errors: DT_ERR_UNAVAILABLE. */
dt_status dt_cuda_check_shared_memory(const char *name, size_t bytes);

#ifdef __cplusplus
}
#endif

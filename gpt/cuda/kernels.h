/* The cuda kernels' internal header: the object, and the entries of the table by file.
 *
 * Host code is in C, device code in CUDA C++ (*.cu). Both implement entries of gpt/kernels.h, where
 * they are described. This header has no types of CUDA, so that C files can include it. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#include "gpt/kernels.h"
#include "lib/kernels/cuda/kernels.h"

enum { GPT_CUDA_ARRIVALS = 4096 };

/* Kernels for Hopper's warpgroups, as bits of dt_trials.in_use: attention/forward_hopper.cu,
 * attention/backward_hopper.cu, gelu_hopper.cu. */
enum { GPT_CUDA_HOPPER_ATTENTION = 1, GPT_CUDA_HOPPER_ATTENTION_GRADIENT = 2, GPT_CUDA_HOPPER_GELU = 4 };

struct gpt_kernels {
    struct dt_kernels *base; /* the kernels of all families: the device, and the step in device memory */
    struct dt_model model;
    struct dt_cuda_scratch scratch;
    uint32_t *arrivals;             /* [GPT_CUDA_ARRIVALS] device memory, zeros between kernels (columns.cuh) */
    struct gpt_cuda_linear *linear; /* linear.c */
    float *rope; /* rope.cu: [T, 2, w / 2] device memory, cosines and sines of every position; NULL for a model without rope */
};

/* The entries of the table: attention/attention.cu, embedding.cu, flat.cu, head_norm.cu, loss.cu,
 * norm.cu, rope.cu, rows.cu, swiglu.cu; linear.c on cuBLASLt. */
#define GPT_CUDA_DECLARE(entry, arguments, ...) GPT_KERNEL_FUNCTION(gpt_cuda_##entry, arguments);
GPT_KERNELS(GPT_CUDA_DECLARE, GPT_NO_KERNEL_ROW, GPT_CUDA_DECLARE)
GPT_FUSED_KERNELS(GPT_CUDA_DECLARE)
#undef GPT_CUDA_DECLARE

dt_status gpt_cuda_linear_create(struct gpt_kernels *k); /* linear.c */
void gpt_cuda_linear_destroy(struct gpt_kernels *k);
dt_status gpt_cuda_use_tuning(struct gpt_kernels *k, const struct dt_tuning *tuning);
void gpt_cuda_tuned(const struct gpt_kernels *k, struct dt_tuned *out);

/* rope.cu: create k->rope on `stream`, if the model has rope. Errors: DT_ERR_OOM; DT_ERR_INVALID if
 * heads have an odd width. */
dt_status gpt_cuda_rope_create(struct gpt_kernels *k, struct dt_stream *stream);

/* attention/attention.cu: whether this GPU's blocks can have the shared memory that the model's
 * attention needs, by the heads' width and the dtype. Called once, before the first step. Errors:
 * DT_ERR_UNAVAILABLE. */
dt_status gpt_cuda_attention_check(struct gpt_kernels *k);

/* flat.cu: gelu_gradient of dy_to_dx [rows, columns], the column sums of its result, and active =
 * gelu(x), which may be x; sums and active may be NULL. */
dt_status gpt_cuda_gelu_gradient_sums_of(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x, void *sums,
                                         void *active, size_t rows, size_t columns, bool accumulate);

/* trials.c: set k->base->trials by dt_cuda_warpgroup_kernels, and for `auto` by a trial of the
 * kernels that this model may use. Blocks; k is complete. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY;
 * DT_ERR_DEVICE if a kernel ends the device's work. A wrong result is no error. */
dt_status gpt_cuda_try_hopper(struct gpt_kernels *k);

/* gelu_hopper.cu: whether gelu_gradient_sums is one kernel, for the exact GELU with
 * GPT_CUDA_HOPPER_GELU; and that kernel, whose db may be NULL. */
bool gpt_cuda_gelu_gradient_fits(const struct gpt_kernels *k, const struct gpt_gelu_gradient_sums *a);
dt_status gpt_cuda_gelu_gradient_in_one(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_gelu_gradient_sums *a);

/* sums.cu: sums [columns] over the rows of x [rows, columns], for biases; accumulate: added to the
 * old sums. */
dt_status gpt_cuda_column_sums(struct gpt_kernels *k, struct dt_stream *stream, void *sums, const void *x, size_t rows, size_t columns,
                               bool accumulate);

/* Grow k->scratch to at least `bytes`. */
static inline dt_status gpt_cuda_scratch(struct gpt_kernels *k, size_t bytes)
{
    return dt_cuda_scratch_reserve(k->base->device, &k->scratch, bytes);
}

#ifdef __cplusplus
}
#endif

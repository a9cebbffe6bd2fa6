/* The cuda kernels' own header: the object, and the entries of the table by file.
 *
 * Host code in C is gpt/kernels_cuda*.c, device code in CUDA C++ is gpt/kernels_cuda_*.cu: both implement entries of gpt/kernels.h with its
 * contracts. cuda's own types stay out of here, so that any C file of these may include it. */
#ifndef GPT_CUDA_KERNELS_H
#define GPT_CUDA_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "gpt/kernels.h"
#include "lib/device/cuda/device.h"

/* What changes from step to step, in device memory: a step that is replayed as a graph carries its arguments by value, so kernels read
 * these here. Written by begin_step alone. */
struct gpt_cuda_step {
    uint32_t first_sample; /* added to every first_sample that a call carries */
    int32_t number;        /* Adam's step, from 1 */
    uint64_t overflows;    /* gradient elements of this step that were not finite, and whose updates were left out */
};

struct gpt_kernels {
    struct gpt_model model;
    struct dt_device *device;
    int multiprocessors;
    struct gpt_cuda_step *step;     /* device memory; create zeroes it and makes number 1, in both */
    struct gpt_cuda_step host_step; /* the same for kernels on the host */
    void *scratch;                  /* [scratch_bytes] device memory for one call at a time: only on the stream of a step's kernels */
    size_t scratch_bytes;
    struct gpt_cuda_linear *linear; /* kernels_cuda_linear.c */
    int host_threads;               /* kernels_cuda_host.c: of a kernel on the host; 0 before the first one */
};

/* kernels_cuda_flat.cu: arrays without rows */
dt_status gpt_cuda_init_normal(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, uint64_t seed, uint32_t tensor_id,
                               uint64_t first_element, float standard_deviation);
dt_status gpt_cuda_fill(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value);
dt_status gpt_cuda_tokens(struct gpt_kernels *k, struct dt_stream *stream, int32_t *inputs, int32_t *targets, size_t samples, uint64_t seed,
                          uint32_t first_sample);
dt_status gpt_cuda_gelu(struct gpt_kernels *k, struct dt_stream *stream, void *y, const void *x, size_t count);
dt_status gpt_cuda_gelu_gradient(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x, size_t count);
dt_status gpt_cuda_add(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count);

/* kernels_cuda_norm.cu */
dt_status gpt_cuda_layer_norm(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm *a);
dt_status gpt_cuda_layer_norm_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm_gradient *a);

/* kernels_cuda_rows.cu: dropout */
dt_status gpt_cuda_dropout_residual(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_residual *a);
dt_status gpt_cuda_dropout_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_gradient *a);

/* kernels_cuda_embedding.cu */
dt_status gpt_cuda_embedding(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding *a);
dt_status gpt_cuda_embedding_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding_gradient *a);

/* kernels_cuda_loss.cu */
dt_status gpt_cuda_loss(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_loss *a);

/* kernels_cuda_optimizer.cu: on the device; kernels_cuda_host.c: on the host's processor, in the stream's order */
dt_status gpt_cuda_begin_step(struct gpt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int number);
dt_status gpt_cuda_step_overflows(struct gpt_kernels *k, struct dt_stream *stream, uint64_t *to);
dt_status gpt_cuda_sgd(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a);
dt_status gpt_cuda_adam(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a);
dt_status gpt_cuda_sgd_host(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a);
dt_status gpt_cuda_adam_host(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a);
dt_status gpt_cuda_add_host(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count);

/* attention_cuda.cu and its neighbours */
dt_status gpt_cuda_attention(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_forward *a);
dt_status gpt_cuda_attention_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_backward *a);

/* kernels_cuda_linear.c, on cuBLASLt */
dt_status gpt_cuda_linear_create(struct gpt_kernels *k);
void gpt_cuda_linear_destroy(struct gpt_kernels *k);
dt_status gpt_cuda_linear_forward(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear *a);
dt_status gpt_cuda_linear_input_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_input_gradient *a);
dt_status gpt_cuda_linear_gelu_input_gradient(struct gpt_kernels *k, struct dt_stream *stream,
                                              const struct gpt_linear_gelu_input_gradient *a);
dt_status gpt_cuda_linear_weight_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_weight_gradient *a);

/* kernels_cuda_bias.cu: every row of to [rows, columns] becomes `row` [columns]. */
dt_status gpt_cuda_repeat_row(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *row, size_t rows, size_t columns);

/* kernels_cuda_sums.cu: sums [columns] of the rows of x [rows, columns], for biases; accumulate adds to what is there. */
dt_status gpt_cuda_column_sums(struct gpt_kernels *k, struct dt_stream *stream, void *sums, const void *x, size_t rows, size_t columns,
                               bool accumulate);

/* k->scratch holds at least `bytes` afterwards; what was in it is lost. Errors: DT_ERR_OOM; DT_ERR_INVALID while a graph is captured, when
 * it would have to grow: a step runs once without a graph first. */
dt_status gpt_cuda_scratch(struct gpt_kernels *k, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif

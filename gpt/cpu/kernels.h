/* The cpu kernels' own header: the object, and the entries of the table by file. */
#ifndef GPT_CPU_KERNELS_H
#define GPT_CPU_KERNELS_H

#include "gpt/cpu/kernels_simd.h"

#include <pthread.h>

struct gpt_kernels {
    struct gpt_model model;
    int threads;
    const struct gpt_simd *simd, *simd_fp32; /* loops for the model's dtype, and for sums kept in fp32 */
    /* The step that calls are queued for: they take these with them. */
    uint32_t first_sample;
    int step;
    uint64_t overflows; /* of the step that runs; counted up atomically, as updates may run on two streams */
    /* Products and attention keep scratch memory: one at a time, whatever streams they are queued on. */
    pthread_mutex_t mutex;
    struct gpt_cpu_linear *linear;
    struct gpt_cpu_attention *attention;
};

/* The table's create, with an instruction set of the caller's choice instead of the processor's best, for tests.
 * DT_ERR_UNAVAILABLE when this machine does not have it. */
dt_status gpt_kernels_cpu_create(struct dt_device *device, const struct gpt_model *model, enum dt_cpu_isa isa, struct gpt_kernels **out);

/* kernels_cpu_flat.c: arrays without rows */
dt_status gpt_cpu_init_normal(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, uint64_t seed, uint32_t tensor_id,
                              uint64_t first_element, float standard_deviation);
dt_status gpt_cpu_fill(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value);
dt_status gpt_cpu_tokens(struct gpt_kernels *k, struct dt_stream *stream, int32_t *inputs, int32_t *targets, size_t samples, uint64_t seed,
                         uint32_t first_sample);
dt_status gpt_cpu_gelu(struct gpt_kernels *k, struct dt_stream *stream, void *y, const void *x, size_t count);
dt_status gpt_cpu_gelu_gradient(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x, size_t count);
dt_status gpt_cpu_sgd(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a);
dt_status gpt_cpu_adam(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a);
dt_status gpt_cpu_add(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count);

/* kernels_cpu_rows.c: norms, dropout, loss */
dt_status gpt_cpu_layer_norm(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm *a);
dt_status gpt_cpu_layer_norm_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm_gradient *a);
dt_status gpt_cpu_dropout_residual(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_residual *a);
dt_status gpt_cpu_dropout_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_gradient *a);
dt_status gpt_cpu_loss(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_loss *a);

/* kernels_cpu_embedding.c */
dt_status gpt_cpu_embedding(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding *a);
dt_status gpt_cpu_embedding_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding_gradient *a);

/* The dropout with its samples' global numbers: for queueing. */
struct gpt_dropout gpt_cpu_dropout(const struct gpt_kernels *k, const struct gpt_dropout *dropout);

/* Row `row` of a call's M rows in the masks of a dropout as it was queued. */
struct gpt_dropout_row gpt_cpu_dropout_row(const struct gpt_kernels *k, const struct gpt_dropout *dropout, size_t row);

/* Bytes of one element. */
size_t gpt_cpu_element_bytes(const struct gpt_kernels *k);

#endif

/* Inner loops on a processor: one thread's share of the work, for one instruction set and one
 * dtype.
 *
 * loops.c is compiled once for each pair. Untyped pointers are to memory of the table's dtype.
 * Nothing here fails, allocates or starts threads. Families have more tables
 * (gpt/cpu/loops/loops.h). */
#pragma once

#include "lib/base/cpu_isa.h"
#include "lib/base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Adam's numbers for one step. */
struct dt_adam_step {
    bool first; /* moments and master are not read, only written */
    bool wide;  /* gradients are fp32 */
    float learning_rate, beta1, beta2, epsilon, gradient_scale;
    float correction1, correction2; /* 1 / (1 - beta^step) */
    float weight_decay;             /* weight_decay * parameter is added to the gradient */
    float decay;                    /* decay * parameter is subtracted from the parameter */
};

/* SGD's numbers for one step, with momentum or weight decay. */
struct dt_sgd_step {
    bool first; /* the moment is not read, only written */
    bool wide;  /* gradients are fp32 */
    float learning_rate, gradient_scale, momentum, weight_decay;
};

struct dt_simd {
    void (*widen)(float *to, const void *from, size_t count);
    void (*widen_add)(float *to, const void *from, size_t count);  /* to += from */
    void (*narrow)(void *to, const float *from, size_t count);     /* to = from */
    void (*narrow_add)(void *to, const float *from, size_t count); /* to += from */

    void (*fill)(void *to, size_t count, float value);
    void (*add)(void *to, const void *from, size_t count);
    /* out = (a + b) * scale, in fp32, rounded once. out may be a or b; they do not overlap
     * otherwise. */
    void (*combine)(void *out, const void *a, const void *b, size_t count, float scale);
    /* These return the number of elements that were not updated because their gradient is not
     * finite. */
    size_t (*sgd)(void *params, const void *grads, size_t count, float rate);
    /* moment, master [count]; may be NULL */
    size_t (*momentum)(void *params, const void *grads, float *moment, float *master, size_t count, const struct dt_sgd_step *step);
    size_t (*adam)(void *params, const void *grads, float *first_moment, float *second_moment, float *master, size_t count,
                   const struct dt_adam_step *step);
    void (*normal)(void *to, size_t count, uint64_t seed, uint32_t tensor_id, uint64_t first_element, float standard_deviation);

    double (*sum)(const void *x, size_t count);
    double (*squares)(const void *x, size_t count); /* their sum */

    /* sums [columns] = sums over the rows of from [rows, columns], rows `stride` elements apart. */
    void (*column_sums)(float *sums, const void *from, size_t rows, size_t columns, size_t stride);

    /* logits [count] become their gradient; returns -log softmax[target]. */
    double (*cross_entropy)(void *logits, size_t count, int32_t target, float gradient_scale);
    /* The same in two parts: the sum of exp(logit - *largest), and logits[i] = exp(logits[i] -
     * largest) * scale. */
    double (*exponentials)(const void *logits, size_t count, float *largest);
    void (*softmax)(void *logits, size_t count, float largest, float scale);
};

/* What loops.c is compiled into. absent.c replaces the instruction sets that are not in this build;
 * its tables are empty. */
extern const struct dt_simd dt_simd_base_fp32, dt_simd_base_fp16, dt_simd_base_bf16;
extern const struct dt_simd dt_simd_avx2_fp32, dt_simd_avx2_fp16, dt_simd_avx2_bf16;
extern const struct dt_simd dt_simd_avx512_fp32, dt_simd_avx512_fp16, dt_simd_avx512_bf16;
extern const struct dt_simd dt_simd_avx512bf16_fp32, dt_simd_avx512bf16_fp16, dt_simd_avx512bf16_bf16;

/* NULL if this build or this processor does not have `isa`. */
const struct dt_simd *dt_simd_for(enum dt_cpu_isa isa, enum dt_dtype dtype);

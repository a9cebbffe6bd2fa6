/* Matrix products on oneDNN, for the three products of a linear layer.
 *
 * bf16 and fp32 run as they are, accumulated in fp32 and rounded once. fp16, which this oneDNN cannot multiply, and bf16 on processors
 * where it has only its slow reference code, are converted to fp32 a block at a time, multiplied there and rounded once. */
#ifndef GPT_CPU_PRODUCT_H
#define GPT_CPU_PRODUCT_H

#include "gpt/cpu/loops.h"

/* c [m, n] = op(a) [m, k] * op(b) [k, n] + bias [n] (or NULL); accumulate: c adds to what is there. A transposed operand is stored the
 * other way round, [k, m] or [n, k]; all are dense and row-major. */
struct gpt_cpu_product {
    const void *a, *b, *bias;
    void *c;
    size_t m, n, k;
    bool transpose_a, transpose_b, accumulate;
};

struct gpt_cpu_products; /* oneDNN primitives by shape, made when first needed, and their scratch memory */

/* Owner: the caller, who destroys. Errors: DT_ERR_DEVICE, DT_ERR_HOST_MEMORY. */
dt_status gpt_cpu_products_create(enum dt_dtype dtype, const struct gpt_simd *simd, int threads, struct gpt_cpu_products **out);
void gpt_cpu_products_destroy(struct gpt_cpu_products *products); /* takes NULL */

/* Runs now, on the calling thread's OpenMP team, which is set to `threads`; one call at a time for one object.
 * Errors: DT_ERR_DEVICE (oneDNN's failures), DT_ERR_HOST_MEMORY. */
dt_status gpt_cpu_multiply(struct gpt_cpu_products *products, const struct gpt_cpu_product *product);

#endif

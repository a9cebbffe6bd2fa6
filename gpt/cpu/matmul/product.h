/* A matrix product, for the three products of a linear layer, with what comes right before or after it. */
#ifndef GPT_CPU_PRODUCT_H
#define GPT_CPU_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

/* c [m, n] = op(a) [m, k] * op(b) [k, n] + bias [n] (or NULL); accumulate: c adds to what is there. A transposed operand is stored the
 * other way round, [k, m] or [n, k]; all are dense and row-major.
 * gelu_of [m, n], not with bias or accumulate: c = gelu'(gelu_of) * product. row_sums [m], with transpose_a: the sums of op(a)'s rows, or
 * with accumulate added to what is there. Both may be NULL. */
struct gpt_cpu_product {
    const void *a, *b, *bias, *gelu_of;
    void *c, *row_sums;
    size_t m, n, k;
    bool transpose_a, transpose_b, accumulate;
};

#endif

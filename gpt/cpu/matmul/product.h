/* A matrix product, for the three products of a linear layer, with the operations fused before or
 * after it. */
#pragma once

#include "gpt/cpu/loops/loops.h"

static inline size_t gpt_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum gpt_cpu_operand { GPT_CPU_NO_OPERAND, GPT_CPU_OPERAND_A, GPT_CPU_OPERAND_B };

/* c [m, n] = op(a) [m, k] * op(b) [k, n] + bias [n] (or NULL); accumulate: added to c's old value.
 * A transposed operand is stored as [k, m] or [n, k]. All matrices are dense and row-major. These
 * may be NULL:
 *
 *   gelu_of [m, n]   not with bias or accumulate: c = gelu'(gelu_of) * product
 *   residual [m, n]  not with gelu_of or accumulate: c = residual + dropout(product + bias)
 *   row_sums [m]     with transpose_a: the sums of op(a)'s rows; with accumulate added to the old
 *                    values
 *
 * gelu: GELU is applied to this operand first, and rounded to its dtype. `active` is memory for
 * that; its content is undefined afterwards. */
struct gpt_cpu_product {
    const void *a, *b, *bias, *gelu_of, *residual;
    void *c, *row_sums, *active;
    size_t m, n, k;
    bool transpose_a, transpose_b, accumulate;
    enum gpt_cpu_operand gelu;
    struct gpt_dropout_rows dropout; /* threshold 0: none */
};

/* Sums become elements of c: everything that follows the product, while they are still in the nearest cache. */
#include "gpt/cpu/loops/simd_math.h"
#include "gpt/cpu/matmul/element.h"

V_INLINE vfloat at(const uint16_t *from, size_t i, size_t count)
{
    return v_load(DT_BF16, from, i, count - i);
}

V_INLINE void store_row(const struct gpt_matmul_block *b, const float *sums, size_t row, size_t column, size_t count)
{
    size_t place = row * b->ldc + column;
    for (size_t i = 0; i < count; i += V_LANES) {
        vfloat value = v_load(DT_FP32, sums, i, STRIP - i);
        if (b->bias)
            value += at(b->bias + column, i, count);
        if (b->gelu_of)
            value *= v_gelu_gradient(at(b->gelu_of + place, i, count));
        if (b->accumulate)
            value += at(b->c + place, i, count);
        v_store(DT_BF16, b->c + place, i, count - i, value);
    }
}

void MATMUL(gpt_matmul_store)(const struct gpt_matmul_block *b, const float *sums, size_t row, size_t column)
{
    size_t rows = b->m - row < STRIP ? b->m - row : STRIP, count = b->n - column;
    for (size_t i = 0; i < rows; i++)
        if (count >= STRIP)
            store_row(b, sums + i * STRIP, row + i, column, STRIP);
        else
            store_row(b, sums + i * STRIP, row + i, column, count);
}

/* Store sums as elements of c, after all operations that follow the product, while they are in the
 * nearest cache. */
#include "gpt/cpu/matmul/element.h"
#include "lib/kernels/cpu/simd_math.h"

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
        if (b->residual)
            value += at(b->residual + place, i, count);
        v_store(DT_BF16, b->c + place, i, count - i, value);
    }
}

/* Store a row of the strip. `bits` are the random bits of its columns. */
V_INLINE void store_dropped_row(const struct gpt_matmul_block *b, const float *sums, size_t row, size_t column, size_t count,
                                const uint16_t *bits)
{
    size_t place = row * b->ldc + column;
    vint threshold = (vint){0} + (int32_t)b->dropout.threshold;
    for (size_t i = 0; i < count; i += V_LANES) {
        vfloat value = v_load(DT_FP32, sums, i, STRIP - i);
        vhalf half;
        memcpy(&half, bits + i, sizeof half);
        if (b->bias)
            value += at(b->bias + column, i, count);
        value *= v_select((vint)v_widen_bits(half) >= threshold, v_set(b->dropout.scale), v_set(0));
        v_store(DT_BF16, b->c + place, i, count - i, at(b->residual + place, i, count) + value);
    }
}

/* Masks are made for several rows at a time. Those after the strip's last row, or in the next
 * sample, are not used. */
static void store_dropped(const struct gpt_matmul_block *b, const float *sums, size_t row, size_t column, size_t rows, size_t count)
{
    uint16_t bits[V_DROPOUT_ROWS * STRIP];
    for (size_t i = 0, here; i < rows; i += here) {
        struct gpt_dropout_row first = gpt_dropout_row_of(&b->dropout, b->first_row + row + i);
        size_t in_sample = b->dropout.T - first.t, left = rows - i < in_sample ? rows - i : in_sample;
        here = left < V_DROPOUT_ROWS ? left : V_DROPOUT_ROWS;
        v_dropout_square(first.seed, (uint32_t)((b->first_column + column) / 8), first.t, first.sample, first.layer_word, bits);
        for (size_t j = 0; j < here; j++)
            store_dropped_row(b, sums + (i + j) * STRIP, row + i + j, column, count, bits + j * STRIP);
    }
}

void MATMUL(gpt_matmul_store)(const struct gpt_matmul_block *b, const float *sums, size_t row, size_t column)
{
    size_t rows = b->m - row < STRIP ? b->m - row : STRIP, count = b->n - column < STRIP ? b->n - column : STRIP;
    if (b->residual && b->dropout.threshold) {
        store_dropped(b, sums, row, column, rows, count);
        return;
    }
    for (size_t i = 0; i < rows; i++)
        if (count == STRIP)
            store_row(b, sums + i * STRIP, row + i, column, STRIP);
        else
            store_row(b, sums + i * STRIP, row + i, column, count);
}

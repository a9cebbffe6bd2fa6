/* Takes the place of gpt/cuda/mma.cuh: the same functions with plain loops. Work of a whole warp is
 * done once, when its last lane arrives (warp_meets), with the PTX ISA's layouts of registers. */
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "device_side.h"
#include <stdint.h>

namespace gpt_cuda {

template <typename E> inline uint32_t two_of(float low, float high)
{
    return (uint32_t)E(high).bits << 16 | E(low).bits;
}

template <typename E> inline float2 floats_of(uint32_t word)
{
    E low, high;
    low.bits = (unsigned short)word;
    high.bits = (unsigned short)(word >> 16);
    return {(float)low, (float)high};
}

/* One lane's operands of a product. */
struct emulated_operands {
    const uint32_t *a;
    uint32_t b[2];
    float *d;
};

/* The products of a whole warp, eight columns at a time. */
template <typename E> void emulated_product(void *const of_lane[32])
{
    typedef float columns __attribute__((vector_size(32)));
    float left[16][16];
    columns right[16], sums[16];
    for (int l = 0; l < 32; l++) {
        const emulated_operands &own = *(const emulated_operands *)of_lane[l];
        int row = l / 4, k = l % 4 * 2;
        for (int i = 0; i < 4; i++) {
            float2 pair = floats_of<E>(own.a[i]);
            left[row + i % 2 * 8][k + i / 2 * 8] = pair.x;
            left[row + i % 2 * 8][k + i / 2 * 8 + 1] = pair.y;
        }
        for (int i = 0; i < 2; i++) {
            float2 pair = floats_of<E>(own.b[i]);
            right[k + i * 8][row] = pair.x;
            right[k + i * 8 + 1][row] = pair.y;
        }
    }
    for (int row = 0; row < 16; row++) {
        sums[row] = (columns){};
        for (int k = 0; k < 16; k += 2)
            sums[row] += left[row][k] * right[k] + left[row][k + 1] * right[k + 1];
    }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++)
            ((const emulated_operands *)of_lane[l])->d[i] += sums[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
}

template <typename E> inline void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emulated_operands own = {a, {b0, b1}, d};
    simt::warp_meets(simt::warp_call::product, &own, emulated_product<E>);
}

/* One lane's part of a load of matrices: the address of a row, and the registers. */
struct emulated_rows {
    const void *row;
    uint32_t *to;
};

/* Of matrix m, the word that lane's registers get: elements (row, column) and its neighbour in the row, or in the column when transposed. */
template <int COUNT, bool TRANSPOSED> void emulated_load(void *const of_lane[32])
{
    const uint16_t *rows[8 * COUNT];
    for (int l = 0; l < 8 * COUNT; l++) {
        rows[l] = (const uint16_t *)((const emulated_rows *)of_lane[l])->row;
        if ((uintptr_t)rows[l] % 16 != 0)
            simt::complain("loads a matrix's row from an address that is not a multiple of 16");
    }
    for (int l = 0; l < 32; l++) {
        int r = l / 4, c = l % 4 * 2;
        for (int m = 0; m < COUNT; m++) {
            const uint16_t *const *of = rows + m * 8;
            ((const emulated_rows *)of_lane[l])->to[m] =
                TRANSPOSED ? (uint32_t)of[c + 1][r] << 16 | of[c][r] : (uint32_t)of[r][c + 1] << 16 | of[r][c];
        }
    }
}

template <bool TRANSPOSED, int COUNT> inline void emulated_load_all(uint32_t (&to)[COUNT], const void *row)
{
    emulated_rows own = {row, to};
    simt::warp_meets(simt::warp_call::matrices, &own, emulated_load<COUNT, TRANSPOSED>);
}

inline void load_matrices(uint32_t (&to)[4], const void *row)
{
    emulated_load_all<false>(to, row);
}
inline void load_matrices(uint32_t (&to)[2], const void *row)
{
    emulated_load_all<false>(to, row);
}
inline void load_matrices_transposed(uint32_t (&to)[4], const void *row)
{
    emulated_load_all<true>(to, row);
}
inline void load_matrices_transposed(uint32_t (&to)[2], const void *row)
{
    emulated_load_all<true>(to, row);
}

template <int BYTES> inline void copy_async(void *to, const void *from, bool valid)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what cp.async copies");
    if ((uintptr_t)to % BYTES != 0 || (valid && (uintptr_t)from % BYTES != 0))
        simt::complain("copies from or to an address that is not a multiple of the copy's size");
    simt::copy_add({to, valid ? from : nullptr, BYTES});
}

inline void copy_async_commit()
{
    simt::copy_commit();
}

template <int PENDING> inline void copy_async_wait()
{
    simt::copy_wait(PENDING);
}

inline float exp2_fast(float x)
{
    float y = exp2f(x);
    return fabsf(y) < 0x1p-126f ? 0 : y;
}

} // namespace gpt_cuda

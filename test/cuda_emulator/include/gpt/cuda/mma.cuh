/* Takes the place of gpt/cuda/mma.cuh: the same functions with plain loops. The lanes of a warp put their registers side by side
 * (warp_gather), and each takes from there what the PTX ISA's layouts give it. */
#ifndef GPT_MMA_CUDA_CUH
#define GPT_MMA_CUDA_CUH

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

/* What one lane brings to a product: two elements of each word. */
struct emulated_operands {
    float2 a[4], b[2];
};

template <typename E> inline void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emulated_operands own = {{floats_of<E>(a[0]), floats_of<E>(a[1]), floats_of<E>(a[2]), floats_of<E>(a[3])},
                             {floats_of<E>(b0), floats_of<E>(b1)}};
    const emulated_operands *of_lane[32];
    simt::warp_gather(simt::warp_call::product, &own, (const void **)of_lane);
    for (int i = 0; i < 4; i++) {
        int row = simt::lane() / 4 + i / 2 * 8, column = simt::lane() % 4 * 2 + i % 2;
        float sum = 0;
        for (int k = 0; k < 16; k += 2) {
            float2 left = of_lane[row % 8 * 4 + k % 8 / 2]->a[row / 8 + k / 8 * 2], right = of_lane[column * 4 + k % 8 / 2]->b[k / 8];
            sum += left.x * right.x + left.y * right.y;
        }
        d[i] += sum;
    }
    __syncwarp(); /* nobody's operands go away before all have read them */
}

/* Of matrix m, the word that lane's registers get: elements (row, column) and its neighbour in the row, or in the column when transposed.
 */
template <int COUNT> inline void emulated_load(uint32_t (&to)[COUNT], const void *row, bool transposed)
{
    const void *of_lane[32];
    simt::warp_gather(simt::warp_call::matrices, row, of_lane);
    int r = simt::lane() / 4, c = simt::lane() % 4 * 2;
    for (int m = 0; m < COUNT; m++) {
        const uint16_t *first = (const uint16_t *)of_lane[m * 8 + (transposed ? c : r)];
        const uint16_t *second = (const uint16_t *)of_lane[m * 8 + (transposed ? c + 1 : r)];
        if ((uintptr_t)first % 16 != 0 || (uintptr_t)second % 16 != 0)
            simt::complain("loads a matrix's row from an address that is not a multiple of 16");
        to[m] = (uint32_t)second[transposed ? r : c + 1] << 16 | first[transposed ? r : c];
    }
    __syncwarp(); /* as on the GPU, nobody writes over a matrix before all have it */
}

inline void load_matrices(uint32_t (&to)[4], const void *row)
{
    emulated_load(to, row, false);
}
inline void load_matrices(uint32_t (&to)[2], const void *row)
{
    emulated_load(to, row, false);
}
inline void load_matrices_transposed(uint32_t (&to)[4], const void *row)
{
    emulated_load(to, row, true);
}
inline void load_matrices_transposed(uint32_t (&to)[2], const void *row)
{
    emulated_load(to, row, true);
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

#endif

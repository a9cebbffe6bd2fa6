/* Random bits of dropout on the device (lib/base/random.h). */
#pragma once

#include "lib/kernels/cuda/elements.cuh"

#define DT_HOST_DEVICE __host__ __device__
#include "lib/base/random.h"

namespace dt_cuda {

/* The factors (0 or scale) of eight columns from `column` (a multiple of 8) on, in row `position`
 * of `sample`. word: the last word of the random counter. */
__device__ inline void draw_dropout(uint64_t seed, uint32_t word, uint32_t threshold, float scale, uint32_t sample, uint32_t position,
                                    uint32_t column, float factor[8])
{
    struct dt_philox bits = dt_philox4x32(seed, column / 8, position, sample, word);
    for (int i = 0; i < 8; i++) {
        uint32_t half = bits.word[i / 2] >> (i % 2 * 16) & 0xffff;
        factor[i] = half >= threshold ? scale : 0.0f;
    }
}

} // namespace dt_cuda

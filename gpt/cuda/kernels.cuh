/* What gpt's cuda kernels share on the device beyond lib/kernels/cuda/elements.cuh: dropout's bits, and what rope does to two elements. They keep to gpt/cuda/mma.cuh for the
 * tensor cores. */
#ifndef GPT_CUDA_KERNELS_CUH
#define GPT_CUDA_KERNELS_CUH

#include "lib/kernels/cuda/dropout.cuh"

#include "gpt/cuda/kernels.h"

namespace gpt_cuda {

using namespace dt_cuda;

/* ---- dropout (lib/base/random.h) ---- */

struct dropout {
    uint64_t seed;
    uint32_t layer, first_sample, threshold; /* threshold 0: keeps everything */
    float scale;
    uint32_t first_row;
};

inline dropout dropout_of(const struct gpt_dropout *a)
{
    return {a->seed,
            a->layer,
            a->first_sample,
            a->probability > 0 ? dt_dropout_threshold(a->probability) : 0,
            a->probability > 0 ? dt_dropout_scale(a->probability) : 1.0f,
            a->first_row};
}

/* The factor (0 or scale) of each of the eight columns from `column` (a multiple of 8) of row `position` of `sample`. */
__device__ inline void dropout_factors(const dropout &d, uint32_t sample, uint32_t position, uint32_t column, float factor[8])
{
    if (d.threshold == 0) { /* no bits are drawn, which takes longer than all else that such a kernel computes */
#pragma unroll
        for (int i = 0; i < 8; i++)
            factor[i] = d.scale;
        return;
    }
    draw_dropout(d.seed, (uint32_t)DT_RANDOM_DROPOUT << 24 | d.layer, d.threshold, d.scale, sample, position, column, factor);
}

/* Rope: two elements turn. */
template <typename E> __device__ inline void turn_pair(E &first, E &second, float cosine, float sine)
{
    float a = to_float(first), b = to_float(second);
    first = from_float<E>(a * cosine - b * sine);
    second = from_float<E>(b * cosine + a * sine);
}

inline unsigned blocks_for(const struct gpt_kernels *k, size_t items, int threads, int per_multiprocessor)
{
    return dt_cuda::blocks_for(k->base->multiprocessors, items, threads, per_multiprocessor);
}

} // namespace gpt_cuda

#endif

/* Device code that gpt's cuda kernels share, besides lib/kernels/cuda/elements.cuh: dropout's bits,
 * and rope's rotation of two elements. Only gpt/cuda/mma.cuh gives access to tensor cores. */
#pragma once

#include "lib/kernels/cuda/dropout.cuh"

#include "gpt/cuda/kernels.h"

namespace gpt_cuda {

using namespace dt_cuda;

/* ---- the rows of a call (struct gpt_positions) ---- */

struct row_positions {
    uint32_t count, half, first[2]; /* positions of each sample */

    struct place {
        uint32_t sample, position;
    };
    /* Sample and position of row `row` of [samples * count]. */
    __device__ place at(uint32_t row) const
    {
        uint32_t i = row % count;
        return {row / count, i < half ? first[0] + i : first[1] + (i - half)};
    }
    /* The row of a sample with this position; `count`: none. */
    __device__ uint32_t row_of(uint32_t position) const
    {
        uint32_t i = position - first[0], j = position - first[1]; /* for positions before the first the unsigned difference wraps round */
        return i < half ? i : j < count - half ? half + j : count;
    }
};

inline row_positions positions_of(const struct gpt_kernels *k, const struct gpt_positions *p)
{
    uint32_t T = (uint32_t)gpt_of(&k->model)->block_size;
    return p->count ? row_positions{p->count, p->count / 2, {p->first[0], p->first[1]}} : row_positions{T, T / 2, {0, T / 2}};
}

/* ---- dropout (lib/base/random.h) ---- */

struct dropout {
    uint64_t seed;
    uint32_t layer, first_sample, threshold; /* threshold 0: nothing is dropped */
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

/* The factors (0 or scale) of eight columns from `column` (a multiple of 8) on, in row `position`
 * of `sample`. */
__device__ inline void dropout_factors(const dropout &d, uint32_t sample, uint32_t position, uint32_t column, float factor[8])
{
    if (d.threshold == 0) { /* skip making bits, which takes longer than the other work of such a kernel */
#pragma unroll
        for (int i = 0; i < 8; i++)
            factor[i] = d.scale;
        return;
    }
    draw_dropout(d.seed, (uint32_t)DT_RANDOM_DROPOUT << 24 | d.layer, d.threshold, d.scale, sample, position, column, factor);
}

/* Rope: rotate two elements. */
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

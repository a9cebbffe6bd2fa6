/* Device code that vision's cuda kernels share, besides lib/kernels/cuda/elements.cuh. */
#pragma once

#include "lib/kernels/cuda/dropout.cuh"

#include "vision/cuda/kernels.h"

namespace vision_cuda {

using namespace dt_cuda;

enum { THREADS = 256, BLOCKS_PER_MULTIPROCESSOR = 16 };

inline dim3 blocks_of(const struct vision_kernels *k, size_t items)
{
    return dim3(blocks_for(k->base.multiprocessors, items, THREADS, BLOCKS_PER_MULTIPROCESSOR));
}

/* Load N elements of a tensor as floats, and store them. */
template <int N, typename E> __device__ inline void load_floats(const E *from, float (&to)[N])
{
    pack<E, N> x = load_pack<N>(from);
#pragma unroll
    for (int j = 0; j < N; j++)
        to[j] = to_float(x.at[j]);
}

template <int N, typename E> __device__ inline void store_floats(E *to, const float (&from)[N])
{
    pack<E, N> x;
#pragma unroll
    for (int j = 0; j < N; j++)
        x.at[j] = from_float<E>(from[j]);
    store_pack<N>(to, x);
}

} // namespace vision_cuda

/* Elementwise kernels: to[i] = op(to[i], from[i]). They are limited by the bytes read and written,
 * divided by the memory's bandwidth; each access is 16 bytes, and nothing is read twice. */
#pragma once

#include "lib/kernels/cuda/elements.cuh"

namespace dt_cuda {

enum { MAP_THREADS = 256, MAP_BLOCKS_PER_MULTIPROCESSOR = 16 };

/* Op: `static constexpr bool READS_TO`, and `__device__ static float apply(float to, float
 * from)`. */
template <typename Op, typename E, int N> __global__ void __launch_bounds__(MAP_THREADS) map_kernel(E *to, const E *from, size_t count)
{
    wait_for_earlier();
    size_t first = blockIdx.x * (size_t)MAP_THREADS + threadIdx.x, stride = gridDim.x * (size_t)MAP_THREADS;
    for (size_t i = first; i < count / N; i += stride) {
        pack<E, N> x = load_pack<N>(from + i * N), y = Op::READS_TO ? load_pack<N>(to + i * N) : x;
#pragma unroll
        for (int j = 0; j < N; j++)
            y.at[j] = from_float<E>(Op::apply(to_float(y.at[j]), to_float(x.at[j])));
        store_pack<N>(to + i * N, y);
    }
    for (size_t i = count / N * N + first; i < count; i += stride)
        to[i] = from_float<E>(Op::apply(Op::READS_TO ? to_float(to[i]) : 0.0f, to_float(from[i])));
}

template <typename Op>
dt_status map(const char *name, struct dt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count)
{
    return for_packs(k->dtype, 0, {to, from}, [&]<typename E, int N>() {
        unsigned blocks = blocks_for(k->multiprocessors, count / N + 1, MAP_THREADS, MAP_BLOCKS_PER_MULTIPROCESSOR);
        return launch(name, map_kernel<Op, E, N>, dim3(blocks), dim3(MAP_THREADS), 0, stream, (E *)to, (const E *)from, count);
    });
}

} // namespace dt_cuda

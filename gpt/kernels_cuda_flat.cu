/* Arrays without rows. Each of these is bound by memory: 16 bytes an access, and nothing is read twice. */
#include "gpt/kernels_cuda.cuh"

namespace {

using namespace gpt_cuda;

enum { THREADS = 256 };

template <typename E, int N> __global__ void fill_kernel(E *to, size_t count, float value)
{
    pack<E, N> all;
    for (int i = 0; i < N; i++)
        all.at[i] = from_float<E>(value);
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count / N; i += gridDim.x * (size_t)THREADS)
        store_pack<N>(to + i * N, all);
    for (size_t i = count / N * N + blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += gridDim.x * (size_t)THREADS)
        to[i] = all.at[0];
}

} // namespace

extern "C" dt_status gpt_cuda_fill(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        constexpr int N = pack_elems<E>;
        unsigned blocks = blocks_for(k, count / N + 1, THREADS, 16);
        if (!packs_fit<E, N>(0, to))
            return launch("fill", fill_kernel<E, 1>, dim3(blocks), dim3(THREADS), 0, stream, (E *)to, count, value);
        return launch("fill", fill_kernel<E, N>, dim3(blocks), dim3(THREADS), 0, stream, (E *)to, count, value);
    });
}

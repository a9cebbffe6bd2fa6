/* A bias where cuBLASLt cannot add it: written to every row first, and the product then adds to it. */
#include "gpt/cuda/kernels.cuh"

namespace {

using namespace gpt_cuda;

enum { THREADS = 256 };

/* Bound by memory: rows * columns elements are written once; the row itself stays in the cache. */
template <typename E, int N> __global__ void repeat_row_kernel(E *to, const E *row, size_t rows, size_t columns)
{
    wait_for_earlier();
    size_t packs = columns / N;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < rows * packs; i += gridDim.x * (size_t)THREADS)
        store_pack<N>(to + i * N, load_pack<N>(row + i % packs * N));
}

} // namespace

extern "C" dt_status gpt_cuda_repeat_row(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *row, size_t rows,
                                         size_t columns)
{
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        constexpr int N = pack_elems<E>;
        if (!packs_fit<E, N>(columns, to, row))
            return launch("bias", repeat_row_kernel<E, 1>, dim3(blocks_for(k, rows * columns, THREADS, 16)), dim3(THREADS), 0, stream,
                          (E *)to, (const E *)row, rows, columns);
        return launch("bias", repeat_row_kernel<E, N>, dim3(blocks_for(k, rows * columns / N, THREADS, 16)), dim3(THREADS), 0, stream,
                      (E *)to, (const E *)row, rows, columns);
    });
}

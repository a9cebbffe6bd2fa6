/* A bias, if the library that computes a matrix cannot add it: it is written to every row first,
 * and the library adds to that. */
#include "lib/kernels/cuda/elements.cuh"

namespace {

using namespace dt_cuda;

enum { ROW_THREADS = 256, ROW_BLOCKS = 16 };

/* Limited by memory: rows * columns elements are written once; the bias itself stays in the
 * cache. */
template <typename E, int N> __global__ void repeat_row_kernel(E *to, const E *row, size_t rows, size_t columns)
{
    wait_for_earlier();
    size_t packs = columns / N;
    for (size_t i = blockIdx.x * (size_t)ROW_THREADS + threadIdx.x; i < rows * packs; i += gridDim.x * (size_t)ROW_THREADS)
        store_pack<N>(to + i * N, load_pack<N>(row + i % packs * N));
}

} // namespace

extern "C" dt_status dt_cuda_repeat_row(struct dt_kernels *k, struct dt_stream *stream, void *to, const void *row, size_t rows,
                                        size_t columns)
{
    return for_packs(k->dtype, columns, {to, row}, [&]<typename E, int N>() {
        unsigned blocks = blocks_for(k->multiprocessors, rows * columns / N, ROW_THREADS, ROW_BLOCKS);
        return launch("bias", repeat_row_kernel<E, N>, dim3(blocks), dim3(ROW_THREADS), 0, stream, (E *)to, (const E *)row, rows, columns);
    });
}

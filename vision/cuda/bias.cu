/* The gradient of a convolution's bias. Floor: the images' gradient is read once. */
#include "vision/cuda/sums.cuh"

namespace {

using namespace vision_cuda;

/* The second sum is not used. */
template <typename E, int N> struct rows_of_gradient {
    const E *dy;
    size_t channels;

    __device__ int begin(const row_groups &, size_t, size_t) const
    {
        return 0; /* columns share no data */
    }
    __device__ void add(int, size_t row, size_t column, float (&sums)[2][N]) const
    {
        float value[N];
        load_floats<N>(dy + row * channels + column, value);
#pragma unroll
        for (int j = 0; j < N; j++)
            sums[0][j] += value[j];
    }
};

template <typename E>
__global__ void __launch_bounds__(LANES *CHUNK_THREADS)
    bias_gradient_kernel(E *db, row_groups groups, const float *partials, bool accumulate)
{
    wait_for_earlier();
    size_t column = blockIdx.x * (size_t)LANES + threadIdx.x;
    pair sum = sum_chunks(groups, partials, 0, column);
    if (threadIdx.y == 0 && column < groups.columns)
        put_sum(db, column, sum.first, accumulate);
}

} // namespace

extern "C" dt_status vision_cuda_bias_gradient(struct vision_kernels *k, struct dt_stream *stream, void *db, const void *dy, size_t rows,
                                               size_t channels, bool accumulate)
{
    row_groups groups = {rows, rows, channels};
    return for_packs(k->base.dtype, channels, {dy}, [&]<typename E, int N>() {
        float *partials;
        rows_of_gradient<E, N> source = {(const E *)dy, channels};
        DT_TRY((sum_chunks_of<E, rows_of_gradient<E, N>, N>("bias gradient", k, stream, source, groups, 0, &partials)));
        return launch("bias gradient", bias_gradient_kernel<E>, column_grid(channels), dim3(LANES, CHUNK_THREADS), SUMS_BYTES, stream,
                      (E *)db, groups, (const float *)partials, accumulate);
    });
}

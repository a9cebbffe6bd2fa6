/* Column sums, for the gradients of biases. Floor: x is read once. */
#include "gpt/cuda/columns.cuh"

namespace {

using namespace gpt_cuda;

template <typename E, int N> struct elements {
    static constexpr int SUMS = 1;
    const E *x;
    size_t columns;
    __device__ void add(size_t row, size_t column, float (&sums)[SUMS][N]) const
    {
        pack<E, N> part = load_pack<N>(x + row * columns + column);
#pragma unroll
        for (int j = 0; j < N; j++)
            sums[0][j] += to_float(part.at[j]);
    }
};

} // namespace

extern "C" dt_status gpt_cuda_column_sums(struct gpt_kernels *k, struct dt_stream *stream, void *sums, const void *x, size_t rows,
                                          size_t columns, bool accumulate)
{
    if (rows == 0 || columns == 0)
        return rows == 0 && !accumulate ? dt_cuda_fill(k->base, stream, sums, columns, 0) : DT_OK;
    return for_packs(k->model.dtype, columns, {x}, [&]<typename E, int N>() {
        elements<E, N> source = {(const E *)x, columns};
        return sum_columns<E, N>("column sums", k, stream, source, rows, columns, {{(E *)sums}}, accumulate);
    });
}

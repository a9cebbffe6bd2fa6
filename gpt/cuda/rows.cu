/* Dropout, alone and with the residual stream; and copies of rows. Floor, in bytes for each element
 * of fp16: the gradient reads dout and writes dbranch, 4; with the residual it is 6. A warp
 * computes a row, and a lane eight columns at a time, with one Philox call (some 100 integer
 * instructions, 13 for each element). */
#include "gpt/cuda/kernels.cuh"

namespace {

using namespace gpt_cuda;

enum { DROPOUT_LANES = 32, DROPOUT_ROWS = 8, DROPOUT_BLOCKS = 8, DROPOUT_COLUMNS = 8 };

/* out = residual + dropout(branch), or only dropout(branch). [rows, d]; out may be branch. d is a
 * multiple of N. */
template <typename E, int N, bool RESIDUAL>
__global__ void __launch_bounds__(DROPOUT_LANES *DROPOUT_ROWS)
    dropout_kernel(E *out, const E *residual, const E *branch, size_t rows, uint32_t d, row_positions where, dropout drop,
                   const struct dt_cuda_step *step)
{
    wait_for_earlier();
    drop.first_sample += step->first_sample;
    for (size_t row = blockIdx.x * (size_t)DROPOUT_ROWS + threadIdx.y; row < rows; row += gridDim.x * (size_t)DROPOUT_ROWS) {
        row_positions::place place = where.at(drop.first_row + (uint32_t)row);
#pragma unroll 2
        for (uint32_t column = threadIdx.x * DROPOUT_COLUMNS; column < d; column += DROPOUT_LANES * DROPOUT_COLUMNS) {
            pack<E, N> b[DROPOUT_COLUMNS / N], r[DROPOUT_COLUMNS / N];
#pragma unroll
            for (int p = 0; p < DROPOUT_COLUMNS / N; p++)
                if (column + p * N < d) {
                    b[p] = load_pack<N>(branch + row * d + column + p * N);
                    if (RESIDUAL)
                        r[p] = load_pack<N>(residual + row * d + column + p * N);
                }
            float factor[DROPOUT_COLUMNS];
            dropout_factors(drop, drop.first_sample + place.sample, place.position, column, factor);
#pragma unroll
            for (int p = 0; p < DROPOUT_COLUMNS / N; p++)
                if (column + p * N < d) {
#pragma unroll
                    for (int j = 0; j < N; j++) {
                        float dropped = to_float(b[p].at[j]) * factor[p * N + j];
                        b[p].at[j] = from_float<E>(RESIDUAL ? to_float(r[p].at[j]) + dropped : dropped);
                    }
                    store_pack<N>(out + row * d + column + p * N, b[p]);
                }
        }
    }
}

template <bool RESIDUAL>
dt_status dropout_rows(const char *name, struct gpt_kernels *k, struct dt_stream *stream, void *out, const void *residual,
                       const void *branch, size_t rows, const struct gpt_dropout *how)
{
    size_t d = (size_t)gpt_of(&k->model)->hidden;
    return for_packs(k->model.dtype, d, {out, residual, branch}, [&]<typename E, int N>() {
        return launch(name, dropout_kernel<E, N, RESIDUAL>, dim3(blocks_for(k, rows, DROPOUT_ROWS, DROPOUT_BLOCKS)),
                      dim3(DROPOUT_LANES, DROPOUT_ROWS), 0, stream, (E *)out, (const E *)residual, (const E *)branch, rows, (uint32_t)d,
                      positions_of(k, &how->positions), dropout_of(how), k->base->cuda_step);
    });
}

/* to [rows, columns] = from, with different strides of rows. A warp copies a row. All numbers are
 * multiples of N. */
template <typename E, int N>
__global__ void __launch_bounds__(DROPOUT_LANES *DROPOUT_ROWS)
    move_kernel(E *to, const E *from, size_t rows, size_t columns, size_t to_stride, size_t from_stride)
{
    wait_for_earlier();
    for (size_t row = blockIdx.x * (size_t)DROPOUT_ROWS + threadIdx.y; row < rows; row += gridDim.x * (size_t)DROPOUT_ROWS)
        for (size_t column = threadIdx.x * (size_t)N; column < columns; column += DROPOUT_LANES * N)
            store_pack<N>(to + row * to_stride + column, load_pack<N>(from + row * from_stride + column));
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_move, gpt_move)
{
    if (a->rows == 0)
        return DT_OK;
    return for_packs(k->model.dtype, a->columns | a->from_stride | a->to_stride, {a->from, a->to}, [&]<typename E, int N>() {
        return launch("move", move_kernel<E, N>, dim3(blocks_for(k, a->rows, DROPOUT_ROWS, DROPOUT_BLOCKS)),
                      dim3(DROPOUT_LANES, DROPOUT_ROWS), 0, stream, (E *)a->to, (const E *)a->from, a->rows, a->columns, a->to_stride,
                      a->from_stride);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_dropout_residual, gpt_dropout_residual)
{
    return dropout_rows<true>("dropout and residual", k, stream, a->out, a->residual, a->branch, a->rows, &a->dropout);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_dropout_gradient, gpt_dropout_gradient)
{
    return dropout_rows<false>("dropout gradient", k, stream, a->dbranch, nullptr, a->dout, a->rows, &a->dropout);
}

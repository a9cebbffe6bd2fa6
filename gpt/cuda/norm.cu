/* Layer norm and its gradient.
 *
 * Floors, in bytes an element: forward reads x and writes y, 4 in fp16; the gradient reads dy, x and dx and writes dx, 8 (6 with
 * overwrite). A row is read once and stays in registers, as the 16-byte packs that it came in: forward has a warp for a row of up to 1,024
 * elements of fp16 and a block of up to 1,024 threads for one of up to 32,768; the gradient, whose sums over the rows take registers too,
 * blocks of 64 to 512 threads for up to 12,288. What is longer or does not lie on 16 bytes is read again for each sum, from the caches. */
#include "gpt/cuda/columns.cuh"

namespace {

using namespace gpt_cuda;

enum { WARP = 32, LOOP_THREADS = 512 };

constexpr float EPSILON = 1e-5f;

/* Both sums over a row's threads. `warps`: of a buffer that the row before did not use, so that one barrier is enough. */
template <int THREADS> __device__ inline float2 row_sums(float a, float b, float2 *warps)
{
    a = warp_sum(a);
    b = warp_sum(b);
    if (THREADS == WARP)
        return make_float2(a, b);
    int lane = threadIdx.x % WARP;
    if (lane == 0)
        warps[threadIdx.x / WARP] = make_float2(a, b);
    __syncthreads();
    float2 part = lane < THREADS / WARP ? warps[lane] : make_float2(0, 0);
    return make_float2(warp_sum(part.x), warp_sum(part.y));
}

/* ---- forward ---- */

/* Threads of a block whose rows have THREADS each. */
template <int THREADS> constexpr int block_threads = THREADS == WARP ? 256 : THREADS;

template <typename E, int THREADS, int PACKS>
__global__ void __launch_bounds__(block_threads<THREADS>)
    norm_kernel(const E *x, const E *gain, const E *bias, E *y, float *means, float *rstds, size_t rows, int d)
{
    constexpr int N = pack_elems<E>;
    __shared__ float2 warps[2][WARP];
    int lane = (int)threadIdx.x % THREADS;
    size_t row = blockIdx.x * (size_t)(block_threads<THREADS> / THREADS) + threadIdx.x / THREADS;
    if (row >= rows)
        return;
    pack<E, N> part[PACKS];
    float sum = 0, squares = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        if ((p * THREADS + lane) * N < d)
            part[p] = load_pack<N>(x + row * d + (p * THREADS + lane) * N);
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        for (int j = 0; j < N && (p * THREADS + lane) * N < d; j++)
            sum += to_float(part[p].at[j]);
    float mean = row_sums<THREADS>(sum, 0, warps[0]).x / d;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        for (int j = 0; j < N && (p * THREADS + lane) * N < d; j++) {
            float away = to_float(part[p].at[j]) - mean;
            squares += away * away;
        }
    float rstd = rsqrtf(row_sums<THREADS>(squares, 0, warps[1]).x / d + EPSILON);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        int column = (p * THREADS + lane) * N;
        if (column >= d)
            break;
        pack<E, N> g = load_pack<N>(gain + column), b = load_pack<N>(bias + column);
#pragma unroll
        for (int j = 0; j < N; j++)
            part[p].at[j] = from_float<E>((to_float(part[p].at[j]) - mean) * rstd * to_float(g.at[j]) + to_float(b.at[j]));
        store_pack<N>(y + row * d + column, part[p]);
    }
    if (lane == 0) {
        means[row] = mean;
        rstds[row] = rstd;
    }
}

/* A block a row, of any length and place. */
template <typename E, int N>
__global__ void __launch_bounds__(LOOP_THREADS)
    norm_loop_kernel(const E *x, const E *gain, const E *bias, E *y, float *means, float *rstds, int d)
{
    __shared__ float warps[WARP];
    size_t row = blockIdx.x;
    float sum = 0, squares = 0;
    for (int column = threadIdx.x * N; column < d; column += LOOP_THREADS * N) {
        pack<E, N> part = load_pack<N>(x + row * d + column);
        for (int j = 0; j < N; j++)
            sum += to_float(part.at[j]);
    }
    float mean = block_sum(sum, warps) / d;
    for (int column = threadIdx.x * N; column < d; column += LOOP_THREADS * N) {
        pack<E, N> part = load_pack<N>(x + row * d + column);
        for (int j = 0; j < N; j++)
            squares += (to_float(part.at[j]) - mean) * (to_float(part.at[j]) - mean);
    }
    float rstd = rsqrtf(block_sum(squares, warps) / d + EPSILON);
    for (int column = threadIdx.x * N; column < d; column += LOOP_THREADS * N) {
        pack<E, N> part = load_pack<N>(x + row * d + column), g = load_pack<N>(gain + column), b = load_pack<N>(bias + column);
        for (int j = 0; j < N; j++)
            part.at[j] = from_float<E>((to_float(part.at[j]) - mean) * rstd * to_float(g.at[j]) + to_float(b.at[j]));
        store_pack<N>(y + row * d + column, part);
    }
    if (threadIdx.x == 0) {
        means[row] = mean;
        rstds[row] = rstd;
    }
}

template <typename E, int THREADS, int PACKS> dt_status norm_in_registers(struct dt_stream *stream, const struct gpt_layer_norm *a)
{
    size_t of_block = block_threads<THREADS> / THREADS;
    return launch("layer norm", norm_kernel<E, THREADS, PACKS>, dim3((unsigned)((a->rows + of_block - 1) / of_block)),
                  dim3(block_threads<THREADS>), 0, stream, (const E *)a->x, (const E *)a->gain, (const E *)a->bias, (E *)a->y, a->mean,
                  a->rstd, a->rows, (int)a->d);
}

/* ---- gradient ----
 * xhat = (x - mean) * rstd, g = dy * gain: dx = rstd * (g - mean of g - xhat * mean of g * xhat), dgain = sum of dy * xhat, dbias = of dy.
 * Source  Ba, Kiros and Hinton, "Layer Normalization", 2016. */

struct norm_gradient {
    const void *dy, *x, *gain;
    const float *mean, *rstd;
    void *dx;
    size_t rows;
    int d;
    bool overwrite;
};

/* The blocks take the rows in turn, and each thread sums its own columns of dgain and dbias in registers, in fp32, over all its rows: 512
 * threads on a multiprocessor, with 128 registers each. partials [blocks, 2, d]: dgain, dbias */
template <typename E, int THREADS, int PACKS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS) norm_gradient_kernel(norm_gradient a, float *partials)
{
    constexpr int N = pack_elems<E>;
    __shared__ float2 warps[2][WARP];
    float dgain[PACKS][N] = {}, dbias[PACKS][N] = {};
    int turn = 0;
    for (size_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
        const E *x_row = (const E *)a.x + row * a.d, *dy_row = (const E *)a.dy + row * a.d;
        E *dx_row = (E *)a.dx + row * a.d;
        pack<E, N> x[PACKS], dy[PACKS];
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int column = (p * THREADS + (int)threadIdx.x) * N;
            if (column < a.d) {
                x[p] = load_pack<N>(x_row + column);
                dy[p] = load_pack<N>(dy_row + column);
            }
        }
        float mean = a.mean[row], rstd = a.rstd[row], sum_g = 0, sum_gx = 0;
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int column = (p * THREADS + (int)threadIdx.x) * N;
            if (column >= a.d)
                break;
            pack<E, N> gain = load_pack<N>((const E *)a.gain + column);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float dy_j = to_float(dy[p].at[j]), xhat = (to_float(x[p].at[j]) - mean) * rstd, g = dy_j * to_float(gain.at[j]);
                sum_g += g;
                sum_gx += g * xhat;
                dgain[p][j] += dy_j * xhat;
                dbias[p][j] += dy_j;
            }
        }
        float2 sums = row_sums<THREADS>(sum_g, sum_gx, warps[turn]);
        float mean_g = sums.x / a.d, mean_gx = sums.y / a.d;
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int column = (p * THREADS + (int)threadIdx.x) * N;
            if (column >= a.d)
                break;
            pack<E, N> gain = load_pack<N>((const E *)a.gain + column), out;
            if (!a.overwrite)
                out = load_pack<N>(dx_row + column);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float xhat = (to_float(x[p].at[j]) - mean) * rstd, g = to_float(dy[p].at[j]) * to_float(gain.at[j]);
                float dx = rstd * (g - mean_g - xhat * mean_gx);
                out.at[j] = from_float<E>(a.overwrite ? dx : to_float(out.at[j]) + dx);
            }
            store_pack<N>(dx_row + column, out);
        }
    }
    float *of_block = partials + blockIdx.x * 2 * (size_t)a.d;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        for (int j = 0; j < N && (p * THREADS + (int)threadIdx.x) * N < a.d; j++) {
            int column = (p * THREADS + (int)threadIdx.x) * N + j;
            of_block[column] = dgain[p][j];
            of_block[a.d + column] = dbias[p][j];
        }
}

/* dx alone; a block a row, of any length and place. */
template <typename E, int N> __global__ void __launch_bounds__(LOOP_THREADS) norm_gradient_loop_kernel(norm_gradient a)
{
    __shared__ float2 warps[WARP];
    size_t row = blockIdx.x;
    const E *x_row = (const E *)a.x + row * a.d, *dy_row = (const E *)a.dy + row * a.d, *gain = (const E *)a.gain;
    E *dx_row = (E *)a.dx + row * a.d;
    float mean = a.mean[row], rstd = a.rstd[row], sum_g = 0, sum_gx = 0;
    for (int column = threadIdx.x * N; column < a.d; column += LOOP_THREADS * N) {
        pack<E, N> x = load_pack<N>(x_row + column), dy = load_pack<N>(dy_row + column), by = load_pack<N>(gain + column);
        for (int j = 0; j < N; j++) {
            float g = to_float(dy.at[j]) * to_float(by.at[j]);
            sum_g += g;
            sum_gx += g * (to_float(x.at[j]) - mean) * rstd;
        }
    }
    float2 sums = row_sums<LOOP_THREADS>(sum_g, sum_gx, warps);
    for (int column = threadIdx.x * N; column < a.d; column += LOOP_THREADS * N) {
        pack<E, N> x = load_pack<N>(x_row + column), dy = load_pack<N>(dy_row + column), by = load_pack<N>(gain + column), out;
        if (!a.overwrite)
            out = load_pack<N>(dx_row + column);
        for (int j = 0; j < N; j++) {
            float xhat = (to_float(x.at[j]) - mean) * rstd, g = to_float(dy.at[j]) * to_float(by.at[j]);
            float dx = rstd * (g - sums.x / a.d - xhat * (sums.y / a.d));
            out.at[j] = from_float<E>(a.overwrite ? dx : to_float(out.at[j]) + dx);
        }
        store_pack<N>(dx_row + column, out);
    }
}

/* dgain and dbias beside it (columns.cuh). */
template <typename E, int N> struct norm_columns {
    static constexpr int SUMS = 2;
    norm_gradient a;
    __device__ void add(size_t row, size_t column, float (&sums)[SUMS][N]) const
    {
        pack<E, N> dy = load_pack<N>((const E *)a.dy + row * a.d + column), x = load_pack<N>((const E *)a.x + row * a.d + column);
        float mean = a.mean[row], rstd = a.rstd[row];
#pragma unroll
        for (int j = 0; j < N; j++) {
            sums[0][j] += to_float(dy.at[j]) * (to_float(x.at[j]) - mean) * rstd;
            sums[1][j] += to_float(dy.at[j]);
        }
    }
};

template <typename E, int THREADS, int PACKS>
dt_status gradient_in_registers(struct gpt_kernels *k, struct dt_stream *stream, const norm_gradient &a, column_outputs<E, 2> outputs,
                                bool accumulate)
{
    size_t most = (size_t)k->multiprocessors * (512 / THREADS), blocks = a.rows < most ? a.rows : most;
    DT_TRY(gpt_cuda_scratch(k, blocks * 2 * (size_t)a.d * sizeof(float)));
    DT_TRY(launch("layer norm gradient", norm_gradient_kernel<E, THREADS, PACKS>, dim3((unsigned)blocks), dim3(THREADS), 0, stream, a,
                  (float *)k->scratch));
    return combine_columns<E, 2>("layer norm gradient", stream, outputs, (const float *)k->scratch, blocks, (size_t)a.d, accumulate);
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_layer_norm, gpt_layer_norm)
{
    if (!a->bias || a->epsilon != EPSILON)
        return dt_fail(DT_ERR_UNAVAILABLE, "cuda kernels: there is no layer norm without bias, or with another epsilon than %g, yet",
                       (double)EPSILON);
    if (a->rows == 0)
        return DT_OK;
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        constexpr int N = pack_elems<E>;
        const E *x = (const E *)a->x, *gain = (const E *)a->gain, *bias = (const E *)a->bias;
        size_t packs = a->d / N;
        bool fit = packs_fit<E, N>(a->d, x, gain, bias) && packs_fit<E, N>(a->d, a->y);
        if (fit && packs <= 32 * 4)
            return norm_in_registers<E, 32, 4>(stream, a);
        if (fit && packs <= 128 * 4)
            return norm_in_registers<E, 128, 4>(stream, a);
        if (fit && packs <= 512 * 4)
            return norm_in_registers<E, 512, 4>(stream, a);
        if (fit && packs <= 1024 * 4)
            return norm_in_registers<E, 1024, 4>(stream, a);
        return launch("layer norm", fit ? norm_loop_kernel<E, N> : norm_loop_kernel<E, 1>, dim3((unsigned)a->rows), dim3(LOOP_THREADS), 0,
                      stream, x, gain, bias, (E *)a->y, a->mean, a->rstd, (int)a->d);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_layer_norm_gradient, gpt_layer_norm_gradient)
{
    if (!a->dbias)
        return dt_fail(DT_ERR_UNAVAILABLE, "cuda kernels: there is no layer norm without bias yet");
    if (a->rows == 0)
        return DT_OK;
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        constexpr int N = pack_elems<E>;
        norm_gradient g = {a->dy, a->x, a->gain, a->mean, a->rstd, a->dx, a->rows, (int)a->d, a->overwrite};
        column_outputs<E, 2> outputs = {{(E *)a->dgain, (E *)a->dbias}};
        size_t packs = a->d / N;
        bool fit = packs_fit<E, N>(a->d, a->dy, a->x, a->gain) && packs_fit<E, N>(a->d, a->dx);
        if (fit && packs <= 64 * 2)
            return gradient_in_registers<E, 64, 2>(k, stream, g, outputs, a->accumulate);
        if (fit && packs <= 128 * 2)
            return gradient_in_registers<E, 128, 2>(k, stream, g, outputs, a->accumulate);
        if (fit && packs <= 128 * 3)
            return gradient_in_registers<E, 128, 3>(k, stream, g, outputs, a->accumulate);
        if (fit && packs <= 256 * 3)
            return gradient_in_registers<E, 256, 3>(k, stream, g, outputs, a->accumulate);
        if (fit && packs <= 512 * 3)
            return gradient_in_registers<E, 512, 3>(k, stream, g, outputs, a->accumulate);
        DT_TRY(launch("layer norm gradient", fit ? norm_gradient_loop_kernel<E, N> : norm_gradient_loop_kernel<E, 1>,
                      dim3((unsigned)a->rows), dim3(LOOP_THREADS), 0, stream, g));
        if (fit)
            return sum_columns<E, N>("layer norm gradient", k, stream, norm_columns<E, N>{g}, a->rows, a->d, outputs, a->accumulate);
        return sum_columns<E, 1>("layer norm gradient", k, stream, norm_columns<E, 1>{g}, a->rows, a->d, outputs, a->accumulate);
    });
}

/* Layer norm and rms norm, and their gradients.
 *
 * The two are the same kernels: with RMS, a constant of theirs, there is no mean, nor a bias.
 *
 * Floors, in bytes an element: forward reads x and writes y, 4 in fp16; the gradient reads dy, x and dx and writes dx, 8 (6 with
 * overwrite). A row is read once and stays in registers, as the 16-byte packs that it came in: forward has a warp for a row of up to 1,024
 * elements of fp16 and a block of up to 1,024 threads for one of up to 32,768; the gradient, whose sums over the rows take registers too,
 * blocks of 64 to 512 threads for up to 12,288. What is longer or does not lie on 16 bytes is read again for each sum, from the caches. */
#include "gpt/cuda/columns.cuh"

namespace {

using namespace gpt_cuda;

enum { WARP = 32, LOOP_THREADS = 512 };

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

struct norm_forward {
    const void *x, *gain, *bias; /* bias may be NULL */
    void *y;
    float *means, *rstds; /* means is NULL with RMS */
    size_t rows;
    int d;
    float epsilon;
};

/* N elements of the bias, or zeros. */
template <typename E, int N> __device__ inline pack<E, N> bias_at(const norm_forward &a, int column)
{
    pack<E, N> zeros;
    if (a.bias)
        return load_pack<N>((const E *)a.bias + column);
#pragma unroll
    for (int j = 0; j < N; j++)
        zeros.at[j] = from_float<E>(0.0f);
    return zeros;
}

/* Threads of a block whose rows have THREADS each. */
template <int THREADS> constexpr int block_threads = THREADS == WARP ? 256 : THREADS;

template <typename E, bool RMS, int THREADS, int PACKS>
__global__ void __launch_bounds__(block_threads<THREADS>) norm_kernel(norm_forward a)
{
    constexpr int N = pack_elems<E>;
    __shared__ float2 warps[2][WARP];
    int lane = (int)threadIdx.x % THREADS;
    size_t row = blockIdx.x * (size_t)(block_threads<THREADS> / THREADS) + threadIdx.x / THREADS;
    if (row >= a.rows)
        return;
    const E *x = (const E *)a.x + row * a.d;
    pack<E, N> part[PACKS];
    float sum = 0, squares = 0, mean = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        if ((p * THREADS + lane) * N < a.d)
            part[p] = load_pack<N>(x + (p * THREADS + lane) * N);
    if constexpr (!RMS) {
#pragma unroll
        for (int p = 0; p < PACKS; p++)
            for (int j = 0; j < N && (p * THREADS + lane) * N < a.d; j++)
                sum += to_float(part[p].at[j]);
        mean = row_sums<THREADS>(sum, 0, warps[0]).x / a.d;
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        for (int j = 0; j < N && (p * THREADS + lane) * N < a.d; j++) {
            float away = to_float(part[p].at[j]) - mean;
            squares += away * away;
        }
    float rstd = rsqrtf(row_sums<THREADS>(squares, 0, warps[1]).x / a.d + a.epsilon);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        int column = (p * THREADS + lane) * N;
        if (column >= a.d)
            break;
        pack<E, N> g = load_pack<N>((const E *)a.gain + column), b = bias_at<E, N>(a, column);
#pragma unroll
        for (int j = 0; j < N; j++)
            part[p].at[j] = from_float<E>((to_float(part[p].at[j]) - mean) * rstd * to_float(g.at[j]) + to_float(b.at[j]));
        store_pack<N>((E *)a.y + row * a.d + column, part[p]);
    }
    if (lane == 0) {
        if (!RMS)
            a.means[row] = mean;
        a.rstds[row] = rstd;
    }
}

/* A block a row, of any length and place. */
template <typename E, bool RMS, int N> __global__ void __launch_bounds__(LOOP_THREADS) norm_loop_kernel(norm_forward a)
{
    __shared__ float warps[WARP];
    size_t row = blockIdx.x;
    const E *x = (const E *)a.x + row * a.d;
    float sum = 0, squares = 0, mean = 0;
    if constexpr (!RMS) {
        for (int column = threadIdx.x * N; column < a.d; column += LOOP_THREADS * N) {
            pack<E, N> part = load_pack<N>(x + column);
            for (int j = 0; j < N; j++)
                sum += to_float(part.at[j]);
        }
        mean = block_sum(sum, warps) / a.d;
    }
    for (int column = threadIdx.x * N; column < a.d; column += LOOP_THREADS * N) {
        pack<E, N> part = load_pack<N>(x + column);
        for (int j = 0; j < N; j++)
            squares += (to_float(part.at[j]) - mean) * (to_float(part.at[j]) - mean);
    }
    float rstd = rsqrtf(block_sum(squares, warps) / a.d + a.epsilon);
    for (int column = threadIdx.x * N; column < a.d; column += LOOP_THREADS * N) {
        pack<E, N> part = load_pack<N>(x + column), g = load_pack<N>((const E *)a.gain + column), b = bias_at<E, N>(a, column);
        for (int j = 0; j < N; j++)
            part.at[j] = from_float<E>((to_float(part.at[j]) - mean) * rstd * to_float(g.at[j]) + to_float(b.at[j]));
        store_pack<N>((E *)a.y + row * a.d + column, part);
    }
    if (threadIdx.x == 0) {
        if (!RMS)
            a.means[row] = mean;
        a.rstds[row] = rstd;
    }
}

template <typename E, bool RMS, int THREADS, int PACKS> dt_status norm_in_registers(struct dt_stream *stream, const norm_forward &a)
{
    size_t of_block = block_threads<THREADS> / THREADS;
    return launch(RMS ? "rms norm" : "layer norm", norm_kernel<E, RMS, THREADS, PACKS>,
                  dim3((unsigned)((a.rows + of_block - 1) / of_block)), dim3(block_threads<THREADS>), 0, stream, a);
}

template <bool RMS> dt_status queue_norm(const struct gpt_kernels *k, struct dt_stream *stream, const norm_forward &a)
{
    if (a.rows == 0)
        return DT_OK;
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        constexpr int N = pack_elems<E>;
        size_t packs = (size_t)a.d / N;
        bool fit = packs_fit<E, N>((size_t)a.d, a.x, a.gain, a.bias) && packs_fit<E, N>((size_t)a.d, a.y);
        if (fit && packs <= 32 * 4)
            return norm_in_registers<E, RMS, 32, 4>(stream, a);
        if (fit && packs <= 128 * 4)
            return norm_in_registers<E, RMS, 128, 4>(stream, a);
        if (fit && packs <= 512 * 4)
            return norm_in_registers<E, RMS, 512, 4>(stream, a);
        if (fit && packs <= 1024 * 4)
            return norm_in_registers<E, RMS, 1024, 4>(stream, a);
        return launch(RMS ? "rms norm" : "layer norm", fit ? norm_loop_kernel<E, RMS, N> : norm_loop_kernel<E, RMS, 1>,
                      dim3((unsigned)a.rows), dim3(LOOP_THREADS), 0, stream, a);
    });
}

/* ---- gradient ----
 * xhat = (x - mean) * rstd, g = dy * gain: dx = rstd * (g - mean of g - xhat * mean of g * xhat), dgain = sum of dy * xhat, dbias = of dy.
 * With RMS: xhat = x * rstd, dx = rstd * (g - xhat * mean of g * xhat).
 * Source  Ba, Kiros and Hinton, "Layer Normalization", 2016; Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019. */

struct norm_gradient {
    const void *dy, *x, *gain;
    const float *mean, *rstd; /* mean is NULL with RMS */
    void *dx;
    size_t rows;
    int d;
    bool overwrite;
};

/* Sums over the rows: dgain and, without RMS, dbias. */
template <bool RMS> constexpr int norm_sums = RMS ? 1 : 2;

/* The blocks take the rows in turn, and each thread sums its own columns of dgain and dbias in registers, in fp32, over all its rows: 512
 * threads on a multiprocessor, with 128 registers each. partials [blocks, norm_sums, d] */
template <typename E, bool RMS, int THREADS, int PACKS>
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
        float mean = RMS ? 0.0f : a.mean[row], rstd = a.rstd[row], sum_g = 0, sum_gx = 0;
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int column = (p * THREADS + (int)threadIdx.x) * N;
            if (column >= a.d)
                break;
            pack<E, N> gain = load_pack<N>((const E *)a.gain + column);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float dy_j = to_float(dy[p].at[j]), xhat = (to_float(x[p].at[j]) - mean) * rstd, g = dy_j * to_float(gain.at[j]);
                sum_gx += g * xhat;
                dgain[p][j] += dy_j * xhat;
                if constexpr (!RMS) {
                    sum_g += g;
                    dbias[p][j] += dy_j;
                }
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
                float dx = rstd * ((RMS ? g : g - mean_g) - xhat * mean_gx);
                out.at[j] = from_float<E>(a.overwrite ? dx : to_float(out.at[j]) + dx);
            }
            store_pack<N>(dx_row + column, out);
        }
    }
    float *of_block = partials + blockIdx.x * norm_sums<RMS> * (size_t)a.d;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        for (int j = 0; j < N && (p * THREADS + (int)threadIdx.x) * N < a.d; j++) {
            int column = (p * THREADS + (int)threadIdx.x) * N + j;
            of_block[column] = dgain[p][j];
            if constexpr (!RMS)
                of_block[a.d + column] = dbias[p][j];
        }
}

/* dx alone; a block a row, of any length and place. */
template <typename E, bool RMS, int N> __global__ void __launch_bounds__(LOOP_THREADS) norm_gradient_loop_kernel(norm_gradient a)
{
    __shared__ float2 warps[WARP];
    size_t row = blockIdx.x;
    const E *x_row = (const E *)a.x + row * a.d, *dy_row = (const E *)a.dy + row * a.d, *gain = (const E *)a.gain;
    E *dx_row = (E *)a.dx + row * a.d;
    float mean = RMS ? 0.0f : a.mean[row], rstd = a.rstd[row], sum_g = 0, sum_gx = 0;
    for (int column = threadIdx.x * N; column < a.d; column += LOOP_THREADS * N) {
        pack<E, N> x = load_pack<N>(x_row + column), dy = load_pack<N>(dy_row + column), by = load_pack<N>(gain + column);
        for (int j = 0; j < N; j++) {
            float g = to_float(dy.at[j]) * to_float(by.at[j]);
            if constexpr (!RMS)
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
            float dx = rstd * ((RMS ? g : g - sums.x / a.d) - xhat * (sums.y / a.d));
            out.at[j] = from_float<E>(a.overwrite ? dx : to_float(out.at[j]) + dx);
        }
        store_pack<N>(dx_row + column, out);
    }
}

/* dgain and dbias beside it (columns.cuh). */
template <typename E, bool RMS, int N> struct norm_columns {
    static constexpr int SUMS = norm_sums<RMS>;
    norm_gradient a;
    __device__ void add(size_t row, size_t column, float (&sums)[SUMS][N]) const
    {
        pack<E, N> dy = load_pack<N>((const E *)a.dy + row * a.d + column), x = load_pack<N>((const E *)a.x + row * a.d + column);
        float mean = RMS ? 0.0f : a.mean[row], rstd = a.rstd[row];
#pragma unroll
        for (int j = 0; j < N; j++) {
            sums[0][j] += to_float(dy.at[j]) * (to_float(x.at[j]) - mean) * rstd;
            if constexpr (!RMS)
                sums[1][j] += to_float(dy.at[j]);
        }
    }
};

template <typename E, bool RMS> using norm_outputs = column_outputs<E, norm_sums<RMS>>;

template <bool RMS> constexpr const char *gradient_name = RMS ? "rms norm gradient" : "layer norm gradient";

template <typename E, bool RMS, int THREADS, int PACKS>
dt_status gradient_in_registers(struct gpt_kernels *k, struct dt_stream *stream, const norm_gradient &a, norm_outputs<E, RMS> outputs,
                                bool accumulate)
{
    size_t most = (size_t)k->multiprocessors * (512 / THREADS), blocks = a.rows < most ? a.rows : most;
    DT_TRY(gpt_cuda_scratch(k, blocks * norm_sums<RMS> * (size_t)a.d * sizeof(float)));
    DT_TRY(launch(gradient_name<RMS>, norm_gradient_kernel<E, RMS, THREADS, PACKS>, dim3((unsigned)blocks), dim3(THREADS), 0, stream, a,
                  (float *)k->scratch));
    return combine_columns(gradient_name<RMS>, stream, outputs, (const float *)k->scratch, blocks, (size_t)a.d, accumulate);
}

template <typename E, bool RMS>
dt_status queue_gradient(struct gpt_kernels *k, struct dt_stream *stream, const norm_gradient &a, norm_outputs<E, RMS> outputs,
                         bool accumulate)
{
    constexpr int N = pack_elems<E>;
    size_t d = (size_t)a.d, packs = d / N;
    bool fit = packs_fit<E, N>(d, a.dy, a.x, a.gain) && packs_fit<E, N>(d, a.dx);
    if (a.rows == 0)
        return DT_OK;
    if (fit && packs <= 64 * 2)
        return gradient_in_registers<E, RMS, 64, 2>(k, stream, a, outputs, accumulate);
    if (fit && packs <= 128 * 2)
        return gradient_in_registers<E, RMS, 128, 2>(k, stream, a, outputs, accumulate);
    if (fit && packs <= 128 * 3)
        return gradient_in_registers<E, RMS, 128, 3>(k, stream, a, outputs, accumulate);
    if (fit && packs <= 256 * 3)
        return gradient_in_registers<E, RMS, 256, 3>(k, stream, a, outputs, accumulate);
    if (fit && packs <= 512 * 3)
        return gradient_in_registers<E, RMS, 512, 3>(k, stream, a, outputs, accumulate);
    DT_TRY(launch(gradient_name<RMS>, fit ? norm_gradient_loop_kernel<E, RMS, N> : norm_gradient_loop_kernel<E, RMS, 1>,
                  dim3((unsigned)a.rows), dim3(LOOP_THREADS), 0, stream, a));
    if (fit)
        return sum_columns<E, N>(gradient_name<RMS>, k, stream, norm_columns<E, RMS, N>{a}, a.rows, d, outputs, accumulate);
    return sum_columns<E, 1>(gradient_name<RMS>, k, stream, norm_columns<E, RMS, 1>{a}, a.rows, d, outputs, accumulate);
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_layer_norm, gpt_layer_norm)
{
    return queue_norm<false>(k, stream, {a->x, a->gain, a->bias, a->y, a->mean, a->rstd, a->rows, (int)a->d, a->epsilon});
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_rms_norm, gpt_rms_norm)
{
    return queue_norm<true>(k, stream, {a->x, a->gain, nullptr, a->y, nullptr, a->rstd, a->rows, (int)a->d, a->epsilon});
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_layer_norm_gradient, gpt_layer_norm_gradient)
{
    const norm_gradient g = {a->dy, a->x, a->gain, a->mean, a->rstd, a->dx, a->rows, (int)a->d, a->overwrite};
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        return queue_gradient<E, false>(k, stream, g, {{(E *)a->dgain, (E *)a->dbias}}, a->accumulate);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_rms_norm_gradient, gpt_rms_norm_gradient)
{
    const norm_gradient g = {a->dy, a->x, a->gain, nullptr, a->rstd, a->dx, a->rows, (int)a->d, a->overwrite};
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        return queue_gradient<E, true>(k, stream, g, {{(E *)a->dgain}}, a->accumulate);
    });
}

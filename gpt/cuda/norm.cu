/* Layer norm and rms norm, and their gradients.
 *
 * Both norms are the same kernels: with the constant RMS, there is no mean and no bias.
 *
 * A kernel may also do the operation next to the norm. Forward makes x as the sum of the residual
 * stream and a branch after its dropout, and stores it. The gradient also writes that of the
 * branch, and forward's output once more, if it was not kept, in the memory of its own gradient.
 *
 * Floors, in bytes for each element: forward reads x and writes y, 4 in fp16, and 8 with the sum;
 * the gradient reads dy, x and dx and writes dx, 8 (6 with overwrite), 2 more with the branch's and
 * 2 with forward's output. A row is read once and stays in registers, in the 16-byte packs in which
 * it was loaded. Forward has a warp for a row of up to 1,024 elements of fp16, and a block of up to
 * 1,024 threads for one of up to 32,768. The gradient, whose sums over the rows also need
 * registers, has blocks of 64 to 512 threads for up to 12,288 elements. Rows that are longer, or
 * not aligned to 16 bytes, are read again for each sum, from the caches. */
#include "gpt/cuda/columns.cuh"

namespace {

using namespace gpt_cuda;

enum { WARP = 32, LOOP_THREADS = 512 };

/* Both sums over a row's threads. `warps`: memory that the row before did not use, so that one
 * barrier is enough. */
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

inline norm_forward forward_of(const struct gpt_norm &a)
{
    return {a.x, a.gain, a.bias, a.y, a.mean, a.rstd, a.rows, (int)a.d, a.epsilon};
}

/* N elements of the bias, or zeros. */
template <typename E, int N> __device__ inline pack<E, N> bias_at(const void *bias, int column)
{
    pack<E, N> zeros;
    if (bias)
        return load_pack<N>((const E *)bias + column);
#pragma unroll
    for (int j = 0; j < N; j++)
        zeros.at[j] = from_float<E>(0.0f);
    return zeros;
}

/* The rows of the model that a call's rows are, for the dropout of a branch. */
struct dropped_rows {
    dropout drop;
    row_positions where;
    const struct dt_cuda_step *step;

    using place = row_positions::place;
    __device__ place at(size_t row) const
    {
        place p = where.at(drop.first_row + (uint32_t)row);
        return {drop.first_sample + step->first_sample + p.sample, p.position};
    }
    /* The factors of N columns from a multiple of N, which divides 8. */
    template <int N> __device__ void factors(const place &p, int column, float (&factor)[N]) const
    {
        static_assert(N == 8 || N == 4);
        float all[8];
        dropout_factors(drop, p.sample, p.position, (uint32_t)column / 8 * 8, all);
#pragma unroll
        for (int j = 0; j < N; j++)
            factor[j] = N == 4 && column % 8 != 0 ? all[(j + 4) % 8] : all[j];
    }
};

inline dropped_rows dropped_rows_of(const struct gpt_kernels *k, const struct gpt_dropout *how)
{
    return {dropout_of(how), positions_of(k, &how->positions), k->base->cuda_step};
}

/* The source of a row: memory, */
template <typename E> struct stored_rows {
    const E *x;

    struct place {
        const E *row;
    };
    __device__ place at(size_t row, int d) const
    {
        return {x + row * d};
    }
    template <int N> __device__ pack<E, N> load(const place &p, int column) const
    {
        return load_pack<N>(p.row + column);
    }
};

/* or residual + dropout(branch), which is rounded and stored in `out` first; out may be branch. */
template <typename E> struct summed_rows {
    const E *residual, *branch;
    E *out;
    dropped_rows dropped;

    struct place {
        size_t start;
        dropped_rows::place dropped;
    };
    __device__ place at(size_t row, int d) const
    {
        return {row * d, dropped.at(row)};
    }
    template <int N> __device__ pack<E, N> load(const place &p, int column) const
    {
        pack<E, N> r = load_pack<N>(residual + p.start + column), b = load_pack<N>(branch + p.start + column);
        float factor[N];
        dropped.factors<N>(p.dropped, column, factor);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float through = to_float(b.at[j]) * factor[j];
            b.at[j] = from_float<E>(to_float(r.at[j]) + through);
        }
        store_pack<N>(out + p.start + column, b);
        return b;
    }
};

/* Threads of a block if each row has THREADS. */
template <int THREADS> constexpr int block_threads = THREADS == WARP ? 256 : THREADS;

template <typename E, typename Rows, bool RMS, int THREADS, int PACKS>
__global__ void __launch_bounds__(block_threads<THREADS>) norm_kernel(Rows rows, norm_forward a)
{
    wait_for_earlier();
    constexpr int N = pack_elems<E>;
    __shared__ float2 warps[2][WARP];
    int lane = (int)threadIdx.x % THREADS;
    size_t row = blockIdx.x * (size_t)(block_threads<THREADS> / THREADS) + threadIdx.x / THREADS;
    if (row >= a.rows)
        return;
    const auto place = rows.at(row, a.d);
    pack<E, N> part[PACKS];
    float sum = 0, squares = 0, mean = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        if ((p * THREADS + lane) * N < a.d)
            part[p] = rows.template load<N>(place, (p * THREADS + lane) * N);
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
        pack<E, N> g = load_pack<N>((const E *)a.gain + column), b = bias_at<E, N>(a.bias, column);
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

/* One block for each row, of any length and alignment. */
template <typename E, bool RMS, int N> __global__ void __launch_bounds__(LOOP_THREADS) norm_loop_kernel(norm_forward a)
{
    wait_for_earlier();
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
        pack<E, N> part = load_pack<N>(x + column), g = load_pack<N>((const E *)a.gain + column), b = bias_at<E, N>(a.bias, column);
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

template <typename E, bool RMS, int THREADS, int PACKS, typename Rows>
dt_status norm_in_registers(const char *name, struct dt_stream *stream, const Rows &rows, const norm_forward &a)
{
    size_t of_block = block_threads<THREADS> / THREADS;
    return launch(name, norm_kernel<E, Rows, RMS, THREADS, PACKS>, dim3((unsigned)((a.rows + of_block - 1) / of_block)),
                  dim3(block_threads<THREADS>), 0, stream, rows, a);
}

/* Packs of the longest row that fits into registers. */
enum { MOST_PACKS = 1024 * 4 };

template <typename E, bool RMS, typename Rows>
dt_status norm_of_packs(const char *name, struct dt_stream *stream, const Rows &rows, const norm_forward &a)
{
    int packs = a.d / pack_elems<E>;
    if (packs <= 32 * 4)
        return norm_in_registers<E, RMS, 32, 4>(name, stream, rows, a);
    if (packs <= 128 * 4)
        return norm_in_registers<E, RMS, 128, 4>(name, stream, rows, a);
    if (packs <= 512 * 4)
        return norm_in_registers<E, RMS, 512, 4>(name, stream, rows, a);
    return norm_in_registers<E, RMS, 1024, 4>(name, stream, rows, a);
}

template <bool RMS> constexpr const char *norm_name = RMS ? "rms norm" : "layer norm";

template <bool RMS> dt_status queue_norm(const struct gpt_kernels *k, struct dt_stream *stream, const norm_forward &a)
{
    if (a.rows == 0)
        return DT_OK;
    return for_dtype(k->model.dtype, [&]<typename E>() {
        constexpr int N = pack_elems<E>;
        bool fit = packs_fit<E, N>((size_t)a.d, {a.x, a.gain, a.bias, a.y});
        if (fit && a.d / N <= MOST_PACKS)
            return norm_of_packs<E, RMS>(norm_name<RMS>, stream, stored_rows<E>{(const E *)a.x}, a);
        return launch(norm_name<RMS>, fit ? norm_loop_kernel<E, RMS, N> : norm_loop_kernel<E, RMS, 1>, dim3((unsigned)a.rows),
                      dim3(LOOP_THREADS), 0, stream, a);
    });
}

/* Two kernels, one after the other, if rows are too long or not aligned to 16 bytes. */
template <bool RMS>
dt_status queue_residual_norm(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_residual &sum,
                              const norm_forward &a)
{
    if (a.rows == 0)
        return DT_OK;
    return for_dtype(k->model.dtype, [&]<typename E>() -> dt_status {
        constexpr int N = pack_elems<E>;
        size_t d = (size_t)a.d;
        bool fit = packs_fit<E, N>(d, {a.x, a.gain, a.bias, a.y, sum.residual, sum.branch});
        if (!fit || a.d / N > MOST_PACKS) {
            DT_TRY(gpt_cuda_dropout_residual(k, stream, &sum));
            return queue_norm<RMS>(k, stream, a);
        }
        summed_rows<E> rows = {(const E *)sum.residual, (const E *)sum.branch, (E *)sum.out, dropped_rows_of(k, &sum.dropout)};
        return norm_of_packs<E, RMS>(RMS ? "residual and rms norm" : "residual and layer norm", stream, rows, a);
    });
}

/* ---- gradient ---- xhat = (x - mean) * rstd, g = dy * gain: dx = rstd * (g - mean of g - xhat *
 * mean of g * xhat), dgain = sum of dy * xhat, dbias = of dy. With RMS: xhat = x * rstd, dx = rstd
 * * (g - xhat * mean of g * xhat).
 * Source  Ba, Kiros and Hinton, "Layer Normalization", 2016; Zhang and Sennrich, "Root Mean Square
 *         Layer Normalization", NeurIPS 2019. */

struct norm_gradient {
    const void *dy, *x, *gain;
    const float *mean, *rstd; /* mean is NULL with RMS */
    void *dx;
    size_t rows;
    int d;
    bool overwrite;
    const void *bias; /* of y; may be NULL */
    void *y;          /* only with a branch; NULL: not computed */
};

/* Sums over the rows: dgain and, without RMS, dbias. */
template <bool RMS> constexpr int norm_sums = RMS ? 1 : 2;
template <typename E, bool RMS> using norm_outputs = column_outputs<E, norm_sums<RMS>>;

/* The end of the gradient: nothing more for dx, and another kernel adds the blocks' sums; */
struct no_branch {
    static constexpr bool ends_sums = false;
    struct place {};
    __device__ place at(size_t, int) const
    {
        return {};
    }
    template <typename E, int N> __device__ void store(const place &, int, const pack<E, N> &) const
    {
    }
};

/* or dx goes backward through the dropout of the branch that ended there, if there is one, and this
 * kernel also adds the sums. */
template <typename T> struct dropped_branch {
    static constexpr bool ends_sums = true;
    T *dbranch;
    dropped_rows dropped;

    struct place {
        size_t start;
        dropped_rows::place dropped;
    };
    __device__ place at(size_t row, int d) const
    {
        return {row * d, dropped.at(row)};
    }
    template <typename E, int N> __device__ void store(const place &p, int column, const pack<E, N> &dx) const
    {
        pack<E, N> out;
        float factor[N];
        if (!dbranch)
            return;
        dropped.factors<N>(p.dropped, column, factor);
#pragma unroll
        for (int j = 0; j < N; j++)
            out.at[j] = from_float<E>(to_float(dx.at[j]) * factor[j]);
        store_pack<N>(dbranch + p.start + column, out);
    }
};

/* Each block computes some of the rows, and each thread sums its own columns of dgain and dbias in
 * registers, in fp32, over all of the block's rows: 512 threads on a multiprocessor, with 128
 * registers each. partials, arrivals: as in combine_in_tree. */
template <typename E, typename Branch, bool RMS, int THREADS, int PACKS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS)
    norm_gradient_kernel(norm_gradient a, Branch branch, float *partials, uint32_t *arrivals, norm_outputs<E, RMS> outputs, bool accumulate)
{
    wait_for_earlier();
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
        const auto place = branch.at(row, a.d);
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
            branch.store(place, column, out);
            if constexpr (Branch::ends_sums)
                if (a.y) {
                    pack<E, N> bias = bias_at<E, N>(a.bias, column);
#pragma unroll
                    for (int j = 0; j < N; j++)
                        out.at[j] = from_float<E>((to_float(x[p].at[j]) - mean) * rstd * to_float(gain.at[j]) + to_float(bias.at[j]));
                    store_pack<N>((E *)a.y + row * a.d + column, out);
                }
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
    if constexpr (Branch::ends_sums)
        combine_in_tree(outputs, partials, (size_t)a.d, arrivals, accumulate);
}

/* Only dx; one block for each row, of any length and alignment. */
template <typename E, bool RMS, int N> __global__ void __launch_bounds__(LOOP_THREADS) norm_gradient_loop_kernel(norm_gradient a)
{
    wait_for_earlier();
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

/* Also dgain and dbias (columns.cuh). */
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

template <bool RMS> constexpr const char *gradient_name = RMS ? "rms norm gradient" : "layer norm gradient";

template <typename E, bool RMS, int THREADS, int PACKS, typename Branch>
dt_status gradient_in_registers(const char *name, struct gpt_kernels *k, struct dt_stream *stream, const norm_gradient &a,
                                const Branch &branch, norm_outputs<E, RMS> outputs, bool accumulate)
{
    size_t most = (size_t)k->base->multiprocessors * (512 / THREADS), blocks = a.rows < most ? a.rows : most;
    DT_TRY(gpt_cuda_scratch(k, tree_sums(blocks) * norm_sums<RMS> * (size_t)a.d * sizeof(float)));
    DT_TRY(launch(name, norm_gradient_kernel<E, Branch, RMS, THREADS, PACKS>, dim3((unsigned)blocks), dim3(THREADS), 0, stream, a, branch,
                  (float *)k->scratch.data, k->arrivals, outputs, accumulate));
    if (Branch::ends_sums)
        return DT_OK;
    return combine_columns(name, stream, outputs, (const float *)k->scratch.data, blocks, (size_t)a.d, accumulate);
}

enum { MOST_GRADIENT_PACKS = 512 * 3 };

template <typename E, bool RMS, typename Branch>
dt_status gradient_of_packs(const char *name, struct gpt_kernels *k, struct dt_stream *stream, const norm_gradient &a, const Branch &branch,
                            norm_outputs<E, RMS> outputs, bool accumulate)
{
    int packs = a.d / pack_elems<E>;
    if (packs <= 64 * 2)
        return gradient_in_registers<E, RMS, 64, 2>(name, k, stream, a, branch, outputs, accumulate);
    if (packs <= 128 * 2)
        return gradient_in_registers<E, RMS, 128, 2>(name, k, stream, a, branch, outputs, accumulate);
    if (packs <= 128 * 3)
        return gradient_in_registers<E, RMS, 128, 3>(name, k, stream, a, branch, outputs, accumulate);
    if (packs <= 256 * 3)
        return gradient_in_registers<E, RMS, 256, 3>(name, k, stream, a, branch, outputs, accumulate);
    return gradient_in_registers<E, RMS, 512, 3>(name, k, stream, a, branch, outputs, accumulate);
}

template <typename E, bool RMS>
dt_status queue_gradient(struct gpt_kernels *k, struct dt_stream *stream, const norm_gradient &a, norm_outputs<E, RMS> outputs,
                         bool accumulate)
{
    constexpr int N = pack_elems<E>;
    size_t d = (size_t)a.d;
    bool fit = packs_fit<E, N>(d, {a.dy, a.x, a.gain, a.dx});
    if (a.rows == 0)
        return DT_OK;
    if (fit && a.d / N <= MOST_GRADIENT_PACKS)
        return gradient_of_packs<E, RMS>(gradient_name<RMS>, k, stream, a, no_branch{}, outputs, accumulate);
    DT_TRY(launch(gradient_name<RMS>, fit ? norm_gradient_loop_kernel<E, RMS, N> : norm_gradient_loop_kernel<E, RMS, 1>,
                  dim3((unsigned)a.rows), dim3(LOOP_THREADS), 0, stream, a));
    if (fit)
        return sum_columns<E, N>(gradient_name<RMS>, k, stream, norm_columns<E, RMS, N>{a}, a.rows, d, outputs, accumulate);
    return sum_columns<E, 1>(gradient_name<RMS>, k, stream, norm_columns<E, RMS, 1>{a}, a.rows, d, outputs, accumulate);
}

/* Two kernels, one after the other, if rows are too long or not aligned to 16 bytes. */
template <typename E, bool RMS>
dt_status queue_branch_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_norm_branch_gradient *a,
                                norm_outputs<E, RMS> outputs)
{
    const struct gpt_norm &f = a->norm;
    const norm_gradient g = {a->dy, f.x, f.gain, f.mean, f.rstd, a->dx, f.rows, (int)f.d, false, f.bias, f.y};
    constexpr int N = pack_elems<E>;
    bool fit = packs_fit<E, N>(f.d, {a->dy, f.x, f.gain, a->dx, a->dbranch, f.y, f.bias});
    if (f.rows == 0)
        return DT_OK;
    if (!fit || g.d / N > MOST_GRADIENT_PACKS) {
        DT_TRY((queue_gradient<E, RMS>(k, stream, g, outputs, a->accumulate)));
        struct gpt_dropout_gradient behind = {a->dx, a->dbranch, f.rows, a->dropout};
        if (a->dbranch)
            DT_TRY(gpt_cuda_dropout_gradient(k, stream, &behind));
        return f.y ? queue_norm<RMS>(k, stream, forward_of(f)) : DT_OK;
    }
    dropped_branch<E> branch = {(E *)a->dbranch, dropped_rows_of(k, &a->dropout)};
    return gradient_of_packs<E, RMS>(RMS ? "rms norm and branch gradient" : "layer norm and branch gradient", k, stream, g, branch, outputs,
                                     a->accumulate);
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_layer_norm, gpt_norm)
{
    return queue_norm<false>(k, stream, forward_of(*a));
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_rms_norm, gpt_norm)
{
    return queue_norm<true>(k, stream, {a->x, a->gain, nullptr, a->y, nullptr, a->rstd, a->rows, (int)a->d, a->epsilon});
}

template <bool RMS> static dt_status queue_gradient_of(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_norm_gradient *a)
{
    const norm_gradient g = {a->dy, a->x, a->gain, a->mean, a->rstd, a->dx, a->rows, (int)a->d, a->overwrite, nullptr, nullptr};
    return for_dtype(k->model.dtype, [&]<typename E>() {
        norm_outputs<E, RMS> outputs = {{(E *)a->dgain}};
        if constexpr (!RMS)
            outputs.to[1] = (E *)a->dbias;
        return queue_gradient<E, RMS>(k, stream, g, outputs, a->accumulate);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_layer_norm_gradient, gpt_norm_gradient)
{
    return queue_gradient_of<false>(k, stream, a);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_rms_norm_gradient, gpt_norm_gradient)
{
    return queue_gradient_of<true>(k, stream, a);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_residual_norm, gpt_residual_norm)
{
    const norm_forward f = forward_of(a->norm);
    return f.means ? queue_residual_norm<false>(k, stream, a->sum, f) : queue_residual_norm<true>(k, stream, a->sum, f);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_norm_branch_gradient, gpt_norm_branch_gradient)
{
    return for_dtype(k->model.dtype, [&]<typename E>() {
        if (a->norm.mean)
            return queue_branch_gradient<E, false>(k, stream, a, {{(E *)a->dgain, (E *)a->dbias}});
        return queue_branch_gradient<E, true>(k, stream, a, {{(E *)a->dgain}});
    });
}

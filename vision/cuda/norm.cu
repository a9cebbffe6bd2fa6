/* Batch normalisation over groups of samples; sums.cuh makes the sums over a group's rows. Floor,
 * in passes over an activation: forward reads x twice and writes y, with a residual one more;
 * backward reads x and dy twice and writes dx, with a ReLU also dy. */
#include "vision/cuda/sums.cuh"

namespace {

using namespace vision_cuda;

constexpr float EPSILON = 1e-5f;
constexpr double MOMENTUM = 0.1; /* PyTorch's defaults */

/* Arguments of a call's kernels. */
template <typename E> struct norm_arguments {
    const E *x, *gain, *bias, *residual;
    float *mean, *rstd; /* [groups, channels] */
    bool relu;

    explicit norm_arguments(const struct vision_norm_of &of)
        : x((const E *)of.x), gain((const E *)of.gain), bias((const E *)of.bias), residual((const E *)of.residual), mean(of.mean),
          rstd(of.rstd), relu(of.relu)
    {
    }
};

inline row_groups groups_of(const struct vision_norm_of &of)
{
    return {of.samples * of.positions, of.group * of.positions, of.channels};
}

/* The factors that normalise N columns of a group. */
template <int N> struct factors {
    float mean[N], scale[N], bias[N];

    template <typename E> __device__ factors(const norm_arguments<E> &a, const row_groups &groups, size_t group, size_t column)
    {
        size_t at = group * groups.columns + column;
        float rstd[N];
        for (int j = 0; j < N; j++) {
            mean[j] = a.mean[at + j];
            rstd[j] = a.rstd[at + j];
            scale[j] = to_float(a.gain[column + j]) * rstd[j];
            bias[j] = to_float(a.bias[column + j]);
        }
    }

    /* Forward's values of N elements before the ReLU. Backward computes them again, to know where
     * ReLU's output was 0. */
    template <typename E> __device__ void apply(const norm_arguments<E> &a, size_t at, float (&y)[N]) const
    {
        float x[N], residual[N];
        load_floats<N>(a.x + at, x);
#pragma unroll
        for (int j = 0; j < N; j++)
            y[j] = fmaf(x[j] - mean[j], scale[j], bias[j]);
        if (!a.residual)
            return;
        load_floats<N>(a.residual + at, residual);
#pragma unroll
        for (int j = 0; j < N; j++)
            y[j] += residual[j];
    }
};

/* ---- forward ---- */

/* Sums of x - shift and of its square. shift is the first row of the group, so that a mean that is
 * large compared with the variation loses no digits. */
template <typename E, int N> struct shifted_rows {
    const E *x;
    size_t channels;
    struct shift {
        float of[N];
    };

    __device__ shift begin(const row_groups &groups, size_t group, size_t column) const
    {
        shift s;
        load_floats<N>(x + groups.first(group) * channels + column, s.of);
        return s;
    }
    __device__ void add(const shift &s, size_t row, size_t column, float (&sums)[2][N]) const
    {
        float value[N];
        load_floats<N>(x + row * channels + column, value);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float off = value[j] - s.of[j];
            sums[0][j] += off;
            sums[1][j] += off * off;
        }
    }
};

struct moments {
    double mean, variance;
};

/* The moments of a column of a group, from its shifted sums. */
template <typename E> __device__ moments moments_of(const E *x, const row_groups &groups, size_t group, size_t column, pair sum)
{
    double n = (double)(groups.end(group) - groups.first(group)), off = sum.first / n;
    return {(double)to_float(x[groups.first(group) * groups.columns + column]) + off, fmax(sum.second / n - off * off, 0.0)};
}

/* n: the number of rows that `of` is about. running: this column's mean; its variance follows after
 * the means of all columns. NULL: none. */
__device__ void use_moments(moments of, double n, float *mean, float *rstd, float *running, size_t columns)
{
    *mean = (float)of.mean;
    *rstd = (float)(1 / sqrt(of.variance + (double)EPSILON));
    if (!running)
        return;
    running[0] += (float)(MOMENTUM * (of.mean - (double)running[0]));
    running[columns] += (float)(MOMENTUM * (of.variance * n / fmax(n - 1, 1.0) - (double)running[columns]));
}

/* Block (LANES, CHUNK_THREADS). The groups one after the other, because each moves the running
 * statistics. moments_out [2, columns]: only compute the moments of the one group; NULL: compute
 * mean, rstd and running statistics. */
template <typename E>
__global__ void __launch_bounds__(LANES *CHUNK_THREADS)
    statistics_kernel(norm_arguments<E> a, row_groups groups, const float *partials, float *running, float *moments_out)
{
    wait_for_earlier();
    size_t column = blockIdx.x * (size_t)LANES + threadIdx.x, columns = groups.columns;
    for (size_t group = 0; group < groups.count(); group++) {
        pair sum = sum_chunks(groups, partials, group, column);
        if (threadIdx.y > 0 || column >= columns)
            continue;
        moments of = moments_of(a.x, groups, group, column, sum);
        if (moments_out) {
            moments_out[column] = (float)of.mean;
            moments_out[columns + column] = (float)of.variance;
            continue;
        }
        use_moments(of, (double)(groups.end(group) - groups.first(group)), &a.mean[group * columns + column],
                    &a.rstd[group * columns + column], running ? running + column : nullptr, columns);
    }
}

/* The parts have equally many rows, so the variance of all is the mean of their variances, plus the
 * variance of their means. */
__global__ void __launch_bounds__(THREADS) join_moments_kernel(struct vision_join_moments a)
{
    wait_for_earlier();
    for (size_t column = blockIdx.x * (size_t)THREADS + threadIdx.x; column < a.channels; column += gridDim.x * (size_t)THREADS) {
        moments all = {0, 0};
        const float *of = a.moments + column;
        double ranks = (double)a.ranks;
        for (size_t part = 0; part < a.ranks; part++)
            all.mean += (double)of[2 * part * a.channels] / ranks;
        for (size_t part = 0; part < a.ranks; part++) {
            double off = (double)of[2 * part * a.channels] - all.mean;
            all.variance += ((double)of[(2 * part + 1) * a.channels] + off * off) / ranks;
        }
        use_moments(all, ranks * (double)a.rows, &a.mean[column], &a.rstd[column], a.running ? a.running + column : nullptr, a.channels);
    }
}

/* The rows of a group, columns by lanes: a thread keeps its columns' factors, and computes every
 * gridDim.x * ROW_THREADS-th row. */
template <typename E, int N>
__global__ void __launch_bounds__(LANES *ROW_THREADS) normalise_kernel(E *y, norm_arguments<E> a, row_groups groups)
{
    wait_for_earlier();
    size_t group = blockIdx.z, column = (blockIdx.y * (size_t)LANES + threadIdx.x) * N;
    if (column >= groups.columns)
        return;
    const factors<N> f(a, groups, group, column);
    for (size_t row = groups.first(group) + blockIdx.x * (size_t)ROW_THREADS + threadIdx.y; row < groups.end(group);
         row += gridDim.x * (size_t)ROW_THREADS) {
        float value[N];
        f.apply(a, row * groups.columns + column, value);
#pragma unroll
        for (int j = 0; j < N; j++)
            value[j] = a.relu ? fmaxf(value[j], 0.0f) : value[j];
        store_floats<N>(y + row * groups.columns + column, value);
    }
}

/* ---- backward ---- */

/* Applies ReLU's gradient to dy; sums dy and its product with x - mean. */
template <typename E, int N> struct gradient_rows {
    norm_arguments<E> a;
    E *dy;
    size_t channels;

    __device__ factors<N> begin(const row_groups &groups, size_t group, size_t column) const
    {
        return factors<N>(a, groups, group, column);
    }
    __device__ void add(const factors<N> &f, size_t row, size_t column, float (&sums)[2][N]) const
    {
        size_t at = row * channels + column;
        float gradient[N], x[N], y[N];
        load_floats<N>(dy + at, gradient);
        load_floats<N>(a.x + at, x);
        if (a.relu) {
            f.apply(a, at, y);
#pragma unroll
            for (int j = 0; j < N; j++)
                gradient[j] = y[j] > 0 ? gradient[j] : 0.0f;
            store_floats<N>(dy + at, gradient);
        }
#pragma unroll
        for (int j = 0; j < N; j++) {
            sums[0][j] += gradient[j];
            sums[1][j] += gradient[j] * (x[j] - f.mean[j]);
        }
    }
};

/* sums [groups, 2, columns]; and, over all groups, the gradients of gain and bias, which are the
 * sums themselves. */
template <typename E>
__global__ void __launch_bounds__(LANES *CHUNK_THREADS)
    gradient_sums_kernel(norm_arguments<E> a, row_groups groups, const float *partials, float *sums, E *dgain, E *dbias, bool accumulate)
{
    wait_for_earlier();
    size_t column = blockIdx.x * (size_t)LANES + threadIdx.x, columns = groups.columns;
    bool mine = threadIdx.y == 0 && column < columns;
    pair all = {0, 0};
    for (size_t group = 0; group < groups.count(); group++) {
        pair sum = sum_chunks(groups, partials, group, column);
        if (!mine)
            continue;
        sums[2 * group * columns + column] = (float)sum.first;
        sums[(2 * group + 1) * columns + column] = (float)sum.second;
        all.first += sum.first;
        all.second += sum.second * (double)a.rstd[group * columns + column];
    }
    if (!mine)
        return;
    put_sum(dbias, column, all.first, accumulate);
    put_sum(dgain, column, all.second, accumulate);
}

/* The gradient subtracts the means over the rows of dy, and of dy times the normalised x: Ioffe and
 * Szegedy, section 3. ranks: number of ranks with parts of each group, of equally many rows. dx may
 * be dy. */
template <typename E, int N>
__global__ void __launch_bounds__(LANES *ROW_THREADS)
    norm_gradient_kernel(E *dx, const E *dy, norm_arguments<E> a, row_groups groups, const float *sums, size_t ranks)
{
    wait_for_earlier();
    size_t group = blockIdx.z, column = (blockIdx.y * (size_t)LANES + threadIdx.x) * N;
    if (column >= groups.columns)
        return;
    const factors<N> f(a, groups, group, column);
    float of_x[N], rest[N], n = (float)((groups.end(group) - groups.first(group)) * ranks);
#pragma unroll
    for (int j = 0; j < N; j++) {
        size_t at = 2 * group * groups.columns + column + j;
        float rstd = a.rstd[group * groups.columns + column + j];
        of_x[j] = -f.scale[j] * rstd * rstd * (sums[at + groups.columns] / n);
        rest[j] = -f.scale[j] * (sums[at] / n);
    }
    for (size_t row = groups.first(group) + blockIdx.x * (size_t)ROW_THREADS + threadIdx.y; row < groups.end(group);
         row += gridDim.x * (size_t)ROW_THREADS) {
        size_t at = row * groups.columns + column;
        float gradient[N], x[N];
        load_floats<N>(dy + at, gradient);
        load_floats<N>(a.x + at, x);
#pragma unroll
        for (int j = 0; j < N; j++)
            gradient[j] = gradient[j] * f.scale[j] + (x[j] - f.mean[j]) * of_x[j] + rest[j];
        store_floats<N>(dx + at, gradient);
    }
}

/* ---- launching the kernels ---- */

/* The grid of kernels over all rows: each thread has so many rows that the data of its columns is
 * small in comparison. */
template <int N> dim3 row_grid(const struct vision_kernels *k, const row_groups &groups)
{
    enum { ROWS_OF_THREAD = 8, ROWS_OF_BLOCK = ROW_THREADS * ROWS_OF_THREAD };
    size_t tiles = (groups.columns + (size_t)LANES * N - 1) / ((size_t)LANES * N), others = tiles * groups.count();
    size_t most = (size_t)k->base.multiprocessors * BLOCKS_PER_MULTIPROCESSOR / others + 1;
    size_t needed = (groups.of_group + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK;
    return dim3((unsigned)(needed < most ? needed : most), (unsigned)tiles, (unsigned)groups.count());
}

template <typename E, int N>
dt_status find_statistics(struct vision_kernels *k, struct dt_stream *stream, const struct vision_norm_of &of, float *running,
                          float *moments_out)
{
    row_groups groups = groups_of(of);
    shifted_rows<E, N> source = {(const E *)of.x, of.channels};
    float *partials;
    DT_TRY((sum_chunks_of<E, shifted_rows<E, N>, N>("norm sums", k, stream, source, groups, 0, &partials)));
    return launch("norm statistics", statistics_kernel<E>, column_grid(of.channels), dim3(LANES, CHUNK_THREADS), SUMS_BYTES, stream,
                  norm_arguments<E>(of), groups, (const float *)partials, running, moments_out);
}

/* sums NULL: in scratch memory. *found: the place of the sums. */
template <typename E, int N>
dt_status find_gradient_sums(struct vision_kernels *k, struct dt_stream *stream, const struct vision_norm_gradient *a, float **found)
{
    row_groups groups = groups_of(a->of);
    gradient_rows<E, N> source = {norm_arguments<E>(a->of), (E *)a->dy, a->of.channels};
    float *partials;
    DT_TRY((sum_chunks_of<E, gradient_rows<E, N>, N>("norm gradient sums", k, stream, source, groups,
                                                     groups.count() * 2 * a->of.channels * sizeof(float), &partials)));
    *found = a->sums ? a->sums : (float *)k->backend->scratch.data;
    return launch("norm gradient of gain and bias", gradient_sums_kernel<E>, column_grid(a->of.channels), dim3(LANES, CHUNK_THREADS),
                  SUMS_BYTES, stream, norm_arguments<E>(a->of), groups, (const float *)partials, *found, (E *)a->dgain, (E *)a->dbias,
                  a->accumulate);
}

} // namespace

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_norm, vision_norm)
{
    return for_packs(k->base.dtype, a->of.channels, {a->of.x, a->of.residual, a->y}, [&]<typename E, int N>() {
        row_groups groups = groups_of(a->of);
        if (a->part == VISION_NORM_WHOLE)
            DT_TRY((find_statistics<E, N>(k, stream, a->of, a->running, nullptr)));
        return launch("norm", normalise_kernel<E, N>, row_grid<N>(k, groups), dim3(LANES, ROW_THREADS), 0, stream, (E *)a->y,
                      norm_arguments<E>(a->of), groups);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_moments, vision_moments)
{
    struct vision_norm_of of = {};
    of.x = a->x;
    of.samples = of.group = 1;
    of.positions = a->rows;
    of.channels = a->channels;
    return for_packs(k->base.dtype, of.channels, {of.x},
                     [&]<typename E, int N>() { return find_statistics<E, N>(k, stream, of, nullptr, a->moments); });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_join_moments, vision_join_moments)
{
    return launch("join moments", join_moments_kernel, blocks_of(k, a->channels), dim3(THREADS), 0, stream, *a);
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_norm_gradient, vision_norm_gradient)
{
    return for_packs(k->base.dtype, a->of.channels, {a->of.x, a->of.residual, a->dy, a->dx}, [&]<typename E, int N>() {
        row_groups groups = groups_of(a->of);
        float *sums = a->sums;
        if (!sums)
            DT_TRY((find_gradient_sums<E, N>(k, stream, a, &sums)));
        return launch("norm gradient", norm_gradient_kernel<E, N>, row_grid<N>(k, groups), dim3(LANES, ROW_THREADS), 0, stream, (E *)a->dx,
                      (const E *)a->dy, norm_arguments<E>(a->of), groups, (const float *)sums, a->sums ? a->ranks : (size_t)1);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_norm_gradient_sums, vision_norm_gradient)
{
    return for_packs(k->base.dtype, a->of.channels, {a->of.x, a->of.residual, a->dy}, [&]<typename E, int N>() {
        float *sums;
        return find_gradient_sums<E, N>(k, stream, a, &sums);
    });
}

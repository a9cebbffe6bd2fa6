/* Sums over the rows of matrices, column by column, separately for each group of consecutive rows,
 * through scratch memory: blocks sum chunks of rows with a constant size, and a second kernel adds
 * the chunks in double precision. So which rows are summed together, and in which order, does not
 * depend on the GPU or on the other groups of a call: a group has the same sums for every division
 * of the samples. */
#pragma once

#include "vision/cuda/kernels.cuh"

namespace vision_cuda {

enum { LANES = 32, CHUNK_ROWS = 256, ROW_THREADS = 8, CHUNK_THREADS = 8 };

/* Groups of rows of a matrix [rows, columns]; the last one may have fewer. */
struct row_groups {
    size_t rows, of_group, columns;

    __host__ __device__ size_t count() const
    {
        return (rows + of_group - 1) / of_group;
    }
    __host__ __device__ size_t chunks() const /* chunks of the largest group */
    {
        return (of_group + CHUNK_ROWS - 1) / CHUNK_ROWS;
    }
    __device__ size_t first(size_t group) const
    {
        return group * of_group;
    }
    __device__ size_t end(size_t group) const
    {
        return rows - first(group) < of_group ? rows : first(group) + of_group;
    }
};

/* Two sums of each column: of a chunk of a group, or of the whole group. */
struct pair {
    double first, second;
};

/* Block (LANES, ROW_THREADS): chunk blockIdx.x of group blockIdx.z, the N * LANES columns of tile
 * blockIdx.y. The source makes two sums for each column: `auto columns = source.begin(groups,
 * group, column)` reads the data of a thread's N columns, and source.add(columns, row, column,
 * sums) adds a row. partials [groups, chunks, 2, columns] */
template <typename Source, int N>
__global__ void __launch_bounds__(LANES *ROW_THREADS) chunk_sums_kernel(Source source, row_groups groups, float *partials)
{
    wait_for_earlier();
    auto parts = dynamic_shared<float[2][N][LANES]>(); /* [ROW_THREADS] */
    size_t group = blockIdx.z, column = (blockIdx.y * (size_t)LANES + threadIdx.x) * N,
           first = groups.first(group) + blockIdx.x * (size_t)CHUNK_ROWS;
    size_t end = first + CHUNK_ROWS < groups.end(group) ? first + CHUNK_ROWS : groups.end(group);
    float sums[2][N] = {};
    if (column < groups.columns) {
        auto columns = source.begin(groups, group, column);
#pragma unroll 4
        for (size_t row = first + threadIdx.y; row < end; row += ROW_THREADS)
            source.add(columns, row, column, sums);
    }
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
        for (int j = 0; j < N; j++)
            parts[threadIdx.y][s][j][threadIdx.x] = sums[s][j];
    __syncthreads();
    float *to = partials + (group * gridDim.x + blockIdx.x) * 2 * groups.columns;
    for (int i = threadIdx.y * LANES + threadIdx.x; i < 2 * N * LANES; i += LANES * ROW_THREADS) {
        int s = i / (N * LANES), c = i % (N * LANES);
        size_t at = blockIdx.y * (size_t)(N * LANES) + c;
        float sum = 0;
        for (int y = 0; y < ROW_THREADS; y++)
            sum += parts[y][s][c % N][c / N];
        if (at < groups.columns)
            to[s * groups.columns + at] = sum;
    }
}

/* Block (LANES, CHUNK_THREADS) with SUMS_BYTES of dynamic shared memory; every thread must call.
 * Returns the sums of a group's column to the threads with threadIdx.y 0. */
enum { SUMS_BYTES = CHUNK_THREADS * 2 * LANES * sizeof(double) };
__device__ inline pair sum_chunks(const row_groups &groups, const float *partials, size_t group, size_t column)
{
    auto parts = dynamic_shared<double[2][LANES]>(); /* [CHUNK_THREADS] */
    pair sum = {0, 0};
    size_t chunks = groups.chunks(), own = (groups.end(group) - groups.first(group) + CHUNK_ROWS - 1) / CHUNK_ROWS;
    if (column < groups.columns) {
#pragma unroll 4
        for (size_t chunk = threadIdx.y; chunk < own; chunk += CHUNK_THREADS) {
            const float *from = partials + (group * chunks + chunk) * 2 * groups.columns + column;
            sum.first += (double)from[0];
            sum.second += (double)from[groups.columns];
        }
    }
    __syncthreads(); /* no thread still reads the last group's */
    parts[threadIdx.y][0][threadIdx.x] = sum.first;
    parts[threadIdx.y][1][threadIdx.x] = sum.second;
    __syncthreads();
    for (int y = 1; y < CHUNK_THREADS && threadIdx.y == 0; y++) {
        sum.first += parts[y][0][threadIdx.x];
        sum.second += parts[y][1][threadIdx.x];
    }
    return sum;
}

/* The first of the two kernels. *partials is in k's scratch memory, after `before` bytes that the
 * caller uses. */
template <typename E, typename Source, int N>
inline dt_status sum_chunks_of(const char *name, struct vision_kernels *k, struct dt_stream *stream, const Source &source,
                               const row_groups &groups, size_t before, float **partials)
{
    struct dt_cuda_scratch *scratch = &k->backend->scratch;
    size_t bytes = groups.count() * groups.chunks() * 2 * groups.columns * sizeof(float), tile = (size_t)LANES * N;
    DT_TRY(dt_cuda_scratch_reserve(k->base.device, scratch, before + bytes));
    *partials = (float *)((char *)scratch->data + before);
    dim3 grid((unsigned)groups.chunks(), (unsigned)((groups.columns + tile - 1) / tile), (unsigned)groups.count());
    return launch(name, chunk_sums_kernel<Source, N>, grid, dim3(LANES, ROW_THREADS), ROW_THREADS * 2 * tile * sizeof(float), stream,
                  source, groups, *partials);
}

/* The grid of the second kernel, whose blocks have LANES columns each. */
inline dim3 column_grid(size_t columns)
{
    return dim3((unsigned)((columns + LANES - 1) / LANES));
}

/* to [columns] of dtype E becomes the sum, or the sum is added to it. */
template <typename E> __device__ inline void put_sum(E *to, size_t column, double sum, bool accumulate)
{
    to[column] = from_float<E>((float)sum + (accumulate ? to_float(to[column]) : 0.0f));
}

} // namespace vision_cuda

/* Sums over the rows of a matrix, column by column, through scratch memory: blocks sum chunks of
 * rows, and for each tile of columns the block that ends last sums the chunks. There are no atomics
 * on sums: the order depends only on the shape and the GPU, so every run gives the same bits. */
#pragma once

#include "gpt/cuda/kernels.cuh"

namespace gpt_cuda {

enum { COLUMN_LANES = 32, COLUMN_ROWS = 8, COMBINE_ROWS = 32, COLUMN_LEAST_ROWS = 64 };

/* The arrays for the sums. */
template <typename E, int SUMS> struct column_outputs {
    E *to[SUMS]; /* [columns] each; NULL: the sum is not stored */

    __device__ void put(int s, size_t column, float sum, bool accumulate) const
    {
        if (to[s])
            to[s][column] = from_float<E>(accumulate ? to_float(to[s][column]) + sum : sum);
    }
};

/* Whether this block is the last of `blocks` blocks to call. The results of all of them are then
 * visible to loads that bypass the first-level cache (__ldcg). arrivals: the number of calls so
 * far, 0 before and afterwards. All threads of the block call it. */
__device__ inline bool arrives_last(uint32_t *arrivals, unsigned blocks)
{
    __shared__ bool last;
    bool first_thread = threadIdx.x == 0 && threadIdx.y == 0;
    __threadfence(); /* this thread's writes are visible to a thread that sees the arrival */
    __syncthreads();
    if (first_thread)
        last = atomicAdd(arrivals, 1u) == blocks - 1;
    __syncthreads();
    bool is_last = last;
    if (is_last)
        __threadfence();
    if (is_last && first_thread)
        *arrivals = 0;
    return is_last;
}

/* Block (COLUMN_LANES, COLUMN_ROWS): chunk blockIdx.y of the rows, the N * COLUMN_LANES columns of
 * tile blockIdx.x. Source::SUMS sums for each column; source.add(row, column, sums) adds N columns
 * of a row. partials [chunks, SUMS, columns]. arrivals [tiles]: the number of a tile's blocks that
 * have ended, 0 before and after the kernel. The last block of a tile sums its chunks: each thread
 * every COLUMN_ROWS-th chunk, then the block sums the threads' results. arrivals NULL:
 * column_combine_kernel sums the chunks. */
template <typename E, typename Source, int N>
__global__ void __launch_bounds__(COLUMN_LANES *COLUMN_ROWS)
    column_partials_kernel(Source source, size_t rows, size_t columns, size_t rows_of_chunk, float *partials, uint32_t *arrivals,
                           column_outputs<E, Source::SUMS> outputs, bool accumulate)
{
    wait_for_earlier();
    constexpr int SUMS = Source::SUMS;
    __shared__ float parts[COLUMN_ROWS][SUMS][N][COLUMN_LANES];
    size_t tile = blockIdx.x * (size_t)(N * COLUMN_LANES), column = tile + threadIdx.x * N;
    size_t first = blockIdx.y * rows_of_chunk, end = first + rows_of_chunk < rows ? first + rows_of_chunk : rows;
    float sums[SUMS][N] = {};
    if (column < columns) {
#pragma unroll 4
        for (size_t row = first + threadIdx.y; row < end; row += COLUMN_ROWS)
            source.add(row, column, sums);
    }
#pragma unroll
    for (int s = 0; s < SUMS; s++)
#pragma unroll
        for (int j = 0; j < N; j++)
            parts[threadIdx.y][s][j][threadIdx.x] = sums[s][j];
    __syncthreads();
    for (int i = threadIdx.y * COLUMN_LANES + threadIdx.x; i < SUMS * N * COLUMN_LANES; i += COLUMN_LANES * COLUMN_ROWS) {
        int s = i / (N * COLUMN_LANES), c = i % (N * COLUMN_LANES);
        float sum = 0;
        for (int y = 0; y < COLUMN_ROWS; y++)
            sum += parts[y][s][c % N][c / N];
        if (tile + c < columns)
            partials[(blockIdx.y * (size_t)SUMS + s) * columns + tile + c] = sum;
    }
    if (!arrivals || !arrives_last(&arrivals[blockIdx.x], gridDim.y))
        return;
#pragma unroll
    for (int s = 0; s < SUMS; s++)
#pragma unroll
        for (int j = 0; j < N; j++) {
            size_t at = tile + j * COLUMN_LANES + threadIdx.x;
            float sum = 0;
#pragma unroll 4
            for (size_t chunk = threadIdx.y; chunk < gridDim.y && at < columns; chunk += COLUMN_ROWS)
                sum += __ldcg(partials + (chunk * SUMS + s) * columns + at);
            parts[threadIdx.y][s][j][threadIdx.x] = sum;
        }
    __syncthreads();
    for (int i = threadIdx.y * COLUMN_LANES + threadIdx.x; i < SUMS * N * COLUMN_LANES; i += COLUMN_LANES * COLUMN_ROWS) {
        int s = i / (N * COLUMN_LANES), c = i % (N * COLUMN_LANES);
        float sum = 0;
        for (int y = 0; y < COLUMN_ROWS; y++)
            sum += parts[y][s][c / COLUMN_LANES][c % COLUMN_LANES];
        if (tile + c < columns)
            outputs.put(s, tile + c, sum, accumulate);
    }
}

/* The end of a kernel whose blocks have each written their sums to partials [gridDim.x, SUMS *
 * columns]; columns is a multiple of 4. The sums are added in a tree: the last of each TREE_BLOCKS
 * blocks adds their sums, the last of TREE_BLOCKS of these adds the results, and so on until there
 * is one. (A single block would need longer to read all sums than another kernel takes.) Not
 * inlined, so that it takes no registers from the code before. Which sums are added, and in which
 * order, does not depend on which block is last. partials has memory for tree_sums(blocks) sums;
 * arrivals has as many zeros, before and afterwards. */
enum { TREE_BLOCKS = 8 };

inline size_t tree_sums(size_t blocks)
{
    size_t all = blocks;
    while (blocks > 1) {
        blocks = (blocks + TREE_BLOCKS - 1) / TREE_BLOCKS;
        all += blocks;
    }
    return all + 1;
}

/* Four of the sums of `members` blocks; from [members, all]. */
__device__ inline pack<float, 4> sum_of_blocks(const float *from, size_t all, size_t place, unsigned members)
{
    pack<float, 4> sum = {}, part[TREE_BLOCKS];
#pragma unroll
    for (unsigned i = 0; i < TREE_BLOCKS; i++) /* all loads at a time */
        if (i < members)
            *(float4 *)&part[i] = __ldcg((const float4 *)(from + i * all + place));
#pragma unroll
    for (unsigned i = 0; i < TREE_BLOCKS; i++)
        for (int j = 0; j < 4 && i < members; j++)
            sum.at[j] += part[i].at[j];
    return sum;
}

template <typename E, int SUMS>
__device__ __attribute__((noinline)) void combine_in_tree(column_outputs<E, SUMS> outputs, float *partials, size_t columns,
                                                          uint32_t *arrivals, bool accumulate)
{
    size_t all = SUMS * columns;
    unsigned own = blockIdx.x, groups = gridDim.x;
    do {
        unsigned blocks = groups, first = own / TREE_BLOCKS * TREE_BLOCKS, left = blocks - first;
        unsigned members = left < (unsigned)TREE_BLOCKS ? left : (unsigned)TREE_BLOCKS;
        float *next = partials + blocks * all;
        own /= TREE_BLOCKS;
        groups = (blocks + TREE_BLOCKS - 1) / TREE_BLOCKS;
        if (!arrives_last(&arrivals[own], members))
            return;
        for (size_t place = 4 * threadIdx.x; place < all; place += 4 * blockDim.x) {
            pack<float, 4> sum = sum_of_blocks(partials + first * all, all, place, members);
            if (groups > 1)
                store_pack<4>(next + own * all + place, sum);
            for (int j = 0; j < 4 && groups == 1; j++)
                outputs.put((int)((place + j) / columns), (place + j) % columns, sum.at[j], accumulate);
        }
        partials = next;
        arrivals += groups;
    } while (groups > 1);
}

/* Block (COLUMN_LANES, COMBINE_ROWS): each thread sums every COMBINE_ROWS-th chunk of one column,
 * then the block sums the threads' results. */
template <typename E, int SUMS>
__global__ void __launch_bounds__(COLUMN_LANES *COMBINE_ROWS)
    column_combine_kernel(column_outputs<E, SUMS> outputs, const float *partials, size_t chunks, size_t columns, bool accumulate)
{
    wait_for_earlier();
    __shared__ float parts[COMBINE_ROWS][COLUMN_LANES];
    size_t place = blockIdx.x * (size_t)COLUMN_LANES + threadIdx.x, all = SUMS * columns;
    float sum = 0;
    if (place < all) {
#pragma unroll 4
        for (size_t chunk = threadIdx.y; chunk < chunks; chunk += COMBINE_ROWS)
            sum += partials[chunk * all + place];
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || place >= all)
        return;
    for (int y = 1; y < COMBINE_ROWS; y++)
        sum += parts[y][threadIdx.x];
#pragma unroll
    for (int s = 0; s < SUMS; s++)
        if (place / columns == (size_t)s)
            outputs.put(s, place % columns, sum, accumulate);
}

template <typename E, int SUMS>
inline dt_status combine_columns(const char *name, struct dt_stream *stream, column_outputs<E, SUMS> outputs, const float *partials,
                                 size_t chunks, size_t columns, bool accumulate)
{
    return launch(name, column_combine_kernel<E, SUMS>, dim3((unsigned)((SUMS * columns + COLUMN_LANES - 1) / COLUMN_LANES)),
                  dim3(COLUMN_LANES, COMBINE_ROWS), 0, stream, outputs, partials, chunks, columns, accumulate);
}

/* Queues all kernels of such a sum. Uses k->scratch. */
template <typename E, int N, typename Source>
inline dt_status sum_columns(const char *name, struct gpt_kernels *k, struct dt_stream *stream, const Source &source, size_t rows,
                             size_t columns, column_outputs<E, Source::SUMS> outputs, bool accumulate)
{
    /* As many blocks as the GPU runs at the same time, but each with enough rows that the partial
     * sums are few compared with the data that is read. */
    size_t tiles = (columns + N * COLUMN_LANES - 1) / (N * COLUMN_LANES), wanted = (size_t)k->base->multiprocessors * 8 / tiles + 1;
    size_t most = (rows + COLUMN_LEAST_ROWS - 1) / COLUMN_LEAST_ROWS;
    size_t of_chunk = (rows + (wanted < most ? wanted : most) - 1) / (wanted < most ? wanted : most);
    size_t chunks = (rows + of_chunk - 1) / of_chunk;
    DT_TRY(gpt_cuda_scratch(k, chunks * Source::SUMS * columns * sizeof(float)));
    bool at_once = tiles <= GPT_CUDA_ARRIVALS;
    DT_TRY(launch(name, column_partials_kernel<E, Source, N>, dim3((unsigned)tiles, (unsigned)chunks), dim3(COLUMN_LANES, COLUMN_ROWS), 0,
                  stream, source, rows, columns, of_chunk, (float *)k->scratch.data, at_once ? k->arrivals : nullptr, outputs, accumulate));
    if (at_once)
        return DT_OK;
    return combine_columns<E, Source::SUMS>(name, stream, outputs, (const float *)k->scratch.data, chunks, columns, accumulate);
}

} // namespace gpt_cuda

/* Token and position embedding, and the gradients of both tables. */
#include "gpt/cuda/kernels.cuh"

namespace {

using namespace gpt_cuda;

enum { TABLE_LANES = 32, TABLE_ROWS = 8, TABLE_BLOCKS = 8, TABLE_COLUMNS = 8, LIST_THREADS = 1024, RANGES_PER_MULTIPROCESSOR = 1 };

/* The rows of a table that this rank has. */
struct table_part {
    uint32_t first, count;
};

/* N elements from `column` on of row `row` of a table; zeros if another rank has that row. */
template <int N, typename E>
__device__ inline pack<E, N> load_row(const E *table, const table_part &part, uint32_t row, uint32_t d, uint32_t column)
{
    pack<E, N> zeros{};
    uint32_t place = row - part.first; /* for rows before the first the unsigned difference wraps round */
    return place < part.count ? load_pack<N>(table + (size_t)place * d + column) : zeros;
}

/* out [rows, d] = dropout(token_table[token] + position_table[t]): a warp computes a row, a lane
 * eight columns (one Philox call) at a time. Floor, in bytes for each element of fp16: the token's
 * row is read and out written, 4; the position table stays in the L2 cache. */
template <typename E, int N>
__global__ void __launch_bounds__(TABLE_LANES *TABLE_ROWS, 4)
    embedding_kernel(E *out, const int32_t *tokens, const E *token_table, table_part vocab, const E *position_table, table_part positions,
                     size_t rows, uint32_t d, row_positions where, dropout drop, const struct dt_cuda_step *step)
{
    wait_for_earlier();
    drop.first_sample += step->first_sample;
    for (size_t row = blockIdx.x * (size_t)TABLE_ROWS + threadIdx.y; row < rows; row += gridDim.x * (size_t)TABLE_ROWS) {
        row_positions::place place = where.at((uint32_t)row);
        uint32_t token = (uint32_t)tokens[row];
#pragma unroll 2
        for (uint32_t column = threadIdx.x * TABLE_COLUMNS; column < d; column += TABLE_LANES * TABLE_COLUMNS) {
            float factor[TABLE_COLUMNS];
            dropout_factors(drop, drop.first_sample + place.sample, place.position, column, factor);
#pragma unroll
            for (int p = 0; p < TABLE_COLUMNS / N; p++)
                if (column + p * N < d) {
                    pack<E, N> a = load_row<N>(token_table, vocab, token, d, column + p * N);
                    pack<E, N> b = load_row<N>(position_table, positions, place.position, d, column + p * N);
#pragma unroll
                    for (int j = 0; j < N; j++)
                        a.at[j] = from_float<E>((to_float(a.at[j]) + to_float(b.at[j])) * factor[p * N + j]);
                    store_pack<N>(out + row * d + column + p * N, a);
                }
        }
    }
}

/* ---- gradient ---- The rows of dout are listed by token, in rising order. One warp then sums each
 * row of the table in that order: the same bits in every run, without atomics. Floor: dout is read
 * twice (once for each table) and both tables are written. */

/* The lists, in scratch memory. */
struct token_lists {
    int32_t *first;  /* [V + 1]: the place in `sorted` of a token's first row */
    int32_t *sorted; /* [M] rows */
    int32_t *bucket; /* [M] rows by range of tokens, while sorting */
};

/* The sum of x over the block's threads before this one, and over all of them in *total. Every
 * thread calls. */
__device__ inline int32_t sum_before(int32_t x, int32_t *warps, int32_t *total)
{
    int lane = threadIdx.x % TABLE_LANES, warp = threadIdx.x / TABLE_LANES;
    int32_t upto = x;
    for (int distance = 1; distance < TABLE_LANES; distance *= 2) {
        int32_t other = __shfl_up_sync(0xffffffffu, upto, distance);
        upto += lane >= distance ? other : 0;
    }
    if (lane == TABLE_LANES - 1)
        warps[warp] = upto;
    __syncthreads();
    int32_t before = 0, all = 0;
    for (int w = 0; w < LIST_THREADS / TABLE_LANES; w++) {
        before += w < warp ? warps[w] : 0;
        all += warps[w];
    }
    __syncthreads();
    *total = all;
    return before + upto - x;
}

/* A block lists the rows of a range of tokens. It counts its tokens, and all tokens below its
 * range, among all of `tokens`; puts its rows in rising order into its part of `bucket`; then each
 * thread takes the rows of one token at a time from there. Each block reads tokens twice, some
 * hundred kilobytes from the L2 cache. Token numbers are relative to `first`; those outside of [0,
 * vocab) are in no list. */
__global__ void __launch_bounds__(LIST_THREADS)
    list_kernel(token_lists lists, const int32_t *tokens, int32_t rows, int32_t first, int32_t vocab, int32_t range)
{
    wait_for_earlier();
    __shared__ int32_t warps[LIST_THREADS / TABLE_LANES];
    int32_t *counts = dynamic_shared<int32_t>(); /* [range] */
    int32_t low = (int32_t)blockIdx.x * range, high = low + range < vocab ? low + range : vocab, below = 0, total;
    for (int32_t v = threadIdx.x; v < range; v += LIST_THREADS)
        counts[v] = 0;
    __syncthreads();
    for (int32_t m = threadIdx.x; m < rows; m += LIST_THREADS) {
        int32_t token = tokens[m] - first;
        below += token >= 0 && token < low;
        if (token >= low && token < high)
            atomicAdd(&counts[token - low], 1);
    }
    sum_before(below, warps, &total); /* also a barrier for counts */
    int32_t start = total, place = total;
    for (int32_t base = 0; base < range; base += LIST_THREADS) {
        int32_t v = base + threadIdx.x, count = v < range ? counts[v] : 0, before = sum_before(count, warps, &total);
        if (v < high - low)
            lists.first[low + v] = place + before;
        place += total;
    }
    int32_t end = place;
    if (high == vocab && threadIdx.x == 0)
        lists.first[vocab] = end;
    place = start;
    for (int32_t base = 0; base < rows; base += LIST_THREADS) {
        int32_t m = base + threadIdx.x, token = m < rows ? tokens[m] - first : -1;
        bool mine = token >= low && token < high;
        int32_t before = sum_before(mine, warps, &total);
        if (mine)
            lists.bucket[place + before] = m;
        place += total;
    }
    __syncthreads();
    for (int32_t v = low + threadIdx.x; v < high; v += LIST_THREADS) {
        int32_t to = lists.first[v];
        for (int32_t i = start; i < end && counts[v - low] > 0; i++)
            if (tokens[lists.bucket[i]] - first == v)
                lists.sorted[to++] = lists.bucket[i];
    }
}

/* The rows of dout that are summed to a row of a table: those of a token, or of a position. */
struct rows_of_token {
    token_lists lists;
    row_positions where;
    __device__ int32_t count(size_t token) const
    {
        return lists.first[token + 1] - lists.first[token];
    }
    __device__ uint32_t at(size_t token, int32_t i) const
    {
        return (uint32_t)lists.sorted[lists.first[token] + i];
    }
};

struct rows_of_position {
    row_positions where;
    uint32_t samples, first;
    __device__ int32_t count(size_t position) const
    {
        return where.row_of(first + (uint32_t)position) < where.count ? (int32_t)samples : 0;
    }
    __device__ uint32_t at(size_t position, int32_t i) const
    {
        return (uint32_t)i * where.count + where.row_of(first + (uint32_t)position);
    }
};

/* table [table_rows, d]: a warp sums 256 columns of one row of the table. */
template <typename E, int N, typename Rows>
__global__ void __launch_bounds__(TABLE_LANES *TABLE_ROWS)
    table_gradient_kernel(E *table, const E *dout, Rows rows, size_t table_rows, uint32_t d, bool accumulate, dropout drop,
                          const struct dt_cuda_step *step)
{
    wait_for_earlier();
    drop.first_sample += step->first_sample;
    uint32_t slices = (d + TABLE_LANES * TABLE_COLUMNS - 1) / (TABLE_LANES * TABLE_COLUMNS);
    for (size_t unit = blockIdx.x * (size_t)TABLE_ROWS + threadIdx.y; unit < table_rows * slices; unit += gridDim.x * (size_t)TABLE_ROWS) {
        size_t row = unit / slices;
        uint32_t column = (uint32_t)(unit % slices) * (TABLE_LANES * TABLE_COLUMNS) + threadIdx.x * TABLE_COLUMNS;
        int32_t count = rows.count(row);
        if (column >= d || (accumulate && count == 0))
            continue;
        float sums[TABLE_COLUMNS] = {};
#pragma unroll 2
        for (int32_t i = 0; i < count; i++) {
            uint32_t m = rows.at(row, i);
            pack<E, N> part[TABLE_COLUMNS / N];
#pragma unroll
            for (int p = 0; p < TABLE_COLUMNS / N; p++)
                if (column + p * N < d)
                    part[p] = load_pack<N>(dout + (size_t)m * d + column + p * N);
            float factor[TABLE_COLUMNS];
            row_positions::place place = rows.where.at(m);
            dropout_factors(drop, drop.first_sample + place.sample, place.position, column, factor);
#pragma unroll
            for (int p = 0; p < TABLE_COLUMNS / N; p++)
#pragma unroll
                for (int j = 0; j < N; j++)
                    if (column + p * N < d)
                        sums[p * N + j] += to_float(part[p].at[j]) * factor[p * N + j];
        }
#pragma unroll
        for (int p = 0; p < TABLE_COLUMNS / N; p++) {
            if (column + p * N >= d)
                break;
            E *to = table + row * d + column + p * N;
            pack<E, N> out;
            if (accumulate)
                out = load_pack<N>(to);
#pragma unroll
            for (int j = 0; j < N; j++)
                out.at[j] = from_float<E>(accumulate ? to_float(out.at[j]) + sums[p * N + j] : sums[p * N + j]);
            store_pack<N>(to, out);
        }
    }
}

template <typename Rows>
dt_status table_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding_gradient *a, void *table,
                         const Rows &rows, size_t table_rows)
{
    size_t d = (size_t)gpt_of(&k->model)->hidden, slices = (d + TABLE_LANES * TABLE_COLUMNS - 1) / (TABLE_LANES * TABLE_COLUMNS);
    if (table_rows == 0) /* a rank may have none of a small table */
        return DT_OK;
    return for_packs(k->model.dtype, d, {table, a->dout}, [&]<typename E, int N>() {
        return launch("embedding gradient", table_gradient_kernel<E, N, Rows>,
                      dim3(blocks_for(k, table_rows * slices, TABLE_ROWS, TABLE_BLOCKS * 8)), dim3(TABLE_LANES, TABLE_ROWS), 0, stream,
                      (E *)table, (const E *)a->dout, rows, table_rows, (uint32_t)d, a->accumulate, dropout_of(&a->dropout),
                      k->base->cuda_step);
    });
}

/* List the rows of dout of each of this part's tokens. */
dt_status make_lists(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding_gradient *a, const token_lists &lists)
{
    size_t vocab = a->vocab.count, rows = a->samples * positions_of(k, &a->dropout.positions).count;
    /* 8,192 counters take 32 KiB of shared memory; every launch may use 48. */
    size_t ranges = (size_t)k->base->multiprocessors * RANGES_PER_MULTIPROCESSOR, least = (vocab + 8191) / 8192;
    size_t range = (vocab + (ranges < least ? least : ranges) - 1) / (ranges < least ? least : ranges);
    return launch("embedding gradient", list_kernel, dim3((unsigned)((vocab + range - 1) / range)), dim3(LIST_THREADS),
                  range * sizeof(int32_t), stream, lists, a->tokens, (int32_t)rows, (int32_t)a->vocab.first, (int32_t)vocab,
                  (int32_t)range);
}

table_part part_of(const struct gpt_part &part)
{
    return {(uint32_t)part.first, (uint32_t)part.count};
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_embedding, gpt_embedding)
{
    row_positions where = positions_of(k, &a->dropout.positions);
    size_t d = (size_t)gpt_of(&k->model)->hidden, rows = a->samples * where.count;
    return for_packs(k->model.dtype, d, {a->out, a->token_table, a->position_table}, [&]<typename E, int N>() {
        return launch("embedding", embedding_kernel<E, N>, dim3(blocks_for(k, rows, TABLE_ROWS, TABLE_BLOCKS)),
                      dim3(TABLE_LANES, TABLE_ROWS), 0, stream, (E *)a->out, a->tokens, (const E *)a->token_table, part_of(a->vocab),
                      (const E *)a->position_table, part_of(a->positions), rows, (uint32_t)d, where, dropout_of(&a->dropout),
                      k->base->cuda_step);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_embedding_gradient, gpt_embedding_gradient)
{
    row_positions where = positions_of(k, &a->dropout.positions);
    size_t rows = a->samples * where.count, vocab = a->vocab.count;
    DT_TRY(gpt_cuda_scratch(k, (vocab + 1 + 2 * rows) * sizeof(int32_t)));
    token_lists lists = {(int32_t *)k->scratch.data, (int32_t *)k->scratch.data + vocab + 1, (int32_t *)k->scratch.data + vocab + 1 + rows};
    if (vocab > 0)
        DT_TRY(make_lists(k, stream, a, lists));
    DT_TRY(table_gradient(k, stream, a, a->dtoken_table, rows_of_token{lists, where}, vocab));
    return table_gradient(k, stream, a, a->dposition_table, rows_of_position{where, (uint32_t)a->samples, (uint32_t)a->positions.first},
                          a->positions.count);
}

/* Device code that the attention kernels share: arguments, tiles in shared memory, products of
 * tiles on the tensor cores, dropout.
 *
 * A tile in shared memory is [rows][WIDTH + 8]. WIDTH is the head's width, padded with zeros to one
 * of a few sizes, a multiple of 16. The 8 additional elements make a row an odd number of 16-byte
 * pieces, so that the 8 rows of one matrix load are in 8 different groups of banks, as are the
 * words of a warp that writes accumulators.
 *
 * Blocks have 4 warps. Each warp has 16 * BLOCKS rows of the tile that stays, and keeps its results
 * in registers until the end. Layouts of operands and accumulators: gpt/cuda/mma.cuh; r = lane / 4
 * and c = lane % 4 here as well. */
#ifndef GPT_CUDA_ATTENTION_TILE_CUH
#define GPT_CUDA_ATTENTION_TILE_CUH

#include "gpt/cuda/kernels.cuh"
#include "gpt/cuda/mma.cuh"

namespace gpt_cuda {

enum {
    ATTENTION_WARPS = 4,
    ATTENTION_THREADS = 32 * ATTENTION_WARPS,
    ATTENTION_MAX_WIDTH = 256,
    ATTENTION_ONE_KERNEL_WIDTH = 128 /* for dk and dv in one kernel */
};

constexpr float LOG2_E = 1.4426950408889634f;

/* Rows of each sample and their positions: the first `half` of `count` rows are those from first[0]
 * on, the others those from first[1] on, which are greater. */
struct attention_rows {
    int count, half, first[2];
};

/* Sizes, and the width of accesses to rows of a head. */
struct attention_shape {
    int T;                        /* positions of a sample */
    attention_rows queries, keys; /* all T positions, or those that a call is about: then fused */
    int width, heads;             /* heads: number of query heads of this call; the first is number first_head of the model */
    uint32_t first_head;
    int key_heads, first_key_head, group; /* the same for the heads of k and v; each serves `group` query heads of the model */
    int alibi;                            /* the largest power of two up to the number of the model's query heads; 0: no alibi */
    size_t d, qkv_row, key_row;           /* elements of a row of out, heads * width, of qkv, and of keys */
    /* 2 to 16 (fp32: unused): every row of a head in qkv, out and their gradients starts at a
     * multiple of this many bytes */
    int row_bytes;
    int weight_bytes; /* the same for rows of weights */
    float scale;      /* 1 / sqrt(width) */
    dropout drop;
    const struct dt_cuda_step *step;
};

struct attention_forward {
    attention_shape shape;
    const void *qkv, *keys; /* keys: k of row 0, followed by v; in qkv, or in a separate array */
    void *out;
    float *lse;
    void *weights; /* NULL: fused */
    bool joins;    /* combine with the results for other keys that out and lse contain */
};

struct attention_backward {
    attention_shape shape;
    const void *dout, *out, *qkv, *keys; /* keys: as in forward */
    const float *lse;
    float *dots; /* [samples, heads, queries]: sums of dout * out over a head's columns, written by the kernel for dq (fp32: read) */
    const void *weights; /* NULL: fused */
    void *dqkv, *dkeys;  /* dkeys: gradients of keys */
    bool joins;          /* dq is added to the old values */
    bool keeps_bits;     /* the kernel for dq stores dropout's bits for the kernel for dk and dv (kept_bits) */
    const float *rope;   /* NULL, or [T, 2, width / 2] as in struct gpt_kernels: rotate dq and dk back */
};

/* Queue the kernels for the arguments that gpt_cuda_attention and gpt_cuda_attention_gradient have
 * prepared. E: fp16 or bf16. */
template <typename E> dt_status attention_forward_tensor(struct dt_stream *stream, size_t samples, const attention_forward &a);
template <typename E> dt_status attention_backward_tensor(struct dt_stream *stream, size_t samples, const attention_backward &a);
/* forward_hopper.cu and backward_hopper.cu, for compute capability 9.0: the same as these two, if
 * attention_fits_hopper. */
bool attention_fits_hopper(const attention_shape &shape, bool fused);
template <typename E> dt_status attention_forward_hopper(struct dt_stream *stream, size_t samples, const attention_forward &a);
template <typename E> dt_status attention_backward_hopper(struct dt_stream *stream, size_t samples, const attention_backward &a);
dt_status attention_forward_fp32(struct dt_stream *stream, size_t samples, const attention_forward &a);
dt_status attention_backward_fp32(struct dt_stream *stream, size_t samples, const attention_backward &a);

/* Call f<WIDTH>() with the padded width. */
template <typename F> inline dt_status for_width(int width, F f)
{
    if (width <= 64)
        return f.template operator()<64>();
    if (width <= 80)
        return f.template operator()<80>();
    if (width <= 96)
        return f.template operator()<96>();
    if (width <= 128)
        return f.template operator()<128>();
    return f.template operator()<ATTENTION_MAX_WIDTH>();
}

/* A block's tile: tiles of one head are adjacent in the grid, so that they find the head's rows in
 * the L2 cache. */
struct attention_place {
    int tile, head;
    size_t sample;
};

/* heads: the heads by which blocks are divided, query heads or heads of k and v. */
__device__ inline attention_place place_of(int heads, int tiles)
{
    size_t pair = blockIdx.x / (unsigned)tiles;
    return {(int)(blockIdx.x % (unsigned)tiles), (int)(pair % (size_t)heads), pair / (size_t)heads};
}

/* A tile of rows: its first row of the sample, the position of that, and how many rows there are
 * from it on with positions one after the other. */
struct row_tile {
    int row, position, rows;
};

__host__ __device__ inline int tiles_of(const attention_rows &r, int size)
{
    return (r.half + size - 1) / size + (r.count - r.half + size - 1) / size;
}

/* WHOLE: of all positions. */
template <bool WHOLE = false> __device__ inline row_tile tile_of(const attention_rows &r, int tile, int size)
{
    if (WHOLE)
        return {tile * size, tile * size, r.count - tile * size};
    int early = (r.half + size - 1) / size;
    if (tile < early)
        return {tile * size, r.first[0] + tile * size, r.half - tile * size};
    int within = (tile - early) * size;
    return {r.half + within, r.first[1] + within, r.count - r.half - within};
}

/* The number of tiles of keys, from the first on, that have a key before position `end`. */
__device__ inline int tiles_before(const attention_rows &r, int end, int size)
{
    int early = (min(max(end - r.first[0], 0), r.half) + size - 1) / size;
    return early + (min(max(end - r.first[1], 0), r.count - r.half) + size - 1) / size;
}

/* The first tile of queries that has one at `position` or after it; the number of tiles if there is
 * none. */
__device__ inline int tile_from(const attention_rows &r, int position, int size)
{
    if (position < r.first[0] + r.half)
        return max(position - r.first[0], 0) / size;
    return position < r.first[1] + r.count - r.half ? (r.half + size - 1) / size + max(position - r.first[1], 0) / size : tiles_of(r, size);
}

/* Rows of lse, dots and weights before those of this query head. */
__device__ inline size_t rows_before(const attention_shape &s, size_t sample, int head)
{
    return (sample * (size_t)s.heads + (size_t)head) * (size_t)s.queries.count;
}

/* Place of a head of k in keys, and in dkeys, for a row of a sample; v begins values_behind
 * elements later. */
__device__ inline size_t key_place(const attention_shape &s, size_t sample, int row, int key_head)
{
    return (sample * (size_t)s.keys.count + (size_t)row) * s.key_row + (size_t)(key_head * s.width);
}
__device__ inline size_t values_behind(const attention_shape &s)
{
    return (size_t)(s.key_heads * s.width);
}

/* The head of k and v that a query head reads. */
__device__ inline int key_head_of(const attention_shape &s, int head)
{
    return ((int)s.first_head + head) / s.group - s.first_key_head;
}

/* The query heads that read a head of k and v: [first, end) of the call's. */
struct head_range {
    int first, end;
};
__device__ inline head_range readers_of(const attention_shape &s, int key_head)
{
    int first = (s.first_key_head + key_head) * s.group - (int)s.first_head;
    return {max(first, 0), min(first + s.group, s.heads)};
}

/* ---- alibi: slope * (key - query) is added to a query's scaled scores ---- */

/* The slope of one of the call's query heads, for unscaled scores; 0 without alibi. As
 * gpt_alibi_slope (gpt/position.h). */
__device__ inline float unscaled_slope(const attention_shape &s, int head)
{
    int index = (int)s.first_head + head, power = s.alibi;
    if (power == 0)
        return 0.0f;
    return exp2f((float)(index < power ? 8 * (index + 1) : 4 * (2 * (index - power) + 1)) / (float)-power) / s.scale;
}

/* Add alibi to accumulators of scores. first_query: position of the lane's row 0; first_key: of its
 * column 0. */
template <int BLOCKS, int KEYS>
__device__ inline void add_distances(float (&s)[BLOCKS][KEYS / 8][4], float slope, int first_query, int first_key)
{
    float distance = (float)(first_key - first_query);
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[block][i][e] = fmaf(slope, distance + (float)(i * 8 + e % 2 - block * 16 - e / 2 * 8), s[block][i][e]);
}

/* ---- tiles in shared memory ---- */

template <int WIDTH> constexpr int tile_stride = WIDTH + 8;

template <typename E, int WIDTH, int ROWS, int BYTES>
__device__ inline void load_pieces(E *to, const E *from, size_t stride, int rows, int width)
{
    constexpr int N = BYTES / (int)sizeof(E), PIECES = WIDTH / N;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < ROWS * PIECES; i += ATTENTION_THREADS) {
        int row = i / PIECES, column = i % PIECES * N;
        bool valid = row < rows && column < width;
        copy_async<BYTES>(to + row * tile_stride<WIDTH> + column, valid ? from + (size_t)row * stride + column : from, valid);
    }
}

/* Start loading a tile [ROWS, WIDTH]: the first `rows` rows and `width` columns from global memory,
 * zeros elsewhere. All rows' addresses are multiples of `bytes`. The whole block calls; the tile is
 * there after commit, wait and a barrier. */
template <typename E, int WIDTH, int ROWS>
__device__ inline void load_tile(E *to, const E *from, size_t stride, int rows, int width, int bytes)
{
    if (bytes == 16)
        load_pieces<E, WIDTH, ROWS, 16>(to, from, stride, rows, width);
    else if (bytes == 8)
        load_pieces<E, WIDTH, ROWS, 8>(to, from, stride, rows, width);
    else if (bytes == 4)
        load_pieces<E, WIDTH, ROWS, 4>(to, from, stride, rows, width);
    else
#pragma unroll 1
        for (int i = (int)threadIdx.x; i < ROWS * WIDTH; i += ATTENTION_THREADS) {
            int row = i / WIDTH, column = i % WIDTH;
            bool valid = row < rows && column < width;
            to[row * tile_stride<WIDTH> + column] = valid ? from[(size_t)row * stride + column] : from_float<E>(0.0f);
        }
}

template <typename E, int WIDTH, int ROWS, int N>
__device__ inline void store_pieces(E *to, const E *from, size_t stride, int rows, int width)
{
    constexpr int PIECES = WIDTH / N;
#pragma unroll 1
    for (int i = (int)threadIdx.x % 32; i < ROWS * PIECES; i += 32) {
        int row = i / PIECES, column = i % PIECES * N;
        if (row < rows && column < width)
            store_pack<N>(to + (size_t)row * stride + column, load_pack<N>(from + row * tile_stride<WIDTH> + column));
    }
}

/* Address of the cosines and sines of a position in rope's table [T, 2, width / 2]; NULL: no
 * rope. */
__device__ inline const float *angles_of(const float *rope, int position, int width)
{
    return rope ? rope + (size_t)position * (size_t)width : nullptr;
}

/* Store rows rotated back: elements i and i + width / 2 of each, by the angles [rows, 2, width / 2]
 * (gpt_rope, inverse). */
template <typename E, int WIDTH, int ROWS, int N>
__device__ inline void store_turned_pieces(E *to, const E *from, size_t stride, int rows, int width, const float *angles)
{
    constexpr int PIECES = WIDTH / 2 / N;
    int half = width / 2;
#pragma unroll 1
    for (int i = (int)threadIdx.x % 32; i < ROWS * PIECES; i += 32) {
        int row = i / PIECES, pair = i % PIECES * N;
        if (row >= rows || pair >= half)
            continue;
        const E *own = from + row * tile_stride<WIDTH> + pair;
        const float *cosines = angles + row * width + pair, *sines = cosines + half;
        pack<E, N> a = load_pack<N>(own), b = load_pack<N>(own + half);
#pragma unroll
        for (int j = 0; j < N; j++)
            turn_pair(a.at[j], b.at[j], cosines[j], -sines[j]);
        store_pack<N>(to + (size_t)row * stride + pair, a);
        store_pack<N>(to + (size_t)row * stride + half + pair, b);
    }
}

/* Store the warp's accumulators * scale as its rows of a matrix in global memory, through `tile`:
 * shared memory [16 * BLOCKS, WIDTH] that no other warp uses. Row i of the accumulators' row blocks
 * is also multiplied by row_scale[i / 16][i % 16 / 8]. angles: NULL, or those by which the rows are
 * rotated back after rounding, as by rope's separate kernel. */
template <typename E, int WIDTH, int BLOCKS>
__device__ inline void store_accumulators(E *to, size_t stride, int rows, int width, int bytes, const float (&from)[BLOCKS][WIDTH / 8][4],
                                          const float (&row_scale)[BLOCKS][2], E *tile, const float *angles = nullptr)
{
    int r = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
    __syncwarp();
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *reinterpret_cast<uint32_t *>(tile + (block * 16 + half * 8 + r) * tile_stride<WIDTH> + i * 8 + c * 2) =
                    two_of<E>(from[block][i][half * 2] * row_scale[block][half], from[block][i][half * 2 + 1] * row_scale[block][half]);
    __syncwarp();
    if (angles && bytes == 16 && width % 16 == 0)
        store_turned_pieces<E, WIDTH, 16 * BLOCKS, 8>(to, tile, stride, rows, width, angles);
    else if (angles)
        store_turned_pieces<E, WIDTH, 16 * BLOCKS, 1>(to, tile, stride, rows, width, angles);
    else if (bytes == 16)
        store_pieces<E, WIDTH, 16 * BLOCKS, 8>(to, tile, stride, rows, width);
    else if (bytes == 8)
        store_pieces<E, WIDTH, 16 * BLOCKS, 4>(to, tile, stride, rows, width);
    else if (bytes == 4)
        store_pieces<E, WIDTH, 16 * BLOCKS, 2>(to, tile, stride, rows, width);
    else
        store_pieces<E, WIDTH, 16 * BLOCKS, 1>(to, tile, stride, rows, width);
}

/* Of a row of which there is a result of other keys with lse `there`: its new lse, and what its own output and that result are multiplied by.
 * sum: of its own weights; 0: it has seen none of these keys. */
struct joined {
    float lse, own, old;
};
__device__ inline joined join_rows(float there, float lse, float sum)
{
    float larger = fmaxf(there, lse), both = larger + logf(expf(there - larger) + expf(lse - larger));
    return {both, sum != 0 ? expf(lse - both) : 0.0f, expf(there - both)};
}

/* The warp's accumulators x become x * own + there * other, where `there` is what its rows have in global memory. */
template <typename E, int WIDTH, int BLOCKS>
__device__ inline void join(float (&x)[BLOCKS][WIDTH / 8][4], const float (&own)[BLOCKS][2], const float (&other)[BLOCKS][2],
                            const E *there, size_t stride, int rows, int width)
{
    int r = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = block * 16 + e / 2 * 8 + r, column = i * 8 + c * 2 + e % 2;
                float old = row < rows && column < width ? to_float(there[(size_t)row * stride + column]) * other[block][e / 2] : 0.0f;
                x[block][i][e] = fmaf(x[block][i][e], own[block][e / 2], old);
            }
}

/* ---- products ---- */

/* The warp's rows of a tile, as the left operand: loaded again for each product, or KEPT in
 * registers from arrived() on. */
template <typename E, int WIDTH, int BLOCKS, bool KEPT> struct row_operand {
    const E *lane_row;

    __device__ void of(const E *rows)
    {
        int lane = (int)threadIdx.x % 32;
        lane_row = rows + lane % 16 * tile_stride<WIDTH> + lane / 16 * 8;
    }
    __device__ void arrived()
    {
    }
    __device__ void get(uint32_t (&a)[4], int block, int step) const
    {
        load_matrices(a, lane_row + block * 16 * tile_stride<WIDTH> + step * 16);
    }
};

template <typename E, int WIDTH, int BLOCKS> struct row_operand<E, WIDTH, BLOCKS, true> {
    row_operand<E, WIDTH, BLOCKS, false> tile;
    uint32_t kept[BLOCKS][WIDTH / 16][4];

    __device__ void of(const E *rows)
    {
        tile.of(rows);
    }
    __device__ void arrived()
    {
#pragma unroll
        for (int block = 0; block < BLOCKS; block++)
#pragma unroll
            for (int step = 0; step < WIDTH / 16; step++)
                tile.get(kept[block][step], block, step);
    }
    __device__ void get(uint32_t (&a)[4], int block, int step) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = kept[block][step][i];
    }
};

template <int BLOCKS, int COUNT> __device__ inline void clear(float (&x)[BLOCKS][COUNT][4])
{
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[block][i][e] = 0.0f;
}

/* to [16 * BLOCKS, COLUMNS] += a [16 * BLOCKS, WIDTH] * b^T, where b is a tile [COLUMNS, WIDTH]. */
template <typename E, int WIDTH, int BLOCKS, int COLUMNS, bool KEPT>
__device__ inline void multiply_by_rows(float (&to)[BLOCKS][COLUMNS / 8][4], const row_operand<E, WIDTH, BLOCKS, KEPT> &a, const E *b)
{
    int lane = (int)threadIdx.x % 32;
    const E *lane_row = b + (lane / 16 * 8 + lane % 8) * tile_stride<WIDTH> + lane / 8 % 2 * 8;
    [[maybe_unused]] constexpr int UNROLL = WIDTH > 128 ? 4 : WIDTH / 16; /* more would only make the code larger */
#pragma unroll UNROLL
    for (int step = 0; step < WIDTH / 16; step++) {
        uint32_t rows[BLOCKS][4];
#pragma unroll
        for (int block = 0; block < BLOCKS; block++)
            a.get(rows[block], block, step);
#pragma unroll
        for (int i = 0; i < COLUMNS / 8; i += 2) {
            uint32_t columns[4];
            load_matrices(columns, lane_row + i * 8 * tile_stride<WIDTH> + step * 16);
#pragma unroll
            for (int block = 0; block < BLOCKS; block++) {
                mma_16x8x16<E>(to[block][i], rows[block], columns[0], columns[1]);
                mma_16x8x16<E>(to[block][i + 1], rows[block], columns[2], columns[3]);
            }
        }
    }
}

/* to [16 * BLOCKS, WIDTH] += a [16 * BLOCKS, INNER] * b, where a is the accumulators of an earlier
 * product, rounded to E here, and b a tile [INNER, WIDTH]. */
template <typename E, int WIDTH, int BLOCKS, int INNER>
__device__ inline void multiply_accumulators(float (&to)[BLOCKS][WIDTH / 8][4], const float (&a)[BLOCKS][INNER / 8][4], const E *b)
{
    int lane = (int)threadIdx.x % 32;
    const E *lane_row = b + lane % 16 * tile_stride<WIDTH> + lane / 16 * 8;
#pragma unroll
    for (int step = 0; step < INNER / 16; step++) {
        uint32_t rows[BLOCKS][4];
#pragma unroll
        for (int block = 0; block < BLOCKS; block++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                rows[block][i] = two_of<E>(a[block][step * 2 + i / 2][i % 2 * 2], a[block][step * 2 + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i += 2) {
            uint32_t columns[4];
            load_matrices_transposed(columns, lane_row + step * 16 * tile_stride<WIDTH> + i * 8);
#pragma unroll
            for (int block = 0; block < BLOCKS; block++) {
                mma_16x8x16<E>(to[block][i], rows[block], columns[0], columns[1]);
                mma_16x8x16<E>(to[block][i + 1], rows[block], columns[2], columns[3]);
            }
        }
    }
}

/* ---- dropout (lib/base/random.h, DT_RANDOM_ATTENTION) ---- */

struct head_dropout {
    uint64_t seed;
    uint32_t threshold, head, sample, purpose;
};

__device__ inline head_dropout head_dropout_of(const attention_shape &s, size_t sample, int head)
{
    const dropout &d = s.drop;
    return {d.seed, d.threshold, (s.first_head + (uint32_t)head) << 20, (uint32_t)sample + d.first_sample + s.step->first_sample,
            (uint32_t)DT_RANDOM_ATTENTION << 24 | d.layer};
}

/* One Philox call's eight keys, from 8 * key_group on, of a query: bit i is set if key i is
 * kept. */
__device__ inline uint32_t kept_of_8(const head_dropout &d, uint32_t query, uint32_t key_group)
{
    struct dt_philox bits = dt_philox4x32(d.seed, d.head | key_group, query, d.sample, d.purpose);
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        kept |= (bits.word[i] & 0xffff) >= d.threshold ? 1u << i * 2 : 0;
        kept |= (bits.word[i] >> 16) >= d.threshold ? 2u << i * 2 : 0;
    }
    return kept;
}

/* Bit i: whether key first_key + i is kept; first_key is a multiple of 32. The four lanes of a quad
 * share the query and make one Philox call each. */
__device__ inline uint32_t kept_of_32_keys(const head_dropout &d, uint32_t query, uint32_t first_key)
{
    uint32_t c = threadIdx.x % 4, kept = kept_of_8(d, query, first_key / 8 + c) << c * 8;
    kept |= __shfl_xor_sync(0xffffffffu, kept, 1);
    return kept | __shfl_xor_sync(0xffffffffu, kept, 2);
}

/* The place where the first kernel of backward stores dropout's bits, so that they are made once:
 * in the rows of dk and dv of the same keys, BITS_KEYS of them at a time. The second kernel's block
 * of these keys reads the bits, and overwrites them at its end. A word has the bits of 32 keys for
 * a query. The words of query q are 2 n and 2 n + 1, where n is its number among the queries from
 * first_key on, of all heads that read the keys, one head after the other. A row has width / 2
 * words in dk and as many in dv. */
enum { BITS_KEYS = 64 };

/* Whether the words of all queries that see a tile of keys fit there, for whole tiles and for the
 * last. */
inline bool bits_fit(const attention_shape &s, const void *dqkv)
{
    size_t most = 2 * (size_t)s.T * (size_t)s.group;
    return most <= (size_t)(BITS_KEYS * s.width) && 2 * s.group <= s.width && s.width % 2 == 0 && (uintptr_t)dqkv % 4 == 0;
}

/* head_dk: the head's dk in row 0 of the sample. first_key: a multiple of BITS_KEYS. reader: the
 * query head's number among those that read the keys. */
template <typename E>
__device__ inline uint32_t *kept_bits(const attention_shape &s, E *head_dk, int first_key, int reader, int query, int half)
{
    int word = 2 * (reader * (s.T - first_key) + query - first_key) + half, row = word / s.width, column = word % s.width * 2;
    E *at = head_dk + (size_t)(first_key + row) * s.key_row;
    return reinterpret_cast<uint32_t *>(column < s.width ? at + column : at + values_behind(s) + (column - s.width));
}

/* As kept_of_16_queries, from stored bits: `words` [queries][2], from the lane's query 0 of the
 * first matrices on, of the half that contains the warp's keys; shift: where its keys begin in
 * it. */
__device__ inline void kept_of_words(const uint32_t *words, int shift, uint32_t (&kept)[2])
{
    uint32_t r = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        kept[i] = 0;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            uint32_t bits = words[(i * 8 + e) * 2] >> shift >> r;
            kept[i] |= ((bits & 1) | (bits >> 8 & 1) << 8) << e * 16;
        }
    }
}

/* For accumulators [16 keys, 16 queries] from first_key and first_query on, multiples of 16: bit (e
 * * 2 + g) * 8 of kept[i] says whether key g * 8 + r is kept for query i * 8 + c * 2 + e. The eight
 * lanes with the same c share four queries and two groups of keys, and make one Philox call
 * each. */
__device__ inline void kept_of_16_queries(const head_dropout &d, uint32_t first_query, uint32_t first_key, uint32_t (&kept)[2])
{
    uint32_t lane = threadIdx.x % 32, r = lane / 4, c = lane % 4;
    uint32_t mine = kept_of_8(d, first_query + r / 4 * 8 + c * 2 + r / 2 % 2, first_key / 8 + r % 2) << r % 4 * 8;
    mine |= __shfl_xor_sync(0xffffffffu, mine, 4);
    mine |= __shfl_xor_sync(0xffffffffu, mine, 8);
    uint32_t other = __shfl_xor_sync(0xffffffffu, mine, 16);
    kept[0] = (r < 4 ? mine : other) >> r;
    kept[1] = (r < 4 ? other : mine) >> r;
}

} // namespace gpt_cuda

#endif

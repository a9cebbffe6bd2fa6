/* Attention in fp32, forward and backward, on the FMA units: for checking numbers, with heads of
 * any width. Fused and unfused as on the tensor cores.
 *
 * Tiles of Br = 32 queries by Bc = 32 keys, 256 threads. Eight lanes share a row: lane i of the
 * eight computes the scores of keys i, i + 8, ..., and the output's columns i, i + 8, .... Backward
 * is two kernels as in backward.cu: blocks of one have queries, blocks of the other have
 * keys.
 *
 * Floor: 2 * T^2 * width FLOPs forward, and 7 / 2 of that backward, for one head on the FMA units;
 * but each FMA here reads shared memory, which is slower. */
#include "gpt/cuda/attention/tile.cuh"

namespace gpt_cuda {

namespace {

enum {
    SIZE = 32,
    LANES = 8,
    THREADS = SIZE * LANES,
    OWN = SIZE / LANES,
    COLUMNS = ATTENTION_MAX_WIDTH / LANES,
    SQUARE = SIZE * (SIZE + 1)
};

/* Floats of a row in shared memory: odd, so that eight rows start in eight banks. */
__host__ __device__ inline int row_floats(int width)
{
    return width | 1;
}

/* Load a tile [SIZE, width]; rows from `rows` on are zero. */
__device__ inline void load_rows(float *to, const float *from, size_t stride, int rows, int width)
{
    for (int row = (int)threadIdx.x / LANES, column = (int)threadIdx.x % LANES; column < width; column += LANES)
        to[row * row_floats(width) + column] = row < rows ? from[(size_t)row * stride + column] : 0.0f;
}

__device__ inline float dot(const float *a, const float *b, int width)
{
    float sum = 0;
    for (int i = 0; i < width; i++)
        sum = fmaf(a[i], b[i], sum);
    return sum;
}

/* The thread's columns of row `to`: += sum over the tile's rows j of factor[j * stride] * b[j]. */
__device__ inline void add_rows(float (&to)[COLUMNS], const float *factor, int stride, const float *b, int width)
{
    int lane = (int)threadIdx.x % LANES;
    for (int j = 0; j < SIZE; j++) {
        float x = factor[j * stride];
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            if (lane + i * LANES < width)
                to[i] = fmaf(x, b[j * row_floats(width) + lane + i * LANES], to[i]);
    }
}

/* to = from * scale; if `old` is not 0, plus the old value of `to` times `old`. */
__device__ inline void store_row(float *to, const float (&from)[COLUMNS], float scale, int width, float old = 0)
{
    int lane = (int)threadIdx.x % LANES;
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        if (lane + i * LANES < width)
            to[lane + i * LANES] = from[i] * scale + (old != 0 ? old * to[lane + i * LANES] : 0.0f);
}

/* Rotate a row that the lanes have stored with store_row back by rope's angles [2, width / 2]
 * (gpt_rope, inverse). All threads of the warp must call. */
__device__ inline void turn_row_back(float *row, const float *angles, int width, bool valid)
{
    int half = width / 2;
    __syncwarp(); /* both elements of a pair are stored by different lanes */
    for (int i = (int)threadIdx.x % LANES; valid && i < half; i += LANES)
        turn_pair(row[i], row[i + half], angles[i], -angles[half + i]);
}

/* A query's unscaled score for a key. */
__device__ inline float score_of(const attention_shape &s, const float *query, const float *key, int distance, float slope)
{
    float score = dot(query, key, s.width);
    return s.alibi > 0 ? fmaf(slope, (float)distance, score) : score;
}

__device__ inline float max_of_8(float x)
{
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}
__device__ inline float sum_of_8(float x)
{
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

__global__ void __launch_bounds__(THREADS) forward_kernel(attention_forward a)
{
    wait_for_earlier();
    const attention_shape &shape = a.shape;
    int T = shape.T, width = shape.width, lane = (int)threadIdx.x % LANES, local = (int)threadIdx.x / LANES;
    size_t stride = shape.key_row;
    attention_place place = place_of(shape.heads, tiles_of(shape.queries, SIZE));
    row_tile own = tile_of(shape.queries, place.tile, SIZE);
    int first = own.position, row = first + local; /* row: its position */
    bool valid = local < own.rows;
    size_t own_row = place.sample * (size_t)shape.queries.count + (size_t)own.row,
           own_place = rows_before(shape, place.sample, place.head) + (size_t)(own.row + local);
    const float *queries = (const float *)a.qkv + own_row * shape.qkv_row + (size_t)(place.head * width);
    const float *keys = (const float *)a.keys + key_place(shape, place.sample, 0, key_head_of(shape, place.head)),
                *values = keys + values_behind(shape);
    float *query_tile = dynamic_shared<float>(), *key_tile = query_tile + SIZE * row_floats(width),
          *value_tile = key_tile + SIZE * row_floats(width), *weight = value_tile + SIZE * row_floats(width) + local * (SIZE + 1);
    head_dropout dropped = head_dropout_of(shape, place.sample, place.head);
    float slope = unscaled_slope(shape, place.head);
    float out[COLUMNS] = {}, m = -INFINITY, l = 0; /* m, l: the row's running maximum and sum */

    load_rows(query_tile, queries, shape.qkv_row, own.rows, width);
    for (int tile = 0, tiles = tiles_before(shape.keys, first + min((int)SIZE, own.rows), SIZE); tile < tiles; tile++) {
        row_tile t = tile_of(shape.keys, tile, SIZE);
        int first_key = t.position;
        __syncthreads(); /* no warp still reads the last tiles */
        load_rows(key_tile, keys + (size_t)t.row * stride, stride, t.rows, width);
        load_rows(value_tile, values + (size_t)t.row * stride, stride, t.rows, width);
        __syncthreads();
        float score[OWN], largest = m;
        for (int i = 0; i < OWN; i++) {
            int key = lane + i * LANES;
            score[i] = first_key + key > row || key >= t.rows ? -INFINITY
                                                              : score_of(shape, query_tile + local * row_floats(width),
                                                                         key_tile + key * row_floats(width), first_key + key - row, slope) *
                                                                    shape.scale;
            largest = fmaxf(largest, score[i]);
        }
        largest = max_of_8(largest);
        uint32_t kept = dropped.threshold > 0 ? kept_of_32_keys(dropped, (uint32_t)row, (uint32_t)first_key) : 0xffffffffu;
        float shrink = expf(m - largest);
        m = largest;
        l *= shrink;
        for (int i = 0; i < OWN; i++) {
            float x = expf(score[i] - largest);
            l += x;
            weight[lane + i * LANES] = kept >> (lane + i * LANES) & 1 ? x : 0.0f;
        }
        __syncwarp(); /* lanes of the same warp compute a row's weights */
        for (int i = 0; i < COLUMNS; i++)
            out[i] *= shrink;
        add_rows(out, weight, 1, value_tile, width);
    }
    l = sum_of_8(l);
    float lse = m + logf(l);
    if (a.weights)
        for (int first_key = 0; first_key < T; first_key += SIZE) {
            __syncthreads();
            load_rows(key_tile, keys + (size_t)first_key * stride, stride, T - first_key, width);
            __syncthreads();
            for (int i = 0; i < OWN; i++) {
                int key = first_key + lane + i * LANES;
                if (valid && key < T)
                    ((float *)a.weights)[own_place * (size_t)T + key] =
                        key > row ? 0.0f
                                  : expf(score_of(shape, query_tile + local * row_floats(width),
                                                  key_tile + (key - first_key) * row_floats(width), key - row, slope) *
                                             shape.scale -
                                         lse);
            }
        }
    float factor = shape.drop.scale / l, old = 0;
    if (a.joins && valid) {
        joined both = join_rows(a.lse[own_place], lse, l);
        factor = l != 0 ? factor * both.own : 0.0f;
        old = both.old;
        lse = both.lse;
    }
    __syncwarp(); /* the row's lanes have read what one of them overwrites */
    if (!valid)
        return;
    if (a.lse && lane == 0)
        a.lse[own_place] = lse;
    store_row((float *)a.out + (own_row + (size_t)local) * shape.d + (size_t)(place.head * width), out, factor, width, old);
}

/* The arrays that both backward kernels have in shared memory. */
struct backward_tiles {
    size_t rows;                                  /* in lse, dots and weights, before those of the query head */
    size_t key_place;                             /* of the key head's row 0 in keys and dkeys */
    const float *queries, *keys, *values, *douts; /* row 0 of the heads in global memory */
    float *query, *key, *value, *dout;            /* tiles [SIZE, width] */
    float *weight, *dscore;                       /* [SIZE queries, SIZE + 1]: P Z without its scale, and dS */
    float slope;                                  /* of alibi */
    head_dropout dropped;
};

__device__ inline backward_tiles backward_tiles_of(const attention_backward &a, size_t sample, int head, int key_head)
{
    const attention_shape &s = a.shape;
    backward_tiles t;
    size_t first_row = sample * (size_t)s.queries.count, column = (size_t)(head * s.width), tile = (size_t)(SIZE * row_floats(s.width));
    t.rows = rows_before(s, sample, head);
    t.key_place = key_place(s, sample, 0, key_head);
    t.queries = (const float *)a.qkv + first_row * s.qkv_row + column;
    t.keys = (const float *)a.keys + t.key_place;
    t.values = t.keys + values_behind(s);
    t.douts = (const float *)a.dout + first_row * s.d + column;
    t.slope = unscaled_slope(s, head);
    t.query = dynamic_shared<float>();
    t.key = t.query + tile;
    t.value = t.key + tile;
    t.dout = t.value + tile;
    t.weight = t.dout + tile;
    t.dscore = t.weight + SQUARE;
    t.dropped = head_dropout_of(s, sample, head);
    return t;
}

__device__ inline void load_queries(const backward_tiles &t, const attention_shape &s, const row_tile &of)
{
    load_rows(t.query, t.queries + (size_t)of.row * s.qkv_row, s.qkv_row, of.rows, s.width);
    load_rows(t.dout, t.douts + (size_t)of.row * s.d, s.d, of.rows, s.width);
}
__device__ inline void load_keys(const backward_tiles &t, const attention_shape &s, const row_tile &of)
{
    load_rows(t.key, t.keys + (size_t)of.row * s.key_row, s.key_row, of.rows, s.width);
    load_rows(t.value, t.values + (size_t)of.row * s.key_row, s.key_row, of.rows, s.width);
}

/* Compute weight and dscore of the loaded tiles, for this thread's row of queries and its keys. */
__device__ inline void backward_scores(const backward_tiles &t, const attention_backward &a, const row_tile &queries, const row_tile &keys)
{
    const attention_shape &s = a.shape;
    int lane = (int)threadIdx.x % LANES, local = (int)threadIdx.x / LANES, tile_row = row_floats(s.width);
    int row = queries.position + local, first_key = keys.position;
    size_t place = t.rows + (size_t)(queries.row + local);
    uint32_t kept = t.dropped.threshold > 0 ? kept_of_32_keys(t.dropped, (uint32_t)row, (uint32_t)first_key) : 0xffffffffu;
    for (int i = 0; i < OWN; i++) {
        int key = lane + i * LANES;
        bool sees = local < queries.rows && key < keys.rows && first_key + key <= row, keeps = kept >> key & 1;
        float p = 0, dp = 0;
        if (sees && a.weights)
            p = ((const float *)a.weights)[place * (size_t)s.T + (size_t)(first_key + key)];
        else if (sees)
            p = expf(score_of(s, t.query + local * tile_row, t.key + key * tile_row, first_key + key - row, t.slope) * s.scale -
                     a.lse[place]);
        if (sees && keeps)
            dp = dot(t.dout + local * tile_row, t.value + key * tile_row, s.width) * s.drop.scale;
        t.weight[local * (SIZE + 1) + key] = keeps ? p : 0.0f;
        t.dscore[local * (SIZE + 1) + key] = sees ? p * (dp - a.dots[place]) : 0.0f;
    }
}

__global__ void __launch_bounds__(THREADS) query_gradient_kernel(attention_backward a)
{
    wait_for_earlier();
    const attention_shape &s = a.shape;
    attention_place place = place_of(s.heads, tiles_of(s.queries, SIZE));
    backward_tiles t = backward_tiles_of(a, place.sample, place.head, key_head_of(s, place.head));
    row_tile own = tile_of(s.queries, place.tile, SIZE);
    int local = (int)threadIdx.x / LANES;
    float dq[COLUMNS] = {};
    load_queries(t, s, own);
    for (int tile = 0, tiles = tiles_before(s.keys, own.position + min((int)SIZE, own.rows), SIZE); tile < tiles; tile++) {
        row_tile keys = tile_of(s.keys, tile, SIZE);
        __syncthreads(); /* no warp still reads the last tiles */
        load_keys(t, s, keys);
        __syncthreads();
        backward_scores(t, a, own, keys);
        __syncwarp(); /* lanes of the same warp compute a row's scores */
        add_rows(dq, t.dscore + local * (SIZE + 1), 1, t.key, s.width);
    }
    float *to = (float *)a.dqkv + (t.queries - (const float *)a.qkv) + (size_t)(own.row + local) * s.qkv_row;
    if (local < own.rows)
        store_row(to, dq, s.scale, s.width, a.joins);
    if (a.rope)
        turn_row_back(to, angles_of(a.rope, own.position + local, s.width), s.width, local < own.rows);
}

__global__ void __launch_bounds__(THREADS) key_gradient_kernel(attention_backward a)
{
    wait_for_earlier();
    const attention_shape &s = a.shape;
    attention_place place = place_of(s.key_heads, tiles_of(s.keys, SIZE));
    head_range readers = readers_of(s, place.head);
    row_tile own = tile_of(s.keys, place.tile, SIZE);
    int local = (int)threadIdx.x / LANES;
    float dk[COLUMNS] = {}, dv[COLUMNS] = {};
    load_keys(backward_tiles_of(a, place.sample, readers.first, place.head), s, own);
    for (int head = readers.first; head < readers.end; head++) {
        backward_tiles t = backward_tiles_of(a, place.sample, head, place.head);
        for (int tile = tile_from(s.queries, own.position, SIZE), tiles = tiles_of(s.queries, SIZE); tile < tiles; tile++) {
            row_tile queries = tile_of(s.queries, tile, SIZE);
            __syncthreads(); /* no warp still reads the last tiles */
            load_queries(t, s, queries);
            __syncthreads();
            backward_scores(t, a, queries, own);
            __syncthreads(); /* a key's scores are computed by all rows */
            add_rows(dk, t.dscore + local, SIZE + 1, t.query, s.width);
            add_rows(dv, t.weight + local, SIZE + 1, t.dout, s.width);
        }
    }
    float *to = (float *)a.dkeys + key_place(s, place.sample, own.row + local, place.head);
    bool valid = local < own.rows;
    if (valid) {
        store_row(to, dk, s.scale, s.width);
        store_row(to + values_behind(s), dv, s.drop.scale, s.width);
    }
    if (a.rope)
        turn_row_back(to, angles_of(a.rope, own.position + local, s.width), s.width, valid);
}

/* The grid, by tiles of `rows` rows of `heads` heads, and the shared memory for `tiles` tiles of
 * rows and `squares` tiles of scores. */
template <typename Arguments>
dt_status launch_tiles(void (*kernel)(Arguments), struct dt_stream *stream, size_t samples, const attention_rows &rows, int heads,
                       int tiles, int squares, const Arguments &a)
{
    size_t blocks = (size_t)tiles_of(rows, SIZE) * samples * (size_t)heads;
    size_t floats = (size_t)(tiles * SIZE * row_floats(a.shape.width) + squares * SQUARE);
    return launch("attention fp32", kernel, dim3((unsigned)blocks), dim3(THREADS), floats * sizeof(float), stream, a);
}

} // namespace

dt_status attention_forward_fp32(struct dt_stream *stream, size_t samples, const attention_forward &a)
{
    return launch_tiles(forward_kernel, stream, samples, a.shape.queries, a.shape.heads, 3, 1, a);
}

dt_status attention_backward_fp32(struct dt_stream *stream, size_t samples, const attention_backward &a)
{
    DT_TRY(launch_tiles(query_gradient_kernel, stream, samples, a.shape.queries, a.shape.heads, 4, 2, a));
    return launch_tiles(key_gradient_kernel, stream, samples, a.shape.keys, a.shape.key_heads, 4, 2, a);
}

} // namespace gpt_cuda

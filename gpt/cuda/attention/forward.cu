/* Attention forward on the tensor cores.
 *
 * A block has a tile of Br = ROWS queries and loops over tiles of Bc = KEYS keys with an online
 * softmax: each row has a running maximum m and a running sum l, and scores and weights stay in
 * registers. Attention is causal: each warp skips the tiles above the diagonal of its own rows. The
 * next keys are copied to shared memory during the product of weights and values, the values during
 * that of the scores.
 *
 * Floor: 2 products over half of the square, 2 * T^2 * width FLOPs for one head, at the tensor
 * cores' rate; qkv read and out written once, 8 * T * width bytes. Dropout adds one Philox call for
 * 8 weights on the integer units, the softmax one exp2 for each.
 *
 * Unfused, a second loop over the keys computes the scores again, with the rows' sums known, and
 * writes the weights.
 *
 * Source  Dao, "FlashAttention-2", ICLR 2024, algorithm 1; Milakov and Gimelshein, "Online
 *         normalizer calculation for softmax", 2018. */
#include "gpt/cuda/attention/rows.cuh"

namespace gpt_cuda {

namespace {

/* Sizes by width: with more rows for each warp a product needs fewer loads from shared memory; the
 * limit is 255 registers. */
template <int WIDTH> struct forward_tiles {
    static constexpr int BLOCKS = WIDTH <= 128 ? 2 : 1, ROWS = 16 * BLOCKS * ATTENTION_WARPS, KEYS = WIDTH < 128 ? 64 : 32;
    static constexpr bool KEPT = WIDTH <= 64; /* queries stay in registers */
    static constexpr size_t ELEMS = (size_t)(ROWS + 2 * KEYS) * tile_stride<WIDTH>;
};

/* The weights of a tile of keys, from log2 of the rows' sums; zeros if the key comes after the
 * query. */
template <typename E, int BLOCKS, int KEYS>
__device__ inline void write_weights(E *weights, const float (&s)[BLOCKS][KEYS / 8][4], const float (&lse_log2)[BLOCKS][2],
                                     float scale_log2, int T, int first_row, int first_key)
{
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = first_row + block * 16 + half * 8, key = first_key + i * 8;
                float weight[2];
                for (int e = 0; e < 2; e++)
                    weight[e] = key + e > row ? 0.0f : exp2_fast(fmaf(s[block][i][half * 2 + e], scale_log2, -lse_log2[block][half]));
                E *to = weights + (size_t)row * (size_t)T + key;
                if (row < T && key + 1 < T && T % 2 == 0)
                    *reinterpret_cast<uint32_t *>(to) = two_of<E>(weight[0], weight[1]);
                else
                    for (int e = 0; e < 2; e++)
                        if (row < T && key + e < T)
                            to[e] = from_float<E>(weight[e]);
            }
}

/* WHOLE: queries and keys are all positions, for which the loop has more registers. */
template <typename E, int WIDTH, bool WHOLE> __global__ void __launch_bounds__(ATTENTION_THREADS) forward_kernel(attention_forward a)
{
    wait_for_earlier();
    using tiles = forward_tiles<WIDTH>;
    constexpr int BLOCKS = tiles::BLOCKS, ROWS = tiles::ROWS, KEYS = tiles::KEYS;
    const attention_shape &shape = a.shape;
    int T = shape.T, width = shape.width, bytes = shape.row_bytes;
    size_t d = shape.d, stride = WHOLE ? shape.qkv_row : shape.key_row;
    const attention_rows all = {T, T, {0, T}}, &query_rows = WHOLE ? all : shape.queries, &key_rows = WHOLE ? all : shape.keys;
    int row_tiles = tiles_of(query_rows, ROWS);
    attention_place place = place_of(shape.heads, row_tiles);
    auto again = [&] { return place_of(shape.heads, row_tiles); }; /* computed again, because the loop has no registers for them */
    row_tile own = tile_of<WHOLE>(shape.queries, row_tiles - 1 - place.tile, ROWS); /* the longest rows first */
    int first = own.position, end = first + own.rows;
    const E *sample = (const E *)a.qkv + place.sample * (size_t)query_rows.count * shape.qkv_row;
    const E *queries = sample + (size_t)own.row * shape.qkv_row + (size_t)(place.head * width);
    int key_head = key_head_of(shape, place.head);
    const E *keys = WHOLE ? sample + d + (size_t)(key_head * width) : (const E *)a.keys + key_place(shape, place.sample, 0, key_head),
            *values = keys + values_behind(shape);

    E *query_tile = dynamic_shared<E>(), *key_tile = query_tile + ROWS * tile_stride<WIDTH>,
      *value_tile = key_tile + KEYS * tile_stride<WIDTH>;
    int lane = (int)threadIdx.x % 32, warp_row = (int)threadIdx.x / 32 * 16 * BLOCKS;
    int warp_first = first + warp_row, lane_row = warp_first + lane / 4, lane_key = lane % 4 * 2;
    int seen = min(first + ROWS, end), key_tiles = tiles_before(key_rows, seen, KEYS);
    float scale_log2 = shape.scale * LOG2_E;
    head_dropout dropped = head_dropout_of(shape, place.sample, place.head);

    row_operand<E, WIDTH, BLOCKS, tiles::KEPT> query;
    query.of(query_tile + warp_row * tile_stride<WIDTH>);
    float out[BLOCKS][WIDTH / 8][4];
    running<BLOCKS> rows;
    clear(out);
    begin(rows);

    load_tile<E, WIDTH, ROWS>(query_tile, queries, shape.qkv_row, own.rows, width, bytes);
    load_tile<E, WIDTH, KEYS>(key_tile, keys, stride, tile_of<WHOLE>(key_rows, 0, KEYS).rows, width, bytes);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    query.arrived();
    for (int tile = 0; tile < key_tiles; tile++) {
        row_tile here = tile_of<WHOLE>(key_rows, tile, KEYS), next = tile_of<WHOLE>(key_rows, tile + 1, KEYS);
        int first_key = here.position, last_key = WHOLE ? INT32_MAX : first_key + here.rows - 1;
        bool visible = first_key < warp_first + 16 * BLOCKS && warp_first < end; /* any key that some row of the warp sees */
        float s[BLOCKS][KEYS / 8][4];
        clear(s);
        copy_async_wait<0>(); /* the keys have arrived, and no warp still reads the last values */
        __syncthreads();
        load_tile<E, WIDTH, KEYS>(value_tile, values + (size_t)here.row * stride, stride, here.rows, width, bytes);
        copy_async_commit();
        if (visible)
            multiply_by_rows<E, WIDTH, BLOCKS, KEYS>(s, query, key_tile);
        if (shape.alibi > 0)
            add_distances<BLOCKS, KEYS>(s, unscaled_slope(shape, again().head), lane_row, first_key + lane_key);
        copy_async_wait<0>(); /* the values have arrived, and no warp still reads these keys */
        __syncthreads();
        if (tile + 1 < key_tiles)
            load_tile<E, WIDTH, KEYS>(key_tile, keys + (size_t)next.row * stride, stride, next.rows, width, bytes);
        copy_async_commit();
        if (visible) {
            if (first_key + KEYS - 1 > min(warp_first, last_key))
                mask<BLOCKS, KEYS>(s, lane_row, first_key + lane_key, last_key);
#pragma unroll
            for (int block = 0; block < BLOCKS; block++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    rescale<WIDTH>(out, block, half, online_softmax<BLOCKS, KEYS>(s, rows, block, half, scale_log2));
            if (dropped.threshold > 0)
                drop<BLOCKS, KEYS>(s, dropped, lane_row, first_key);
            multiply_accumulators<E, WIDTH, BLOCKS, KEYS>(out, s, value_tile);
        }
    }

    int local = own.row - first; /* from a position to its row */
    float factor[BLOCKS][2], old[BLOCKS][2], lse_log2[BLOCKS][2];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = rows.l[block][half];
            int row = lane_row + block * 16 + half * 8;
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            factor[block][half] = shape.drop.scale / sum;
            lse_log2[block][half] = rows.m[block][half] * scale_log2 + log2f(sum);
            float lse = rows.m[block][half] * shape.scale + logf(sum);
            float *place_of_lse =
                a.lse && row < end ? a.lse + rows_before(shape, again().sample, again().head) + (size_t)(row + local) : nullptr;
            if (!WHOLE && a.joins) {
                joined both = join_rows(place_of_lse ? *place_of_lse : 0.0f, lse, sum);
                factor[block][half] = sum != 0 ? factor[block][half] * both.own : 0.0f;
                old[block][half] = both.old;
                lse = both.lse;
                __syncwarp(); /* the quad's lanes have read what one of them overwrites */
            }
            if (place_of_lse && lane_key == 0)
                *place_of_lse = lse;
        }

    if (a.weights) {
        E *weights = (E *)a.weights + rows_before(shape, again().sample, again().head) * (size_t)T;
        for (int first_key = 0; first_key < T; first_key += KEYS) {
            float s[BLOCKS][KEYS / 8][4];
            clear(s);
            if (first_key < seen) {
                __syncthreads(); /* no warp still reads the last keys */
                load_tile<E, WIDTH, KEYS>(key_tile, keys + (size_t)first_key * stride, stride, T - first_key, width, bytes);
                copy_async_commit();
                copy_async_wait<0>();
                __syncthreads();
                multiply_by_rows<E, WIDTH, BLOCKS, KEYS>(s, query, key_tile);
                if (shape.alibi > 0)
                    add_distances<BLOCKS, KEYS>(s, unscaled_slope(shape, again().head), lane_row, first_key + lane_key);
            }
            write_weights<E, BLOCKS, KEYS>(weights, s, lse_log2, scale_log2, T, lane_row, first_key + lane_key);
        }
    }

    if (tiles::KEPT) /* otherwise it would need their registers */
        place = again();
    E *to = (E *)a.out + (place.sample * (size_t)query_rows.count + (size_t)(warp_first + local)) * d + (size_t)(place.head * width);
    if (!WHOLE && a.joins) {
        join<E, WIDTH, BLOCKS>(out, factor, old, to, d, end - warp_first, width);
        for (int i = 0; i < 2 * BLOCKS; i++)
            factor[i / 2][i % 2] = 1.0f;
    }
    store_accumulators<E, WIDTH, BLOCKS>(to, d, end - warp_first, width, bytes, out, factor, query_tile + warp_row * tile_stride<WIDTH>);
}

} // namespace

template <typename E> dt_status attention_forward_tensor(struct dt_stream *stream, size_t samples, const attention_forward &a)
{
    return for_width(a.shape.width, [&]<int WIDTH>() {
        using tiles = forward_tiles<WIDTH>;
        size_t row_tiles = (size_t)tiles_of(a.shape.queries, tiles::ROWS);
        bool whole = a.shape.queries.half == a.shape.T && a.shape.keys.half == a.shape.T;
        return launch("attention", whole ? forward_kernel<E, WIDTH, true> : forward_kernel<E, WIDTH, false>,
                      dim3((unsigned)(row_tiles * samples * (size_t)a.shape.heads)), dim3(ATTENTION_THREADS), tiles::ELEMS * sizeof(E),
                      stream, a);
    });
}

template dt_status attention_forward_tensor<__half>(struct dt_stream *stream, size_t samples, const attention_forward &a);
template dt_status attention_forward_tensor<__nv_bfloat16>(struct dt_stream *stream, size_t samples, const attention_forward &a);

} // namespace gpt_cuda

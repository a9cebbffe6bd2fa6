/* Attention's gradient on the tensor cores.
 *
 * Two kernels compute the weights again from lse (unfused: read them), so that one block computes
 * each sum: no atomics, the same bits in every run. A block of the first kernel has a tile of Br =
 * ROWS queries, computes D of its rows, which it stores for the second kernel, loops over tiles of
 * Bc = KEYS keys up to the causal diagonal, and computes dq. A block of the second kernel has a
 * tile of Bc = KEYS keys, loops over tiles of Br = QUERIES queries from the diagonal on, of every
 * query head that reads these keys, and computes dk and dv. With P the weights, Z dropout's factors
 * (0 or 1 / (1 - p)) and D = dots, the rows' sums of dout * out:
 *
 *   dv = (P Z)^T dout          dS = P (Z (dout v^T) - D)
 *   dq = dS k / sqrt(width)    dk = dS^T q / sqrt(width)
 *
 * The second kernel computes transposed scores, k q^T: P^T and dS^T are then in the registers in
 * which the next product needs its left operand.
 *
 * Floor: 5 products over half of the square, 5 * T^2 * width FLOPs for one head, at the tensor
 * cores' rate; these kernels compute 7, two of them twice (8 above a width of 128). qkv, dout, out
 * are read and dqkv is written once: 16 * T * width bytes. Dropout's bits are made once if they fit
 * into the memory of the second kernel's results, up to 32 queries for each column of a head;
 * otherwise twice.
 *
 * There is no single kernel of five products with dq [T, width] in shared memory in fp32, because
 * such products wait for shared memory as much as for the tensor cores, and it would hardly move
 * fewer bytes. For 64 queries by 64 keys of 96 columns these two kernels move 336 KiB (216 for dk
 * and dv, whose warps have 16 rows and read all of the other side for each product; 120 for dq,
 * whose warps have 32). The single kernel would move 328 KiB (dS through shared memory, dq in and
 * out), with one block of 4 warps on a multiprocessor instead of two: dq alone is 96 KiB at T =
 * 256. These numbers are counted, not measured. backward_hopper.cu has those of wgmma, where one
 * read serves four warps.
 *
 * Source  Dao, "FlashAttention-2", ICLR 2024, algorithm 2; Dao et al., "FlashAttention", NeurIPS
 *         2022, appendix B.4 for dropout. */
#include "gpt/cuda/attention/gradients.cuh"

namespace gpt_cuda {

namespace {

/* ---- dq ---- */

template <int WIDTH> struct query_tiles {
    static constexpr int BLOCKS = WIDTH <= 96 ? 2 : 1, ROWS = 16 * BLOCKS * ATTENTION_WARPS, KEYS = 32;
    static constexpr int STAGE = 2 * KEYS * tile_stride<WIDTH>, WEIGHTS = ROWS * tile_stride<KEYS>; /* elements of each of two stages */
    static constexpr size_t elems(bool fused)
    {
        return (size_t)(2 * ROWS * tile_stride<WIDTH> + 2 * STAGE + (fused ? 0 : 2 * WEIGHTS));
    }
};

/* The warp's accumulators become its part of a tile of weights in shared memory. */
template <typename E, int BLOCKS, int KEYS>
__device__ inline void weights_of(float (&p)[BLOCKS][KEYS / 8][4], const row_operand<E, KEYS, BLOCKS, false> &weights)
{
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < KEYS / 8; i += 2) {
            uint32_t words[4]; /* stored as a left operand: two adjacent 8x8 matrices of accumulators */
            weights.get(words, block, i / 2);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float2 two = floats_of<E>(words[j]);
                p[block][i + j / 2][j % 2 * 2] = two.x;
                p[block][i + j / 2][j % 2 * 2 + 1] = two.y;
            }
        }
}

template <typename E, int WIDTH> __global__ void __launch_bounds__(ATTENTION_THREADS) query_gradient_kernel(attention_backward a)
{
    wait_for_earlier();
    using tiles = query_tiles<WIDTH>;
    constexpr int BLOCKS = tiles::BLOCKS, ROWS = tiles::ROWS, KEYS = tiles::KEYS;
    const attention_shape &shape = a.shape;
    int T = shape.T, width = shape.width, bytes = shape.row_bytes;
    size_t d = shape.d, stride = shape.key_row;
    int row_tiles = tiles_of(shape.queries, ROWS);
    attention_place place = place_of(shape.heads, row_tiles);
    row_tile own = tile_of(shape.queries, row_tiles - 1 - place.tile, ROWS); /* the longest rows first */
    int first = own.position, end = first + own.rows;
    size_t column = (size_t)(place.head * width),
           own_row = place.sample * (size_t)shape.queries.count + (size_t)own.row; /* that of `first` */
    size_t own_place = rows_before(shape, place.sample, place.head) + (size_t)own.row;
    const E *queries = (const E *)a.qkv + own_row * shape.qkv_row + column;
    const E *keys = (const E *)a.keys + key_place(shape, place.sample, 0, key_head_of(shape, place.head));
    const E *values = keys + values_behind(shape);
    const E *douts = (const E *)a.dout + own_row * d + column;
    const E *weights = (const E *)a.weights + own_place * (size_t)T; /* used if unfused */

    E *query_tile = dynamic_shared<E>(), *dout_tile = query_tile + ROWS * tile_stride<WIDTH>,
      *stages = dout_tile + ROWS * tile_stride<WIDTH>, *weight_stages = stages + 2 * tiles::STAGE;
    int lane = (int)threadIdx.x % 32, warp_row = (int)threadIdx.x / 32 * 16 * BLOCKS;
    int warp_first = first + warp_row, lane_row = warp_first + lane / 4, lane_key = lane % 4 * 2;
    int seen = min(first + ROWS, end), key_tiles = tiles_before(shape.keys, seen, KEYS);
    float scale_log2 = shape.scale * LOG2_E;
    head_dropout dropped = head_dropout_of(shape, place.sample, place.head);

    auto load_stage = [&](int tile) {
        row_tile t = tile_of(shape.keys, tile, KEYS);
        E *stage = stages + tile % 2 * tiles::STAGE;
        load_tile<E, WIDTH, KEYS>(stage, keys + (size_t)t.row * stride, stride, t.rows, width, bytes);
        load_tile<E, WIDTH, KEYS>(stage + KEYS * tile_stride<WIDTH>, values + (size_t)t.row * stride, stride, t.rows, width, bytes);
        if (a.weights)
            load_tile<E, KEYS, ROWS>(weight_stages + tile % 2 * tiles::WEIGHTS, weights + t.row, (size_t)T, own.rows, t.rows,
                                     shape.weight_bytes);
    };

    load_tile<E, WIDTH, ROWS>(query_tile, queries, shape.qkv_row, own.rows, width, bytes);
    load_tile<E, WIDTH, ROWS>(dout_tile, douts, d, own.rows, width, bytes);
    load_stage(0);
    copy_async_commit();

    row_operand<E, WIDTH, BLOCKS, false> query, dout;
    query.of(query_tile + warp_row * tile_stride<WIDTH>);
    dout.of(dout_tile + warp_row * tile_stride<WIDTH>);
    float lse_log2[BLOCKS][2], dots[BLOCKS][2], scale[BLOCKS][2];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = lane_row + block * 16 + half * 8 - first; /* of the tile */
            bool there = row < own.rows;
            lse_log2[block][half] = a.lse && there ? a.lse[own_place + (size_t)row] * LOG2_E : 0.0f;
            size_t start = there ? (own_row + (size_t)row) * d + column : 0;
            dots[block][half] = dot_of_row((const E *)a.dout + start, (const E *)a.out + start, there ? width : 0, bytes);
            if (there && lane % 4 == 0)
                a.dots[own_place + (size_t)row] = dots[block][half];
            scale[block][half] = shape.scale;
        }
    int key_head = key_head_of(shape, place.head), reader = place.head - readers_of(shape, key_head).first;
    E *head_dk = (E *)a.dkeys + key_place(shape, place.sample, 0, key_head);
    auto keep = [&](int row, int key, uint32_t bits) {
        int tile_key = key / BITS_KEYS * BITS_KEYS;
        if (a.keeps_bits && lane % 4 == 0 && row >= tile_key && row < end)
            *kept_bits(shape, head_dk, tile_key, reader, row, (key - tile_key) / 32) = bits;
    };
    float dq[BLOCKS][WIDTH / 8][4];
    clear(dq);

    for (int tile = 0; tile < key_tiles; tile++) {
        int first_key = tile_of(shape.keys, tile, KEYS).position;
        const E *key_tile = stages + tile % 2 * tiles::STAGE, *value_tile = key_tile + KEYS * tile_stride<WIDTH>;
        copy_async_wait<0>(); /* this stage has arrived, and no warp still reads the other one */
        __syncthreads();
        if (tile + 1 < key_tiles)
            load_stage(tile + 1);
        copy_async_commit();
        if (first_key >= warp_first + 16 * BLOCKS || warp_first >= end)
            continue; /* no row of the warp sees any of these keys */
        float p[BLOCKS][KEYS / 8][4], dp[BLOCKS][KEYS / 8][4];
        clear(p);
        clear(dp);
        if (a.weights) {
            row_operand<E, KEYS, BLOCKS, false> kept;
            kept.of(weight_stages + tile % 2 * tiles::WEIGHTS + warp_row * tile_stride<KEYS>);
            weights_of<E, BLOCKS, KEYS>(p, kept);
        } else {
            multiply_by_rows<E, WIDTH, BLOCKS, KEYS>(p, query, key_tile);
            if (shape.alibi > 0)
                add_distances<BLOCKS, KEYS>(p, unscaled_slope(shape, place.head), lane_row, first_key + lane_key);
            weights_from_scores<BLOCKS, KEYS>(p, lse_log2, scale_log2, lane_row, first_key + lane_key);
        }
        multiply_by_rows<E, WIDTH, BLOCKS, KEYS>(dp, dout, value_tile);
        score_gradients<BLOCKS, KEYS>(dp, p, dots, dropped, shape.drop.scale, lane_row, first_key, keep);
        multiply_accumulators<E, WIDTH, BLOCKS, KEYS>(dq, dp, key_tile);
    }
    if (key_tiles == 0) { /* all of the keys come after these queries: the first copies are still on their way */
        copy_async_wait<0>();
        __syncthreads();
    }
    E *to = (E *)a.dqkv + (own_row + (size_t)warp_row) * shape.qkv_row + column;
    if (a.joins) {
        float all[BLOCKS][2];
        for (int i = 0; i < 2 * BLOCKS; i++)
            all[i / 2][i % 2] = 1.0f;
        join<E, WIDTH, BLOCKS>(dq, scale, all, to, shape.qkv_row, end - warp_first, width);
        for (int i = 0; i < 2 * BLOCKS; i++)
            scale[i / 2][i % 2] = 1.0f;
    }
    store_accumulators<E, WIDTH, BLOCKS>(to, shape.qkv_row, end - warp_first, width, bytes, dq, scale,
                                         query_tile + warp_row * tile_stride<WIDTH>, angles_of(a.rope, warp_first, width));
}

/* ---- dk and dv ---- */

/* With wide heads the registers have room for only one of dk and dv: then each has a separate
 * kernel. */
template <int WIDTH> struct key_tiles {
    static constexpr int KEYS = 16 * ATTENTION_WARPS, QUERIES = WIDTH <= 96 ? 64 : 32;
    static constexpr int STAGE = 2 * QUERIES * tile_stride<WIDTH>, WEIGHTS = QUERIES * tile_stride<KEYS>;
    static constexpr size_t bytes(size_t element, bool fused)
    {
        return 8 * QUERIES * sizeof(float) + element * (size_t)(2 * KEYS * tile_stride<WIDTH> + 2 * STAGE + (fused ? 0 : 2 * WEIGHTS));
    }
};

/* The warp's accumulators [16 keys, QUERIES] become its part of a tile of weights [QUERIES, keys].
 * lane_row: the lane's row of the first matrices. */
template <typename E, int KEYS, int QUERIES> __device__ inline void transposed_weights_of(float (&p)[1][QUERIES / 8][4], const E *lane_row)
{
#pragma unroll
    for (int i = 0; i < QUERIES / 8; i += 2) {
        uint32_t words[4]; /* queries from i * 8 on, keys 0 to 7, then 8 to 15; then the next 8 queries in the same way */
        load_matrices_transposed(words, lane_row + i * 8 * tile_stride<KEYS>);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 two = floats_of<E>(words[j]);
            p[0][i + j / 2][j % 2 * 2] = two.x;
            p[0][i + j / 2][j % 2 * 2 + 1] = two.y;
        }
    }
}

template <typename E, int WIDTH, bool DK, bool DV>
__global__ void __launch_bounds__(ATTENTION_THREADS) key_gradient_kernel(attention_backward a)
{
    wait_for_earlier();
    using tiles = key_tiles<WIDTH>;
    constexpr int KEYS = tiles::KEYS, QUERIES = tiles::QUERIES;
    const attention_shape &shape = a.shape;
    int T = shape.T, width = shape.width, bytes = shape.row_bytes;
    size_t d = shape.d, stride = shape.key_row;
    attention_place place = place_of(shape.key_heads, tiles_of(shape.keys, KEYS));
    row_tile own = tile_of(shape.keys, place.tile, KEYS); /* the keys that most queries see first */
    int first = own.position, end = first + own.rows;
    size_t sample_row = place.sample * (size_t)shape.queries.count, own_place = key_place(shape, place.sample, own.row, place.head);
    const E *queries = (const E *)a.qkv + sample_row * shape.qkv_row, *keys = (const E *)a.keys + own_place;
    const E *values = keys + values_behind(shape), *douts = (const E *)a.dout + sample_row * d;

    float *row_stages = dynamic_shared<float>();                   /* two stages of lse and dots */
    uint32_t *bit_stages = (uint32_t *)(row_stages + 4 * QUERIES); /* two stages of kept bits, two words for each query */
    E *key_tile = (E *)(row_stages + 8 * QUERIES), *value_tile = key_tile + KEYS * tile_stride<WIDTH>,
      *stages = value_tile + KEYS * tile_stride<WIDTH>, *weight_stages = stages + 2 * tiles::STAGE;
    int lane = (int)threadIdx.x % 32, warp_row = (int)threadIdx.x / 32 * 16, warp_key = first + warp_row;
    int first_tile = tile_from(shape.queries, first, QUERIES), query_tiles = tiles_of(shape.queries, QUERIES);
    head_range readers = readers_of(shape, place.head);
    E *head_dk = (E *)a.dkeys + key_place(shape, place.sample, 0, place.head);
    float scale_log2 = shape.scale * LOG2_E;

    auto load_stage = [&](int turn, int head, int tile) {
        row_tile t = tile_of(shape.queries, tile, QUERIES);
        size_t head_column = (size_t)(head * width), head_row = rows_before(shape, place.sample, head) + (size_t)t.row;
        E *stage = stages + turn % 2 * tiles::STAGE;
        load_tile<E, WIDTH, QUERIES>(stage, queries + (size_t)t.row * shape.qkv_row + head_column, shape.qkv_row, t.rows, width, bytes);
        load_tile<E, WIDTH, QUERIES>(stage + QUERIES * tile_stride<WIDTH>, douts + (size_t)t.row * d + head_column, d, t.rows, width,
                                     bytes);
        if (a.weights)
            load_tile<E, KEYS, QUERIES>(weight_stages + turn % 2 * tiles::WEIGHTS,
                                        (const E *)a.weights + head_row * (size_t)T + (size_t)first, (size_t)T, t.rows, own.rows,
                                        shape.weight_bytes);
        int row = (int)threadIdx.x % QUERIES, part = (int)threadIdx.x / QUERIES;
        const float *from = part == 0 ? a.lse : a.dots;
        bool valid = from && row < t.rows;
        if (part < 2)
            copy_async<4>(row_stages + (turn % 2 * 2 + part) * QUERIES + row, valid ? from + head_row + (size_t)row : a.dots, valid);
        for (int i = (int)threadIdx.x; a.keeps_bits && i < 2 * QUERIES; i += ATTENTION_THREADS) {
            bool there = i / 2 < t.rows;
            copy_async<4>(bit_stages + turn % 2 * 2 * QUERIES + i,
                          there ? kept_bits(shape, head_dk, first, head - readers.first, t.position + i / 2, i % 2) : (uint32_t *)a.dots,
                          there);
        }
    };

    int next_head = first_tile < query_tiles ? readers.first : readers.end, next_tile = first_tile;
    load_tile<E, WIDTH, KEYS>(key_tile, keys, stride, own.rows, width, bytes);
    if (DK)
        load_tile<E, WIDTH, KEYS>(value_tile, values, stride, own.rows, width, bytes);
    if (next_head < readers.end)
        load_stage(0, next_head, next_tile);
    copy_async_commit();

    row_operand<E, WIDTH, 1, false> key, value;
    key.of(key_tile + warp_row * tile_stride<WIDTH>);
    value.of(value_tile + warp_row * tile_stride<WIDTH>);
    float dk[1][DK ? WIDTH / 8 : 1][4], dv[1][DV ? WIDTH / 8 : 1][4];
    clear(dk);
    clear(dv);

    /* All tiles of one query head, then of the next. */
    for (int turn = 0; next_head < readers.end; turn++) {
        int head = next_head, first_query = tile_of(shape.queries, next_tile, QUERIES).position;
        const E *query_tile = stages + turn % 2 * tiles::STAGE, *dout_tile = query_tile + QUERIES * tile_stride<WIDTH>;
        const float *lse = row_stages + turn % 2 * 2 * QUERIES + lane % 4 * 2, *dots = lse + QUERIES;
        if (++next_tile == query_tiles) {
            next_tile = first_tile;
            next_head++;
        }
        copy_async_wait<0>(); /* this stage has arrived, and no warp still reads the other one */
        __syncthreads();
        if (next_head < readers.end)
            load_stage(turn + 1, next_head, next_tile);
        copy_async_commit();
        if (warp_key > first_query + QUERIES - 1 || warp_key >= end)
            continue; /* none of these queries sees any key of the warp */
        float p[1][QUERIES / 8][4], dp[1][QUERIES / 8][4];
        clear(p);
        clear(dp);
        if (a.weights) {
            transposed_weights_of<E, KEYS, QUERIES>(p, weight_stages + turn % 2 * tiles::WEIGHTS +
                                                           (lane / 16 * 8 + lane % 8) * tile_stride<KEYS> + warp_row + lane / 8 % 2 * 8);
        } else {
            multiply_by_rows<E, WIDTH, 1, QUERIES>(p, key, query_tile);
            if (shape.alibi > 0)
                add_distances_transposed<QUERIES>(p, unscaled_slope(shape, head), warp_key + lane / 4, first_query + lane % 4 * 2);
            weights_from_transposed_scores<QUERIES>(p, lse, scale_log2, warp_key + lane / 4, first_query + lane % 4 * 2);
        }
        if (DK)
            multiply_by_rows<E, WIDTH, 1, QUERIES>(dp, value, dout_tile);
        const uint32_t *words = bit_stages + turn % 2 * 2 * QUERIES + lane % 4 * 2 * 2 + warp_row / 32;
        transposed_gradients<QUERIES>(dp, p, dots, head_dropout_of(shape, place.sample, head), shape.drop.scale, warp_key, first_query,
                                      a.keeps_bits ? words : nullptr);
        if constexpr (DV)
            multiply_accumulators<E, WIDTH, 1, QUERIES>(dv, p, dout_tile);
        if constexpr (DK)
            multiply_accumulators<E, WIDTH, 1, QUERIES>(dk, dp, query_tile);
    }

    if (first_tile >= query_tiles)
        copy_async_wait<0>(); /* no query sees these keys, and they are still on their way */
    if (a.keeps_bits || first_tile >= query_tiles)
        __syncthreads(); /* all warps have read the bits that these rows overwrite */
    E *to = (E *)a.dkeys + own_place + (size_t)warp_row * stride, *warp_tile = key_tile + warp_row * tile_stride<WIDTH>;
    const float key_scale[1][2] = {{shape.scale, shape.scale}}, value_scale[1][2] = {{shape.drop.scale, shape.drop.scale}};
    if constexpr (DK)
        store_accumulators<E, WIDTH, 1>(to, stride, end - warp_key, width, bytes, dk, key_scale, warp_tile,
                                        angles_of(a.rope, warp_key, width));
    if constexpr (DV)
        store_accumulators<E, WIDTH, 1>(to + values_behind(shape), stride, end - warp_key, width, bytes, dv, value_scale, warp_tile);
}

template <typename E, int WIDTH, bool DK, bool DV>
dt_status launch_keys(struct dt_stream *stream, size_t samples, const attention_backward &a)
{
    using tiles = key_tiles<WIDTH>;
    size_t count = (size_t)tiles_of(a.shape.keys, tiles::KEYS) * samples * (size_t)a.shape.key_heads;
    return launch("attention gradient", key_gradient_kernel<E, WIDTH, DK, DV>, dim3((unsigned)count), dim3(ATTENTION_THREADS),
                  tiles::bytes(sizeof(E), !a.weights), stream, a);
}

} // namespace

template <typename E> dt_status attention_backward_tensor(struct dt_stream *stream, size_t samples, const attention_backward &a)
{
    return for_width(a.shape.width, [&]<int WIDTH>() -> dt_status {
        using tiles = query_tiles<WIDTH>;
        size_t pairs = samples * (size_t)a.shape.heads, row_tiles = (size_t)tiles_of(a.shape.queries, tiles::ROWS);
        DT_TRY(launch("attention gradient", query_gradient_kernel<E, WIDTH>, dim3((unsigned)(row_tiles * pairs)), dim3(ATTENTION_THREADS),
                      tiles::elems(!a.weights) * sizeof(E), stream, a));
        if constexpr (WIDTH <= ATTENTION_ONE_KERNEL_WIDTH) {
            return launch_keys<E, WIDTH, true, true>(stream, samples, a);
        } else {
            DT_TRY((launch_keys<E, WIDTH, true, false>(stream, samples, a)));
            return launch_keys<E, WIDTH, false, true>(stream, samples, a);
        }
    });
}

template dt_status attention_backward_tensor<__half>(struct dt_stream *stream, size_t samples, const attention_backward &a);
template dt_status attention_backward_tensor<__nv_bfloat16>(struct dt_stream *stream, size_t samples, const attention_backward &a);

} // namespace gpt_cuda

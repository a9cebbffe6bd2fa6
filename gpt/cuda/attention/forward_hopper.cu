/* Attention forward on Hopper's tensor cores, for compute capability 9.0 only: compiled for sm_90a.
 *
 * A block has ROWS queries, 64 for each of two warpgroups, and loops over tiles of KEYS keys with
 * an online softmax, as forward.cu does. One thread of a third warpgroup copies queries,
 * keys and values to shared memory, two tiles ahead; it waits for the warps that read a tile, and
 * they wait for the tile. A warpgroup queues the scores of a tile, and after them the product of
 * weights and values of the tile before: softmax and dropout run during the second product. The two
 * warpgroups wait only for copies, not for each other, so that the softmax of one can run during
 * the products of the other.
 *
 * Floor: as in forward.cu, at the rate of wgmma.
 *
 * Source  Dao, "FlashAttention-2", ICLR 2024, algorithm 1; Shah et al., "FlashAttention-3", NeurIPS
 *         2024, sections 3.1 and 3.2: a warp that copies, and products of two tiles at a time. */
#include "gpt/cuda/attention/hopper.cuh"
#include "gpt/cuda/attention/rows.cuh"

namespace gpt_cuda {

namespace {

template <int WIDTH> struct hopper_tiles {
    static constexpr int GROUPS = 2, GROUP_ROWS = HOPPER_ROWS, ROWS = GROUPS * GROUP_ROWS, KEYS = 128, STAGES = 2;
    /* The block has registers for 168 in each thread. The copying warpgroup, in which one thread
     * works, gives most of its registers to the others. */
    static constexpr int THREADS = (GROUPS + 1) * 128, COPY_REGISTERS = 24, PRODUCT_REGISTERS = 240;
    /* A group's queries, which its output overwrites at the end. All sizes are multiples of 1024
     * bytes, at which the swizzle pattern repeats. */
    static constexpr int QUERY_ELEMS = GROUP_ROWS * tile_stride<WIDTH>, KEY_ELEMS = KEYS * WIDTH;
    static constexpr size_t ALIGNMENT = 1024, BYTES = 2 * (GROUPS * QUERY_ELEMS + STAGES * 2 * KEY_ELEMS);
};

/* In shared memory, after the tiles. */
template <int GROUPS, int STAGES> struct hopper_barriers {
    uint64_t queries, keys[STAGES], values[STAGES];  /* the data has arrived */
    uint64_t keys_read[STAGES], values_read[STAGES]; /* all warps have read the tile */
    uint64_t queries_read[GROUPS];                   /* the group's warps will not read them again */
};

template <typename E, int WIDTH>
__global__ void __launch_bounds__(hopper_tiles<WIDTH>::THREADS)
    hopper_forward_kernel(attention_forward a, const __grid_constant__ CUtensorMap map)
{
    wait_for_earlier();
    using tiles = hopper_tiles<WIDTH>;
    using barriers = hopper_barriers<tiles::GROUPS, tiles::STAGES>;
    constexpr int ROWS = tiles::ROWS, KEYS = tiles::KEYS, STAGES = tiles::STAGES;
    const attention_shape &shape = a.shape;
    int T = shape.T, row_tiles = (T + ROWS - 1) / ROWS;
    int group = (int)threadIdx.x / 128, warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
    attention_place place = place_of(shape.heads, row_tiles);
    auto again = [&] { return place_of(shape.heads, row_tiles); }; /* computed again, because the loop has no registers for them */
    int first = (row_tiles - 1 - place.tile) * ROWS;               /* the longest rows first */
    int seen = first + ROWS < T ? first + ROWS : T, key_tiles = (seen + KEYS - 1) / KEYS;
    int groups = first + tiles::GROUP_ROWS < T ? 2 : 1; /* number of groups that have rows */

    char *shared = dynamic_shared<char>();
    shared += -shared_address(shared) % (uint32_t)tiles::ALIGNMENT;
    E *query_tiles = (E *)shared, *key_tile = query_tiles + tiles::GROUPS * tiles::QUERY_ELEMS,
      *value_tile = key_tile + STAGES * tiles::KEY_ELEMS;
    barriers *b = (barriers *)(shared + tiles::BYTES);
    if (threadIdx.x == 0) {
        barrier_init(&b->queries, 1);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&b->keys[i], 1);
            barrier_init(&b->values[i], 1);
            barrier_init(&b->keys_read[i], groups * 4);
            barrier_init(&b->values_read[i], groups * 4);
        }
        for (int i = 0; i < tiles::GROUPS; i++)
            barrier_init(&b->queries_read[i], 4);
        barrier_init_fence();
    }
    __syncthreads();

    if (group == tiles::GROUPS) {
        registers_give<tiles::COPY_REGISTERS>();
        if (warp > 0 || lane > 0)
            return;
        int sample = (int)place.sample, key_head = shape.heads + key_head_of(shape, place.head), value_head = key_head + shape.key_heads;
        barrier_expect(&b->queries, groups * tiles::GROUP_ROWS * WIDTH * (int)sizeof(E));
        for (int i = 0; i < groups; i++)
            copy_tile<E, WIDTH, tiles::GROUP_ROWS>(query_tiles + i * tiles::QUERY_ELEMS, &map, &b->queries, place.head,
                                                   first + i * tiles::GROUP_ROWS, sample);
        for (int tile = 0; tile < key_tiles; tile++) {
            int stage = tile % STAGES, parity = (tile / STAGES - 1) & 1;
            if (tile >= STAGES)
                barrier_wait(&b->keys_read[stage], parity);
            barrier_expect(&b->keys[stage], tiles::KEY_ELEMS * (int)sizeof(E));
            copy_tile<E, WIDTH, KEYS>(key_tile + stage * tiles::KEY_ELEMS, &map, &b->keys[stage], key_head, tile * KEYS, sample);
            if (tile >= STAGES)
                barrier_wait(&b->values_read[stage], parity);
            barrier_expect(&b->values[stage], tiles::KEY_ELEMS * (int)sizeof(E));
            copy_tile<E, WIDTH, KEYS>(value_tile + stage * tiles::KEY_ELEMS, &map, &b->values[stage], value_head, tile * KEYS, sample);
        }
        return;
    }

    if (group >= groups)
        return;
    registers_take<tiles::PRODUCT_REGISTERS>();
    int warp_first = first + group * tiles::GROUP_ROWS + warp * 16, lane_row = warp_first + lane / 4, lane_key = lane % 4 * 2;
    E *queries = query_tiles + group * tiles::QUERY_ELEMS;
    float scale_log2 = shape.scale * LOG2_E;
    head_dropout dropped = head_dropout_of(shape, place.sample, place.head);
    auto softmax = [&](float(&s)[1][KEYS / 8][4], running<1> &rows, float(&shrink)[2], int first_key) {
        if (shape.alibi > 0)
            add_distances<1, KEYS>(s, unscaled_slope(shape, again().head), lane_row, first_key + lane_key);
        if (first_key + KEYS - 1 > warp_first)
            mask<1, KEYS>(s, lane_row, first_key + lane_key, T - 1);
#pragma unroll
        for (int half = 0; half < 2; half++)
            shrink[half] = online_softmax<1, KEYS>(s, rows, 0, half, scale_log2);
        if (dropped.threshold > 0)
            drop<1, KEYS>(s, dropped, lane_row, first_key);
    };

    float s[1][KEYS / 8][4], out[1][WIDTH / 8][4], shrink[2];
    uint32_t weights[KEYS / 16][4];
    running<1> rows;
    clear(out);
    begin(rows);
    barrier_wait(&b->queries, 0);
    barrier_wait(&b->keys[0], 0);
    wgmma_fence(s[0]);
    queue_by_rows<E, WIDTH, KEYS>(s[0], queries, key_tile);
    wgmma_commit();
    wgmma_wait<0>(s[0]);
    if (lane == 0)
        barrier_arrive(&b->keys_read[0]);
    softmax(s, rows, shrink, 0); /* there is no earlier output to rescale */
    round_operand<E>(weights, s[0]);
    for (int tile = 1; tile < key_tiles; tile++) {
        int stage = tile % STAGES, last = (tile - 1) % STAGES;
        barrier_wait(&b->keys[stage], tile / STAGES & 1);
        wgmma_fence(s[0]);
        queue_by_rows<E, WIDTH, KEYS>(s[0], queries, key_tile + stage * tiles::KEY_ELEMS);
        wgmma_commit();
        barrier_wait(&b->values[last], (tile - 1) / STAGES & 1);
        wgmma_fence(out[0], weights);
        queue_accumulators<E, WIDTH, KEYS>(out[0], weights, value_tile + last * tiles::KEY_ELEMS);
        wgmma_commit();
        wgmma_wait<1>(s[0]);
        if (lane == 0)
            barrier_arrive(&b->keys_read[stage]);
        softmax(s, rows, shrink, tile * KEYS);
        wgmma_wait<0>(out[0], weights);
        if (lane == 0)
            barrier_arrive(&b->values_read[last]);
#pragma unroll
        for (int half = 0; half < 2; half++)
            rescale<WIDTH>(out, 0, half, shrink[half]);
        round_operand<E>(weights, s[0]);
    }
    int last = (key_tiles - 1) % STAGES;
    if (lane == 0)
        barrier_arrive(&b->queries_read[group]);
    barrier_wait(&b->values[last], (key_tiles - 1) / STAGES & 1);
    wgmma_fence(out[0], weights);
    queue_accumulators<E, WIDTH, KEYS>(out[0], weights, value_tile + last * tiles::KEY_ELEMS);
    wgmma_commit();
    wgmma_wait<0>(out[0], weights);

    place = again();
    float factor[1][2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = rows.l[0][half];
        int row = lane_row + half * 8;
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        factor[0][half] = shape.drop.scale / sum;
        if (row < T && lane_key == 0)
            a.lse[rows_before(shape, place.sample, place.head) + (size_t)row] = rows.m[0][half] * shape.scale + logf(sum);
    }
    barrier_wait(&b->queries_read[group], 0); /* each warp stores its rows where its queries were */
    E *to = (E *)a.out + (place.sample * (size_t)T + (size_t)warp_first) * shape.d + (size_t)(place.head * shape.width);
    store_accumulators<E, WIDTH, 1>(to, shape.d, T - warp_first, shape.width, shape.row_bytes, out, factor,
                                    queries + warp * 16 * tile_stride<WIDTH>);
}

} // namespace

bool attention_fits_hopper(const attention_shape &shape, bool fused)
{
    return shape.key_row == shape.qkv_row && fused && shape.row_bytes == 16 && shape.width <= 128;
}

template <typename E> dt_status attention_forward_hopper(struct dt_stream *stream, size_t samples, const attention_forward &a)
{
    return for_width(a.shape.width, [&]<int WIDTH>() {
        if constexpr (WIDTH > 128) {
            return dt_fail(DT_ERR_INVALID, "attention: heads of %d columns have no warpgroup kernel", a.shape.width);
        } else {
            using tiles = hopper_tiles<WIDTH>;
            CUtensorMap map = {};
            if (stream)
                DT_TRY((map_of_heads<E, WIDTH>(a.qkv, a.shape.T, a.shape.width, a.shape.qkv_row, samples, &map)));
            size_t row_tiles = ((size_t)a.shape.T + tiles::ROWS - 1) / tiles::ROWS;
            size_t bytes = tiles::ALIGNMENT - 128 + tiles::BYTES + sizeof(hopper_barriers<tiles::GROUPS, tiles::STAGES>);
            return launch("attention, warpgroups", hopper_forward_kernel<E, WIDTH>,
                          dim3((unsigned)(row_tiles * samples * (size_t)a.shape.heads)), dim3(tiles::THREADS), bytes, stream, a, map);
        }
    });
}

template dt_status attention_forward_hopper<__half>(struct dt_stream *stream, size_t samples, const attention_forward &a);
template dt_status attention_forward_hopper<__nv_bfloat16>(struct dt_stream *stream, size_t samples, const attention_forward &a);

} // namespace gpt_cuda

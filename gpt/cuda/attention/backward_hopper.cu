/* Attention's gradient on Hopper's tensor cores, for compute capability 9.0 only: compiled for
 * sm_90a. Fused attention of whole samples, heads up to 128 columns.
 *
 * Two kernels, as in backward.cu, where the formulas are: one block computes each sum, so
 * that every run has the same bits. A block has two warpgroups. In the first kernel each has TILE
 * queries, loops over tiles of TILE keys up to its diagonal, and computes D and dq. In the second
 * one each has TILE keys, loops over tiles of TILE queries from its diagonal on, of every query head
 * that reads these keys, and computes dk and dv from transposed scores. A third warpgroup copies
 * the tiles of the other side to shared memory, two tiles ahead: it waits for the warps that read a
 * tile, and they wait for the tile. The two warpgroups wait only for copies, not for each other, so
 * that one can compute weights and gradients of scores during the products of the other.
 *
 * Floor: 5 products over half of the square, 5 * T^2 * width FLOPs for one head, at the rate of
 * wgmma; these kernels compute 7. Memory: as in backward.cu. For 64 queries by 64 keys of
 * 96 columns the 7 products take the tensor cores 1,344 clocks. They read 132 KiB of shared memory
 * (60 for dq, 72 for dk and dv: a product of 64 rows reads its right operand once for four warps),
 * and copies write 24 KiB: 1,248 clocks. So products are the limit, but not by much. Five products
 * in one kernel would need sums of dq outside of it. To have the same bits in every run they would
 * be fp32 sums of each 128 keys, which another kernel adds up: at T = 2,048 these are 6.7 MB for a
 * head of 96 columns, written and read in 4.0 us at 3.35 TB/s; the two products that this saves
 * take 0.8 us at 989 TFLOP/s. These numbers are counted, not measured.
 *
 * Limits: a block has the registers of its multiprocessor, so there is one block on each. With heads
 * of 128 columns a thread of the second kernel has 192 of its 232 registers for dk, dv, P and dS,
 * and keeps three values outside of registers; all other kernels have room for everything. Shared
 * memory is at most 134 KiB: the tiles that stay, and two stages of 32 KiB.
 *
 * Source  Dao, "FlashAttention-2", ICLR 2024, algorithm 2; Shah et al., "FlashAttention-3", NeurIPS
 *         2024, section 3.1 and appendix B.1: a warp that copies, in backward, too. */
#include "gpt/cuda/attention/gradients.cuh"
#include "gpt/cuda/attention/hopper.cuh"

namespace gpt_cuda {

namespace {

template <int WIDTH> struct gradient_tiles {
    static constexpr int GROUPS = 2, TILE = HOPPER_ROWS, ROWS = GROUPS * TILE, STAGES = 2;
    static constexpr int THREADS = (GROUPS + 1) * 128, COPY_REGISTERS = 40, PRODUCT_REGISTERS = 232; /* of 168 for each thread */
    /* A group has two tiles that stay. Its results overwrite the first one. A stage has two tiles. */
    static constexpr int ELEMS = TILE * WIDTH, FIRST_ELEMS = TILE * tile_stride<WIDTH>, STAGE_ELEMS = 2 * ELEMS;
    static constexpr size_t ALIGNMENT = 1024, BYTES = 2 * (GROUPS * (FIRST_ELEMS + ELEMS) + STAGES * STAGE_ELEMS);
};

/* In shared memory, after the tiles. */
template <int GROUPS, int STAGES, int TILE> struct gradient_shared {
    uint64_t own, there[STAGES]; /* the tiles that stay, and those of a stage, have arrived */
    uint64_t read[STAGES];       /* all warps have read the stage */
    uint64_t own_read[GROUPS];   /* the group's warps will not read its own tiles again */
    /* For dk and dv: rows of the stage's queries, and dropout's kept bits for each group's keys. */
    float lse[STAGES][TILE], dots[STAGES][TILE];
    uint32_t bits[STAGES][GROUPS][TILE][2];
};

/* A block's part of shared memory, and what its threads are. */
template <typename E, int WIDTH> struct gradient_block {
    using tiles = gradient_tiles<WIDTH>;
    using shared_data = gradient_shared<tiles::GROUPS, tiles::STAGES, tiles::TILE>;
    static constexpr size_t BYTES = tiles::ALIGNMENT - 128 + tiles::BYTES + sizeof(shared_data);

    E *tile;
    shared_data *b;
    int group, warp, lane;

    /* groups: that have rows; writers: threads that arrive when a stage is there. Ends with a
     * barrier. */
    __device__ gradient_block(int groups, int writers)
    {
        char *shared = dynamic_shared<char>();
        shared += -shared_address(shared) % (uint32_t)tiles::ALIGNMENT;
        tile = (E *)shared;
        b = (shared_data *)(shared + tiles::BYTES);
        group = (int)threadIdx.x / 128;
        warp = (int)threadIdx.x / 32 % 4;
        lane = (int)threadIdx.x % 32;
        if (threadIdx.x == 0) {
            barrier_init(&b->own, 1);
            for (int i = 0; i < tiles::STAGES; i++) {
                barrier_init(&b->there[i], writers);
                barrier_init(&b->read[i], groups * 4);
            }
            for (int i = 0; i < tiles::GROUPS; i++)
                barrier_init(&b->own_read[i], 4);
            barrier_init_fence();
        }
        __syncthreads();
    }
    __device__ E *first_of(int of_group) const
    {
        return tile + of_group * tiles::FIRST_ELEMS;
    }
    __device__ E *second_of(int of_group) const
    {
        return tile + tiles::GROUPS * tiles::FIRST_ELEMS + of_group * tiles::ELEMS;
    }
    __device__ E *stage_at(int stage) const
    {
        return second_of(tiles::GROUPS) + stage * tiles::STAGE_ELEMS;
    }
    /* Wait until all warps have read the tiles that were in this turn's stage. */
    __device__ void wait_for_room(int turn) const
    {
        if (turn >= tiles::STAGES)
            barrier_wait(&b->read[turn % tiles::STAGES], (turn / tiles::STAGES - 1) & 1);
    }
    __device__ void has_read(int turn) const
    {
        if (lane == 0)
            barrier_arrive(&b->read[turn % tiles::STAGES]);
    }
    /* The group's warps meet after their last product: each stores its rows where its group's were. */
    __device__ void meet() const
    {
        if (lane == 0)
            barrier_arrive(&b->own_read[group]);
        barrier_wait(&b->own_read[group], 0);
    }
    /* Copy two tiles of rows from `first` on, to a place for each. */
    __device__ void copy_pair(E *to, const CUtensorMap *map, int head, E *other, const CUtensorMap *other_map, int other_head,
                              uint64_t *barrier, int first, int sample) const
    {
        copy_tile<E, WIDTH, tiles::TILE>(to, map, barrier, head, first, sample);
        copy_tile<E, WIDTH, tiles::TILE>(other, other_map, barrier, other_head, first, sample);
    }
    static constexpr int PAIR_BYTES = 2 * tiles::ELEMS * (int)sizeof(E);
};

/* ---- dq ---- */

template <typename E, int WIDTH>
__global__ void __launch_bounds__(gradient_tiles<WIDTH>::THREADS, 1)
    hopper_query_gradient_kernel(attention_backward a, const __grid_constant__ CUtensorMap qkv_map,
                                 const __grid_constant__ CUtensorMap dout_map)
{
    wait_for_earlier();
    using tiles = gradient_tiles<WIDTH>;
    constexpr int TILE = tiles::TILE, STAGES = tiles::STAGES;
    const attention_shape &shape = a.shape;
    int T = shape.T, row_tiles = (T + tiles::ROWS - 1) / tiles::ROWS;
    attention_place place = place_of(shape.heads, row_tiles);
    int first = (row_tiles - 1 - place.tile) * tiles::ROWS; /* the longest rows first */
    int groups = first + TILE < T ? 2 : 1;
    gradient_block<E, WIDTH> block(groups, 1);
    auto *b = block.b;

    if (block.group == tiles::GROUPS) {
        registers_give<tiles::COPY_REGISTERS>();
        if (block.warp > 0 || block.lane > 0)
            return;
        int sample = (int)place.sample, key_head = shape.heads + key_head_of(shape, place.head), value_head = key_head + shape.key_heads;
        barrier_expect(&b->own, groups * block.PAIR_BYTES);
        for (int i = 0; i < groups; i++)
            block.copy_pair(block.first_of(i), &qkv_map, place.head, block.second_of(i), &dout_map, place.head, &b->own, first + i * TILE,
                            sample);
        for (int tile = 0; tile < first / TILE + groups; tile++) {
            int stage = tile % STAGES;
            E *keys = block.stage_at(stage);
            block.wait_for_room(tile);
            barrier_expect(&b->there[stage], block.PAIR_BYTES);
            block.copy_pair(keys, &qkv_map, key_head, keys + tiles::ELEMS, &qkv_map, value_head, &b->there[stage], tile * TILE, sample);
        }
        return;
    }

    if (block.group >= groups)
        return;
    registers_take<tiles::PRODUCT_REGISTERS>();
    int group_first = first + block.group * TILE, warp_first = group_first + block.warp * 16, lane = block.lane;
    int lane_row = warp_first + lane / 4, lane_key = lane % 4 * 2;
    size_t d = shape.d, column = (size_t)(place.head * shape.width), sample_row = place.sample * (size_t)T;
    size_t own_place = rows_before(shape, place.sample, place.head);
    E *queries = block.first_of(block.group), *douts = block.second_of(block.group);
    float scale_log2 = shape.scale * LOG2_E;
    head_dropout dropped = head_dropout_of(shape, place.sample, place.head);

    float lse_log2[1][2], dots[1][2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = lane_row + half * 8;
        bool there = row < T;
        size_t start = there ? (sample_row + (size_t)row) * d + column : 0;
        lse_log2[0][half] = there ? a.lse[own_place + (size_t)row] * LOG2_E : 0.0f;
        dots[0][half] = dot_of_row((const E *)a.dout + start, (const E *)a.out + start, there ? shape.width : 0, 16);
        if (there && lane % 4 == 0)
            a.dots[own_place + (size_t)row] = dots[0][half];
    }
    int key_head = key_head_of(shape, place.head), reader = place.head - readers_of(shape, key_head).first;
    E *head_dk = (E *)a.dkeys + key_place(shape, place.sample, 0, key_head);
    auto keep = [&](int row, int key, uint32_t bits) {
        int tile_key = key / BITS_KEYS * BITS_KEYS;
        if (a.keeps_bits && lane % 4 == 0 && row >= tile_key && row < T)
            *kept_bits(shape, head_dk, tile_key, reader, row, (key - tile_key) / 32) = bits;
    };
    float p[1][TILE / 8][4], dp[1][TILE / 8][4], dq[1][WIDTH / 8][4];
    uint32_t ds[TILE / 16][4];
    clear(dq);
    barrier_wait(&b->own, 0);

    /* The other group may have one more tile at the end. For that stage nobody waits. */
    for (int tile = 0; tile < group_first / TILE + 1; tile++) {
        int stage = tile % STAGES, first_key = tile * TILE;
        const E *keys = block.stage_at(stage), *values = keys + tiles::ELEMS;
        barrier_wait(&b->there[stage], tile / STAGES & 1);
        wgmma_fence(p[0], dp[0]);
        queue_by_rows<E, WIDTH, TILE>(p[0], queries, keys);
        wgmma_commit();
        queue_by_rows<E, WIDTH, TILE>(dp[0], douts, values);
        wgmma_commit();
        wgmma_wait<1>(p[0]);
        if (shape.alibi > 0)
            add_distances<1, TILE>(p, unscaled_slope(shape, place.head), lane_row, first_key + lane_key);
        weights_from_scores<1, TILE>(p, lse_log2, scale_log2, lane_row, first_key + lane_key);
        wgmma_wait<0>(dp[0]);
        score_gradients<1, TILE>(dp, p, dots, dropped, shape.drop.scale, lane_row, first_key, keep);
        round_operand<E>(ds, dp[0]);
        wgmma_fence(dq[0], ds);
        queue_accumulators<E, WIDTH, TILE>(dq[0], ds, keys);
        wgmma_commit();
        wgmma_wait<0>(dq[0], ds);
        block.has_read(tile);
    }
    block.meet();
    const float scale[1][2] = {{shape.scale, shape.scale}};
    store_accumulators<E, WIDTH, 1>((E *)a.dqkv + (sample_row + (size_t)warp_first) * shape.qkv_row + column, shape.qkv_row, T - warp_first,
                                    shape.width, 16, dq, scale, queries + block.warp * 16 * tile_stride<WIDTH>,
                                    angles_of(a.rope, warp_first, shape.width));
}

/* ---- dk and dv ---- */

template <typename E, int WIDTH>
__global__ void __launch_bounds__(gradient_tiles<WIDTH>::THREADS, 1)
    hopper_key_gradient_kernel(attention_backward a, const __grid_constant__ CUtensorMap qkv_map,
                               const __grid_constant__ CUtensorMap dout_map)
{
    wait_for_earlier();
    using tiles = gradient_tiles<WIDTH>;
    constexpr int TILE = tiles::TILE, STAGES = tiles::STAGES;
    static_assert(TILE == BITS_KEYS, "a group reads the kept bits of its own keys alone, which its results overwrite");
    const attention_shape &shape = a.shape;
    int T = shape.T, query_tiles = (T + TILE - 1) / TILE;
    attention_place place = place_of(shape.key_heads, (T + tiles::ROWS - 1) / tiles::ROWS);
    int first = place.tile * tiles::ROWS; /* the keys that most queries see first */
    int groups = first + TILE < T ? 2 : 1;
    head_range readers = readers_of(shape, place.head);
    E *head_dk = (E *)a.dkeys + key_place(shape, place.sample, 0, place.head);
    gradient_block<E, WIDTH> block(groups, 1 + 32);
    auto *b = block.b;
    int lane = block.lane;

    if (block.group == tiles::GROUPS) {
        registers_give<tiles::COPY_REGISTERS>();
        if (block.warp > 0)
            return;
        int sample = (int)place.sample, key_head = shape.heads + place.head, value_head = key_head + shape.key_heads;
        if (lane == 0) {
            barrier_expect(&b->own, groups * block.PAIR_BYTES);
            for (int i = 0; i < groups; i++)
                block.copy_pair(block.first_of(i), &qkv_map, key_head, block.second_of(i), &qkv_map, value_head, &b->own, first + i * TILE,
                                sample);
        }
        int turn = 0;
        for (int head = readers.first; head < readers.end; head++) {
            size_t head_row = rows_before(shape, place.sample, head);
            for (int tile = first / TILE; tile < query_tiles; tile++, turn++) {
                int stage = turn % STAGES;
                E *queries = block.stage_at(stage);
                block.wait_for_room(turn);
                if (lane == 0) {
                    barrier_expect(&b->there[stage], block.PAIR_BYTES);
                    block.copy_pair(queries, &qkv_map, head, queries + tiles::ELEMS, &dout_map, head, &b->there[stage], tile * TILE,
                                    sample);
                }
                for (int i = lane; i < TILE; i += 32) {
                    int row = tile * TILE + i;
                    b->lse[stage][i] = row < T ? a.lse[head_row + (size_t)row] : 0.0f;
                    b->dots[stage][i] = row < T ? a.dots[head_row + (size_t)row] : 0.0f;
                }
                for (int i = lane; a.keeps_bits && i < groups * TILE * 2; i += 32) {
                    int of_group = i / (TILE * 2), row = tile * TILE + i / 2 % TILE, key = first + of_group * TILE;
                    b->bits[stage][of_group][i / 2 % TILE][i % 2] =
                        row >= key && row < T ? *kept_bits(shape, head_dk, key, head - readers.first, row, i % 2) : 0;
                }
                barrier_arrive(&b->there[stage]);
            }
        }
        return;
    }

    if (block.group >= groups)
        return;
    registers_take<tiles::PRODUCT_REGISTERS>();
    int group_first = first + block.group * TILE, warp_row = block.warp * 16, warp_key = group_first + warp_row;
    E *keys = block.first_of(block.group), *values = block.second_of(block.group);
    float scale_log2 = shape.scale * LOG2_E;
    float p[1][TILE / 8][4], dp[1][TILE / 8][4], dk[1][WIDTH / 8][4], dv[1][WIDTH / 8][4];
    uint32_t weights[TILE / 16][4], ds[TILE / 16][4];
    clear(dk);
    clear(dv);
    barrier_wait(&b->own, 0);

    int turn = 0;
    for (int head = readers.first; head < readers.end; head++)
        for (int tile = first / TILE; tile < query_tiles; tile++, turn++) {
            int stage = turn % STAGES, first_query = tile * TILE;
            const E *queries = block.stage_at(stage), *douts = queries + tiles::ELEMS;
            barrier_wait(&b->there[stage], turn / STAGES & 1);
            if (first_query < group_first) { /* none of these queries sees a key of the group */
                __syncwarp();                /* all lanes have seen that the stage was there */
                block.has_read(turn);
                continue;
            }
            wgmma_fence(p[0], dp[0]);
            queue_by_rows<E, WIDTH, TILE>(p[0], keys, queries);
            wgmma_commit();
            queue_by_rows<E, WIDTH, TILE>(dp[0], values, douts);
            wgmma_commit();
            wgmma_wait<1>(p[0]);
            int lane_query = lane % 4 * 2;
            if (shape.alibi > 0)
                add_distances_transposed<TILE>(p, unscaled_slope(shape, head), warp_key + lane / 4, first_query + lane_query);
            weights_from_transposed_scores<TILE>(p, &b->lse[stage][lane_query], scale_log2, warp_key + lane / 4, first_query + lane_query);
            wgmma_wait<0>(dp[0]);
            transposed_gradients<TILE>(dp, p, &b->dots[stage][lane_query], head_dropout_of(shape, place.sample, head), shape.drop.scale,
                                       warp_key, first_query,
                                       a.keeps_bits ? &b->bits[stage][block.group][lane_query][warp_row / 32] : nullptr);
            round_operand<E>(weights, p[0]);
            round_operand<E>(ds, dp[0]);
            wgmma_fence(dv[0], weights, dk[0], ds);
            queue_accumulators<E, WIDTH, TILE>(dv[0], weights, douts);
            queue_accumulators<E, WIDTH, TILE>(dk[0], ds, queries);
            wgmma_commit();
            wgmma_wait<0>(dv[0], weights, dk[0], ds);
            block.has_read(turn);
        }
    block.meet();
    E *to = (E *)a.dkeys + key_place(shape, place.sample, warp_key, place.head), *warp_tile = keys + warp_row * tile_stride<WIDTH>;
    const float key_scale[1][2] = {{shape.scale, shape.scale}}, value_scale[1][2] = {{shape.drop.scale, shape.drop.scale}};
    store_accumulators<E, WIDTH, 1>(to, shape.key_row, T - warp_key, shape.width, 16, dk, key_scale, warp_tile,
                                    angles_of(a.rope, warp_key, shape.width));
    store_accumulators<E, WIDTH, 1>(to + values_behind(shape), shape.key_row, T - warp_key, shape.width, 16, dv, value_scale, warp_tile);
}

} // namespace

template <typename E> dt_status attention_backward_hopper(struct dt_stream *stream, size_t samples, const attention_backward &a)
{
    return for_width(a.shape.width, [&]<int WIDTH>() -> dt_status {
        if constexpr (WIDTH > 128) {
            return dt_fail(DT_ERR_INVALID, "attention gradient: heads of %d columns have no warpgroup kernel", a.shape.width);
        } else {
            using tiles = gradient_tiles<WIDTH>;
            const attention_shape &s = a.shape;
            CUtensorMap qkv_map = {}, dout_map = {};
            DT_TRY((map_of_heads<E, WIDTH>(a.qkv, s.T, s.width, s.qkv_row, samples, &qkv_map)));
            DT_TRY((map_of_heads<E, WIDTH>(a.dout, s.T, s.width, s.d, samples, &dout_map)));
            size_t blocks = ((size_t)s.T + tiles::ROWS - 1) / tiles::ROWS * samples, bytes = gradient_block<E, WIDTH>::BYTES;
            DT_TRY(launch("attention gradient, warpgroups", hopper_query_gradient_kernel<E, WIDTH>,
                          dim3((unsigned)(blocks * (size_t)s.heads)), dim3(tiles::THREADS), bytes, stream, a, qkv_map, dout_map));
            return launch("attention gradient, warpgroups", hopper_key_gradient_kernel<E, WIDTH>,
                          dim3((unsigned)(blocks * (size_t)s.key_heads)), dim3(tiles::THREADS), bytes, stream, a, qkv_map, dout_map);
        }
    });
}

template dt_status attention_backward_hopper<__half>(struct dt_stream *stream, size_t samples, const attention_backward &a);
template dt_status attention_backward_hopper<__nv_bfloat16>(struct dt_stream *stream, size_t samples, const attention_backward &a);

} // namespace gpt_cuda

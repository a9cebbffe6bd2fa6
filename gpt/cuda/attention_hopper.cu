/* Attention forward on Hopper's tensor cores, for compute capability 9.0 only: compiled for sm_90a.
 *
 * A block has ROWS queries, 64 for each of two warpgroups, and loops over tiles of KEYS keys with
 * an online softmax, as attention_forward.cu does. One thread of a third warpgroup copies queries,
 * keys and values to shared memory, two tiles ahead; it waits for the warps that read a tile, and
 * they wait for the tile. A warpgroup queues the scores of a tile, and after them the product of
 * weights and values of the tile before: softmax and dropout run during the second product. The two
 * warpgroups wait only for copies, not for each other, so that the softmax of one can run during
 * the products of the other.
 *
 * Tiles in shared memory are [WIDTH / CHUNK][rows][CHUNK]. A row of a chunk is the unit that a copy
 * swizzles: the largest of 128, 64 and 32 bytes that divides a padded row. The padding columns of a
 * head, and rows after the sample, are zeros, because the tensor of the copy ends before them.
 *
 * Floor: as in attention_forward.cu, at the rate of wgmma.
 *
 * Source  Dao, "FlashAttention-2", ICLR 2024, algorithm 1; Shah et al., "FlashAttention-3", NeurIPS
 *         2024, sections 3.1 and 3.2: a warp that copies, and products of two tiles at a time. */
#include "gpt/cuda/attention_rows.cuh"
#include "gpt/cuda/hopper.cuh"

namespace gpt_cuda {

namespace {

template <int WIDTH> struct hopper_tiles {
    static constexpr int GROUPS = 2, GROUP_ROWS = 64, ROWS = GROUPS * GROUP_ROWS, KEYS = 128, STAGES = 2;
    static constexpr int CHUNK = WIDTH % 64 == 0 ? 64 : WIDTH % 32 == 0 ? 32 : 16, SPAN = CHUNK * 2;
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

/* Copy the chunks of 64 rows of a head, from row `first` on, to a tile of TILE_ROWS rows. */
template <typename E, int WIDTH, int TILE_ROWS>
__device__ inline void copy_rows(E *to, const CUtensorMap *map, uint64_t *barrier, int head, int first, int sample)
{
    using tiles = hopper_tiles<WIDTH>;
#pragma unroll
    for (int chunk = 0; chunk < WIDTH / tiles::CHUNK; chunk++)
        copy_box(to + chunk * TILE_ROWS * tiles::CHUNK, map, barrier, chunk * tiles::CHUNK, head, first, sample);
}

template <typename E, int WIDTH>
__device__ inline void copy_keys(E *to, const CUtensorMap *map, uint64_t *barrier, int head, int first, int sample)
{
    using tiles = hopper_tiles<WIDTH>;
    barrier_expect(barrier, tiles::KEY_ELEMS * (int)sizeof(E));
#pragma unroll
    for (int row = 0; row < tiles::KEYS; row += 64)
        copy_rows<E, WIDTH, tiles::KEYS>(to + row * tiles::CHUNK, map, barrier, head, first + row, sample);
}

/* s [64, KEYS] = the group's queries * keys^T. */
template <typename E, int WIDTH>
__device__ inline void queue_scores(float (&s)[hopper_tiles<WIDTH>::KEYS / 8][4], const E *queries, const E *keys)
{
    using tiles = hopper_tiles<WIDTH>;
#pragma unroll
    for (int column = 0; column < WIDTH; column += 16) {
        int chunk = column / tiles::CHUNK, within = column % tiles::CHUNK;
        wgmma_shared<E, tiles::KEYS>(s, matrix_at<tiles::SPAN>(queries + chunk * tiles::GROUP_ROWS * tiles::CHUNK + within, 16),
                                     matrix_at<tiles::SPAN>(keys + chunk * tiles::KEYS * tiles::CHUNK + within, 16), column > 0);
    }
}

/* out [64, WIDTH] += weights * values. */
template <typename E, int WIDTH>
__device__ inline void queue_output(float (&out)[WIDTH / 8][4], const uint32_t (&weights)[hopper_tiles<WIDTH>::KEYS / 16][4],
                                    const E *values)
{
    using tiles = hopper_tiles<WIDTH>;
#pragma unroll
    for (int key = 0; key < tiles::KEYS; key += 16)
        wgmma_registers<E, WIDTH>(out, weights[key / 16], matrix_at<tiles::SPAN>(values + key * tiles::CHUNK, tiles::KEYS * tiles::SPAN));
}

/* Round weights to E, as left operands. */
template <typename E, int COUNT> __device__ inline void round_weights(uint32_t (&to)[COUNT / 2][4], const float (&s)[COUNT][4])
{
#pragma unroll
    for (int step = 0; step < COUNT / 2; step++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[step][i] = two_of<E>(s[step * 2 + i / 2][i % 2 * 2], s[step * 2 + i / 2][i % 2 * 2 + 1]);
}

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
            copy_rows<E, WIDTH, tiles::GROUP_ROWS>(query_tiles + i * tiles::QUERY_ELEMS, &map, &b->queries, place.head,
                                                   first + i * tiles::GROUP_ROWS, sample);
        for (int tile = 0; tile < key_tiles; tile++) {
            int stage = tile % STAGES, parity = (tile / STAGES - 1) & 1;
            if (tile >= STAGES)
                barrier_wait(&b->keys_read[stage], parity);
            copy_keys<E, WIDTH>(key_tile + stage * tiles::KEY_ELEMS, &map, &b->keys[stage], key_head, tile * KEYS, sample);
            if (tile >= STAGES)
                barrier_wait(&b->values_read[stage], parity);
            copy_keys<E, WIDTH>(value_tile + stage * tiles::KEY_ELEMS, &map, &b->values[stage], value_head, tile * KEYS, sample);
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
    queue_scores<E, WIDTH>(s[0], queries, key_tile);
    wgmma_commit();
    wgmma_wait<0>(s[0]);
    if (lane == 0)
        barrier_arrive(&b->keys_read[0]);
    softmax(s, rows, shrink, 0); /* there is no earlier output to rescale */
    round_weights<E>(weights, s[0]);
    for (int tile = 1; tile < key_tiles; tile++) {
        int stage = tile % STAGES, last = (tile - 1) % STAGES;
        barrier_wait(&b->keys[stage], tile / STAGES & 1);
        wgmma_fence(s[0]);
        queue_scores<E, WIDTH>(s[0], queries, key_tile + stage * tiles::KEY_ELEMS);
        wgmma_commit();
        barrier_wait(&b->values[last], (tile - 1) / STAGES & 1);
        wgmma_fence(out[0], weights);
        queue_output<E, WIDTH>(out[0], weights, value_tile + last * tiles::KEY_ELEMS);
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
        round_weights<E>(weights, s[0]);
    }
    int last = (key_tiles - 1) % STAGES;
    if (lane == 0)
        barrier_arrive(&b->queries_read[group]);
    barrier_wait(&b->values[last], (key_tiles - 1) / STAGES & 1);
    wgmma_fence(out[0], weights);
    queue_output<E, WIDTH>(out[0], weights, value_tile + last * tiles::KEY_ELEMS);
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

/* The tensor map of qkv as [samples, T, heads of q, k and v, width], in boxes of 64 rows of a
 * head's chunk. */
template <typename E, int WIDTH> dt_status map_of(const attention_forward &a, size_t samples, CUtensorMap *map)
{
    using tiles = hopper_tiles<WIDTH>;
    const attention_shape &s = a.shape;
    cuuint64_t sizes[] = {(cuuint64_t)s.width, (cuuint64_t)(s.heads + 2 * s.key_heads), (cuuint64_t)s.T, samples};
    cuuint64_t bytes[] = {s.width * sizeof(E), s.qkv_row * sizeof(E), s.T * s.qkv_row * sizeof(E)};
    cuuint32_t box[] = {tiles::CHUNK, 1, 64, 1};
    return tensor_map<E, tiles::SPAN>("attention", a.qkv, sizes, bytes, box, map);
}

} // namespace

bool attention_fits_hopper(const attention_forward &a)
{
    return a.shape.key_row == a.shape.qkv_row && !a.weights && a.lse && a.shape.row_bytes == 16 && a.shape.width <= 128;
}

template <typename E> dt_status attention_forward_hopper(struct dt_stream *stream, size_t samples, const attention_forward &a)
{
    return for_width(a.shape.width, [&](auto padded) {
        constexpr int WIDTH = decltype(padded)::value;
        if constexpr (WIDTH > 128) {
            return dt_fail(DT_ERR_INVALID, "attention: heads of %d columns have no warpgroup kernel", a.shape.width);
        } else {
            using tiles = hopper_tiles<WIDTH>;
            CUtensorMap map = {};
            if (stream)
                DT_TRY((map_of<E, WIDTH>(a, samples, &map)));
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

/* The gradient of down(gelu(hidden)) in one kernel on Hopper's tensor cores, for compute capability
 * 9.0 only: compiled for sm_90a. cuBLASLt's epilogues have only GELU's tanh form. Here the exact
 * form is the end of the product, so that the result is written once, as the gradient of `hidden`,
 * and one read of `hidden` also gives GELU's output and the sums of the bias's gradient.
 *
 * A block computes ROWS rows and COLUMNS columns of dx = dy * w, ROWS / 2 rows in each of two
 * warpgroups. One thread of a third warpgroup copies tiles of dy and w, DEPTH deep, to shared
 * memory, STAGES ahead; it waits for the warps that read a tile, and they wait for the tile. The
 * two warpgroups wait only for copies, not for each other, so that one can compute while the other
 * waits for its products. Rows and columns after the arrays' ends are zeros, because the tensors of
 * the copies end there.
 *
 * Floor: 2 rows * in * out operations at the rate of wgmma; hidden is read, dx and active are
 * written once. A product of 64 rows, 128 columns and depth 16 takes the tensor cores 64 clocks,
 * and reads 6 KiB of shared memory, 48 clocks. */
#include "gpt/cuda/columns.cuh"
#include "gpt/cuda/gelu.cuh"
#include "gpt/cuda/hopper.cuh"
#include "gpt/cuda/mma.cuh"

namespace gpt_cuda {

namespace {

struct gelu_tiles {
    static constexpr int GROUPS = 2, GROUP_ROWS = 64, ROWS = GROUPS * GROUP_ROWS, WARPS = GROUPS * 4;
    static constexpr int HALVES = 2, HALF = 128, COLUMNS = HALVES * HALF; /* of each of a warpgroup's products */
    static constexpr int DEPTH = 64, SPAN = DEPTH * 2, STAGES = 3;
    static constexpr int THREADS = (GROUPS + 1) * 128, COPY_REGISTERS = 24, PRODUCT_REGISTERS = 240; /* as in attention/forward_hopper.cu */
    /* [ROWS][DEPTH] of dy, and [COLUMNS / DEPTH][DEPTH][DEPTH] of w: rows in memory have SPAN
     * bytes, which the copies swizzle. */
    static constexpr int DY_ELEMS = ROWS * DEPTH, CHUNK_ELEMS = DEPTH * DEPTH, STAGE_ELEMS = DY_ELEMS + COLUMNS * DEPTH;
    static constexpr size_t ALIGNMENT = 1024, BYTES = 2 * STAGES * STAGE_ELEMS;
};

/* In shared memory, after the tiles. */
struct gelu_shared {
    uint64_t there[gelu_tiles::STAGES], read[gelu_tiles::STAGES]; /* a tile has arrived; all warps have read it */
    uint64_t summed;                                              /* the sums are complete */
    float sums[gelu_tiles::WARPS][gelu_tiles::COLUMNS];
};

template <typename E> struct gelu_gradient {
    const E *hidden;
    E *dx, *active;  /* active: may be hidden, or NULL */
    float *partials; /* [tiles of rows, columns] sums of dx's columns, or NULL */
    size_t rows, columns;
    int depth;
};

/* Transpose four words of each lane of a quad: word i of lane j becomes word j of lane i. Before,
 * each lane has two columns of each of four octets of a row, as in an accumulator; afterwards it
 * has one whole octet. The same call does the reverse. */
__device__ inline void turn_quad(uint32_t (&words)[4])
{
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
        bool upper = threadIdx.x & distance;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & distance)
                continue;
            uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + distance], distance);
            words[i] = upper ? got : words[i];
            words[i + distance] = upper ? words[i + distance] : got;
        }
    }
}

/* Eight sums of each lane over the eight lanes with the same columns (lane % 4), in a fixed order;
 * lane l gets that of sums[l / 4]. */
__device__ inline float sum_of_rows(float (&sums)[8])
{
#pragma unroll
    for (int distance = 16, left = 4; left > 0; distance /= 2, left /= 2) {
        bool upper = threadIdx.x & distance;
#pragma unroll
        for (int i = 0; i < left; i++) {
            float got = __shfl_xor_sync(0xffffffffu, upper ? sums[i] : sums[i + left], distance);
            sums[i] = (upper ? sums[i + left] : sums[i]) + got;
        }
    }
    return sums[0];
}

/* For 32 columns of two rows, 8 apart, of each quad of a warp: d, the accumulators of four octets,
 * times GELU's derivative. Returns the sum of one column for this lane over the warp's rows: column
 * lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2. first: the row of half 0; column: the first column of
 * this lane's octet. */
template <typename E> __device__ inline float end_of_columns(const gelu_gradient<E> &a, const float (*d)[4], size_t first, size_t column)
{
    float sums[8] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        size_t row = first + (size_t)half * 8, at = row * a.columns + column;
        bool inside = row < a.rows && column < a.columns;
        pack<uint32_t, 4> x = {}, dx;
        if (inside)
            x = *reinterpret_cast<const pack<uint32_t, 4> *>(a.hidden + at);
        turn_quad(x.at);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 h = floats_of<E>(x.at[i]);
            dx.at[i] = two_of<E>(gelu_gradient_op::apply(d[i][half * 2], h.x), gelu_gradient_op::apply(d[i][half * 2 + 1], h.y));
            x.at[i] = two_of<E>(gelu_op::apply(0, h.x), gelu_op::apply(0, h.y));
            float2 rounded = floats_of<E>(dx.at[i]);
            sums[i * 2] += rounded.x;
            sums[i * 2 + 1] += rounded.y;
        }
        turn_quad(dx.at);
        turn_quad(x.at);
        if (inside)
            *reinterpret_cast<pack<uint32_t, 4> *>(a.dx + at) = dx;
        if (inside && a.active)
            *reinterpret_cast<pack<uint32_t, 4> *>(a.active + at) = x;
    }
    return sum_of_rows(sums);
}

template <typename E>
__global__ void __launch_bounds__(gelu_tiles::THREADS)
    gelu_gradient_kernel(gelu_gradient<E> a, const __grid_constant__ CUtensorMap dy_map, const __grid_constant__ CUtensorMap w_map)
{
    wait_for_earlier();
    using tiles = gelu_tiles;
    int group = (int)threadIdx.x / 128, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    unsigned row_tiles = (unsigned)((a.rows + tiles::ROWS - 1) / tiles::ROWS), row_tile = blockIdx.x % row_tiles;
    int first_row = (int)row_tile * tiles::ROWS, first_column = (int)(blockIdx.x / row_tiles) * tiles::COLUMNS;
    int steps = (a.depth + tiles::DEPTH - 1) / tiles::DEPTH;

    char *shared = dynamic_shared<char>();
    shared += -shared_address(shared) % (uint32_t)tiles::ALIGNMENT;
    gelu_shared *b = (gelu_shared *)(shared + tiles::BYTES);
    auto dy_tile = [&](int stage) { return (E *)shared + stage * tiles::STAGE_ELEMS; };
    auto w_tile = [&](int stage) { return dy_tile(stage) + tiles::DY_ELEMS; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < tiles::STAGES; i++) {
            barrier_init(&b->there[i], 1);
            barrier_init(&b->read[i], tiles::WARPS);
        }
        barrier_init(&b->summed, tiles::WARPS);
        barrier_init_fence();
    }
    __syncthreads();

    if (group == tiles::GROUPS) {
        registers_give<tiles::COPY_REGISTERS>();
        if (threadIdx.x % 128 > 0)
            return;
        for (int step = 0; step < steps; step++) {
            int stage = step % tiles::STAGES, depth = step * tiles::DEPTH;
            if (step >= tiles::STAGES)
                barrier_wait(&b->read[stage], (step / tiles::STAGES - 1) & 1);
            barrier_expect(&b->there[stage], tiles::STAGE_ELEMS * (int)sizeof(E));
            copy_box(dy_tile(stage), &dy_map, &b->there[stage], depth, first_row, 0, 0);
#pragma unroll
            for (int chunk = 0; chunk < tiles::COLUMNS / tiles::DEPTH; chunk++)
                copy_box(w_tile(stage) + chunk * tiles::CHUNK_ELEMS, &w_map, &b->there[stage], first_column + chunk * tiles::DEPTH, depth,
                         0, 0);
        }
        return;
    }

    registers_take<tiles::PRODUCT_REGISTERS>();
    float d[tiles::HALVES][tiles::HALF / 8][4];
    for (int step = 0; step < steps; step++) {
        int stage = step % tiles::STAGES;
        const E *dy = dy_tile(stage) + group * tiles::GROUP_ROWS * tiles::DEPTH, *w = w_tile(stage);
        barrier_wait(&b->there[stage], step / tiles::STAGES & 1);
        wgmma_fence(d[0], d[1]);
#pragma unroll
        for (int k = 0; k < tiles::DEPTH; k += 16)
#pragma unroll
            for (int half = 0; half < tiles::HALVES; half++)
                wgmma_shared_n_major<E, tiles::HALF>(
                    d[half], matrix_at<tiles::SPAN>(dy + k, 16),
                    matrix_at<tiles::SPAN>(w + half * (tiles::HALF / tiles::DEPTH) * tiles::CHUNK_ELEMS + k * tiles::DEPTH,
                                           tiles::CHUNK_ELEMS * (int)sizeof(E)),
                    step + k > 0);
        wgmma_commit();
        wgmma_wait<0>(d[0], d[1]);
        if (lane == 0)
            barrier_arrive(&b->read[stage]);
    }

    size_t row = (size_t)(first_row + warp * 16 + lane / 4);
#pragma unroll
    for (int octet = 0; octet < tiles::COLUMNS / 8; octet += 4) {
        int column = octet * 8;
        float sum =
            end_of_columns<E>(a, &d[column / tiles::HALF][octet % (tiles::HALF / 8)], row, (size_t)(first_column + column + lane % 4 * 8));
        b->sums[warp][column + lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2] = sum;
    }
    if (!a.partials)
        return;
    __syncwarp();
    if (lane == 0)
        barrier_arrive(&b->summed);
    barrier_wait(&b->summed, 0);
    size_t own = (size_t)first_column + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < tiles::WARPS; i++)
        sum += b->sums[i][threadIdx.x];
    if (own < a.columns)
        a.partials[row_tile * a.columns + own] = sum;
}

/* The tensor map of [rows, columns] in boxes of box_rows rows of DEPTH columns. */
template <typename E> dt_status matrix_map(const void *from, size_t rows, size_t columns, int box_rows, CUtensorMap *map)
{
    cuuint64_t sizes[] = {columns, rows, 1, 1}, row = columns * sizeof(E), bytes[] = {row, rows * row, rows * row};
    cuuint32_t box[] = {gelu_tiles::DEPTH, (cuuint32_t)box_rows, 1, 1};
    return tensor_map<E, gelu_tiles::SPAN>("gelu gradient", from, sizes, bytes, box, map);
}

template <typename E>
dt_status gelu_gradient_product(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_gelu_gradient_sums *sums)
{
    using tiles = gelu_tiles;
    const struct gpt_linear_input_gradient *p = &sums->product.linear;
    size_t row_tiles = (p->rows + tiles::ROWS - 1) / tiles::ROWS, column_tiles = (p->in + tiles::COLUMNS - 1) / tiles::COLUMNS;
    CUtensorMap dy_map = {}, w_map = {};
    DT_TRY(matrix_map<E>(p->dy, p->rows, p->out, tiles::ROWS, &dy_map));
    DT_TRY(matrix_map<E>(p->w, p->out, p->in, tiles::DEPTH, &w_map));
    if (sums->db)
        DT_TRY(gpt_cuda_scratch(k, row_tiles * p->in * sizeof(float)));
    float *partials = sums->db ? (float *)k->scratch.data : nullptr;
    gelu_gradient<E> a = {(const E *)sums->product.hidden, (E *)p->dx, (E *)sums->active, partials, p->rows, p->in, (int)p->out};
    DT_TRY(launch("gelu gradient, warpgroups", gelu_gradient_kernel<E>, dim3((unsigned)(row_tiles * column_tiles)), dim3(tiles::THREADS),
                  tiles::ALIGNMENT - 128 + tiles::BYTES + sizeof(gelu_shared), stream, a, dy_map, w_map));
    if (!sums->db)
        return DT_OK;
    return combine_columns<E, 1>("gelu gradient", stream, {{(E *)sums->db}}, partials, row_tiles, p->in, sums->accumulate);
}

} // namespace

} // namespace gpt_cuda

extern "C" bool gpt_cuda_gelu_gradient_fits(const struct gpt_kernels *k, const struct gpt_gelu_gradient_sums *a)
{
    const struct gpt_linear_input_gradient *p = &a->product.linear;
    uintptr_t all = (uintptr_t)p->dy | (uintptr_t)p->w | (uintptr_t)a->product.hidden | (uintptr_t)p->dx | (uintptr_t)a->active;
    return (k->base->trials.in_use & GPT_CUDA_HOPPER_GELU) && gpt_of(&k->model)->mlp == GPT_MLP_GELU && k->model.dtype != DT_FP32 &&
           p->rows > 0 && p->in % 8 == 0 && p->out % 8 == 0 && p->in > 0 && p->out > 0 && all % 16 == 0;
}

extern "C" dt_status gpt_cuda_gelu_gradient_in_one(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_gelu_gradient_sums *a)
{
    return (k->model.dtype == DT_FP16 ? gpt_cuda::gelu_gradient_product<__half> : gpt_cuda::gelu_gradient_product<__nv_bfloat16>)(k, stream,
                                                                                                                                  a);
}

/* Rotary position embedding: a table of all angles, computed once, and a pass over q and k in
 * place. Floor: q and k are read and written once; the table, 4 * w bytes for each position, stays
 * in the caches. A warp computes a part of a row, and a lane 16 bytes of both halves of a head.
 * Backward it is part of attention's gradient (gpt_cuda_attention_rope_gradient), which stores each
 * row of dq and dk once. Forward, attention does not rotate keys as it loads them, because every
 * tile of queries would rotate them again, and backward would do so twice. Counted by bytes of
 * shared memory against bytes of device memory, that costs as much as this pass at about 2,000
 * positions, and more above. */
#include "gpt/cuda/kernels.cuh"
extern "C" {
#include "gpt/position.h"
}

namespace {

using namespace gpt_cuda;

enum { ROPE_LANES = 32, ROPE_ROWS = 8, ROPE_BLOCKS = 16, ROPE_ACCESSES = 4, TABLE_THREADS = 256, MOST_PAIRS = 256 };

/* Radians per position of each pair. */
struct frequencies {
    double of_pair[MOST_PAIRS];
};

/* table [T, 2, half]: cosines and sines of every position. The angle is a double: as a float that
 * of position 32,767 would be wrong by 2^-9. */
__global__ void __launch_bounds__(TABLE_THREADS) table_kernel(float *table, frequencies f, size_t T, int half)
{
    wait_for_earlier();
    size_t i = blockIdx.x * (size_t)TABLE_THREADS + threadIdx.x, position = i / (size_t)half;
    int pair = (int)(i % (size_t)half);
    if (position >= T)
        return;
    double angle = (double)position * f.of_pair[pair];
    table[position * 2 * (size_t)half + (size_t)pair] = (float)cos(angle);
    table[(position * 2 + 1) * (size_t)half + (size_t)pair] = (float)sin(angle);
}

/* x [rows, columns], of which the first heads * 2 * half columns are rotated; direction -1: back.
 * half is a multiple of N. */
template <typename E, int N>
__global__ void __launch_bounds__(ROPE_LANES *ROPE_ROWS)
    rope_kernel(E *x, const float *table, size_t rows, int heads, int half, size_t columns, row_positions where, float direction)
{
    wait_for_earlier();
    int packs = half / N, items = heads * packs;
    for (size_t row = blockIdx.x * (size_t)ROPE_ROWS + threadIdx.y; row < rows; row += gridDim.x * (size_t)ROPE_ROWS) {
        const float *cosines = table + where.at((uint32_t)row).position * 2 * (size_t)half, *sines = cosines + half;
        for (int i = (int)(blockIdx.y * ROPE_LANES + threadIdx.x); i < items; i += (int)gridDim.y * ROPE_LANES) {
            int pair = i % packs * N;
            E *first = x + row * columns + (size_t)(i / packs) * 2 * (size_t)half + (size_t)pair, *second = first + half;
            pack<E, N> a = load_pack<N>(first), b = load_pack<N>(second);
#pragma unroll
            for (int j = 0; j < N; j++)
                turn_pair(a.at[j], b.at[j], cosines[pair + j], sines[pair + j] * direction);
            store_pack<N>(first, a);
            store_pack<N>(second, b);
        }
    }
}

} // namespace

extern "C" dt_status gpt_cuda_rope_create(struct gpt_kernels *k, struct dt_stream *stream)
{
    const struct dt_model *m = &k->model;
    size_t T = (size_t)gpt_of(m)->block_size;
    int width = gpt_head_width(m), half = width / 2;
    if (gpt_of(m)->position != GPT_POSITION_ROPE)
        return DT_OK;
    if (width % 2 != 0 || half > MOST_PAIRS)
        return dt_fail(DT_ERR_INVALID, "rope: heads of %d features: the cuda kernels take an even number up to %d", width, 2 * MOST_PAIRS);
    frequencies f = {};
    for (int pair = 0; pair < half; pair++)
        f.of_pair[pair] = gpt_rope_frequency(m, pair);
    void *table;
    DT_TRY(dt_cuda_own_alloc(k->base->device, T * (size_t)width * sizeof(float), &table));
    k->rope = (float *)table;
    return launch("rope", table_kernel, dim3((unsigned)((T * (size_t)half + TABLE_THREADS - 1) / TABLE_THREADS)), dim3(TABLE_THREADS), 0,
                  stream, k->rope, f, T, half);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_rope, gpt_rope)
{
    if (!k->rope)
        return dt_fail(DT_ERR_INVALID, "rope: the kernels are of a model without");
    if (a->rows == 0 || a->heads == 0)
        return DT_OK;
    int half = gpt_head_width(&k->model) / 2;
    return for_packs(k->model.dtype, (size_t)half | a->columns, {a->x}, [&]<typename E, int N>() {
        size_t items = a->heads * (size_t)(half / N), tiles = (items + ROPE_LANES * ROPE_ACCESSES - 1) / (ROPE_LANES * ROPE_ACCESSES);
        return launch("rope", rope_kernel<E, N>, dim3(blocks_for(k, a->rows, ROPE_ROWS, ROPE_BLOCKS), (unsigned)tiles),
                      dim3(ROPE_LANES, ROPE_ROWS), 0, stream, (E *)a->x, k->rope, a->rows, (int)a->heads, half, a->columns,
                      positions_of(k, &a->positions), a->inverse ? -1.0f : 1.0f);
    });
}

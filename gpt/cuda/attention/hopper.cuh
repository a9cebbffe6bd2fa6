/* What attention's kernels for Hopper share: tiles of a head that are copied to shared memory, and
 * the products of such tiles.
 *
 * A tile is [WIDTH / CHUNK][ROWS][CHUNK], at a multiple of 1024 bytes, at which the swizzle pattern
 * repeats. A row of a chunk is the unit that a copy swizzles: the largest of 128, 64 and 32 bytes
 * that divides a padded row. The padding columns of a head, and rows after the sample, are zeros,
 * because the tensor of the copy ends before them. */
#ifndef GPT_CUDA_ATTENTION_HOPPER_CUH
#define GPT_CUDA_ATTENTION_HOPPER_CUH

#include "gpt/cuda/attention/tile.cuh"
#include "gpt/cuda/hopper.cuh"

namespace gpt_cuda {

enum { HOPPER_ROWS = 64 }; /* of a copy's box, and of a warpgroup's results */

template <int WIDTH> struct head_chunks {
    static constexpr int CHUNK = WIDTH % 64 == 0 ? 64 : WIDTH % 32 == 0 ? 32 : 16, SPAN = CHUNK * 2;
};

/* Copy ROWS rows of a head, from row `first` on, to a tile. The barrier expects ROWS * WIDTH
 * elements. */
template <typename E, int WIDTH, int ROWS>
__device__ inline void copy_tile(E *to, const CUtensorMap *map, uint64_t *barrier, int head, int first, int sample)
{
    constexpr int CHUNK = head_chunks<WIDTH>::CHUNK;
#pragma unroll
    for (int row = 0; row < ROWS; row += HOPPER_ROWS)
#pragma unroll
        for (int chunk = 0; chunk < WIDTH / CHUNK; chunk++)
            copy_box(to + (chunk * ROWS + row) * CHUNK, map, barrier, chunk * CHUNK, head, first + row, sample);
}

/* Queue to [64, ROWS] = a * b^T, for tiles a [64, WIDTH] and b [ROWS, WIDTH]. */
template <typename E, int WIDTH, int ROWS> __device__ inline void queue_by_rows(float (&to)[ROWS / 8][4], const E *a, const E *b)
{
    constexpr int CHUNK = head_chunks<WIDTH>::CHUNK, SPAN = head_chunks<WIDTH>::SPAN;
#pragma unroll
    for (int column = 0; column < WIDTH; column += 16) {
        int chunk = column / CHUNK, within = column % CHUNK;
        wgmma_shared<E, ROWS>(to, matrix_at<SPAN>(a + chunk * HOPPER_ROWS * CHUNK + within, 16),
                              matrix_at<SPAN>(b + chunk * ROWS * CHUNK + within, 16), column > 0);
    }
}

/* Queue to [64, WIDTH] += a * b: a [64, ROWS] in registers, a tile b [ROWS, WIDTH]. */
template <typename E, int WIDTH, int ROWS>
__device__ inline void queue_accumulators(float (&to)[WIDTH / 8][4], const uint32_t (&a)[ROWS / 16][4], const E *b)
{
    constexpr int CHUNK = head_chunks<WIDTH>::CHUNK, SPAN = head_chunks<WIDTH>::SPAN;
#pragma unroll
    for (int row = 0; row < ROWS; row += 16)
        wgmma_registers<E, WIDTH>(to, a[row / 16], matrix_at<SPAN>(b + row * CHUNK, ROWS * SPAN));
}

/* Accumulators, rounded to E, become left operands. */
template <typename E, int COUNT> __device__ inline void round_operand(uint32_t (&to)[COUNT / 2][4], const float (&from)[COUNT][4])
{
#pragma unroll
    for (int step = 0; step < COUNT / 2; step++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[step][i] = two_of<E>(from[step * 2 + i / 2][i % 2 * 2], from[step * 2 + i / 2][i % 2 * 2 + 1]);
}

/* The map of an array [samples, T, heads, width], whose rows have row_elems elements, for
 * copy_tile. Errors: tensor_map's. */
template <typename E, int WIDTH>
dt_status map_of_heads(const void *from, int T, int width, size_t row_elems, size_t samples, CUtensorMap *map)
{
    using chunks = head_chunks<WIDTH>;
    cuuint64_t sizes[] = {(cuuint64_t)width, row_elems / (size_t)width, (cuuint64_t)T, samples};
    cuuint64_t bytes[] = {(size_t)width * sizeof(E), row_elems * sizeof(E), (size_t)T * row_elems * sizeof(E)};
    cuuint32_t box[] = {chunks::CHUNK, 1, HOPPER_ROWS, 1};
    return tensor_map<E, chunks::SPAN>("attention", from, sizes, bytes, box, map);
}

} // namespace gpt_cuda

#endif

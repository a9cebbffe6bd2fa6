/* Operations of the forward kernels of attention on a warp's rows of scores, between the two
 * products. Scores stay in registers, in the layout of accumulators (mma.cuh; a warp's part of
 * those of wgmma.cuh is the same).
 *
 * Source  Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. */
#ifndef GPT_CUDA_ATTENTION_ROWS_CUH
#define GPT_CUDA_ATTENTION_ROWS_CUH

#include "gpt/cuda/attention/tile.cuh"

namespace gpt_cuda {

/* The state of a warp's rows between tiles, by row block and its half (row r or r + 8). */
template <int BLOCKS> struct running {
    float m[BLOCKS][2]; /* running maximum of the unscaled scores */
    float l[BLOCKS][2]; /* running sum of the weights in this lane's columns */
};

template <int BLOCKS> __device__ inline void begin(running<BLOCKS> &rows)
{
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            rows.m[block][half] = -INFINITY;
            rows.l[block][half] = 0;
        }
}

/* The causal mask: -infinity where the key comes after the query, or after the last key. first_row:
 * the lane's row 0; first_key: the lane's column 0. */
template <int BLOCKS, int KEYS> __device__ inline void mask(float (&s)[BLOCKS][KEYS / 8][4], int first_row, int first_key, int last_key)
{
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (first_key + i * 8 + e % 2 > min(first_row + block * 16 + e / 2 * 8, last_key))
                    s[block][i][e] = -INFINITY;
}

/* For one half of a row block: scores become exp(score - m) with the new maximum m, and l is
 * updated. Returns the factor of the output so far (rescale). */
template <int BLOCKS, int KEYS>
__device__ inline float online_softmax(float (&s)[BLOCKS][KEYS / 8][4], running<BLOCKS> &rows, int block, int half, float scale_log2)
{
    float largest = rows.m[block][half];
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++)
        largest = fmaxf(largest, fmaxf(s[block][i][half * 2], s[block][i][half * 2 + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    float shrink = exp2_fast((rows.m[block][half] - largest) * scale_log2), from = largest * scale_log2, sum = 0;
    rows.m[block][half] = largest;
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float weight = exp2_fast(fmaf(s[block][i][half * 2 + e], scale_log2, -from));
            s[block][i][half * 2 + e] = weight;
            sum += weight;
        }
    rows.l[block][half] = rows.l[block][half] * shrink + sum;
    return shrink;
}

template <int WIDTH, int BLOCKS> __device__ inline void rescale(float (&out)[BLOCKS][WIDTH / 8][4], int block, int half, float shrink)
{
#pragma unroll
    for (int i = 0; i < WIDTH / 8; i++) {
        out[block][i][half * 2] *= shrink;
        out[block][i][half * 2 + 1] *= shrink;
    }
}

/* Set weights that dropout removes to 0. */
template <int BLOCKS, int KEYS>
__device__ inline void drop(float (&s)[BLOCKS][KEYS / 8][4], const head_dropout &d, int first_row, int first_key)
{
    int c = (int)threadIdx.x % 4;
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int i = 0; i < KEYS / 8; i += 4) {
                uint32_t kept = kept_of_32_keys(d, (uint32_t)(first_row + block * 16 + half * 8), (uint32_t)(first_key + i * 8)) >> c * 2;
#pragma unroll
                for (int e = 0; e < 8; e++)
                    if (!(kept >> (e / 2 * 8 + e % 2) & 1))
                        s[block][i + e / 2][half * 2 + e % 2] = 0.0f;
            }
}

} // namespace gpt_cuda

#endif

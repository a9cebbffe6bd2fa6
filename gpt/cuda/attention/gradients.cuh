/* Operations of the backward kernels of attention between the products: scores become weights and
 * the scores' gradients, in the layout of accumulators (mma.cuh; a warp's part of those of wgmma.cuh
 * is the same). The names are those of backward.cu. */
#ifndef GPT_CUDA_ATTENTION_GRADIENTS_CUH
#define GPT_CUDA_ATTENTION_GRADIENTS_CUH

#include "gpt/cuda/attention/tile.cuh"

namespace gpt_cuda {

/* ---- for dq: a row is a query, a column a key ---- */

/* Scores become weights; causal: 0 if the key comes after the query. first_row: position of the
 * lane's row 0; first_key: of its column 0. */
template <int BLOCKS, int KEYS>
__device__ inline void weights_from_scores(float (&s)[BLOCKS][KEYS / 8][4], const float (&lse_log2)[BLOCKS][2], float scale_log2,
                                           int first_row, int first_key)
{
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float weight = exp2_fast(fmaf(s[block][i][e], scale_log2, -lse_log2[block][e / 2]));
                s[block][i][e] = first_key + i * 8 + e % 2 > first_row + block * 16 + e / 2 * 8 ? 0.0f : weight;
            }
}

/* dp = P (Z dp - D), the scores' gradients before their scale. keep(row, key, bits) is called with
 * the bits of 32 keys. */
template <int BLOCKS, int KEYS, typename Keep>
__device__ inline void score_gradients(float (&dp)[BLOCKS][KEYS / 8][4], const float (&p)[BLOCKS][KEYS / 8][4],
                                       const float (&dots)[BLOCKS][2], const head_dropout &d, float drop_scale, int first_row,
                                       int first_key, Keep keep)
{
    int c = (int)threadIdx.x % 4;
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int i = 0; i < KEYS / 8; i += 4) {
                uint32_t kept = 0xffffffffu;
                if (d.threshold > 0) {
                    int row = first_row + block * 16 + half * 8;
                    kept = kept_of_32_keys(d, (uint32_t)row, (uint32_t)(first_key + i * 8));
                    keep(row, first_key + i * 8, kept);
                    kept >>= c * 2;
                }
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    float &x = dp[block][i + e / 2][half * 2 + e % 2];
                    float through = kept >> (e / 2 * 8 + e % 2) & 1 ? x * drop_scale : 0.0f;
                    x = p[block][i + e / 2][half * 2 + e % 2] * (through - dots[block][half]);
                }
            }
}

/* One row's sum of dout * out over `width` columns, which the four lanes of its quad share; the
 * result is the same on each. */
template <typename E> __device__ inline float dot_of_row(const E *dout, const E *out, int width, int bytes)
{
    constexpr int N = pack_elems<E>;
    int c = (int)threadIdx.x % 4;
    float sum = 0;
    if (bytes == 16) {
        for (int i = c * N; i < width; i += 4 * N) {
            pack<E, N> x = load_pack<N>(dout + i), y = load_pack<N>(out + i);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum += to_float(x.at[j]) * to_float(y.at[j]);
        }
    } else {
        for (int i = c; i < width; i += 4)
            sum += to_float(dout[i]) * to_float(out[i]);
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    return sum + __shfl_xor_sync(0xffffffffu, sum, 2);
}

/* ---- for dk and dv: a row is a key, a column a query ---- */

/* add_distances for transposed scores. first_key: position of the lane's row 0; first_query: of its
 * column 0. */
template <int QUERIES>
__device__ inline void add_distances_transposed(float (&s)[1][QUERIES / 8][4], float slope, int first_key, int first_query)
{
    float distance = (float)(first_key - first_query);
#pragma unroll
    for (int i = 0; i < QUERIES / 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[0][i][e] = fmaf(slope, distance + (float)(e / 2 * 8 - i * 8 - e % 2), s[0][i][e]);
}

/* Transposed scores become weights; causal: 0 if the key comes after the query. */
template <int QUERIES>
__device__ inline void weights_from_transposed_scores(float (&s)[1][QUERIES / 8][4], const float *lse, float scale_log2, int first_key,
                                                      int first_query)
{
#pragma unroll
    for (int i = 0; i < QUERIES / 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float weight = exp2_fast(fmaf(s[0][i][e], scale_log2, -lse[i * 8 + e % 2] * LOG2_E));
            s[0][i][e] = first_key + e / 2 * 8 > first_query + i * 8 + e % 2 ? 0.0f : weight;
        }
}

/* dp = P (Z dp - D), then p = P Z without its scale. dots: from the lane's column 0 on. words:
 * NULL, or the kept bits from that column on. */
template <int QUERIES>
__device__ inline void transposed_gradients(float (&dp)[1][QUERIES / 8][4], float (&p)[1][QUERIES / 8][4], const float *dots,
                                            const head_dropout &d, float drop_scale, int warp_key, int first_query, const uint32_t *words)
{
#pragma unroll
    for (int i = 0; i < QUERIES / 8; i += 2) {
        uint32_t kept[2] = {0xffffffffu, 0xffffffffu};
        if (words)
            kept_of_words(words + i * 8 * 2, warp_key % 32, kept);
        else if (d.threshold > 0)
            kept_of_16_queries(d, (uint32_t)(first_query + i * 8), (uint32_t)warp_key, kept);
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float &x = dp[0][i + j][e], &weight = p[0][i + j][e];
                bool keeps = kept[j] >> ((e % 2 * 2 + e / 2) * 8) & 1;
                x = weight * ((keeps ? x * drop_scale : 0.0f) - dots[(i + j) * 8 + e % 2]);
                weight = keeps ? weight : 0.0f;
            }
    }
}

} // namespace gpt_cuda

#endif

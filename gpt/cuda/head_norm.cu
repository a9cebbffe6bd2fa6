/* The rms norm of each head of q and k, and its gradient. Floors, in passes over q, k and v: 2
 * forward; 3 backward, over q and k only. Eight lanes compute a head, so that each access of theirs
 * is 64 elements; the second read of a head is from the nearest cache. */
#include "gpt/cuda/columns.cuh"

namespace {

using namespace gpt_cuda;

enum {
    HEAD_LANES = 8,
    HEAD_THREADS = 256,
    HEADS_OF_BLOCK = HEAD_THREADS / HEAD_LANES,
    WARPS = HEAD_THREADS / 32,
    MOST_WIDTH = 256,
    HEAD_BLOCKS = 4
};

__device__ inline float sum_of_lanes(float x)
{
#pragma unroll
    for (int distance = HEAD_LANES / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

/* 1 / sqrt(mean of squares + epsilon) of a head. All lanes of the warp must call. */
template <typename E, int N> __device__ inline float rstd_of(const E *head, int width, bool valid, float epsilon)
{
    float squares = 0;
    for (int column = (int)threadIdx.x % HEAD_LANES * N; valid && column < width; column += HEAD_LANES * N) {
        pack<E, N> x = load_pack<N>(head + column);
#pragma unroll
        for (int j = 0; j < N; j++)
            squares += to_float(x.at[j]) * to_float(x.at[j]);
    }
    return rsqrtf(sum_of_lanes(squares) / width + epsilon);
}

/* Heads of a row: `heads` of q and kv_heads each of k and v. */
struct head_norm {
    const void *qkv, *q_gain, *k_gain;
    void *out;
    size_t rows;
    int heads, kv_heads, width;
    float epsilon;
};

template <typename E, int N> __global__ void __launch_bounds__(HEAD_THREADS) head_norm_kernel(head_norm a)
{
    wait_for_earlier();
    size_t heads = (size_t)(a.heads + 2 * a.kv_heads);
    size_t item = (blockIdx.x * (size_t)HEAD_THREADS + threadIdx.x) / HEAD_LANES, head = item % heads;
    bool valid = item < a.rows * heads, normed = head < (size_t)(a.heads + a.kv_heads);
    const E *from = (const E *)a.qkv + (valid ? item * (size_t)a.width : 0);
    const E *gain = (const E *)(head < (size_t)a.heads ? a.q_gain : a.k_gain);
    E *to = (E *)a.out + item * (size_t)a.width;
    float rstd = rstd_of<E, N>(from, a.width, valid && normed, a.epsilon);
    if (!valid || (!normed && a.qkv == a.out))
        return;
    for (int column = (int)threadIdx.x % HEAD_LANES * N; column < a.width; column += HEAD_LANES * N) {
        pack<E, N> x = load_pack<N>(from + column);
        if (normed) {
            pack<E, N> g = load_pack<N>(gain + column);
#pragma unroll
            for (int j = 0; j < N; j++)
                x.at[j] = from_float<E>(to_float(x.at[j]) * rstd * to_float(g.at[j]));
        }
        store_pack<N>(to + column, x);
    }
}

/* `heads` heads of each row of row_heads heads, from first_head on. */
struct head_norm_gradient {
    const void *qkv, *gain;
    void *dqkv;
    size_t rows;
    int first_head, heads, row_heads, width;
    float epsilon;
};

/* With xhat = x * rstd and g = dy * gain: dx = rstd * (g - xhat * mean of g * xhat), in the memory
 * of dy. A block sums dy * xhat over its heads: each thread its own columns in registers, then the
 * block in a fixed order. partials [blocks, width] */
template <typename E, int N>
__global__ void __launch_bounds__(HEAD_THREADS) head_norm_gradient_kernel(head_norm_gradient a, float *partials)
{
    wait_for_earlier();
    constexpr int PACKS = MOST_WIDTH / (HEAD_LANES * N);
    __shared__ float sums[WARPS][MOST_WIDTH];
    const E *gain = (const E *)a.gain;
    int lane = (int)threadIdx.x % HEAD_LANES, warp = (int)threadIdx.x / 32;
    size_t count = a.rows * (size_t)a.heads;
    float dgain[PACKS][N] = {};
    for (size_t first = blockIdx.x * (size_t)HEADS_OF_BLOCK; first < count; first += gridDim.x * (size_t)HEADS_OF_BLOCK) {
        size_t item = first + threadIdx.x / HEAD_LANES;
        bool valid = item < count;
        size_t row = item / (size_t)a.heads, head = item % (size_t)a.heads + (size_t)a.first_head;
        size_t place = valid ? (row * (size_t)a.row_heads + head) * (size_t)a.width : 0;
        const E *x = (const E *)a.qkv + place;
        E *dy = (E *)a.dqkv + place;
        float rstd = rstd_of<E, N>(x, a.width, valid, a.epsilon), dot = 0;
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            int column = (p * HEAD_LANES + lane) * N;
            if (!valid || column >= a.width)
                break;
            pack<E, N> x_p = load_pack<N>(x + column), dy_p = load_pack<N>(dy + column), by = load_pack<N>(gain + column);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float along = to_float(dy_p.at[j]) * (to_float(x_p.at[j]) * rstd);
                dgain[p][j] += along;
                dot += along * to_float(by.at[j]);
            }
        }
        float mean = sum_of_lanes(dot) / a.width;
        for (int column = lane * N; valid && column < a.width; column += HEAD_LANES * N) {
            pack<E, N> x_p = load_pack<N>(x + column), dy_p = load_pack<N>(dy + column), by = load_pack<N>(gain + column);
#pragma unroll
            for (int j = 0; j < N; j++)
                dy_p.at[j] = from_float<E>(rstd * (to_float(dy_p.at[j]) * to_float(by.at[j]) - to_float(x_p.at[j]) * rstd * mean));
            store_pack<N>(dy + column, dy_p);
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++)
#pragma unroll
        for (int j = 0; j < N; j++) {
            float sum = dgain[p][j]; /* the warp's four heads have the same columns */
            sum += __shfl_xor_sync(0xffffffffu, sum, HEAD_LANES);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2 * HEAD_LANES);
            if (threadIdx.x % 32 < HEAD_LANES)
                sums[warp][(p * HEAD_LANES + lane) * N + j] = sum;
        }
    __syncthreads();
    for (int column = (int)threadIdx.x; column < a.width; column += HEAD_THREADS) {
        float sum = 0;
        for (int w = 0; w < WARPS; w++)
            sum += sums[w][column];
        partials[blockIdx.x * (size_t)a.width + (size_t)column] = sum;
    }
}

/* Errors: DT_ERR_INVALID if heads are too wide. */
dt_status width_of(const struct gpt_kernels *k, int *out)
{
    *out = gpt_head_width(&k->model);
    if (*out > MOST_WIDTH)
        return dt_fail(DT_ERR_INVALID, "norm of heads: %d features a head: the cuda kernels take up to %d", *out, (int)MOST_WIDTH);
    return DT_OK;
}

dt_status queue_gradient(struct gpt_kernels *k, struct dt_stream *stream, const head_norm_gradient &g, void *dgain, bool accumulate)
{
    unsigned blocks = blocks_for(k, g.rows * (size_t)g.heads, HEADS_OF_BLOCK, HEAD_BLOCKS);
    DT_TRY(gpt_cuda_scratch(k, blocks * (size_t)g.width * sizeof(float)));
    return for_packs(k->model.dtype, (size_t)g.width, {g.qkv, g.gain, g.dqkv}, [&]<typename E, int N>() {
        DT_TRY(launch("head norm gradient", head_norm_gradient_kernel<E, N>, dim3(blocks), dim3(HEAD_THREADS), 0, stream, g,
                      (float *)k->scratch.data));
        return combine_columns<E, 1>("head norm gradient", stream, {{(E *)dgain}}, (const float *)k->scratch.data, blocks, (size_t)g.width,
                                     accumulate);
    });
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_head_norm, gpt_head_norm)
{
    int width;
    DT_TRY(width_of(k, &width));
    if (a->rows == 0)
        return DT_OK;
    head_norm h = {a->qkv, a->q_gain, a->k_gain, a->out, a->rows, (int)a->heads, (int)a->kv_heads, width, a->epsilon};
    size_t items = a->rows * (a->heads + 2 * a->kv_heads);
    return for_packs(k->model.dtype, (size_t)width, {a->qkv, a->q_gain, a->k_gain, a->out}, [&]<typename E, int N>() {
        return launch("head norm", head_norm_kernel<E, N>, dim3((unsigned)((items + HEADS_OF_BLOCK - 1) / HEADS_OF_BLOCK)),
                      dim3(HEAD_THREADS), 0, stream, h);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_head_norm_gradient, gpt_head_norm_gradient)
{
    int width;
    DT_TRY(width_of(k, &width));
    if (a->rows == 0)
        return DT_OK;
    int heads = (int)a->heads, kv_heads = (int)a->kv_heads, row_heads = heads + 2 * kv_heads;
    head_norm_gradient of_q = {a->qkv, a->q_gain, a->dqkv, a->rows, 0, heads, row_heads, width, a->epsilon};
    head_norm_gradient of_k = {a->qkv, a->k_gain, a->dqkv, a->rows, heads, kv_heads, row_heads, width, a->epsilon};
    DT_TRY(queue_gradient(k, stream, of_q, a->dq_gain, a->accumulate));
    return queue_gradient(k, stream, of_k, a->dk_gain, a->accumulate);
}

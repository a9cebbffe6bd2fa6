/* SwiGLU and its gradient. Floors, in passes over [rows, f]: 3, and 5 for the gradient (6 with y).
 * A warp computes columns of a row, with 16 bytes for each lane and access; rows of gate and up are
 * `apart` elements apart. Each element is read before the same thread overwrites it. */
#include "gpt/cuda/kernels.cuh"

namespace {

using namespace gpt_cuda;

enum { SWIGLU_LANES = 32, SWIGLU_ROWS = 8, SWIGLU_BLOCKS = 16, SWIGLU_ACCESSES = 4 };

/* 1 / (1 + exp(-x)); 0 if the exponential is infinite. */
__device__ inline float sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

template <typename E, int N>
__global__ void __launch_bounds__(SWIGLU_LANES *SWIGLU_ROWS)
    swiglu_kernel(E *y, const E *gates, const E *ups, size_t apart, size_t rows, size_t f)
{
    wait_for_earlier();
    size_t first = (blockIdx.y * (size_t)SWIGLU_LANES + threadIdx.x) * N, step = gridDim.y * (size_t)(SWIGLU_LANES * N);
    for (size_t row = blockIdx.x * (size_t)SWIGLU_ROWS + threadIdx.y; row < rows; row += gridDim.x * (size_t)SWIGLU_ROWS)
        for (size_t column = first; column < f; column += step) {
            size_t at = row * apart + column;
            pack<E, N> gate = load_pack<N>(gates + at), up = load_pack<N>(ups + at);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float x = to_float(gate.at[j]);
                gate.at[j] = from_float<E>(x * sigmoid(x) * to_float(up.at[j]));
            }
            store_pack<N>(y + row * f + column, gate);
        }
}

/* With s = sigmoid(gate): dgate = dy up s (1 + gate (1 - s)), dup = dy gate s. y, or NULL, may be
 * dy; dhidden may be hidden. */
template <typename E, int N>
__global__ void __launch_bounds__(SWIGLU_LANES *SWIGLU_ROWS)
    swiglu_gradient_kernel(E *dhidden, E *y, const E *dy, const E *gates, const E *ups, size_t apart, size_t rows, size_t f)
{
    wait_for_earlier();
    size_t first = (blockIdx.y * (size_t)SWIGLU_LANES + threadIdx.x) * N, step = gridDim.y * (size_t)(SWIGLU_LANES * N);
    for (size_t row = blockIdx.x * (size_t)SWIGLU_ROWS + threadIdx.y; row < rows; row += gridDim.x * (size_t)SWIGLU_ROWS)
        for (size_t column = first; column < f; column += step) {
            size_t from = row * apart + column, at = row * 2 * f + column;
            pack<E, N> gate = load_pack<N>(gates + from), up = load_pack<N>(ups + from), out = load_pack<N>(dy + row * f + column);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float x = to_float(gate.at[j]), by = to_float(up.at[j]), g = to_float(out.at[j]), s = sigmoid(x), silu = x * s;
                gate.at[j] = from_float<E>(g * by * (s + silu * (1 - s)));
                up.at[j] = from_float<E>(g * silu);
                out.at[j] = from_float<E>(silu * by);
            }
            store_pack<N>(dhidden + at, gate);
            store_pack<N>(dhidden + at + f, up);
            if (y)
                store_pack<N>(y + row * f + column, out);
        }
}

/* Blocks divide rows and columns, so that there are enough of them also for few rows. */
template <typename E> const E *ups_of(const void *hidden, const void *up, size_t f)
{
    return up ? (const E *)up : (const E *)hidden + f;
}

size_t apart_of(const void *up, size_t f)
{
    return up ? f : 2 * f;
}

template <int N> dim3 blocks_of(const struct gpt_kernels *k, size_t rows, size_t f)
{
    return dim3(blocks_for(k, rows, SWIGLU_ROWS, SWIGLU_BLOCKS),
                (unsigned)((f + SWIGLU_LANES * N * SWIGLU_ACCESSES - 1) / (SWIGLU_LANES * N * SWIGLU_ACCESSES)));
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_swiglu, gpt_swiglu)
{
    if (a->rows == 0 || a->f == 0)
        return DT_OK;
    return for_packs(k->model.dtype, a->f, {a->y, a->hidden, a->up}, [&]<typename E, int N>() {
        return launch("swiglu", swiglu_kernel<E, N>, blocks_of<N>(k, a->rows, a->f), dim3(SWIGLU_LANES, SWIGLU_ROWS), 0, stream, (E *)a->y,
                      (const E *)a->hidden, ups_of<E>(a->hidden, a->up, a->f), apart_of(a->up, a->f), a->rows, a->f);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_swiglu_gradient, gpt_swiglu_gradient)
{
    if (a->rows == 0 || a->f == 0)
        return DT_OK;
    return for_packs(k->model.dtype, a->f, {a->dhidden, a->dy, a->hidden, a->y, a->up}, [&]<typename E, int N>() {
        return launch("swiglu gradient", swiglu_gradient_kernel<E, N>, blocks_of<N>(k, a->rows, a->f), dim3(SWIGLU_LANES, SWIGLU_ROWS), 0,
                      stream, (E *)a->dhidden, (E *)a->y, (const E *)a->dy, (const E *)a->hidden, ups_of<E>(a->hidden, a->up, a->f),
                      apart_of(a->up, a->f), a->rows, a->f);
    });
}

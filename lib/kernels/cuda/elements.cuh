/* Device code that cuda kernels of all families share: launching, elements, 16-byte accesses, sums
 * over warps and blocks.
 *
 * Kernels use only what <cuda_runtime.h>, <cuda_fp16.h> and <cuda_bf16.h> offer, and are started
 * only by launch(), so that tests can run them on a CPU, thread by thread (test/cuda_emulator).
 * Shared memory is declared with __shared__ (static), or obtained from dynamic_shared<T>().
 *
 * "Floor" in the comments of kernels is the lower bound of their time: the bytes that they must
 * read and write, divided by the memory's bandwidth, or operations by the rate of the units. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <initializer_list>

#include "lib/kernels/cuda/launch.cuh"

namespace dt_cuda {

/* ---- elements: fp32, fp16, bf16; arithmetic is fp32 ---- */

__device__ inline float to_float(float x)
{
    return x;
}
__device__ inline float to_float(__half x)
{
    return __half2float(x);
}
__device__ inline float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

template <typename E> __device__ inline E from_float(float x);
template <> __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __device__ inline __half from_float<__half>(float x)
{
    return __float2half_rn(x);
}
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* N elements that are loaded or stored by one access of at most 16 bytes. */
template <typename E, int N> struct alignas(sizeof(E) * N) pack {
    E at[N];
};
/* The number of elements in 16 bytes: 4 of fp32, 8 of fp16 and bf16. */
template <typename E> constexpr int pack_elems = 16 / (int)sizeof(E);

template <int N, typename E> __device__ inline pack<E, N> load_pack(const E *from)
{
    return *reinterpret_cast<const pack<E, N> *>(from);
}
template <int N, typename E> __device__ inline void store_pack(E *to, const pack<E, N> &value)
{
    *reinterpret_cast<pack<E, N> *>(to) = value;
}

/* Whether packs of N elements of E are aligned at every multiple of `stride` elements from these
 * bases, of which some may be NULL. The host chooses between two instances of a kernel by it. */
template <typename E, int N> inline bool packs_fit(size_t stride, std::initializer_list<const void *> bases)
{
    uintptr_t all = 0;
    for (const void *base : bases)
        all |= (uintptr_t)base;
    return stride % N == 0 && all % (sizeof(E) * N) == 0;
}

/* ---- sums ---- */

template <typename T> __device__ inline T warp_sum(T x)
{
    for (int distance = 16; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}
__device__ inline float warp_max(float x)
{
    for (int distance = 16; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}

/* What `of_warp` makes of a warp's numbers, made of all numbers of the block, with the same result
 * on every thread and in every run. none: a number that changes nothing. `warps` [32] is shared
 * memory, which is free again when the call returns. Every thread of the block must call. */
template <typename T, typename F> __device__ inline T of_block(T x, T *warps, T none, F of_warp)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = ((int)blockDim.x + 31) / 32;
    x = of_warp(x);
    if (lane == 0)
        warps[warp] = x;
    __syncthreads();
    x = of_warp(lane < count ? warps[lane] : none);
    __syncthreads();
    return x;
}
template <typename T> __device__ inline T block_sum(T x, T *warps)
{
    return of_block(x, warps, (T)0, [](T number) { return warp_sum(number); });
}
__device__ inline float block_max(float x, float *warps)
{
    return of_block(x, warps, -INFINITY, [](float number) { return warp_max(number); });
}

/* ---- the element type of an array ---- */

/* Calls f<E>() with the element type of `dtype`. */
template <typename F> inline dt_status for_dtype(enum dt_dtype dtype, F f)
{
    switch (dtype) {
    case DT_FP32: return f.template operator()<float>();
    case DT_FP16: return f.template operator()<__half>();
    case DT_BF16: return f.template operator()<__nv_bfloat16>();
    default: return dt_fail(DT_ERR_INVALID, "cuda kernels: %d is no dtype", (int)dtype);
    }
}

/* Calls f<E, N>() with the element type of `dtype`, and the largest N that packs_fit allows: 16
 * bytes' elements, or 1. */
template <typename F> inline dt_status for_packs(enum dt_dtype dtype, size_t stride, std::initializer_list<const void *> bases, F f)
{
    return for_dtype(dtype, [&]<typename E>() {
        constexpr int N = pack_elems<E>;
        bool fit = packs_fit<E, N>(stride, bases);
        return fit ? f.template operator()<E, N>() : f.template operator()<E, 1>();
    });
}

/* Number of blocks of `threads` threads for `items`, at most `per_multiprocessor` for each
 * multiprocessor: the kernel's loop strides over the rest. */
inline unsigned blocks_for(int multiprocessors, size_t items, int threads, int per_multiprocessor)
{
    size_t needed = (items + (size_t)threads - 1) / (size_t)threads, most = (size_t)multiprocessors * (size_t)per_multiprocessor;
    return (unsigned)(needed < 1 ? 1 : needed < most ? needed : most);
}

} // namespace dt_cuda

/* The device side of CUDA's runtime header, as far as the kernels use it: what each CUDA thread may
 * call. Included by cuda_runtime.h for C++. Arithmetic is the host's: intrinsics that are fast and
 * rough on a GPU are exact here, so tests bound errors, not bits. */
#pragma once

#include "test/cuda_emulator/simt/simt.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <math.h>
#include <type_traits>

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static thread_local /* poisoned by shared_poison.cpp */
#ifndef __restrict__
#define __restrict__ __restrict
#endif

constexpr int warpSize = 32;

/* ---- waiting for others ---- */

inline void __syncthreads()
{
    simt::sync_threads();
}

inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    simt::warp_exchange(simt::warp_call::sync, mask, 0, 0);
}

inline void __threadfence()
{
}

inline void __threadfence_block()
{
}

namespace simt {

/* The value of lane `source`, or the caller's own where that is outside the caller's segment of
 * `width` lanes. */
template <typename T> T shuffle(unsigned mask, T value, int source, bool inside)
{
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 8, "shuffles move up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    warp_result got = warp_exchange(warp_call::shuffle, mask, bits, inside ? source : lane());
    memcpy(&value, &got.bits, sizeof value);
    return value;
}

} // namespace simt

template <typename T> T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
    int first = simt::lane() / width * width;
    return simt::shuffle(mask, value, first + (source & (width - 1)), true);
}

template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32)
{
    int source = simt::lane() ^ lanes;
    return simt::shuffle(mask, value, source, source < (simt::lane() / width + 1) * width);
}

template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32)
{
    int source = simt::lane() - (int)distance;
    return simt::shuffle(mask, value, source, source >= simt::lane() / width * width);
}

template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32)
{
    int source = simt::lane() + (int)distance;
    return simt::shuffle(mask, value, source, source < (simt::lane() / width + 1) * width);
}

inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    return simt::warp_exchange(simt::warp_call::vote, mask, predicate != 0, 0).votes;
}

inline int __any_sync(unsigned mask, int predicate)
{
    return simt::warp_exchange(simt::warp_call::vote, mask, predicate != 0, 0).votes != 0;
}

inline int __all_sync(unsigned mask, int predicate)
{
    simt::warp_result got = simt::warp_exchange(simt::warp_call::vote, mask, predicate != 0, 0);
    return got.votes == got.present;
}

/* ---- atomics: kernels of several streams may run at once, so they are real ones ---- */

namespace simt {

template <typename T, typename F> T atomic_change(T *at, F change)
{
    T before, after;
    __atomic_load(at, &before, __ATOMIC_RELAXED);
    do
        after = change(before);
    while (!__atomic_compare_exchange(at, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return before;
}

} // namespace simt

template <typename T> T atomicAdd(T *at, std::common_type_t<T> value)
{
    return simt::atomic_change(at, [=](T before) { return (T)(before + value); });
}

template <typename T> T atomicMax(T *at, std::common_type_t<T> value)
{
    return simt::atomic_change(at, [=](T before) { return before < value ? value : before; });
}

template <typename T> T atomicMin(T *at, std::common_type_t<T> value)
{
    return simt::atomic_change(at, [=](T before) { return value < before ? value : before; });
}

template <typename T> T atomicOr(T *at, std::common_type_t<T> value)
{
    return simt::atomic_change(at, [=](T before) { return (T)(before | value); });
}

template <typename T> T atomicExch(T *at, std::common_type_t<T> value)
{
    return simt::atomic_change(at, [=](T) { return value; });
}

template <typename T> T atomicCAS(T *at, std::common_type_t<T> expected, std::common_type_t<T> value)
{
    return simt::atomic_change(at, [=](T before) { return before == expected ? value : before; });
}

/* ---- loads and stores with a hint about caches ---- */

template <typename T> T __ldg(const T *from)
{
    return *from;
}

template <typename T> T __ldcs(const T *from)
{
    return *from;
}

template <typename T> T __ldcg(const T *from)
{
    return *from;
}

template <typename T> void __stcs(T *to, T value)
{
    *to = value;
}

template <typename T> void __stcg(T *to, T value)
{
    *to = value;
}

/* ---- arithmetic ---- */

using std::isfinite;
using std::isinf;
using std::isnan;
using std::max;
using std::min;

inline float __expf(float x)
{
    return expf(x);
}

inline float __exp10f(float x)
{
    return powf(10, x);
}

inline float __logf(float x)
{
    return logf(x);
}

inline float __log2f(float x)
{
    return log2f(x);
}

inline float __powf(float x, float y)
{
    return powf(x, y);
}

inline float __sinf(float x)
{
    return sinf(x);
}

inline float __cosf(float x)
{
    return cosf(x);
}

inline float __fdividef(float x, float y)
{
    return x / y;
}

inline float __fdiv_rn(float x, float y)
{
    return x / y;
}

inline float __frcp_rn(float x)
{
    return 1 / x;
}

inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}

inline float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}

/* Products and sums that no compiler joins. */
inline float __fmul_rn(float x, float y)
{
    volatile float product = x * y;
    return product;
}

inline float __fadd_rn(float x, float y)
{
    volatile float sum = x + y;
    return sum;
}

inline float rsqrtf(float x)
{
    return (float)(1 / sqrt((double)x));
}

inline float sinpif(float x)
{
    return (float)sin(M_PI * (double)x);
}

inline float cospif(float x)
{
    return (float)cos(M_PI * (double)x);
}

inline void sincospif(float x, float *sine, float *cosine)
{
    *sine = sinpif(x);
    *cosine = cospif(x);
}

inline float normcdff(float x)
{
    return (float)(0.5 * erfc(-(double)x / M_SQRT2));
}

inline float __saturatef(float x)
{
    return x > 0 ? x < 1 ? x : 1 : 0;
}

inline unsigned __umulhi(unsigned x, unsigned y)
{
    return (unsigned)((uint64_t)x * y >> 32);
}

inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}

/* ---- bits ---- */

namespace simt {

template <typename To, typename From> To bits_of(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

} // namespace simt

inline int __float_as_int(float x)
{
    return simt::bits_of<int>(x);
}

inline unsigned __float_as_uint(float x)
{
    return simt::bits_of<unsigned>(x);
}

inline float __int_as_float(int x)
{
    return simt::bits_of<float>(x);
}

inline float __uint_as_float(unsigned x)
{
    return simt::bits_of<float>(x);
}

inline long long __double_as_longlong(double x)
{
    return simt::bits_of<long long>(x);
}

inline double __longlong_as_double(long long x)
{
    return simt::bits_of<double>(x);
}

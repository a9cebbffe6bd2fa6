/* Vectors of fp32 for the instruction set for which the including file is compiled.
 *
 * loops.c and the files of attention are compiled once for each instruction set of
 * lib/base/cpu_isa.h; a vector is as wide as its registers. Vectors are those of the compilers
 * (GCC, Clang), which support +, -, *, / and comparisons; a comparison returns -1 or 0 in each
 * lane. Only operations that this notation lacks are written for each instruction set here.
 *
 * v_load and v_store take the number of remaining elements, and access no more: loops need no
 * separate code for their ends. Missing elements are read as zero. Rounding to bf16 and fp16 is to
 * nearest even. */
#pragma once

#include "lib/base/dtype.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
enum { V_LANES = 16 };
#elif defined(__AVX2__)
enum { V_LANES = 8 };
#else
enum { V_LANES = 4 };
#endif

typedef float vfloat __attribute__((vector_size(4 * V_LANES)));
typedef int32_t vint __attribute__((vector_size(4 * V_LANES)));
typedef uint32_t vuint __attribute__((vector_size(4 * V_LANES)));
typedef uint64_t vwide __attribute__((vector_size(4 * V_LANES))); /* half as many lanes, twice the size */
typedef uint16_t vhalf __attribute__((vector_size(2 * V_LANES))); /* as many lanes, half the size */

#define V_INLINE static inline __attribute__((always_inline, unused))

/* mask ? a : b in each lane; mask is a comparison's result. */
V_INLINE vfloat v_select(vint mask, vfloat a, vfloat b)
{
    return (vfloat)(((vint)a & mask) | ((vint)b & ~mask));
}

V_INLINE vfloat v_set(float value)
{
    return value - (vfloat){0};
}

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* The names of instructions, which AVX-512 and AVX2 have alike for their widths, and their types:
 * of floats, of integers, and of half as many bytes. */
#if defined(__AVX512F__)
#define V_X86(name) _mm512_##name
typedef __m512 v_x86;
typedef __m512i v_x86_int;
typedef __m256i v_x86_half;
#elif defined(__AVX2__)
#define V_X86(name) _mm256_##name
typedef __m256 v_x86;
typedef __m256i v_x86_int;
typedef __m128i v_x86_half;
#endif

/* v_max and v_min return b if either is NaN. v_multiply_low: the 64-bit products of the low halves
 * of each wide lane. */
#if defined(V_X86)
V_INLINE vfloat v_max(vfloat a, vfloat b)
{
    return (vfloat)V_X86(max_ps)((v_x86)a, (v_x86)b);
}
V_INLINE vfloat v_min(vfloat a, vfloat b)
{
    return (vfloat)V_X86(min_ps)((v_x86)a, (v_x86)b);
}
V_INLINE vfloat v_sqrt(vfloat a)
{
    return (vfloat)V_X86(sqrt_ps)((v_x86)a);
}
V_INLINE vwide v_multiply_low(vwide a, vwide b)
{
    return (vwide)V_X86(mul_epu32)((v_x86_int)a, (v_x86_int)b);
}
V_INLINE vuint v_widen_bits(vhalf bits)
{
    return (vuint)V_X86(cvtepu16_epi32)((v_x86_half)bits);
}
V_INLINE vfloat v_widen_fp16(vhalf bits)
{
    return (vfloat)V_X86(cvtph_ps)((v_x86_half)bits);
}
V_INLINE vhalf v_narrow_fp16(vfloat a)
{
    return (vhalf)V_X86(cvtps_ph)((v_x86)a, _MM_FROUND_TO_NEAREST_INT);
}
#else
V_INLINE vfloat v_max(vfloat a, vfloat b)
{
    return v_select(a > b, a, b);
}
V_INLINE vfloat v_min(vfloat a, vfloat b)
{
    return v_select(a < b, a, b);
}
V_INLINE vfloat v_sqrt(vfloat a)
{
    for (int i = 0; i < V_LANES; i++)
        a[i] = __builtin_sqrtf(a[i]);
    return a;
}
V_INLINE vwide v_multiply_low(vwide a, vwide b)
{
    return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
}
V_INLINE vuint v_widen_bits(vhalf bits)
{
    return __builtin_convertvector(bits, vuint);
}
/* A multiplication moves the exponent, and is also correct for subnormals. Infinity and NaN get all
 * exponent bits back. */
V_INLINE vfloat v_widen_fp16(vhalf bits)
{
    vuint wide = v_widen_bits(bits), rest = (wide & 0x7FFF) << 13;
    vuint magnitude = (vuint)((vfloat)rest * 0x1p112f) | ((vuint)(rest >= 0x7C00u << 13) & 0x7F800000u);
    return (vfloat)(magnitude | (wide & 0x8000) << 16);
}
V_INLINE vhalf v_narrow_fp16(vfloat a)
{
    vuint bits = (vuint)a, rest = bits & 0x7FFFFFFF;
    vuint normal = (rest - (112u << 23) + 0xFFF + (rest >> 13 & 1)) >> 13;
    vuint subnormal = (vuint)((vfloat)rest + 0.5f) - 0x3F000000u;       /* the addition rounds to the last place of an fp16 subnormal */
    vuint special = (vuint)(rest > 0x7F800000u) * 0xFFFFFE00u + 0x7C00; /* 0x7E00 for NaN */
    vint is_small = (vint)(rest < 0x38800000u), is_special = (vint)(rest >= 0x477FF000u);
    vuint half = ((subnormal & (vuint)is_small) | (normal & (vuint)~is_small)) & (vuint)~is_special;
    return __builtin_convertvector(half | (special & (vuint)is_special) | (bits >> 16 & 0x8000), vhalf);
}
#endif

#if defined(__AVX512BF16__)
V_INLINE vhalf v_narrow_bf16(vfloat a)
{
    return (vhalf)_mm512_cvtneps_pbh((__m512)a);
}
#else
V_INLINE vhalf v_narrow_bf16(vfloat a)
{
    vuint bits = (vuint)a;
    vint is_nan = a != a; /* NaN must not round to infinity */
    vuint rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return __builtin_convertvector((quiet & (vuint)is_nan) | (rounded & (vuint)~is_nan), vhalf);
}
#endif

/* The lanes of a and b interleaved (a0 b0 a1 b1 ...): the first half of the result, and the
 * second. */
#if defined(__AVX512F__)
#define V_ZIP_FIRST 0, 8, 1, 9, 2, 10, 3, 11
#define V_ZIP_SECOND 4, 12, 5, 13, 6, 14, 7, 15
#elif defined(__AVX2__)
#define V_ZIP_FIRST 0, 4, 1, 5
#define V_ZIP_SECOND 2, 6, 3, 7
#else
#define V_ZIP_FIRST 0, 2
#define V_ZIP_SECOND 1, 3
#endif
V_INLINE vwide v_zip_first(vwide a, vwide b)
{
    return __builtin_shufflevector(a, b, V_ZIP_FIRST);
}
V_INLINE vwide v_zip_second(vwide a, vwide b)
{
    return __builtin_shufflevector(a, b, V_ZIP_SECOND);
}

V_INLINE vfloat v_widen(enum dt_dtype dtype, vhalf bits)
{
    return dtype == DT_FP16 ? v_widen_fp16(bits) : (vfloat)(v_widen_bits(bits) << 16);
}

/* Not inline, so that a loop's body contains only the common case. */
static __attribute__((noinline, unused)) vfloat v_load_some(enum dt_dtype dtype, const void *from, size_t left)
{
    vfloat whole = {0};
    vhalf half = {0};
    if (dtype == DT_FP32) {
        memcpy(&whole, from, left * 4);
        return whole;
    }
    memcpy(&half, from, left * 2);
    return v_widen(dtype, half);
}

static __attribute__((noinline, unused)) void v_store_some(enum dt_dtype dtype, void *to, size_t left, vfloat value)
{
    vhalf half;
    if (dtype == DT_FP32) {
        memcpy(to, &value, left * 4);
        return;
    }
    half = dtype == DT_FP16 ? v_narrow_fp16(value) : v_narrow_bf16(value);
    memcpy(to, &half, left * 2);
}

/* Elements from[i], from[i + 1], ... of which `left` exist: at least 1; more than a vector has is
 * allowed. dtype is a constant. */
V_INLINE vfloat v_load(enum dt_dtype dtype, const void *from, size_t i, size_t left)
{
    const char *at = (const char *)from + i * (dtype == DT_FP32 ? 4 : 2);
    vfloat whole;
    vhalf half;
    if (__builtin_expect(left < V_LANES, 0))
        return v_load_some(dtype, at, left);
    if (dtype == DT_FP32) {
        memcpy(&whole, at, sizeof whole);
        return whole;
    }
    memcpy(&half, at, sizeof half);
    return v_widen(dtype, half);
}

V_INLINE void v_store(enum dt_dtype dtype, void *to, size_t i, size_t left, vfloat value)
{
    char *at = (char *)to + i * (dtype == DT_FP32 ? 4 : 2);
    vhalf half;
    if (__builtin_expect(left < V_LANES, 0)) {
        v_store_some(dtype, at, left, value);
    } else if (dtype == DT_FP32) {
        memcpy(at, &value, sizeof value);
    } else {
        half = dtype == DT_FP16 ? v_narrow_fp16(value) : v_narrow_bf16(value);
        memcpy(at, &half, sizeof half);
    }
}

/* The first `left` lanes of a; the others become `rest`. For sums and maxima at the end of a
 * row. */
V_INLINE vfloat v_first(vfloat a, size_t left, float rest)
{
    vint lane;
    for (int i = 0; i < V_LANES; i++)
        lane[i] = i;
    return left < V_LANES ? v_select(lane < (int32_t)left, a, v_set(rest)) : a;
}

/* Adds one half of the lanes to the other until one lane is left, which has less latency than a
 * chain of additions. */
V_INLINE float v_sum(vfloat a)
{
    float lanes[V_LANES];
    memcpy(lanes, &a, sizeof a);
    for (int n = V_LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lanes[i] += lanes[i + n];
    return lanes[0];
}

V_INLINE float v_largest(vfloat a)
{
    float lanes[V_LANES];
    memcpy(lanes, &a, sizeof a);
    for (int n = V_LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lanes[i] = lanes[i] > lanes[i + n] ? lanes[i] : lanes[i + n];
    return lanes[0];
}

/* The sums with AVX2 and F16C, eight elements at a time. Compiled with -mavx2 -mf16c: nothing here may run before the processor was
 * asked. */
#include "lib/comm/mpi/reduce.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 8 };

static __m256 load_fp16(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

static void store_fp16(uint16_t *to, __m256 value)
{
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static __m256 load_bf16(const uint16_t *from)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static void store_bf16(uint16_t *to, __m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)); /* a NaN must not round to infinity */
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x8);
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(packed));
}

static __m256 combine(__m256 a, __m256 b, float scale)
{
    return _mm256_mul_ps(_mm256_add_ps(a, b), _mm256_set1_ps(scale));
}

static void sum_fp32(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    float *o = out;
    const float *x = a, *y = b;
    size_t i = 0;
    for (; i + LANES <= count_elems; i += LANES)
        _mm256_storeu_ps(o + i, combine(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i), scale));
    for (; i < count_elems; i++)
        o[i] = (x[i] + y[i]) * scale;
}

/* The sums of a 16-bit type; inlined, so that its load and store are, too. */
__attribute__((always_inline)) static inline void sum16(uint16_t *out, const uint16_t *x, const uint16_t *y, size_t count_elems,
                                                        float scale, __m256 (*load)(const uint16_t *), void (*store)(uint16_t *, __m256))
{
    uint16_t rest[3][LANES] = {{0}};
    size_t i = 0, left = count_elems % LANES;
    for (; i + LANES <= count_elems; i += LANES)
        store(out + i, combine(load(x + i), load(y + i), scale));
    memcpy(rest[0], x + i, left * sizeof *x);
    memcpy(rest[1], y + i, left * sizeof *y);
    store(rest[2], combine(load(rest[0]), load(rest[1]), scale));
    memcpy(out + i, rest[2], left * sizeof *out);
}

static void sum_fp16(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    sum16(out, a, b, count_elems, scale, load_fp16, store_fp16);
}

static void sum_bf16(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    sum16(out, a, b, count_elems, scale, load_bf16, store_bf16);
}

const struct dt_reduce_isa dt_reduce_avx2 = {"avx2", {[DT_FP32] = sum_fp32, [DT_FP16] = sum_fp16, [DT_BF16] = sum_bf16}};

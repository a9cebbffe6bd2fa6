/* The sums with AVX-512 F, BW and VL, sixteen elements at a time and the rest under a mask. Compiled with their -m flags: nothing here may
 * run before the processor was asked. AVX-512's own conversion to bf16 is not used: it flushes subnormals to zero. */
#include "lib/comm/mpi/reduce.h"

#include <immintrin.h>
#include <stdint.h>

enum { LANES = 16 };

/* The lanes of a step that starts `left` elements before the end. */
static __mmask16 lanes(size_t left)
{
    return left >= LANES ? (__mmask16)0xFFFF : (__mmask16)((1u << left) - 1);
}

static __m512 load_fp16(__mmask16 mask, const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from));
}

static void store_fp16(uint16_t *to, __mmask16 mask, __m512 value)
{
    _mm256_mask_storeu_epi16(to, mask, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static __m512 load_bf16(__mmask16 mask, const uint16_t *from)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16));
}

static void store_bf16(uint16_t *to, __mmask16 mask, __m512 value)
{
    __m512i bits = _mm512_castps_si512(value);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000)); /* a NaN must not round to infinity */
    _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

static __m512 combine(__m512 a, __m512 b, float scale)
{
    return _mm512_mul_ps(_mm512_add_ps(a, b), _mm512_set1_ps(scale));
}

static void sum_fp32(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    float *o = out;
    const float *x = a, *y = b;
    for (size_t i = 0; i < count_elems; i += LANES) {
        __mmask16 mask = lanes(count_elems - i);
        _mm512_mask_storeu_ps(o + i, mask, combine(_mm512_maskz_loadu_ps(mask, x + i), _mm512_maskz_loadu_ps(mask, y + i), scale));
    }
}

/* The sums of a 16-bit type; inlined, so that its load and store are, too. */
__attribute__((always_inline)) static inline void sum16(uint16_t *out, const uint16_t *x, const uint16_t *y, size_t count_elems,
                                                        float scale, __m512 (*load)(__mmask16, const uint16_t *),
                                                        void (*store)(uint16_t *, __mmask16, __m512))
{
    for (size_t i = 0; i < count_elems; i += LANES) {
        __mmask16 mask = lanes(count_elems - i);
        store(out + i, mask, combine(load(mask, x + i), load(mask, y + i), scale));
    }
}

static void sum_fp16(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    sum16(out, a, b, count_elems, scale, load_fp16, store_fp16);
}

static void sum_bf16(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    sum16(out, a, b, count_elems, scale, load_bf16, store_bf16);
}

const struct dt_reduce_isa dt_reduce_avx512 = {"avx512", {[DT_FP32] = sum_fp32, [DT_FP16] = sum_fp16, [DT_BF16] = sum_bf16}};

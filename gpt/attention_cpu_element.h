/* What a table of attention_cpu_simd*.c computes in: the element, its word, and the vectors of its instruction set. Each table is compiled
 * on its own with GPT_TILE_NAME, and with GPT_TILE_BF16 for bf16 elements (that needs AVX-512 BF16; fp32 elements run anywhere). */
#ifndef GPT_ATTENTION_CPU_ELEMENT_H
#define GPT_ATTENTION_CPU_ELEMENT_H

#include "gpt/attention_cpu_tile.h"

#include <stdint.h>
#include <string.h>

#define GPT_TILE_PASTE(a, b) a##_##b
#define GPT_TILE_EXPAND(a, b) GPT_TILE_PASTE(a, b)
#define GPT_TILE_QUOTE(a) #a
#define GPT_TILE_STRING(a) GPT_TILE_QUOTE(a)
#define TILE_TITLE GPT_TILE_STRING(GPT_TILE_NAME)
#define TILE(name) GPT_TILE_EXPAND(name, GPT_TILE_NAME) /* the name of a function or table in this instruction set */

/* A register block of a product is BLOCK_ROWS rows of two vectors: enough sums at once to hide the latency of a multiply-add. */
#if defined(__AVX512F__)
enum { LANES = 16, BLOCK_ROWS = 8 };
#elif defined(__AVX__)
enum { LANES = 8, BLOCK_ROWS = 4 };
#else
enum { LANES = 4, BLOCK_ROWS = 4 };
#endif

typedef float vector __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#ifdef GPT_TILE_BF16
#include <immintrin.h>

typedef uint16_t element;
enum { DEPTH = 2 };

static inline vector multiply_add(vector sum, uint32_t a, const uint32_t *b)
{
    return (vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)_mm512_loadu_si512(b));
}

/* n is a multiple of 32 in all three. */
static inline void to_elements(const float *from, element *to, int n)
{
    for (int i = 0; i < n; i += 32)
        _mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i)));
}

/* Words of two rows: `even` in the low half, `odd` in the high one. */
static inline void to_words(const float *even, const float *odd, uint32_t *to, int n)
{
    static const uint16_t interleave[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                            8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i order = _mm512_loadu_si512(interleave);
    for (int i = 0; i < n; i += 16) {
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(odd + i), _mm512_loadu_ps(even + i));
        _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(order, both));
    }
}

#else

typedef float element;
enum { DEPTH = 1 };

static inline vector multiply_add(vector sum, uint32_t a, const uint32_t *b)
{
    float factor;
    memcpy(&factor, &a, sizeof factor);
    return sum + factor * *(const vector *)b;
}

static inline void to_elements(const float *from, element *to, int n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

#endif

/* Conversions that the compiler can turn into vectors (lib/dtype.h has the scalar ones, for one value at a time). */
static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float from_bf16(uint16_t h)
{
    return float_of_bits((uint32_t)h << 16);
}

static inline uint16_t to_bf16(float x)
{
    uint32_t bits = bits_of_float(x), rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)(x != x ? bits >> 16 | 0x40u : rounded);
}

static inline float from_fp16(uint16_t h)
{
    /* The exponent is shifted into place and corrected by a multiplication, which also normalises subnormals. */
    uint32_t rest = h & 0x7FFFu;
    uint32_t magnitude = rest >= 0x7C00u ? rest << 13 | 0x7F800000u : bits_of_float(float_of_bits(rest << 13) * 0x1p112f);
    return float_of_bits(magnitude | (uint32_t)(h & 0x8000u) << 16);
}

static inline uint16_t to_fp16(float x)
{
    uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    uint32_t normal = (rest - (112u << 23) + 0xFFFu + (rest >> 13 & 1u)) >> 13;
    uint32_t subnormal = bits_of_float(float_of_bits(rest) + 0.5f) - 0x3F000000u; /* the sum rounds where a subnormal ends */
    uint32_t half = rest < 0x38800000u ? subnormal : normal;
    half = rest >= 0x477FF000u ? 0x7C00u : half;
    return (uint16_t)(sign | (rest > 0x7F800000u ? 0x7E00u : half));
}

static inline void floats_from(enum dt_dtype dtype, const void *from, float *to, int n)
{
    const uint16_t *half = from;
    if (dtype == DT_FP32)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (dtype == DT_BF16)
        for (int i = 0; i < n; i++)
            to[i] = from_bf16(half[i]);
    else
        for (int i = 0; i < n; i++)
            to[i] = from_fp16(half[i]);
}

static inline void floats_to(enum dt_dtype dtype, const float *from, void *to, int n)
{
    uint16_t *half = to;
    if (dtype == DT_FP32)
        memcpy(to, from, (size_t)n * sizeof *from);
    else if (dtype == DT_BF16)
        for (int i = 0; i < n; i++)
            half[i] = to_bf16(from[i]);
    else
        for (int i = 0; i < n; i++)
            half[i] = to_fp16(from[i]);
}

/* The two halves of a table: operands and products in attention_cpu_simd.c, softmax in attention_cpu_simd_softmax.c. */
void TILE(gpt_tile_softmax_forward)(const struct gpt_tile_softmax_forward *s);
void TILE(gpt_tile_softmax_backward)(const struct gpt_tile_softmax_backward *s);

#endif

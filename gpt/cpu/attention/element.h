/* The element type of one table of tile operations, and the word that contains it. For pack.c,
 * softmax.c and product*.c, which are compiled once for each instruction set, with GPT_TILE_NAME,
 * and with GPT_TILE_BF16 for bf16 elements (they need AVX-512 BF16; fp32 elements run on any
 * processor). */
#pragma once

#include "gpt/cpu/attention/tile.h"
#include "lib/kernels/cpu/simd_math.h"

#define GPT_TILE_PASTE(a, b) a##_##b
#define GPT_TILE_EXPAND(a, b) GPT_TILE_PASTE(a, b)
#define TILE(name) GPT_TILE_EXPAND(name, GPT_TILE_NAME) /* the name of a function or table in this instruction set */
#define GPT_TILE_QUOTE(a) #a
#define GPT_TILE_STRING(a) GPT_TILE_QUOTE(a)
#define TILE_TITLE GPT_TILE_STRING(GPT_TILE_NAME)

V_INLINE vuint load_words(const void *from)
{
    vuint words;
    memcpy(&words, from, sizeof words);
    return words;
}

V_INLINE void store_words(void *to, vuint words)
{
    memcpy(to, &words, sizeof words);
}

#ifdef GPT_TILE_BF16

typedef uint16_t element;
enum { DEPTH = 2 };

V_INLINE vfloat multiply_add(vfloat sum, uint32_t a, vuint b)
{
    return (vfloat)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
}

V_INLINE void store_elements(element *to, vfloat value)
{
    vhalf half = v_narrow_bf16(value);
    memcpy(to, &half, sizeof half);
}

/* The words of DEPTH rows: the first row in the low half, the second in the high half. */
V_INLINE vuint words_of(const vfloat value[DEPTH])
{
    return v_widen_bits(v_narrow_bf16(value[0])) | v_widen_bits(v_narrow_bf16(value[1])) << 16;
}

#else

typedef float element;
enum { DEPTH = 1 };

V_INLINE vfloat multiply_add(vfloat sum, uint32_t a, vuint b)
{
    float factor;
    memcpy(&factor, &a, sizeof factor);
    return sum + factor * (vfloat)b;
}

V_INLINE void store_elements(element *to, vfloat value)
{
    memcpy(to, &value, sizeof value);
}

V_INLINE vuint words_of(const vfloat value[DEPTH])
{
    return (vuint)value[0];
}

#endif

/* Entries of the table that pack.c gets from the other files. */
void TILE(gpt_tile_product)(const struct gpt_tile_product *p);
void TILE(gpt_tile_softmax_forward)(const struct gpt_tile_softmax_forward *s);
void TILE(gpt_tile_softmax_backward)(const struct gpt_tile_softmax_backward *s);

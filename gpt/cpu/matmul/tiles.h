/* The processor's tile unit (AMX), and an implementation of it in plain C (the twin): eight
 * registers of 16 rows of 64 bytes.
 *
 * Files compiled with -mamx-tile -mamx-bf16 use the instructions. All others use the twin, which
 * computes what the instructions are documented to compute. So the code that includes this header
 * is the same on every machine, and can be tested on every machine. `number` is a constant from 0
 * to 7; strides are in bytes.
 *
 *   tiles_begin     all eight registers become full tiles; tiles_end releases them
 *   tile_zero       register = 0
 *   tile_load       16 rows of 64 bytes, `stride` apart
 *   tile_store      the same, to memory
 *   tile_multiply   sums [16, 16] fp32 += a [16, 32] bf16 * b [32, 16] bf16; b interleaves two
 *                   rows: its row i contains the pairs of elements (2i, 2i + 1) of each column
 *
 * Source  Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS: even
 *         and odd elements are summed separately from zero with fused multiply-adds, then added to
 *         each other, then to the register. Each step rounds to nearest; denormals are read and
 *         written as zeros. */
#pragma once

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TILE_LINES = 16, TILE_WORDS = 16, TILE_DEPTH = 32, TILE_BYTES = 1024 };

#if defined(__AMX_BF16__)

#include <immintrin.h>

struct tiles {
    char none; /* unused: the registers are the processor's */
};

static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tiles_full = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

#define tiles_begin(t) ((t)->none = 0, _tile_loadconfig(&tiles_full))
#define tiles_end(t) ((void)(t), _tile_release())
/* Compilers do not know that a tile load reads memory. This keeps stores before it in order, once
 * for many loads. */
#define tiles_see_memory() __asm__ volatile("" ::: "memory")
#define tile_zero(t, number) _tile_zero(number)
#define tile_load(t, number, from, stride) _tile_loadd(number, from, stride)
#define tile_store(t, number, to, stride) _tile_stored(number, to, stride)
#define tile_multiply(t, sums, a, b) _tile_dpbf16ps(sums, a, b)

#else

struct tiles {
    uint32_t words[8][TILE_LINES][TILE_WORDS];
};

static inline void tiles_begin(struct tiles *t)
{
    memset(t, 0, sizeof *t);
}

static inline void tiles_end(struct tiles *t)
{
}

static inline void tiles_see_memory(void)
{
}

static inline void tile_zero(struct tiles *t, int number)
{
    memset(t->words[number], 0, TILE_BYTES);
}

static inline void tile_load(struct tiles *t, int number, const void *from, size_t stride)
{
    for (size_t i = 0; i < TILE_LINES; i++)
        memcpy(t->words[number][i], (const char *)from + i * stride, sizeof t->words[number][i]);
}

static inline void tile_store(const struct tiles *t, int number, void *to, size_t stride)
{
    for (size_t i = 0; i < TILE_LINES; i++)
        memcpy((char *)to + i * stride, t->words[number][i], sizeof t->words[number][i]);
}

static inline float tile_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A denormal number becomes zero with its sign. NaN stays. */
static inline float tile_flush(float value)
{
    return __builtin_fabsf(value) < FLT_MIN ? __builtin_copysignf(0, value) : value;
}

static inline float tile_low(uint32_t pair)
{
    return tile_flush(tile_float(pair << 16));
}

static inline float tile_high(uint32_t pair)
{
    return tile_flush(tile_float(pair & 0xFFFF0000u));
}

static inline void tile_multiply(struct tiles *t, int sums, int a, int b)
{
    for (int i = 0; i < TILE_LINES; i++) {
        float even[TILE_WORDS] = {0}, odd[TILE_WORDS] = {0};
        for (int k = 0; k < TILE_WORDS; k++) {
            float low = tile_low(t->words[a][i][k]), high = tile_high(t->words[a][i][k]);
            for (int j = 0; j < TILE_WORDS; j++) {
                even[j] = tile_flush(__builtin_fmaf(low, tile_low(t->words[b][k][j]), even[j]));
                odd[j] = tile_flush(__builtin_fmaf(high, tile_high(t->words[b][k][j]), odd[j]));
            }
        }
        for (int j = 0; j < TILE_WORDS; j++) {
            float sum = tile_flush(tile_flush(tile_float(t->words[sums][i][j])) + tile_flush(even[j] + odd[j]));
            memcpy(&t->words[sums][i][j], &sum, sizeof sum);
        }
    }
}

#endif

/* Pack operands into tiles. A tile is 16 vectors of 16 words; a word is two elements that are
 * adjacent along k. If k is contiguous in memory, one load reads 16 words of a line. If lines are
 * contiguous, two rows are interleaved, which gives a word of each of 16 lines. a needs the first
 * form and b the second. In the other two cases the 16 x 16 words are transposed. */
#include "gpt/cpu/matmul/element.h"
#include "lib/kernels/cpu/simd_math.h"

typedef uint32_t words __attribute__((vector_size(64)));
typedef uint16_t halves __attribute__((vector_size(32)));
typedef float floats __attribute__((vector_size(64)));

/* Transpose 16 x 16 words. Each of the four rounds rotates by one the eight bits of a word's row
 * and column number; after four rounds these have changed places. */
V_INLINE void turn(words tile[16])
{
    for (int round = 0; round < 4; round++) {
        words from[16];
        for (int i = 0; i < 16; i++)
            from[i] = tile[i];
        for (int i = 0; i < 8; i++) {
            tile[2 * i] = __builtin_shufflevector(from[i], from[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            tile[2 * i + 1] = __builtin_shufflevector(from[i], from[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
    }
}

/* Interleave two rows. (By pointer, because returning a vector would need the instruction set's
 * calling convention.) */
V_INLINE void pair(const uint16_t *first, const uint16_t *second, words *to)
{
    halves low, high;
    memcpy(&low, first, sizeof low);
    memcpy(&high, second, sizeof high);
    *to = __builtin_convertvector(low, words) | __builtin_convertvector(high, words) << 16;
}

/* Pack 16 lines and 32 of k, all of which exist. sums: NULL, or the sums of the lines if these are
 * contiguous in memory. */
V_INLINE void pack_tile(const uint16_t *from, size_t stride, bool k_runs, bool as_b, char *to, floats *sums)
{
    words tile[16];
    if (k_runs) {
        for (size_t i = 0; i < 16; i++)
            memcpy(&tile[i], from + i * stride, sizeof tile[i]);
    } else {
        for (size_t i = 0; i < 16; i++)
            pair(from + 2 * i * stride, from + (2 * i + 1) * stride, &tile[i]);
        if (sums)
            for (size_t i = 0; i < 16; i++)
                *sums += (floats)(tile[i] << 16) + (floats)(tile[i] & 0xFFFF0000u);
    }
    if (k_runs == as_b)
        turn(tile);
    memcpy(to, tile, sizeof tile);
}

static __attribute__((noinline)) void pack_along(const uint16_t *from, size_t stride, bool as_b, char *to)
{
    if (as_b)
        pack_tile(from, stride, true, true, to, NULL);
    else
        pack_tile(from, stride, true, false, to, NULL);
}

static __attribute__((noinline)) void pack_across(const uint16_t *from, size_t stride, bool as_b, char *to, floats *sums)
{
    if (as_b)
        pack_tile(from, stride, false, true, to, NULL);
    else
        pack_tile(from, stride, false, false, to, sums);
}

/* Pack a tile of which only a part exists, from a copy that is padded with zeros. */
static __attribute__((noinline)) void pack_edge(const struct gpt_matmul_packing *p, size_t line, size_t k, char *to, floats *sums)
{
    uint16_t copy[TILE_DEPTH * TILE_LINES] = {0};
    size_t lines = line < p->lines ? gpt_smaller(p->lines - line, TILE_LINES) : 0, depth = gpt_smaller(p->k - k, TILE_DEPTH);
    for (size_t i = 0; p->k_runs && i < lines; i++)
        memcpy(copy + i * TILE_DEPTH, p->from + (line + i) * p->stride + k, depth * sizeof *copy);
    for (size_t i = 0; !p->k_runs && lines && i < depth; i++)
        memcpy(copy + i * TILE_LINES, p->from + (k + i) * p->stride + line, lines * sizeof *copy);
    if (p->k_runs)
        pack_along(copy, TILE_DEPTH, p->as_b, to);
    else
        pack_across(copy, TILE_LINES, p->as_b, to, sums);
}

/* Apply GELU to every element of a packed tile. Zeros of the padding stay zero. */
static __attribute__((noinline)) void activate(char *tile)
{
    for (size_t i = 0; i < TILE_BYTES; i += sizeof(vuint)) {
        vuint pairs;
        memcpy(&pairs, tile + i, sizeof pairs);
        vhalf low = v_narrow_bf16(v_gelu((vfloat)(pairs << 16))), high = v_narrow_bf16(v_gelu((vfloat)(pairs & 0xFFFF0000u)));
        pairs = v_widen_bits(low) | v_widen_bits(high) << 16;
        memcpy(tile + i, &pairs, sizeof pairs);
    }
}

static void pack_strip(const struct gpt_matmul_packing *p, size_t strip, char *to)
{
    floats sums[2] = {{0}, {0}};
    float *all = p->sums ? p->sums + strip * STRIP : NULL;
    if (p->sums && p->add_to_sums)
        memcpy(sums, all, sizeof sums);
    for (size_t k = 0; k < p->k; k += TILE_DEPTH)
        for (size_t half = 0; half < 2; half++, to += TILE_BYTES) {
            size_t line = strip * STRIP + half * TILE_LINES;
            floats *sum = p->sums ? &sums[half] : NULL;
            if (line + TILE_LINES > p->lines || k + TILE_DEPTH > p->k)
                pack_edge(p, line, k, to, sum);
            else if (p->k_runs)
                pack_along(p->from + line * p->stride + k, p->stride, p->as_b, to);
            else
                pack_across(p->from + k * p->stride + line, p->stride, p->as_b, to, sum);
            if (p->gelu)
                activate(to);
        }
    if (p->sums)
        memcpy(all, sums, sizeof sums);
}

void MATMUL(gpt_matmul_pack)(const struct gpt_matmul_packing *p, size_t first_strip, size_t end_strip)
{
    size_t strip_bytes = (p->k + TILE_DEPTH - 1) / TILE_DEPTH * STEP_BYTES;
    for (size_t strip = first_strip; strip < end_strip; strip++)
        pack_strip(p, strip, p->to + strip * strip_bytes);
}

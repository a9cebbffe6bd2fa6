/* Products of strips: the inner loops of a product by tiles.
 *
 * Source  Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter "Intel AMX": 2 x
 *         2 tiles of sums need four loads for four multiplications, the fewest that eight registers
 *         allow. */
#include "gpt/cpu/matmul/element.h"

enum {
    DEPTH_STEPS = 256 / TILE_DEPTH, /* of K at a time: 16 KiB of b, which fit into the first-level cache */
    CHUNK_BYTES = 512 << 10         /* of a, which fit into the second-level cache */
};

/* sums [32, 32], over `steps` times 32 of K. */
static inline void multiply_strips(struct tiles *t, const char *a, const char *b, size_t steps, float *sums, bool go_on)
{
    const size_t row_bytes = STRIP * sizeof *sums;
    float *lower = sums + TILE_LINES * STRIP;
    if (go_on) {
        tile_load(t, 0, sums, row_bytes);
        tile_load(t, 1, sums + TILE_WORDS, row_bytes);
        tile_load(t, 2, lower, row_bytes);
        tile_load(t, 3, lower + TILE_WORDS, row_bytes);
    } else {
        tile_zero(t, 0);
        tile_zero(t, 1);
        tile_zero(t, 2);
        tile_zero(t, 3);
    }
    for (size_t i = 0; i < steps; i++, a += STEP_BYTES, b += STEP_BYTES) {
        tile_load(t, 4, a, 64);
        tile_load(t, 6, b, 64);
        tile_load(t, 7, b + TILE_BYTES, 64);
        tile_multiply(t, 0, 4, 6);
        tile_multiply(t, 1, 4, 7);
        tile_load(t, 5, a + TILE_BYTES, 64);
        tile_multiply(t, 2, 5, 6);
        tile_multiply(t, 3, 5, 7);
    }
    tile_store(t, 0, sums, row_bytes);
    tile_store(t, 1, sums + TILE_WORDS, row_bytes);
    tile_store(t, 2, lower, row_bytes);
    tile_store(t, 3, lower + TILE_WORDS, row_bytes);
}

static void multiply_group(struct tiles *t, const struct gpt_matmul_block *block, size_t group, size_t b_strip)
{
    _Alignas(64) float near[GPT_MATMUL_GROUP][STRIP * STRIP];
    size_t strips = gpt_matmul_strips(block->m), b_strips = gpt_matmul_strips(block->n), first = group * GPT_MATMUL_GROUP;
    size_t count = strips - first < GPT_MATMUL_GROUP ? strips - first : GPT_MATMUL_GROUP, strip_bytes = block->k_tiles * STEP_BYTES;
    const char *a = block->a + first * strip_bytes, *b = block->b + b_strip * strip_bytes;
    float *sums[GPT_MATMUL_GROUP];
    for (size_t i = 0; i < count; i++)
        sums[i] = block->partial ? block->partial + ((first + i) * b_strips + b_strip) * STRIP * STRIP : near[i];
    for (size_t step = 0; step < block->k_tiles; step += DEPTH_STEPS) {
        size_t steps = block->k_tiles - step < DEPTH_STEPS ? block->k_tiles - step : DEPTH_STEPS;
        for (size_t i = 0; i < count; i++)
            multiply_strips(t, a + i * strip_bytes + step * STEP_BYTES, b + step * STEP_BYTES, steps, sums[i], step > 0 || !block->first);
    }
    for (size_t i = 0; block->last && i < count; i++)
        MATMUL(gpt_matmul_store)(block, sums[i], (first + i) * STRIP, b_strip * STRIP);
}

static void multiply(const struct gpt_matmul_block *block, size_t first_item, size_t end_item)
{
    size_t groups = gpt_matmul_groups(block->m), b_strips = gpt_matmul_strips(block->n), item = 0;
    size_t chunk = CHUNK_BYTES / (GPT_MATMUL_GROUP * block->k_tiles * STEP_BYTES);
    struct tiles t;
    chunk += chunk == 0;
    tiles_begin(&t);
    tiles_see_memory();
    for (size_t from = 0; from < groups; from += chunk) {
        size_t until = groups - from < chunk ? groups : from + chunk;
        for (size_t b_strip = 0; b_strip < b_strips; b_strip++)
            for (size_t group = from; group < until; group++, item++)
                if (item >= first_item && item < end_item)
                    multiply_group(&t, block, group, b_strip);
    }
    tiles_end(&t);
}

const struct gpt_matmul_ops MATMUL(gpt_matmul_ops) = {.name = MATMUL_TITLE, .pack = MATMUL(gpt_matmul_pack), .multiply = multiply};

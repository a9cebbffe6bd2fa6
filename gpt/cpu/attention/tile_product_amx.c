/* Products of attention's tiles on AMX, in place of tile_product.c.
 *
 * Source  Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter "Intel AMX": a
 *         block of 2 x 2 sums needs two loads for every two multiplications, so that loads keep
 *         up. */
#include "gpt/cpu/attention/element.h"

/* The configuration that ldtilecfg reads: eight tiles of 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} eight_full_tiles = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* 32 x 32 elements of C. Strides in bytes; words is a multiple of 16. */
V_INLINE void product_block(int words, const uint32_t *a, size_t a_stride, const uint32_t *b, float *c, size_t c_stride, bool accumulate)
{
    const size_t b_stride = 64 * sizeof *b;
    float *lower = (float *)((char *)c + 16 * c_stride);
    if (accumulate) {
        _tile_loadd(0, c, c_stride);
        _tile_loadd(1, c + 16, c_stride);
        _tile_loadd(2, lower, c_stride);
        _tile_loadd(3, lower + 16, c_stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int k = 0; k < words; k += 16, a += 16, b += 16 * 64) {
        _tile_loadd(4, a, a_stride);
        _tile_loadd(6, b, b_stride);
        _tile_loadd(7, b + 16, b_stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, (const char *)a + 16 * a_stride, a_stride);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_stride);
    _tile_stored(1, c + 16, c_stride);
    _tile_stored(2, lower, c_stride);
    _tile_stored(3, lower + 16, c_stride);
}

void TILE(gpt_tile_product)(const struct gpt_tile_product *p)
{
    _tile_loadconfig(&eight_full_tiles);
    size_t a_stride = p->lda_words * 4, c_stride = p->ldc * sizeof(float);
    for (int j = 0; j < p->n; j += 32) {
        size_t panel = (size_t)j / 64, column = (size_t)j % 64;
        const uint32_t *b = (const uint32_t *)p->b + panel * p->panel_words + column;
        float *c = p->c + panel * p->c_panel + column;
        int first_query = j > p->diagonal ? (j - p->diagonal) / 32 * 32 : 0; /* the first query of the block that sees one of these keys */
        int start = p->shape == GPT_TILE_OVER_QUERIES ? first_query : 0;
        for (int i = p->shape == GPT_TILE_QUERIES_KEYS ? first_query : 0; i < p->m; i += 32) {
            int seen = gpt_tile_round(p->diagonal + i + 32), end = p->shape == GPT_TILE_OVER_KEYS && seen < p->k ? seen : p->k;
            product_block((end - start) / DEPTH, (const uint32_t *)p->a + (size_t)i * p->lda_words + start / DEPTH, a_stride,
                          b + (size_t)(start / DEPTH) * 64, c + (size_t)i * p->ldc, c_stride, p->accumulate);
        }
    }
    _tile_release();
}

/* Products of attention's tiles, with vector multiply-adds. Compiled once for each instruction set,
 * see element.h. */
#include "gpt/cpu/attention/element.h"

/* A block has as many rows of two vectors as fit into the registers. That is enough sums at a time
 * to hide the latency of a multiply-add. */
enum { BLOCK_ROWS = V_LANES == 16 ? 8 : 4 };

/* BLOCK_ROWS x 2 vectors of C. lda in words; rows of B are 64 words apart. */
V_INLINE void product_block(int words, const uint32_t *a, size_t lda, const uint32_t *b, float *c, size_t ldc, bool accumulate)
{
    vfloat sum[BLOCK_ROWS][2];
    for (int i = 0; i < BLOCK_ROWS; i++)
        for (int v = 0; v < 2; v++)
            sum[i][v] = accumulate ? (vfloat)load_words(c + (size_t)i * ldc + v * V_LANES) : (vfloat){0};
    for (int k = 0; k < words; k++, b += 64) {
        vuint first = load_words(b), second = load_words(b + V_LANES);
        for (int i = 0; i < BLOCK_ROWS; i++) {
            uint32_t factor = a[(size_t)i * lda + (size_t)k];
            sum[i][0] = multiply_add(sum[i][0], factor, first);
            sum[i][1] = multiply_add(sum[i][1], factor, second);
        }
    }
    for (int i = 0; i < BLOCK_ROWS; i++)
        for (int v = 0; v < 2; v++)
            store_words(c + (size_t)i * ldc + v * V_LANES, (vuint)sum[i][v]);
}

void TILE(gpt_tile_product)(const struct gpt_tile_product *p)
{
    for (int j = 0; j < p->n; j += 2 * V_LANES) {
        size_t panel = (size_t)j / 64, column = (size_t)j % 64;
        const uint32_t *b = (const uint32_t *)p->b + panel * p->panel_words + column;
        float *c = p->c + panel * p->c_panel + column;
        int first_query = j - p->diagonal > 0 ? j - p->diagonal : 0; /* the first query that sees one of these keys */
        int i = p->shape == GPT_TILE_QUERIES_KEYS ? first_query / BLOCK_ROWS * BLOCK_ROWS : 0;
        int start = p->shape == GPT_TILE_OVER_QUERIES ? first_query / DEPTH : 0;
        for (; i < p->m; i += BLOCK_ROWS) {
            int end = p->k, last_key = p->diagonal + i + BLOCK_ROWS;
            if (p->shape == GPT_TILE_OVER_KEYS && last_key < end)
                end = last_key;
            product_block((end + DEPTH - 1) / DEPTH - start, (const uint32_t *)p->a + (size_t)i * p->lda_words + start, p->lda_words,
                          b + (size_t)start * 64, c + (size_t)i * p->ldc, p->ldc, p->accumulate);
        }
    }
}

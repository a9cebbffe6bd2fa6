/* Operands and products of attention's tiles. Compiled once per instruction set, see attention_cpu_element.h. */
#include "gpt/attention_cpu_element.h"

/* BLOCK_ROWS x 2 vectors of C. lda in words; rows of B are 64 words apart. */
static inline void product_block(int words, const uint32_t *a, size_t lda, const uint32_t *b, float *c, size_t ldc, bool accumulate)
{
    vector sum[BLOCK_ROWS][2];
    for (int i = 0; i < BLOCK_ROWS; i++)
        for (int v = 0; v < 2; v++)
            sum[i][v] = accumulate ? *(vector *)(c + (size_t)i * ldc + v * LANES) : (vector){0};
    for (int k = 0; k < words; k++)
        for (int i = 0; i < BLOCK_ROWS; i++)
            for (int v = 0; v < 2; v++)
                sum[i][v] = multiply_add(sum[i][v], a[(size_t)i * lda + (size_t)k], b + (size_t)k * 64 + v * LANES);
    for (int i = 0; i < BLOCK_ROWS; i++)
        for (int v = 0; v < 2; v++)
            *(vector *)(c + (size_t)i * ldc + v * LANES) = sum[i][v];
}

static void product(const struct gpt_tile_product *p)
{
    for (int j = 0; j < p->n; j += 2 * LANES) {
        size_t panel = (size_t)j / 64, column = (size_t)j % 64;
        const uint32_t *b = (const uint32_t *)p->b + panel * p->panel_words + column;
        float *c = p->c + panel * p->c_panel + column;
        for (int i = 0; i < p->m; i += BLOCK_ROWS)
            product_block(p->k / DEPTH, (const uint32_t *)p->a + (size_t)i * p->lda_words, p->lda_words, b, c + (size_t)i * p->ldc, p->ldc,
                          p->accumulate);
    }
}

/* to [columns, 64] = transpose of from [rows <= 64, stride], in words. */
static inline void transpose_words(const uint32_t *from, size_t stride, int rows, int columns, uint32_t *to)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            to[j * 64 + i] = from[(size_t)i * stride + (size_t)j];
}

static void pack_transposed(const void *x, int rows, int width, void *to)
{
    size_t words = (size_t)width / DEPTH;
    for (int i = 0; i < rows; i += 64)
        transpose_words((const uint32_t *)x + (size_t)i * words, words, rows - i < 64 ? rows - i : 64, (int)words,
                        (uint32_t *)to + (size_t)i * words);
}

#ifdef GPT_TILE_BF16

static void load(enum dt_dtype dtype, const void *from, size_t stride, int rows, int width, void *to, int padded_rows, int padded_width)
{
    element *row = to;
    for (int i = 0; i < padded_rows; i++, row += padded_width) {
        int filled = i < rows ? width : 0;
        memcpy(row, (const element *)from + (size_t)i * stride, (size_t)filled * sizeof *row);
        memset(row + filled, 0, (size_t)(padded_width - filled) * sizeof *row);
    }
}

static void pack(const void *x, int rows, int width, void *to, size_t panel_words)
{
    for (int i = 0; i < rows; i += 2) {
        const element *even = (const element *)x + (size_t)i * (size_t)width, *odd = even + width;
        for (int column = 0; column < width; column += 64) {
            uint32_t *words = (uint32_t *)to + (size_t)(column / 64) * panel_words + (size_t)i / 2 * 64;
            for (int j = 0; j < 64 && column + j < width; j++)
                words[j] = even[column + j] | (uint32_t)odd[column + j] << 16;
        }
    }
}

static void transpose(const void *x, int rows, int width, void *to)
{
    element *out = to;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j++)
            out[j * 64 + i] = ((const element *)x)[i * width + j];
}

#else

static void load(enum dt_dtype dtype, const void *from, size_t stride, int rows, int width, void *to, int padded_rows, int padded_width)
{
    element *row = to;
    for (int i = 0; i < padded_rows; i++, row += padded_width) {
        int filled = i < rows ? width : 0;
        floats_from(dtype, (const char *)from + (size_t)i * stride * dt_dtype_bytes(dtype), row, filled);
        memset(row + filled, 0, (size_t)(padded_width - filled) * sizeof *row);
    }
}

static void pack(const void *x, int rows, int width, void *to, size_t panel_words)
{
    for (int i = 0; i < rows; i++)
        for (int column = 0; column < width; column += 64)
            memcpy((uint32_t *)to + (size_t)(column / 64) * panel_words + (size_t)i * 64,
                   (const element *)x + (size_t)i * (size_t)width + (size_t)column,
                   sizeof(element) * (size_t)(width - column < 64 ? width - column : 64));
}

static void transpose(const void *x, int rows, int width, void *to)
{
    transpose_words(x, (size_t)width, rows, width, to);
}

#endif

enum { PIECE = 64 }; /* elements converted at a time */

static void dots(enum dt_dtype dtype, const void *a, const void *b, size_t stride, int rows, int width, float *to)
{
    size_t bytes = dt_dtype_bytes(dtype);
    for (int i = 0; i < rows; i++) {
        float sum = 0;
        for (int first = 0; first < width; first += PIECE) {
            float x[PIECE], y[PIECE];
            int n = width - first < PIECE ? width - first : PIECE;
            size_t place = ((size_t)i * stride + (size_t)first) * bytes;
            floats_from(dtype, (const char *)a + place, x, n);
            floats_from(dtype, (const char *)b + place, y, n);
#pragma omp simd reduction(+ : sum)
            for (int j = 0; j < n; j++)
                sum += x[j] * y[j];
        }
        to[i] = sum;
    }
}

static void store(enum dt_dtype dtype, const float *from, size_t ld, float scale, const float *row_scale, int rows, int width, void *to,
                  size_t stride)
{
    size_t bytes = dt_dtype_bytes(dtype);
    for (int i = 0; i < rows; i++) {
        float factor = row_scale ? scale * row_scale[i] : scale;
        for (int first = 0; first < width; first += PIECE) {
            float x[PIECE];
            int n = width - first < PIECE ? width - first : PIECE;
            for (int j = 0; j < n; j++)
                x[j] = from[(size_t)i * ld + (size_t)(first + j)] * factor;
            floats_to(dtype, x, (char *)to + ((size_t)i * stride + (size_t)first) * bytes, n);
        }
    }
}

static void store_transposed(enum dt_dtype dtype, const float *from, float scale, int rows, int width, void *to, size_t stride)
{
    float piece[64 * PIECE];
    size_t bytes = dt_dtype_bytes(dtype);
    for (int first = 0; first < width; first += PIECE) {
        int n = width - first < PIECE ? width - first : PIECE;
        for (int j = 0; j < n; j++)
            for (int i = 0; i < rows; i++)
                piece[i * PIECE + j] = from[(first + j) * 64 + i];
        store(dtype, piece, PIECE, scale, NULL, rows, n, (char *)to + (size_t)first * bytes, stride);
    }
}

extern const struct gpt_tile_ops TILE(gpt_tile_ops);
const struct gpt_tile_ops TILE(gpt_tile_ops) = {
    .name = TILE_TITLE,
    .depth = DEPTH,
    .product = product,
    .load = load,
    .pack_transposed = pack_transposed,
    .pack = pack,
    .transpose = transpose,
    .softmax_forward = TILE(gpt_tile_softmax_forward),
    .softmax_backward = TILE(gpt_tile_softmax_backward),
    .dots = dots,
    .store = store,
    .store_transposed = store_transposed,
};

/* Load, pack and store the operands of attention's tiles. Compiled once for each instruction set,
 * see element.h. */
#include "gpt/cpu/attention/element.h"

/* The lanes of a and b interleaved: the first half of the result, and the second. */
#if defined(__AVX512F__)
#define ZIP_FIRST 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define ZIP_SECOND 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
#define ZIP_FIRST 0, 8, 1, 9, 2, 10, 3, 11
#define ZIP_SECOND 4, 12, 5, 13, 6, 14, 7, 15
#else
#define ZIP_FIRST 0, 4, 1, 5
#define ZIP_SECOND 2, 6, 3, 7
#endif

/* One step of a transpose. After log2(V_LANES) steps, lane j of vector i contains what was in lane
 * i of vector j. */
V_INLINE void zip_halves(const vuint from[V_LANES], vuint to[V_LANES])
{
    for (int i = 0; i < V_LANES / 2; i++) {
        to[2 * i] = __builtin_shufflevector(from[i], from[i + V_LANES / 2], ZIP_FIRST);
        to[2 * i + 1] = __builtin_shufflevector(from[i], from[i + V_LANES / 2], ZIP_SECOND);
    }
}

/* to [V_LANES, to_stride] = transpose of from [V_LANES, stride], in words. */
V_INLINE void transpose_block(const uint32_t *from, size_t stride, uint32_t *to, size_t to_stride)
{
    vuint a[V_LANES], b[V_LANES];
    for (int i = 0; i < V_LANES; i++)
        a[i] = load_words(from + (size_t)i * stride);
    for (int lanes = 1; lanes < V_LANES; lanes *= 4) {
        zip_halves(a, b);
        if (lanes * 2 < V_LANES)
            zip_halves(b, a);
        else
            memcpy(a, b, sizeof a);
    }
    for (int i = 0; i < V_LANES; i++)
        store_words(to + (size_t)i * to_stride, a[i]);
}

/* to [columns, to_stride] = transpose of from [rows, stride], in words; rows and columns are
 * multiples of 16. */
static void transpose_words(const uint32_t *from, size_t stride, int rows, int columns, uint32_t *to, size_t to_stride)
{
    for (int i = 0; i < rows; i += V_LANES)
        for (int j = 0; j < columns; j += V_LANES)
            transpose_block(from + (size_t)i * stride + (size_t)j, stride, to + (size_t)j * to_stride + (size_t)i, to_stride);
}

static void pack_transposed(const void *x, int rows, int width, void *to)
{
    size_t words = (size_t)width / DEPTH;
    for (int i = 0; i < rows; i += 64)
        transpose_words((const uint32_t *)x + (size_t)i * words, words, rows - i < 64 ? rows - i : 64, (int)words,
                        (uint32_t *)to + (size_t)i * words, 64);
}

/* A head's rows are short and far apart, so the processor does not prefetch them. */
enum { AHEAD = 16 };
V_INLINE void prefetch(const char *row, int bytes)
{
    for (int i = 0; i < bytes; i += 64)
        __builtin_prefetch(row + i);
}

V_INLINE void load_as(enum dt_dtype dtype, const void *from, size_t stride, int rows, int width, element *to, int padded_rows,
                      int padded_width)
{
    for (int i = 0; i < rows; i++, to += padded_width) {
        const char *row = (const char *)from + (size_t)i * stride * (dtype == DT_FP32 ? 4 : 2);
        if (i + AHEAD < rows)
            prefetch(row + AHEAD * stride * (dtype == DT_FP32 ? 4 : 2), width * (dtype == DT_FP32 ? 4 : 2));
        for (int j = 0; j < width; j += V_LANES)
            store_elements(to + j, v_load(dtype, row, (size_t)j, (size_t)(width - j)));
        for (int j = (width + V_LANES - 1) / V_LANES * V_LANES; j < padded_width; j += V_LANES)
            store_elements(to + j, (vfloat){0});
    }
    memset(to, 0, (size_t)(padded_rows - rows) * (size_t)padded_width * sizeof *to);
}

static void load(enum dt_dtype dtype, const void *from, size_t stride, int rows, int width, void *to, int padded_rows, int padded_width)
{
    if (dtype == DT_FP32)
        load_as(DT_FP32, from, stride, rows, width, to, padded_rows, padded_width);
    else if (dtype == DT_BF16)
        load_as(DT_BF16, from, stride, rows, width, to, padded_rows, padded_width);
    else
        load_as(DT_FP16, from, stride, rows, width, to, padded_rows, padded_width);
}

#ifdef GPT_TILE_BF16

static void pack(const void *x, int rows, int width, void *to, size_t panel_words)
{
    for (int i = 0; i < rows; i += 2) {
        const element *even = (const element *)x + (size_t)i * (size_t)width, *odd = even + width;
        for (int j = 0; j < width; j += V_LANES) {
            vhalf low, high;
            memcpy(&low, even + j, sizeof low);
            memcpy(&high, odd + j, sizeof high);
            store_words((uint32_t *)to + (size_t)(j / 64) * panel_words + (size_t)i / 2 * 64 + (size_t)(j % 64),
                        v_widen_bits(low) | v_widen_bits(high) << 16);
        }
    }
}

static void transpose(const void *x, int rows, int width, void *to)
{
    uint32_t words[16 * 64];
    for (int column = 0; column < width; column += 32) {
        element *out = (element *)to + (size_t)column * 64;
        transpose_words((const uint32_t *)x + column / 2, (size_t)width / 2, rows, 16, words, 64);
        for (int j = 0; j < 16; j++)
            for (int i = 0; i < rows; i += V_LANES) {
                vuint both = load_words(words + j * 64 + i);
                vhalf low = __builtin_convertvector(both, vhalf), high = __builtin_convertvector(both >> 16, vhalf);
                memcpy(out + (2 * j) * 64 + i, &low, sizeof low);
                memcpy(out + (2 * j + 1) * 64 + i, &high, sizeof high);
            }
    }
}

#else

static void pack(const void *x, int rows, int width, void *to, size_t panel_words)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j += V_LANES)
            store_words((uint32_t *)to + (size_t)(j / 64) * panel_words + (size_t)i * 64 + (size_t)(j % 64),
                        load_words((const element *)x + (size_t)i * (size_t)width + (size_t)j));
}

static void transpose(const void *x, int rows, int width, void *to)
{
    transpose_words(x, (size_t)width, rows, width, to, 64);
}

#endif

V_INLINE void dots_as(enum dt_dtype dtype, const char *a, const char *b, size_t stride_bytes, int rows, int width, float *to)
{
    for (int i = 0; i < rows; i++) {
        vfloat sum = {0};
        if (i + AHEAD < rows)
            prefetch(b + (size_t)(i + AHEAD) * stride_bytes, width * (dtype == DT_FP32 ? 4 : 2));
        for (int j = 0; j < width; j += V_LANES) {
            size_t left = (size_t)(width - j);
            sum +=
                v_load(dtype, a + (size_t)i * stride_bytes, (size_t)j, left) * v_load(dtype, b + (size_t)i * stride_bytes, (size_t)j, left);
        }
        to[i] = v_sum(sum);
    }
}

static void dots(enum dt_dtype dtype, const void *a, const void *b, size_t stride, int rows, int width, float *to)
{
    if (dtype == DT_FP32)
        dots_as(DT_FP32, a, b, stride * 4, rows, width, to);
    else if (dtype == DT_BF16)
        dots_as(DT_BF16, a, b, stride * 2, rows, width, to);
    else
        dots_as(DT_FP16, a, b, stride * 2, rows, width, to);
}

V_INLINE void store_as(enum dt_dtype dtype, const float *from, size_t ld, float scale, const float *row_scale, int rows, int width,
                       char *to, size_t stride_bytes)
{
    for (int i = 0; i < rows; i++) {
        float factor = row_scale ? scale * row_scale[i] : scale;
        for (int j = 0; j < width; j += V_LANES)
            v_store(dtype, to + (size_t)i * stride_bytes, (size_t)j, (size_t)(width - j),
                    (vfloat)load_words(from + (size_t)i * ld + j) * factor);
    }
}

static void store(enum dt_dtype dtype, const float *from, size_t ld, float scale, const float *row_scale, int rows, int width, void *to,
                  size_t stride)
{
    if (dtype == DT_FP32)
        store_as(DT_FP32, from, ld, scale, row_scale, rows, width, to, stride * 4);
    else if (dtype == DT_BF16)
        store_as(DT_BF16, from, ld, scale, row_scale, rows, width, to, stride * 2);
    else
        store_as(DT_FP16, from, ld, scale, row_scale, rows, width, to, stride * 2);
}

static void store_transposed(enum dt_dtype dtype, const float *from, float scale, int rows, int width, void *to, size_t stride)
{
    uint32_t piece[64 * 64];
    for (int first = 0; first < width; first += 64) {
        int n = width - first < 64 ? width - first : 64;
        transpose_words((const uint32_t *)from + (size_t)first * 64, 64, gpt_tile_round(n), 64, piece, 64);
        store(dtype, (const float *)piece, 64, scale, NULL, rows, n, (char *)to + (size_t)first * dt_dtype_bytes(dtype), stride);
    }
}

extern const struct gpt_tile_ops TILE(gpt_tile_ops);
const struct gpt_tile_ops TILE(gpt_tile_ops) = {
    .name = TILE_TITLE,
    .depth = DEPTH,
    .product = TILE(gpt_tile_product),
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

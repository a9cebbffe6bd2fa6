/* Inside this folder: the operations on tiles, of which there is one table per instruction set.
 *
 * Elements. A table computes in fp32, or in bf16 with fp32 sums. Matrix operands consist of 32-bit
 * words: one fp32 element, or two bf16 elements that are adjacent along the inner dimension of the
 * product (AVX-512 BF16 and AMX multiply such pairs). `depth` below is the number of elements in a
 * word, 1 or 2.
 *
 * Operands. A product is C [m, n] = A [m, k] * B [k, n]. A is row-major. B is stored in panels of
 * 64 columns: its word (i, j), which contains the elements from i*depth on of column j, is at (j /
 * 64) * panel_words + i * 64 + j % 64. C is fp32, also row-major inside panels of 64 columns; with
 * ldc = full width and c_panel = 64 it is plain row-major. All sizes are multiples of
 * GPT_TILE_STEP: operands are padded with zeros. */
#pragma once

#include "gpt/cpu/attention/attention.h"

enum {
    GPT_TILE_ROWS = 64,  /* Br: query rows of a tile; columns of a panel */
    GPT_TILE_KEYS = 256, /* Bc: keys of a chunk in fused attention: a tile's scores and probabilities then fit into a core's own caches */
    GPT_TILE_STEP = 32,  /* sizes are padded to multiples of this */
};

static inline int gpt_tile_round(int size)
{
    return (size + GPT_TILE_STEP - 1) / GPT_TILE_STEP * GPT_TILE_STEP;
}

/* The elements that a product may skip because they belong to keys after a query. diagonal: the
 * first query's place among the tile's keys. */
enum gpt_tile_shape {
    GPT_TILE_QUERIES_KEYS, /* rows of C are queries, columns are keys: elements above the diagonal may be left undefined */
    GPT_TILE_OVER_KEYS,    /* rows are queries, the inner dimension is keys: A is zero above the diagonal */
    GPT_TILE_OVER_QUERIES, /* the inner dimension is queries, columns are keys: B is zero above the diagonal */
};

struct gpt_tile_product {
    enum gpt_tile_shape shape;
    int diagonal;
    int m, n, k;
    const void *a;
    size_t lda_words;
    const void *b;
    size_t panel_words;
    float *c;
    size_t ldc, c_panel;
    bool accumulate; /* add to c instead of overwriting it */
};

/* The dropout of one (sample, head). threshold 0: nothing is dropped. */
struct gpt_tile_dropout {
    uint64_t seed;
    uint32_t head, sample, layer; /* sample: its number in the whole batch */
    uint32_t threshold;
    float scale; /* what kept elements are multiplied by */
};

/* A tile of scores: `rows` real rows (of padded_rows), queries from first_row on; keys from
 * first_key to first_key + keys. Row i sees the keys up to first_row + i. */
struct gpt_tile_softmax {
    float *scores; /* [padded_rows, ld], unscaled products of q and k; overwritten */
    size_t ld;
    int rows, padded_rows, keys, first_row, first_key;
    int hidden, past; /* the number of keys hidden at the start, and of keys after the last visible one */
    float scale;      /* 1 / sqrt(w) */
    float slope;      /* alibi: added to a scaled score, times the distance from the key to the query; 0: none */
    const struct gpt_tile_dropout *dropout;
    enum dt_dtype dtype; /* the dtype of weights */
    void *weights;       /* NULL, or the whole softmax: [rows] rows of T elements. first_key is then 0, and the tile contains whole rows */
    int row_elems;       /* T */
};

struct gpt_tile_softmax_forward {
    struct gpt_tile_softmax tile;
    float *maximum, *sum; /* [padded_rows] over the chunks so far; -infinity and 0 before the first */
    float *values;        /* [padded_rows, values_width] weighted values so far; rescaled when the maximum grows */
    int values_width;
    /* out: A operand, lda = ld elements: exp(score - maximum), or with weights the rounded softmax;
     * 0 where dropped. The caller multiplies by the dropout's scale and, without weights, by 1 /
     * sum */
    void *probabilities;
};

struct gpt_tile_softmax_backward {
    struct gpt_tile_softmax tile; /* weights, if given, are read, and scores and lse are not */
    float *dprobabilities;        /* [padded_rows, ld] dout * v^T; overwritten */
    const float *lse, *dots;      /* [rows], dots = sum of dout * out; not read if weights are given */
    void *dscores;                /* out: A operand, lda = ld elements; the caller multiplies by `scale` */
    void *dscores_panels;         /* out: the same as B operand (inner dimension: rows), panels of 64 keys */
    void *probabilities_panels;   /* out: B operand; 0 where dropped; the caller multiplies by the dropout's scale */
    size_t panel_words;           /* of both panels */
};

struct gpt_tile_ops {
    const char *name;
    int depth; /* elements of a word: 1 fp32, 2 bf16 */

    void (*product)(const struct gpt_tile_product *p);

    /* to [padded_rows, padded_width] elements = from [rows, width] of `dtype` with a stride, the
     * rest zeros. */
    void (*load)(enum dt_dtype dtype, const void *from, size_t stride_elems, int rows, int width, void *to, int padded_rows,
                 int padded_width);
    /* x [rows, width] elements, row-major, as the B operand x^T (inner dimension: width). */
    void (*pack_transposed)(const void *x, int rows, int width, void *to);
    /* x [rows, width] as the B operand x (inner dimension: rows), panels of 64 columns, panel_words
     * apart. */
    void (*pack)(const void *x, int rows, int width, void *to, size_t panel_words);
    /* x [rows <= 64, width] as the A operand x^T [width, rows], lda = 64 elements. */
    void (*transpose)(const void *x, int rows, int width, void *to);

    void (*softmax_forward)(const struct gpt_tile_softmax_forward *s);
    void (*softmax_backward)(const struct gpt_tile_softmax_backward *s);

    /* to[i] = sum over width of a * b, both [rows, width] of `dtype` with one stride. */
    void (*dots)(enum dt_dtype dtype, const void *a, const void *b, size_t stride_elems, int rows, int width, float *to);
    /* to [rows, width] of `dtype` with a stride = from [rows, ld] * scale * (row_scale ?
     * row_scale[i] : 1). */
    void (*store)(enum dt_dtype dtype, const float *from, size_t ld, float scale, const float *row_scale, int rows, int width, void *to,
                  size_t stride_elems);
    /* to [rows <= 64, width] of `dtype` with a stride = transpose of from [width, 64] * scale. */
    void (*store_transposed)(enum dt_dtype dtype, const float *from, float scale, int rows, int width, void *to, size_t stride_elems);
};

/* The index-th best of the tables that this processor can run and that fit `dtype`; NULL after the
 * last. There is at least one. */
const struct gpt_tile_ops *gpt_tile_ops_for(enum dt_dtype dtype, int index);

/* gpt_cpu_attention_create with a given table, for tests. */
dt_status gpt_cpu_attention_create_with(const struct dt_model *model, int threads, const struct gpt_tile_ops *ops,
                                        struct gpt_cpu_attention **out);

/* The scratch memory of a thread. Sizes in elements of the table; see work.c. */
struct gpt_attention_scratch {
    void *rows;                     /* [Tp, wp] one of q, k, v, as loaded */
    void *keys, *values;            /* B operands k^T, v (forward) or v^T (backward) */
    void *keys_plain;               /* backward: B operand k */
    void *query, *query_transposed; /* of a tile: A operands q, q^T */
    void *dout, *dout_transposed;
    float *scores, *dprobabilities; /* [64, chunk] */
    void *probabilities;            /* [64, chunk] A operand forward; B operand backward */
    void *dscores, *dscores_panels;
    float *output;          /* [64, wp] weighted values; dq backward */
    float *dkeys, *dvalues; /* [Tp / 64][wp][64]: transposed tiles */
    float *row[3];          /* [64] each */
    size_t *turns;          /* [Tp / chunk, rounded up], of a group that several threads compute */
    size_t packed;          /* 1 + the index of the (sample, kv head) of the call whose keys and values are packed; 0: none */
};

struct gpt_cpu_attention {
    struct dt_model model;
    const struct gpt_tile_ops *ops;
    int threads;
    int group;               /* query heads of a kv head */
    int width, padded_width; /* w, wp */
    int padded_rows;         /* Tp, a multiple of 64 */
    int chunk;               /* keys of a chunk */
    size_t scratch_bytes;
    void *memory;
    struct gpt_attention_scratch *scratch; /* [threads] */
};

/* Forward of one head. Packs its keys and values unless the thread has just done so. `head` counts
 * from 0 among the call's heads. */
void gpt_attention_forward_pair(const struct gpt_cpu_attention *a, struct gpt_attention_scratch *s, const struct gpt_attention_forward *x,
                                size_t sample, int head);
/* Backward of all heads of the call that read kv head `kv_head`, which counts from 0 among the
 * call's kv heads. */
void gpt_attention_backward_group(const struct gpt_cpu_attention *a, struct gpt_attention_scratch *s,
                                  const struct gpt_attention_backward *x, size_t sample, int kv_head);
/* The same on all threads of the object, with the same result. */
void gpt_attention_backward_group_shared(const struct gpt_cpu_attention *a, const struct gpt_attention_backward *x, size_t sample,
                                         int kv_head);

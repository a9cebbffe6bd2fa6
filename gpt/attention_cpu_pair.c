/* Attention of one (sample, head), forward and backward: the order in which tiles meet. */
#include "gpt/attention_cpu_tile.h"

#include "lib/random.h"

#include <math.h>
#include <string.h>

static const void *at(const void *base, enum dt_dtype dtype, size_t elems)
{
    return (const char *)base + elems * dt_dtype_bytes(dtype);
}

static void *at_out(void *base, enum dt_dtype dtype, size_t elems)
{
    return (char *)base + elems * dt_dtype_bytes(dtype);
}

static struct gpt_tile_dropout dropout_of(const struct gpt_dropout *d, size_t sample, int head)
{
    return (struct gpt_tile_dropout){
        .seed = d->seed,
        .head = (uint32_t)head,
        .sample = d->first_sample + (uint32_t)sample,
        .layer = d->layer,
        .threshold = dt_dropout_threshold(d->probability),
        .scale = dt_dropout_scale(d->probability),
    };
}

/* Words between two panels of 64 columns of a B operand with `inner` elements along the product's inner dimension. */
static size_t panel_words(const struct gpt_cpu_attention *a, int inner)
{
    return (size_t)inner / (size_t)a->ops->depth * 64;
}

/* Where row `inner` of such an operand starts in its first panel, or column `column` (a multiple of 64), in bytes. */
static const void *panel_row(const void *b, const struct gpt_cpu_attention *a, int inner)
{
    return (const char *)b + panel_words(a, inner) * 4;
}

static const void *panel_column(const void *b, size_t words, int column)
{
    return (const char *)b + (size_t)(column / 64) * words * 4;
}

void gpt_attention_forward_pair(const struct gpt_cpu_attention *a, struct gpt_attention_scratch *s, const struct gpt_attention_forward *x,
                                size_t sample, int head)
{
    const struct gpt_tile_ops *ops = a->ops;
    enum dt_dtype dtype = a->model.dtype;
    int T = a->model.block_size, width = a->width, wp = a->padded_width, Tp = a->padded_rows;
    size_t d = (size_t)a->model.hidden, pair = sample * (size_t)a->model.heads + (size_t)head;
    size_t depth = (size_t)ops->depth, chunk = (size_t)a->chunk;
    const void *q = at(x->qkv, dtype, sample * (size_t)T * 3 * d + (size_t)(head * width));
    struct gpt_tile_dropout dropout = dropout_of(&x->dropout, sample, head);
    float *maximum = s->row[0], *sum = s->row[1];

    ops->load(dtype, at(q, dtype, d), 3 * d, T, width, s->rows, Tp, wp);
    ops->pack_transposed(s->rows, Tp, wp, s->keys);
    ops->load(dtype, at(q, dtype, 2 * d), 3 * d, T, width, s->rows, Tp, wp);
    ops->pack(s->rows, Tp, wp, s->values, panel_words(a, Tp));

    for (int first = 0; first < T; first += GPT_TILE_ROWS) {
        int rows = T - first < GPT_TILE_ROWS ? T - first : GPT_TILE_ROWS, padded = gpt_tile_round(rows), end = first + padded;
        size_t place = sample * (size_t)T + (size_t)first;
        ops->load(dtype, at(q, dtype, (size_t)first * 3 * d), 3 * d, rows, width, s->query, padded, wp);
        for (int i = 0; i < padded; i++) {
            maximum[i] = -INFINITY;
            sum[i] = 0;
        }
        for (int key = 0; key < end; key += a->chunk) {
            int keys = end - key < a->chunk ? end - key : a->chunk;
            ops->product(&(struct gpt_tile_product){
                .m = padded, .n = keys, .k = wp, .a = s->query, .lda_words = (size_t)wp / depth,
                .b = panel_column(s->keys, panel_words(a, wp), key), .panel_words = panel_words(a, wp),
                .c = s->scores, .ldc = chunk, .c_panel = 64});
            ops->softmax_forward(&(struct gpt_tile_softmax_forward){
                .tile = {.scores = s->scores, .ld = chunk, .rows = rows, .padded_rows = padded, .keys = keys, .first_row = first,
                         .first_key = key, .scale = 1 / sqrtf((float)width), .dropout = &dropout, .dtype = dtype, .row_elems = T,
                         .weights = x->weights ? at_out(x->weights, dtype, (pair * (size_t)T + (size_t)first) * (size_t)T) : NULL},
                .maximum = maximum, .sum = sum, .values = s->output, .values_width = wp, .probabilities = s->probabilities});
            ops->product(&(struct gpt_tile_product){
                .m = padded, .n = wp, .k = keys, .a = s->probabilities, .lda_words = chunk / depth,
                .b = panel_row(s->values, a, key), .panel_words = panel_words(a, Tp),
                .c = s->output, .ldc = (size_t)wp, .c_panel = 64, .accumulate = key > 0});
        }
        for (int i = 0; i < rows && !x->weights; i++) {
            x->lse[pair * (size_t)T + (size_t)(first + i)] = maximum[i] + logf(sum[i]);
            sum[i] = 1 / sum[i];
        }
        ops->store(dtype, s->output, (size_t)wp, dropout.scale, x->weights ? NULL : sum, rows, width,
                   at_out(x->out, dtype, place * d + (size_t)(head * width)), d);
    }
}

void gpt_attention_backward_pair(const struct gpt_cpu_attention *a, struct gpt_attention_scratch *s, const struct gpt_attention_backward *x,
                                 size_t sample, int head)
{
    const struct gpt_tile_ops *ops = a->ops;
    enum dt_dtype dtype = a->model.dtype;
    int T = a->model.block_size, width = a->width, wp = a->padded_width, Tp = a->padded_rows;
    size_t d = (size_t)a->model.hidden, pair = sample * (size_t)a->model.heads + (size_t)head;
    size_t depth = (size_t)ops->depth, chunk = (size_t)a->chunk, tile_panel = panel_words(a, GPT_TILE_ROWS);
    size_t qkv_place = sample * (size_t)T * 3 * d + (size_t)(head * width), out_place = sample * (size_t)T * d + (size_t)(head * width);
    const void *q = at(x->qkv, dtype, qkv_place), *dout = at(x->dout, dtype, out_place);
    void *dq = at_out(x->dqkv, dtype, qkv_place);
    struct gpt_tile_dropout dropout = dropout_of(&x->dropout, sample, head);
    float scale = 1 / sqrtf((float)width), *dots = s->row[0];

    ops->load(dtype, at(q, dtype, d), 3 * d, T, width, s->rows, Tp, wp);
    ops->pack_transposed(s->rows, Tp, wp, s->keys);
    ops->pack(s->rows, Tp, wp, s->keys_plain, panel_words(a, Tp));
    ops->load(dtype, at(q, dtype, 2 * d), 3 * d, T, width, s->rows, Tp, wp);
    ops->pack_transposed(s->rows, Tp, wp, s->values);
    memset(s->dkeys, 0, (size_t)Tp * (size_t)wp * sizeof(float));
    memset(s->dvalues, 0, (size_t)Tp * (size_t)wp * sizeof(float));

    for (int first = 0; first < T; first += GPT_TILE_ROWS) {
        int rows = T - first < GPT_TILE_ROWS ? T - first : GPT_TILE_ROWS, padded = gpt_tile_round(rows), end = first + padded;
        ops->load(dtype, at(q, dtype, (size_t)first * 3 * d), 3 * d, rows, width, s->query, padded, wp);
        ops->load(dtype, at(dout, dtype, (size_t)first * d), d, rows, width, s->dout, padded, wp);
        ops->transpose(s->query, padded, wp, s->query_transposed);
        ops->transpose(s->dout, padded, wp, s->dout_transposed);
        if (!x->weights)
            ops->dots(dtype, at(dout, dtype, (size_t)first * d), at(x->out, dtype, out_place + (size_t)first * d), d, rows, width, dots);
        for (int key = 0; key < end; key += a->chunk) {
            int keys = end - key < a->chunk ? end - key : a->chunk;
            struct gpt_tile_product by_keys = {
                .m = padded, .n = keys, .k = wp, .lda_words = (size_t)wp / depth, .panel_words = panel_words(a, wp), .ldc = chunk, .c_panel = 64};
            if (!x->weights) {
                by_keys.a = s->query;
                by_keys.b = panel_column(s->keys, by_keys.panel_words, key);
                by_keys.c = s->scores;
                ops->product(&by_keys);
            }
            by_keys.a = s->dout;
            by_keys.b = panel_column(s->values, by_keys.panel_words, key);
            by_keys.c = s->dprobabilities;
            ops->product(&by_keys);
            ops->softmax_backward(&(struct gpt_tile_softmax_backward){
                .tile = {.scores = s->scores, .ld = chunk, .rows = rows, .padded_rows = padded, .keys = keys, .first_row = first,
                         .first_key = key, .scale = scale, .dropout = &dropout, .dtype = dtype, .row_elems = T,
                         .weights = x->weights ? at_out((void *)x->weights, dtype, (pair * (size_t)T + (size_t)first) * (size_t)T) : NULL},
                .dprobabilities = s->dprobabilities, .lse = x->weights ? NULL : x->lse + pair * (size_t)T + (size_t)first, .dots = dots,
                .dscores = s->dscores, .dscores_panels = s->dscores_panels, .probabilities_panels = s->probabilities,
                .panel_words = tile_panel});
            ops->product(&(struct gpt_tile_product){
                .m = padded, .n = wp, .k = keys, .a = s->dscores, .lda_words = chunk / depth,
                .b = panel_row(s->keys_plain, a, key), .panel_words = panel_words(a, Tp),
                .c = s->output, .ldc = (size_t)wp, .c_panel = 64, .accumulate = key > 0});
            struct gpt_tile_product by_rows = {
                .m = wp, .n = keys, .k = padded, .lda_words = GPT_TILE_ROWS / depth, .panel_words = tile_panel,
                .ldc = 64, .c_panel = (size_t)wp * 64, .accumulate = true};
            by_rows.a = s->query_transposed;
            by_rows.b = s->dscores_panels;
            by_rows.c = s->dkeys + (size_t)key * (size_t)wp;
            ops->product(&by_rows);
            by_rows.a = s->dout_transposed;
            by_rows.b = s->probabilities;
            by_rows.c = s->dvalues + (size_t)key * (size_t)wp;
            ops->product(&by_rows);
        }
        ops->store(dtype, s->output, (size_t)wp, scale, NULL, rows, width, at_out(dq, dtype, (size_t)first * 3 * d), 3 * d);
    }
    for (int first = 0; first < T; first += GPT_TILE_ROWS) {
        int rows = T - first < GPT_TILE_ROWS ? T - first : GPT_TILE_ROWS;
        size_t tile = (size_t)first * (size_t)wp, place = (size_t)first * 3 * d;
        ops->store_transposed(dtype, s->dkeys + tile, scale, rows, width, at_out(dq, dtype, place + d), 3 * d);
        ops->store_transposed(dtype, s->dvalues + tile, dropout.scale, rows, width, at_out(dq, dtype, place + 2 * d), 3 * d);
    }
}

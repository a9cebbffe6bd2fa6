/* Attention of one (sample, head) forward, and of the heads of one (sample, kv head) backward: the
 * loops over tiles of queries and keys. */
#include "gpt/cpu/attention/tile.h"
#include "gpt/position.h"
#include "lib/base/random.h"
#include "lib/kernels/cpu/team.h"

#include <math.h>
#include <sched.h>
#include <string.h>

/* A range of queries: this rank's rows from `place` on, with positions first, first + 1, ... */
struct run {
    int place, rows, first;
};

/* A tile of queries, its rows padded to a multiple of GPT_TILE_STEP, and a chunk of `keys` keys
 * from `key` on. index: the tile's number within the head. */
struct tile {
    int index, place, first, rows, padded, key, keys;
    int range;  /* 1 + the index of the range that contains these keys; 0: before the first range */
    bool joins; /* the result is added to an existing one */
};

/* A range of keys, with positions first, first + 1, ... */
struct range {
    int first, end;
};

/* Variables of one (sample, head). */
struct pair {
    const struct gpt_cpu_attention *attention;
    const struct gpt_tile_ops *ops;
    enum dt_dtype dtype;
    int T, width, padded_width, padded_rows;
    struct run runs[2]; /* of queries: all T, or the two halves of this rank's */
    int run_count, tiles;
    size_t qkv_row, out_row; /* elements of a row of qkv, and of a row of out */
    size_t query_place;      /* elements of qkv before the first row of q */
    size_t out_place;        /* elements of out before the first row */
    size_t row_place;        /* rows of lse and weights before those of this pair */
    /* Keys and values of all T positions, or of one rank's, in `segments` of equal size: two of
     * every rank that shares samples. */
    int segments, segment_rows;
    struct range ranges[2]; /* their positions */
    int range_count;
    bool joins;                   /* as in struct gpt_piece */
    size_t key_row, value_column; /* elements of a row that contains keys, and from a key to its value */
    size_t key_place, own_rows;   /* elements before the first key of rank 0, and from there to the first key of the next rank */
    struct gpt_tile_dropout dropout;
    float scale; /* 1 / sqrt(w) */
    float slope; /* alibi */
};

/* The index of the kv head that the call's head `head` reads, counted among the call's kv heads. */
static size_t kv_head_of(const struct gpt_cpu_attention *a, const struct gpt_part *heads, const struct gpt_part *kv_heads, int head)
{
    return (heads->first + (size_t)head) / (size_t)a->group - kv_heads->first;
}

static int tiles_of(const struct run *run)
{
    return (run->rows + GPT_TILE_ROWS - 1) / GPT_TILE_ROWS;
}

/* Variables that forward and backward share. */
struct call {
    size_t samples;
    const struct gpt_part *heads, *kv_heads;
    const struct gpt_dropout *dropout;
    const struct gpt_piece *piece;
};

/* Find the keys in memory: in the rows of q, or, if ranks share samples, in a buffer that contains
 * the keys of one rank after another. */
static void find_keys(struct pair *p, const struct call *c, size_t sample, size_t kv_head)
{
    size_t w = (size_t)p->width, own = c->piece->queries.count;
    p->segments = own ? 2 * c->piece->key_ranks : 1;
    p->segment_rows = own ? p->T / (2 * c->piece->ranks) : p->T;
    p->range_count = 1;
    p->ranges[0] = (struct range){0, p->T};
    p->joins = c->piece->joins;
    if (own && c->piece->key_ranks < c->piece->ranks) {
        struct gpt_positions keys = gpt_positions_of(&p->attention->model, c->piece->key_rank, c->piece->ranks, DT_CONTEXT_RING);
        p->range_count = 2;
        for (int i = 0; i < 2; i++)
            p->ranges[i] = (struct range){(int)keys.first[i], (int)keys.first[i] + p->segment_rows};
    }
    p->value_column = c->kv_heads->count * w;
    p->key_row = own ? 2 * p->value_column : p->qkv_row;
    p->own_rows = c->samples * own * p->key_row;
    p->key_place = own ? sample * own * p->key_row + kv_head * w : sample * (size_t)p->T * p->qkv_row + (c->heads->count + kv_head) * w;
}

static void pair_init(struct pair *p, const struct gpt_cpu_attention *a, const struct call *c, size_t sample, int head)
{
    const struct gpt_part *heads = c->heads, *kv_heads = c->kv_heads;
    const struct gpt_dropout *dropout = c->dropout;
    const struct gpt_positions *queries = &c->piece->queries;
    size_t w = (size_t)a->width, kv_head = kv_head_of(a, heads, kv_heads, head), count = gpt_positions_count(queries, &a->model);
    size_t columns = (heads->count + 2 * kv_heads->count) * w;
    int half = (int)count / 2;
    *p = (struct pair){
        .attention = a,
        .ops = a->ops,
        .dtype = a->model.dtype,
        .T = gpt_of(&a->model)->block_size,
        .width = a->width,
        .padded_width = a->padded_width,
        .padded_rows = a->padded_rows,
        .qkv_row = columns,
        .out_row = heads->count * w,
        .query_place = sample * count * columns + (size_t)head * w,
        .out_place = (sample * count * heads->count + (size_t)head) * w,
        .row_place = (sample * heads->count + (size_t)head) * count,
        .run_count = queries->count ? 2 : 1,
        .runs = {{0, queries->count ? half : (int)count, (int)queries->first[0]}, {half, (int)count - half, (int)queries->first[1]}},
        .dropout = {.seed = dropout->seed,
                    .head = (uint32_t)heads->first + (uint32_t)head,
                    .sample = dropout->first_sample + (uint32_t)sample,
                    .layer = dropout->layer,
                    .threshold = dt_dropout_threshold(dropout->probability),
                    .scale = dt_dropout_scale(dropout->probability)},
        .scale = 1 / sqrtf((float)a->width),
        .slope = gpt_of(&a->model)->position == GPT_POSITION_ALIBI
                     ? (float)gpt_alibi_slope(gpt_of(&a->model)->heads, (int)heads->first + head)
                     : 0,
    };
    for (int i = 0; i < p->run_count; i++)
        p->tiles += tiles_of(&p->runs[i]);
    find_keys(p, c, sample, kv_head);
}

/* Tile `index` of a head's queries, before its first chunk of keys. */
static struct tile tile_of(const struct pair *p, int index)
{
    const struct run *run = &p->runs[0];
    int of_run = index;
    for (; of_run >= tiles_of(run); run++)
        of_run -= tiles_of(run);
    int skipped = of_run * GPT_TILE_ROWS, rows = run->rows - skipped < GPT_TILE_ROWS ? run->rows - skipped : GPT_TILE_ROWS;
    return (struct tile){index, run->place + skipped, run->first + skipped, rows, gpt_tile_round(rows), 0, 0, 0, p->joins};
}

/* The end of the keys that a tile's rows see, rounded up. */
static int keys_end(const struct tile *t)
{
    return gpt_tile_round(t->first + t->rows);
}

/* Go to the next chunk of keys that the tile's rows see; false: there is none. A chunk starts at
 * the start of a panel. */
static bool next_keys(const struct pair *p, struct tile *t)
{
    int chunk = p->attention->chunk;
    for (t->key += t->keys;; t->key = p->ranges[t->range].first / GPT_TILE_ROWS * GPT_TILE_ROWS, t->range++) {
        int seen = keys_end(t), end = t->range > 0 ? gpt_tile_round(p->ranges[t->range - 1].end) : 0;
        end = end < seen ? end : seen;
        t->keys = end - t->key < chunk ? end - t->key : chunk;
        if (t->keys > 0)
            return true;
        if (t->range == p->range_count)
            return false;
    }
}

static void *at(const struct pair *p, const void *base, size_t elems)
{
    return (char *)base + elems * dt_dtype_bytes(p->dtype);
}

/* Words from one panel of a B operand to the next, if the product's inner dimension is `inner`;
 * also where row `inner` of a panel starts. */
static size_t panel_words(const struct pair *p, int inner)
{
    return (size_t)inner / (size_t)p->ops->depth * 64;
}

/* c [rows, keys] = a [rows, wp] * b, where b is k^T or v^T. */
static void queries_by_keys(const struct pair *p, const struct tile *t, const void *a, const void *b, float *c)
{
    size_t panel = panel_words(p, p->padded_width);
    p->ops->product(&(struct gpt_tile_product){
        .shape = GPT_TILE_QUERIES_KEYS,
        .diagonal = t->first - t->key,
        .m = t->padded,
        .n = t->keys,
        .k = p->padded_width,
        .a = a,
        .lda_words = (size_t)p->padded_width / (size_t)p->ops->depth,
        .b = (const uint32_t *)b + (size_t)(t->key / 64) * panel,
        .panel_words = panel,
        .c = c,
        .ldc = (size_t)p->attention->chunk,
        .c_panel = 64,
    });
}

/* c [rows, wp] = a [rows, keys] * b, where b is k or v; += if the tile's result is added to an
 * existing one. */
static void over_keys(const struct pair *p, const struct tile *t, const void *a, const void *b, float *c)
{
    p->ops->product(&(struct gpt_tile_product){
        .shape = GPT_TILE_OVER_KEYS,
        .diagonal = t->first - t->key,
        .m = t->padded,
        .n = p->padded_width,
        .k = t->keys,
        .a = a,
        .lda_words = (size_t)p->attention->chunk / (size_t)p->ops->depth,
        .b = (const uint32_t *)b + panel_words(p, t->key),
        .panel_words = panel_words(p, p->padded_rows),
        .c = c,
        .ldc = (size_t)p->padded_width,
        .c_panel = 64,
        .accumulate = t->joins,
    });
}

/* c [wp, keys] += a [wp, rows] * b [rows, keys]; c has all keys, in panels. */
static void over_queries(const struct pair *p, const struct tile *t, const void *a, const void *b, float *c)
{
    p->ops->product(&(struct gpt_tile_product){
        .shape = GPT_TILE_OVER_QUERIES,
        .diagonal = t->first - t->key,
        .m = p->padded_width,
        .n = t->keys,
        .k = t->padded,
        .a = a,
        .lda_words = GPT_TILE_ROWS / (size_t)p->ops->depth,
        .b = b,
        .panel_words = panel_words(p, GPT_TILE_ROWS),
        .c = c + (size_t)t->key * (size_t)p->padded_width,
        .ldc = 64,
        .c_panel = (size_t)p->padded_width * 64,
        .accumulate = true,
    });
}

static struct gpt_tile_softmax softmax_of(const struct pair *p, const struct tile *t, float *scores, const void *weights)
{
    const struct range *range = &p->ranges[t->range - 1];
    return (struct gpt_tile_softmax){
        .scores = scores,
        .ld = (size_t)p->attention->chunk,
        .rows = t->rows,
        .padded_rows = t->padded,
        .keys = t->keys,
        .first_row = t->first,
        .first_key = t->key,
        .hidden = range->first > t->key ? range->first - t->key : 0,
        .past = t->key + t->keys > range->end ? t->key + t->keys - range->end : 0,
        .scale = p->scale,
        .slope = p->slope,
        .dropout = &p->dropout,
        .dtype = p->dtype,
        .weights = weights ? at(p, weights, (p->row_place + (size_t)t->place) * (size_t)p->T) : NULL,
        .row_elems = p->T,
    };
}

static void load_queries(const struct pair *p, const void *qkv, const struct tile *t, void *to)
{
    p->ops->load(p->dtype, at(p, qkv, p->query_place + (size_t)t->place * p->qkv_row), p->qkv_row, t->rows, p->width, to, t->padded,
                 p->padded_width);
}

/* Elements before the first key of a segment. A rank has one segment counted from the front, and
 * one counted from the back. */
static size_t segment_place(const struct pair *p, int segment)
{
    int back = p->segments - 1 - segment;
    if (segment <= back)
        return p->key_place + (size_t)segment * p->own_rows;
    return p->key_place + (size_t)back * p->own_rows + (size_t)p->segment_rows * p->key_row;
}

/* The position of a segment's first key. */
static int segment_first(const struct pair *p, int segment)
{
    return p->range_count == 1 ? segment * p->segment_rows : p->ranges[segment].first;
}

/* to = all T rows of k, or of the column p->value_column after it; zeros for rows that are not
 * among the keys. */
static void load_keys(const struct pair *p, const void *keys, size_t column, void *to)
{
    size_t row_bytes = (size_t)p->padded_width * (4 / (size_t)p->ops->depth);
    if (p->range_count > 1)
        memset(to, 0, (size_t)p->padded_rows * row_bytes);
    for (int i = 0; i < p->segments; i++) {
        int first = segment_first(p, i), padded = i + 1 < p->segments ? p->segment_rows : p->padded_rows - first;
        p->ops->load(p->dtype, at(p, keys, segment_place(p, i) + column), p->key_row, p->segment_rows, p->width,
                     (char *)to + (size_t)first * row_bytes, padded, p->padded_width);
    }
}

static float value_at(enum dt_dtype dtype, const void *from, size_t i)
{
    if (dtype == DT_FP32)
        return ((const float *)from)[i];
    return dtype == DT_BF16 ? dt_bf16_to_fp32(((const uint16_t *)from)[i]) : dt_fp16_to_fp32(((const uint16_t *)from)[i]);
}

/* to [padded, wp] = the tile's rows of `from`, `stride` elements apart, times scale: the sums to
 * which the tile adds. */
static void load_sums(const struct pair *p, const struct tile *t, const void *from, size_t stride, float scale, float *to)
{
    memset(to, 0, (size_t)t->padded * (size_t)p->padded_width * sizeof *to);
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < p->width; j++)
            to[i * p->padded_width + j] = value_at(p->dtype, from, (size_t)i * stride + (size_t)j) * scale;
}

static void pack_for_forward(const struct pair *p, struct gpt_attention_scratch *s, const void *keys)
{
    load_keys(p, keys, 0, s->rows);
    p->ops->pack_transposed(s->rows, p->padded_rows, p->padded_width, s->keys);
    load_keys(p, keys, p->value_column, s->rows);
    p->ops->pack(s->rows, p->padded_rows, p->padded_width, s->values, panel_words(p, p->padded_rows));
}

void gpt_attention_forward_pair(const struct gpt_cpu_attention *a, struct gpt_attention_scratch *s, const struct gpt_attention_forward *x,
                                size_t sample, int head)
{
    const struct call c = {x->samples, &x->heads, &x->kv_heads, &x->dropout, &x->piece};
    struct pair p;
    pair_init(&p, a, &c, sample, head);
    const struct gpt_tile_ops *ops = a->ops;
    float *maximum = s->row[0], *sum = s->row[1];
    size_t wanted = 1 + sample * x->kv_heads.count + kv_head_of(a, &x->heads, &x->kv_heads, head);
    if (s->packed != wanted)
        pack_for_forward(&p, s, x->piece.keys ? x->piece.keys : x->qkv);
    s->packed = wanted;

    for (int index = 0; index < p.tiles; index++) {
        struct tile t = tile_of(&p, index);
        load_queries(&p, x->qkv, &t, s->query);
        void *out = at(&p, x->out, p.out_place + (size_t)t.place * p.out_row);
        for (int i = 0; i < t.padded; i++) {
            bool joins = p.joins && i < t.rows;
            maximum[i] = joins ? x->lse[p.row_place + (size_t)(t.place + i)] : -INFINITY;
            sum[i] = joins;
        }
        if (p.joins)
            load_sums(&p, &t, out, p.out_row, 1 / p.dropout.scale, s->output);
        while (next_keys(&p, &t)) {
            queries_by_keys(&p, &t, s->query, s->keys, s->scores);
            ops->softmax_forward(&(struct gpt_tile_softmax_forward){
                .tile = softmax_of(&p, &t, s->scores, x->weights),
                .maximum = maximum,
                .sum = sum,
                .values = s->output,
                .values_width = p.padded_width,
                .probabilities = s->probabilities,
            });
            over_keys(&p, &t, s->probabilities, s->values, s->output);
            t.joins = true;
        }
        for (int i = 0; i < t.rows && !x->weights; i++) {
            x->lse[p.row_place + (size_t)(t.place + i)] = maximum[i] + logf(sum[i]);
            sum[i] = 1 / sum[i];
        }
        ops->store(p.dtype, s->output, (size_t)p.padded_width, p.dropout.scale, x->weights ? NULL : sum, t.rows, p.width, out, p.out_row);
    }
}

/* The order in which tiles add to dk and dv if several threads compute them. turns[c] counts the
 * tiles that have added to chunk c of the keys. A tile adds after all tiles before it in its group
 * that see the chunk. */
struct order {
    size_t *turns;
    int heads_before; /* heads of the group before the one of this tile */
};

/* The counter of tile t's chunk of keys. *before: the number of the group's tiles that add to the
 * chunk before t does. The first tiles of each head do not see the chunk. */
static size_t *turn_of(const struct pair *p, const struct order *order, const struct tile *t, size_t *before)
{
    int blind = 0;
    for (struct tile first = tile_of(p, 0); keys_end(&first) <= t->key; first = tile_of(p, blind))
        blind++;
    *before = (size_t)(order->heads_before * (p->tiles - blind) + t->index - blind);
    return &order->turns[t->key / p->attention->chunk];
}

static void wait_for_turn(const struct pair *p, const struct order *order, const struct tile *t)
{
    size_t before, *turn = turn_of(p, order, t, &before);
    while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != before)
        sched_yield();
}

static void end_turn(const struct pair *p, const struct order *order, const struct tile *t)
{
    size_t before, *turn = turn_of(p, order, t, &before);
    __atomic_store_n(turn, before + 1, __ATOMIC_RELEASE);
}

/* Compute what one tile of queries adds to dk and dv, and its dq. Keys, values and their gradients
 * are in `keys`. If one thread computes the group, `keys` is `s` and order is NULL. */
static void backward_tile(const struct pair *p, struct gpt_attention_scratch *s, struct gpt_attention_scratch *keys,
                          const struct order *order, const struct gpt_attention_backward *x, struct tile t)
{
    const struct gpt_tile_ops *ops = p->ops;
    size_t out_place = p->out_place + (size_t)t.place * p->out_row;
    const void *dout = at(p, x->dout, out_place);
    void *dq = at(p, x->dqkv, p->query_place + (size_t)t.place * p->qkv_row);
    float *dots = s->row[0];
    load_queries(p, x->qkv, &t, s->query);
    ops->transpose(s->query, t.padded, p->padded_width, s->query_transposed);
    ops->load(p->dtype, dout, p->out_row, t.rows, p->width, s->dout, t.padded, p->padded_width);
    ops->transpose(s->dout, t.padded, p->padded_width, s->dout_transposed);
    if (p->joins)
        load_sums(p, &t, dq, p->qkv_row, 1 / p->scale, s->output);
    if (!x->weights)
        ops->dots(p->dtype, dout, at(p, x->out, out_place), p->out_row, t.rows, p->width, dots);

    while (next_keys(p, &t)) {
        if (!x->weights)
            queries_by_keys(p, &t, s->query, keys->keys, s->scores);
        queries_by_keys(p, &t, s->dout, keys->values, s->dprobabilities);
        ops->softmax_backward(&(struct gpt_tile_softmax_backward){
            .tile = softmax_of(p, &t, s->scores, x->weights),
            .dprobabilities = s->dprobabilities,
            .lse = x->weights ? NULL : x->lse + p->row_place + (size_t)t.place,
            .dots = dots,
            .dscores = s->dscores,
            .dscores_panels = s->dscores_panels,
            .probabilities_panels = s->probabilities,
            .panel_words = panel_words(p, GPT_TILE_ROWS),
        });
        over_keys(p, &t, s->dscores, keys->keys_plain, s->output);
        t.joins = true;
        if (order)
            wait_for_turn(p, order, &t);
        over_queries(p, &t, s->query_transposed, s->dscores_panels, keys->dkeys);
        over_queries(p, &t, s->dout_transposed, s->probabilities, keys->dvalues);
        if (order)
            end_turn(p, order, &t);
    }
    ops->store(p->dtype, s->output, (size_t)p->padded_width, p->scale, NULL, t.rows, p->width, dq, p->qkv_row);
}

/* Pack the keys and values as backward reads them, and set their gradients to zero. */
static void pack_for_backward(const struct pair *p, struct gpt_attention_scratch *s, const void *keys)
{
    size_t sums_bytes = (size_t)p->padded_rows * (size_t)p->padded_width * sizeof(float);
    load_keys(p, keys, 0, s->rows);
    p->ops->pack_transposed(s->rows, p->padded_rows, p->padded_width, s->keys);
    p->ops->pack(s->rows, p->padded_rows, p->padded_width, s->keys_plain, panel_words(p, p->padded_rows));
    load_keys(p, keys, p->value_column, s->rows);
    p->ops->pack_transposed(s->rows, p->padded_rows, p->padded_width, s->values);
    memset(s->dkeys, 0, sums_bytes);
    memset(s->dvalues, 0, sums_bytes);
}

/* Store dk and dv, which are sums over the group's heads. Rows after a segment's end are not
 * stored. */
static void store_key_gradients(const struct pair *p, const struct gpt_attention_scratch *s, void *dkeys)
{
    for (int i = 0; i < p->segments; i++)
        for (int row = 0, rows; row < p->segment_rows; row += rows) {
            int first = segment_first(p, i) + row, of_tile = first % GPT_TILE_ROWS;
            rows = p->segment_rows - row < GPT_TILE_ROWS - of_tile ? p->segment_rows - row : GPT_TILE_ROWS - of_tile;
            size_t from = (size_t)(first - of_tile) * (size_t)p->padded_width + (size_t)of_tile;
            size_t to = segment_place(p, i) + (size_t)row * p->key_row;
            p->ops->store_transposed(p->dtype, s->dkeys + from, p->scale, rows, p->width, at(p, dkeys, to), p->key_row);
            p->ops->store_transposed(p->dtype, s->dvalues + from, p->dropout.scale, rows, p->width, at(p, dkeys, to + p->value_column),
                                     p->key_row);
        }
}

/* The number of the call's heads that read kv head `kv_head`; *first is the first of them. */
static int heads_of_group(const struct gpt_cpu_attention *a, const struct gpt_attention_backward *x, int kv_head, int *first)
{
    int count = 0;
    for (int head = (int)x->heads.count - 1; head >= 0; head--)
        if (kv_head_of(a, &x->heads, &x->kv_heads, head) == (size_t)kv_head) {
            *first = head;
            count++;
        }
    return count;
}

static struct call call_of(const struct gpt_attention_backward *x)
{
    return (struct call){x->samples, &x->heads, &x->kv_heads, &x->dropout, &x->piece};
}

void gpt_attention_backward_group(const struct gpt_cpu_attention *a, struct gpt_attention_scratch *s,
                                  const struct gpt_attention_backward *x, size_t sample, int kv_head)
{
    const struct call c = call_of(x);
    struct pair p;
    int first_head = 0, heads = heads_of_group(a, x, kv_head, &first_head);
    pair_init(&p, a, &c, sample, first_head);
    pack_for_backward(&p, s, x->piece.keys ? x->piece.keys : x->qkv);
    for (int head = first_head; head < first_head + heads; head++) {
        pair_init(&p, a, &c, sample, head);
        for (int index = 0; index < p.tiles; index++)
            backward_tile(&p, s, s, NULL, x, tile_of(&p, index));
    }
    store_key_gradients(&p, s, x->piece.keys ? x->dkeys : x->dqkv);
}

/* ---- one group on several threads ---- */

struct shared_group {
    const struct gpt_cpu_attention *attention;
    const struct gpt_attention_backward *x;
    const struct call *call;
    struct gpt_attention_scratch *keys;
    /* tiles of queries, head by head. Threads take them in this order, so that each waits only for
     * tiles that another thread has begun */
    size_t sample, next, items;
    int first_head, tiles;
};

static void shared_part(void *argument, int thread, int threads)
{
    struct shared_group *g = argument;
    const struct gpt_cpu_attention *a = g->attention;
    for (size_t item; (item = __atomic_fetch_add(&g->next, 1, __ATOMIC_RELAXED)) < g->items;) {
        struct order order = {.turns = g->keys->turns, .heads_before = (int)item / g->tiles};
        struct pair p;
        pair_init(&p, a, g->call, g->sample, g->first_head + order.heads_before);
        backward_tile(&p, &a->scratch[thread], g->keys, &order, g->x, tile_of(&p, (int)item % g->tiles));
    }
}

void gpt_attention_backward_group_shared(const struct gpt_cpu_attention *a, const struct gpt_attention_backward *x, size_t sample,
                                         int kv_head)
{
    const struct call c = call_of(x);
    struct pair p;
    int first_head = 0, heads = heads_of_group(a, x, kv_head, &first_head);
    pair_init(&p, a, &c, sample, first_head);
    struct shared_group g = {.attention = a,
                             .x = x,
                             .call = &c,
                             .keys = &a->scratch[0],
                             .sample = sample,
                             .items = (size_t)heads * (size_t)p.tiles,
                             .first_head = first_head,
                             .tiles = p.tiles};
    pack_for_backward(&p, g.keys, x->piece.keys ? x->piece.keys : x->qkv);
    memset(g.keys->turns, 0, (size_t)(a->padded_rows / a->chunk + 1) * sizeof *g.keys->turns);
    dt_cpu_parallel(a->threads, shared_part, &g);
    store_key_gradients(&p, g.keys, x->piece.keys ? x->dkeys : x->dqkv);
}

/* Attention of one (sample, head) forward, and of the heads of one (sample, kv head) backward: the loops over tiles of queries and keys. */
#include "gpt/cpu/attention/tile.h"
#include "gpt/position.h"
#include "lib/base/random.h"
#include "lib/kernels/cpu/team.h"

#include <math.h>
#include <sched.h>
#include <string.h>

/* One (sample, head) at work. */
struct pair {
    const struct gpt_cpu_attention *attention;
    const struct gpt_tile_ops *ops;
    enum dt_dtype dtype;
    int T, width, padded_width, padded_rows;
    size_t qkv_row, out_row; /* elements of a row of qkv, and of out */
    size_t part[3];          /* elements in qkv before the first row of q, k and v */
    size_t out_place;        /* elements before the first row in out */
    size_t row_place;        /* rows before this pair's in lse and weights */
    struct gpt_tile_dropout dropout;
    float scale; /* 1 / sqrt(w) */
    float slope; /* alibi */
};

/* Queries first.. against keys key..: `rows` and `keys` of them, rows padded to a multiple of GPT_TILE_STEP. */
struct tile {
    int first, rows, padded, key, keys;
};

/* The kv head of the call's head `head`, among the call's. */
static size_t kv_head_of(const struct gpt_cpu_attention *a, const struct gpt_part *heads, const struct gpt_part *kv_heads, int head)
{
    return (heads->first + (size_t)head) / (size_t)a->group - kv_heads->first;
}

static void pair_init(struct pair *p, const struct gpt_cpu_attention *a, const struct gpt_dropout *dropout, size_t sample,
                      const struct gpt_part *heads, const struct gpt_part *kv_heads, int head)
{
    size_t T = (size_t)gpt_of(&a->model)->block_size, w = (size_t)a->width, kv_head = kv_head_of(a, heads, kv_heads, head);
    size_t columns = (heads->count + 2 * kv_heads->count) * w, qkv = sample * T * columns;
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
        .part = {qkv + (size_t)head * w, qkv + (heads->count + kv_head) * w, qkv + (heads->count + kv_heads->count + kv_head) * w},
        .out_place = (sample * T * heads->count + (size_t)head) * w,
        .row_place = (sample * heads->count + (size_t)head) * T,
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
}

/* The tile of query rows that starts at `first`, before its first chunk of keys. */
static struct tile tile_of(const struct pair *p, int first)
{
    int rows = p->T - first < GPT_TILE_ROWS ? p->T - first : GPT_TILE_ROWS;
    return (struct tile){.first = first, .rows = rows, .padded = gpt_tile_round(rows)};
}

/* Move on to the next chunk of keys that the tile's rows see; false when there is none. */
static bool next_keys(const struct pair *p, struct tile *t)
{
    int end = t->first + t->padded, chunk = p->attention->chunk;
    t->key += t->keys;
    t->keys = end - t->key < chunk ? end - t->key : chunk;
    return t->keys > 0;
}

static const void *at(const struct pair *p, const void *base, size_t elems)
{
    return (const char *)base + elems * dt_dtype_bytes(p->dtype);
}

static void *at_out(const struct pair *p, void *base, size_t elems)
{
    return (char *)base + elems * dt_dtype_bytes(p->dtype);
}

/* Words between two panels of a B operand with `inner` elements along the product's inner dimension; also where its row `inner` starts. */
static size_t panel_words(const struct pair *p, int inner)
{
    return (size_t)inner / (size_t)p->ops->depth * 64;
}

/* c [rows, keys] = a [rows, wp] * b, b being k^T or v^T. */
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

/* c [rows, wp] = or, after the first chunk, += a [rows, keys] * b, b being k or v. */
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
        .accumulate = t->key > 0,
    });
}

/* c [wp, keys], of all keys in panels, += a [wp, rows] * b [rows, keys]. */
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
    return (struct gpt_tile_softmax){
        .scores = scores,
        .ld = (size_t)p->attention->chunk,
        .rows = t->rows,
        .padded_rows = t->padded,
        .keys = t->keys,
        .first_row = t->first,
        .first_key = t->key,
        .scale = p->scale,
        .slope = p->slope,
        .dropout = &p->dropout,
        .dtype = p->dtype,
        .weights = weights ? (void *)at(p, weights, (p->row_place + (size_t)t->first) * (size_t)p->T) : NULL,
        .row_elems = p->T,
    };
}

/* to = the tile's rows, or all rows with t NULL, of q, k or v (part 0, 1, 2). */
static void load_part(const struct pair *p, const void *qkv, int part, const struct tile *t, void *to)
{
    size_t place = p->part[part] + (t ? (size_t)t->first * p->qkv_row : 0);
    p->ops->load(p->dtype, at(p, qkv, place), p->qkv_row, t ? t->rows : p->T, p->width, to, t ? t->padded : p->padded_rows,
                 p->padded_width);
}

static void pack_for_forward(const struct pair *p, struct gpt_attention_scratch *s, const void *qkv)
{
    load_part(p, qkv, 1, NULL, s->rows);
    p->ops->pack_transposed(s->rows, p->padded_rows, p->padded_width, s->keys);
    load_part(p, qkv, 2, NULL, s->rows);
    p->ops->pack(s->rows, p->padded_rows, p->padded_width, s->values, panel_words(p, p->padded_rows));
}

void gpt_attention_forward_pair(const struct gpt_cpu_attention *a, struct gpt_attention_scratch *s, const struct gpt_attention_forward *x,
                                size_t sample, int head)
{
    struct pair p;
    pair_init(&p, a, &x->dropout, sample, &x->heads, &x->kv_heads, head);
    const struct gpt_tile_ops *ops = a->ops;
    float *maximum = s->row[0], *sum = s->row[1];
    size_t wanted = 1 + sample * x->kv_heads.count + kv_head_of(a, &x->heads, &x->kv_heads, head);
    if (s->packed != wanted)
        pack_for_forward(&p, s, x->qkv);
    s->packed = wanted;

    for (int first = 0; first < p.T; first += GPT_TILE_ROWS) {
        struct tile t = tile_of(&p, first);
        load_part(&p, x->qkv, 0, &t, s->query);
        for (int i = 0; i < t.padded; i++) {
            maximum[i] = -INFINITY;
            sum[i] = 0;
        }
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
        }
        for (int i = 0; i < t.rows && !x->weights; i++) {
            x->lse[p.row_place + (size_t)(first + i)] = maximum[i] + logf(sum[i]);
            sum[i] = 1 / sum[i];
        }
        ops->store(p.dtype, s->output, (size_t)p.padded_width, p.dropout.scale, x->weights ? NULL : sum, t.rows, p.width,
                   at_out(&p, x->out, p.out_place + (size_t)first * p.out_row), p.out_row);
    }
}

/* The order in which tiles add to dk and dv where several threads compute them: turns[c] tiles have added to chunk c of the keys. A tile adds
 * when all that come before it in its group and see the chunk have. */
struct order {
    size_t *turns;
    int heads_before, tiles; /* of the group before this tile's, and of a head */
};

/* The chunk that t is at, and how many of the group's tiles see it before this one. Tiles above the diagonal do not see it. */
static size_t *turn_of(const struct pair *p, const struct order *order, const struct tile *t, size_t *before)
{
    int first = t->key / GPT_TILE_ROWS;
    *before = (size_t)(order->heads_before * (order->tiles - first) + t->first / GPT_TILE_ROWS - first);
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

/* What one tile of queries adds to dk and dv, and its dq. Keys, values and their gradients are those of `keys`, which is `s` itself where
 * one thread computes the group: then order is NULL. */
static void backward_tile(const struct pair *p, struct gpt_attention_scratch *s, struct gpt_attention_scratch *keys,
                          const struct order *order, const struct gpt_attention_backward *x, struct tile t)
{
    const struct gpt_tile_ops *ops = p->ops;
    size_t out_place = p->out_place + (size_t)t.first * p->out_row;
    const void *dout = at(p, x->dout, out_place);
    float *dots = s->row[0];
    load_part(p, x->qkv, 0, &t, s->query);
    ops->transpose(s->query, t.padded, p->padded_width, s->query_transposed);
    ops->load(p->dtype, dout, p->out_row, t.rows, p->width, s->dout, t.padded, p->padded_width);
    ops->transpose(s->dout, t.padded, p->padded_width, s->dout_transposed);
    if (!x->weights)
        ops->dots(p->dtype, dout, at(p, x->out, out_place), p->out_row, t.rows, p->width, dots);

    while (next_keys(p, &t)) {
        if (!x->weights)
            queries_by_keys(p, &t, s->query, keys->keys, s->scores);
        queries_by_keys(p, &t, s->dout, keys->values, s->dprobabilities);
        ops->softmax_backward(&(struct gpt_tile_softmax_backward){
            .tile = softmax_of(p, &t, s->scores, x->weights),
            .dprobabilities = s->dprobabilities,
            .lse = x->weights ? NULL : x->lse + p->row_place + (size_t)t.first,
            .dots = dots,
            .dscores = s->dscores,
            .dscores_panels = s->dscores_panels,
            .probabilities_panels = s->probabilities,
            .panel_words = panel_words(p, GPT_TILE_ROWS),
        });
        over_keys(p, &t, s->dscores, keys->keys_plain, s->output);
        if (order)
            wait_for_turn(p, order, &t);
        over_queries(p, &t, s->query_transposed, s->dscores_panels, keys->dkeys);
        over_queries(p, &t, s->dout_transposed, s->probabilities, keys->dvalues);
        if (order)
            end_turn(p, order, &t);
    }
    ops->store(p->dtype, s->output, (size_t)p->padded_width, p->scale, NULL, t.rows, p->width,
               at_out(p, x->dqkv, p->part[0] + (size_t)t.first * p->qkv_row), p->qkv_row);
}

/* What backward reads of keys and values, and zeros for their gradients. */
static void pack_for_backward(const struct pair *p, struct gpt_attention_scratch *s, const void *qkv)
{
    size_t sums_bytes = (size_t)p->padded_rows * (size_t)p->padded_width * sizeof(float);
    load_part(p, qkv, 1, NULL, s->rows);
    p->ops->pack_transposed(s->rows, p->padded_rows, p->padded_width, s->keys);
    p->ops->pack(s->rows, p->padded_rows, p->padded_width, s->keys_plain, panel_words(p, p->padded_rows));
    load_part(p, qkv, 2, NULL, s->rows);
    p->ops->pack_transposed(s->rows, p->padded_rows, p->padded_width, s->values);
    memset(s->dkeys, 0, sums_bytes);
    memset(s->dvalues, 0, sums_bytes);
}

/* dk and dv, summed over the heads that have been through. */
static void store_key_gradients(const struct pair *p, const struct gpt_attention_scratch *s, void *dqkv)
{
    for (int first = 0; first < p->T; first += GPT_TILE_ROWS) {
        int rows = tile_of(p, first).rows;
        size_t tile = (size_t)first * (size_t)p->padded_width, row = (size_t)first * p->qkv_row;
        p->ops->store_transposed(p->dtype, s->dkeys + tile, p->scale, rows, p->width, at_out(p, dqkv, p->part[1] + row), p->qkv_row);
        p->ops->store_transposed(p->dtype, s->dvalues + tile, p->dropout.scale, rows, p->width, at_out(p, dqkv, p->part[2] + row),
                                 p->qkv_row);
    }
}

/* The call's heads that read kv head `kv_head`: from *first on. */
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

void gpt_attention_backward_group(const struct gpt_cpu_attention *a, struct gpt_attention_scratch *s,
                                  const struct gpt_attention_backward *x, size_t sample, int kv_head)
{
    struct pair p;
    int first_head = 0, heads = heads_of_group(a, x, kv_head, &first_head);
    pair_init(&p, a, &x->dropout, sample, &x->heads, &x->kv_heads, first_head);
    pack_for_backward(&p, s, x->qkv);
    for (int head = first_head; head < first_head + heads; head++) {
        pair_init(&p, a, &x->dropout, sample, &x->heads, &x->kv_heads, head);
        for (int first = 0; first < p.T; first += GPT_TILE_ROWS)
            backward_tile(&p, s, s, NULL, x, tile_of(&p, first));
    }
    store_key_gradients(&p, s, x->dqkv);
}

/* ---- one group on several threads ---- */

struct shared_group {
    const struct gpt_cpu_attention *attention;
    const struct gpt_attention_backward *x;
    struct gpt_attention_scratch *keys;
    size_t sample, next, items; /* tiles of queries, head by head: taken in this order, so that who waits waits for one that is at work */
    int first_head, tiles;
};

static void shared_part(void *argument, int thread, int threads)
{
    struct shared_group *g = argument;
    const struct gpt_cpu_attention *a = g->attention;
    for (size_t item; (item = __atomic_fetch_add(&g->next, 1, __ATOMIC_RELAXED)) < g->items;) {
        struct order order = {.turns = g->keys->turns, .heads_before = (int)item / g->tiles, .tiles = g->tiles};
        struct pair p;
        pair_init(&p, a, &g->x->dropout, g->sample, &g->x->heads, &g->x->kv_heads, g->first_head + order.heads_before);
        backward_tile(&p, &a->scratch[thread], g->keys, &order, g->x, tile_of(&p, (int)item % g->tiles * GPT_TILE_ROWS));
    }
}

void gpt_attention_backward_group_shared(const struct gpt_cpu_attention *a, const struct gpt_attention_backward *x, size_t sample,
                                         int kv_head)
{
    struct pair p;
    int first_head = 0, heads = heads_of_group(a, x, kv_head, &first_head), tiles = a->padded_rows / GPT_TILE_ROWS;
    struct shared_group g = {.attention = a,
                             .x = x,
                             .keys = &a->scratch[0],
                             .sample = sample,
                             .items = (size_t)heads * (size_t)tiles,
                             .first_head = first_head,
                             .tiles = tiles};
    pair_init(&p, a, &x->dropout, sample, &x->heads, &x->kv_heads, first_head);
    pack_for_backward(&p, g.keys, x->qkv);
    memset(g.keys->turns, 0, (size_t)(a->padded_rows / a->chunk + 1) * sizeof *g.keys->turns);
    dt_cpu_parallel(a->threads, shared_part, &g);
    store_key_gradients(&p, g.keys, x->dqkv);
}

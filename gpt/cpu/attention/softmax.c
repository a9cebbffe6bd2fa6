/* Softmax, dropout and their gradients on a tile of scores. Compiled once per instruction set, see
 * element.h.
 *
 * Rows are processed in vectors of V_LANES keys. The row sees all keys of each vector, except of
 * the last one, which is masked. */
#include "gpt/cpu/attention/element.h"

#include <math.h>

enum { SEGMENT = 256 }; /* keys for which random bits are made at a time */

/* The number of the tile's keys that row i sees, including hidden keys before them. */
V_INLINE int visible_keys(const struct gpt_tile_softmax *t, int i)
{
    int visible = i < t->rows ? t->first_row + i - t->first_key + 1 : 0, counted = t->keys - t->past;
    visible = visible < counted ? visible : counted;
    return visible <= t->hidden ? 0 : visible;
}

/* Set the scores of hidden keys so low that their exponentials do not change any sum. */
static void hide(const struct gpt_tile_softmax *t)
{
    for (int i = 0; i < t->rows; i++)
        for (int k = 0; k < t->hidden; k++)
            t->scores[(size_t)i * t->ld + (size_t)k] = -1e30f;
}

V_INLINE int round_up(int keys)
{
    return (keys + V_LANES - 1) / V_LANES * V_LANES;
}

/* -1 in the first `left` lanes, 0 in the others. */
V_INLINE vint first_lanes(int left)
{
    vint lane = {0};
    for (int i = 0; i < V_LANES; i++)
        lane[i] = i;
    return lane < left;
}

V_INLINE vfloat masked(vfloat value, vint mask)
{
    return (vfloat)((vint)value & mask);
}

V_INLINE vfloat load_floats(const float *from)
{
    vfloat value;
    memcpy(&value, from, sizeof value);
    return value;
}

V_INLINE void store_floats(float *to, vfloat value)
{
    memcpy(to, &value, sizeof value);
}

/* Alibi: subtract the distance to each key from its score, which is not scaled yet. */
static void add_distances(const struct gpt_tile_softmax *t)
{
    vint lane = {0};
    for (int i = 0; i < V_LANES; i++)
        lane[i] = i;
    for (int i = 0; i < t->rows; i++) {
        float *row = t->scores + (size_t)i * t->ld, per_key = t->slope / t->scale;
        for (int k = 0, visible = visible_keys(t, i); k < visible; k += V_LANES)
            store_floats(row + k,
                         load_floats(row + k) + __builtin_convertvector(lane + (t->first_key + k - t->first_row - i), vfloat) * per_key);
    }
}

/* Make the 16 random bits of each key from `key` to key + n, for the dropout of row i. n is at most
 * SEGMENT. */
V_INLINE void random_bits(const struct gpt_tile_softmax *t, int i, int key, int n, uint16_t *bits)
{
    const struct gpt_tile_dropout *d = t->dropout;
    for (int k = 0; k < n; k += V_DROPOUT_COLUMNS)
        v_dropout_bits(d->seed, d->head << 20 | (uint32_t)(t->first_key + key + k) / 8, (uint32_t)(t->first_row + i), d->sample,
                       (uint32_t)DT_RANDOM_ATTENTION << 24 | d->layer, bits + k);
}

V_INLINE vint kept(const uint16_t *bits, uint32_t threshold)
{
    vhalf half;
    memcpy(&half, bits, sizeof half);
    return v_widen_bits(half) >= threshold;
}

V_INLINE char *weights_row(const struct gpt_tile_softmax *t, int i)
{
    return (char *)t->weights + (size_t)i * (size_t)t->row_elems * dt_dtype_bytes(t->dtype);
}

V_INLINE float largest(const float *row, int visible)
{
    vfloat maximum = v_set(-INFINITY);
    int k = 0;
    for (; k + V_LANES <= visible; k += V_LANES)
        maximum = v_max(maximum, load_floats(row + k));
    if (k < visible)
        maximum = v_max(maximum, v_select(first_lanes(visible - k), load_floats(row + k), maximum));
    return v_largest(maximum);
}

/* Vectors of one row: to = exp(score * scale - maximum), and their sum before dropout. */
struct exponentials {
    float *row;
    const uint16_t *bits; /* random ones */
    uint32_t threshold;   /* 0: all are kept */
    float scale, maximum; /* the maximum is scaled */
    element *to;
};

V_INLINE vfloat exponentials_vector(const struct exponentials *e, int k, vint mask)
{
    vfloat p = masked(v_exp(load_floats(e->row + k) * e->scale - e->maximum), mask);
    store_elements(e->to + k, e->threshold ? masked(p, kept(e->bits + k, e->threshold)) : p);
    return p;
}

V_INLINE float exponentials_run(const struct exponentials *e, int visible)
{
    vfloat sum = {0};
    int k = 0;
    for (; k + V_LANES <= visible; k += V_LANES)
        sum += exponentials_vector(e, k, (vint){0} - 1);
    if (k < visible)
        sum += exponentials_vector(e, k, first_lanes(visible - k));
    return v_sum(sum);
}

/* Add one more chunk of row i to the running softmax. */
static void forward_row(const struct gpt_tile_softmax_forward *s, int i, int visible)
{
    const struct gpt_tile_softmax *t = &s->tile;
    uint16_t bits[SEGMENT];
    float *row = t->scores + (size_t)i * t->ld;
    element *to = (element *)s->probabilities + (size_t)i * t->ld;
    float before = s->maximum[i], maximum = largest(row, visible) * t->scale, sum = 0;
    maximum = maximum > before ? maximum : before;
    for (int key = 0; key < visible; key += SEGMENT) {
        int n = visible - key < SEGMENT ? visible - key : SEGMENT;
        if (t->dropout->threshold)
            random_bits(t, i, key, n, bits);
        struct exponentials e = {row + key, bits, t->dropout->threshold, t->scale, maximum, to + key};
        sum += exponentials_run(&e, n);
    }
    if (maximum > before && before > -INFINITY) {
        float shrink = expf(before - maximum);
        s->sum[i] *= shrink;
        for (int j = 0; j < s->values_width; j++)
            s->values[(size_t)i * (size_t)s->values_width + (size_t)j] *= shrink;
    }
    s->maximum[i] = maximum;
    s->sum[i] += sum;
}

/* Compute the whole softmax of row i, round and store it, then apply the dropout. */
V_INLINE void forward_row_weights(const struct gpt_tile_softmax_forward *s, int i, int visible, enum dt_dtype dtype)
{
    const struct gpt_tile_softmax *t = &s->tile;
    uint16_t bits[SEGMENT];
    float *row = t->scores + (size_t)i * t->ld, scale = t->scale, maximum = largest(row, visible) * scale;
    element *to = (element *)s->probabilities + (size_t)i * t->ld;
    char *weights = weights_row(t, i);
    vfloat sum = {0};
    for (int k = 0; k < visible; k += V_LANES) {
        vfloat p = masked(v_exp(load_floats(row + k) * scale - maximum), first_lanes(visible - k));
        store_floats(row + k, p);
        sum += p;
    }
    float inverse = 1 / v_sum(sum);
    for (int k = 0; k < visible; k += V_LANES) {
        if (t->dropout->threshold && k % SEGMENT == 0)
            random_bits(t, i, k, visible - k < SEGMENT ? visible - k : SEGMENT, bits);
        size_t left = (size_t)(visible - k);
        v_store(dtype, weights, (size_t)k, left, load_floats(row + k) * inverse);
        vfloat p = v_load(dtype, weights, (size_t)k, left);
        store_elements(to + k, t->dropout->threshold ? masked(p, kept(bits + k % SEGMENT, t->dropout->threshold)) : p);
    }
    memset(weights + (size_t)visible * dt_dtype_bytes(dtype), 0, (size_t)(t->row_elems - visible) * dt_dtype_bytes(dtype));
}

void TILE(gpt_tile_softmax_forward)(const struct gpt_tile_softmax_forward *s)
{
    const struct gpt_tile_softmax *t = &s->tile;
    hide(t);
    if (t->slope != 0)
        add_distances(t);
    for (int i = 0; i < t->padded_rows; i++) {
        int visible = visible_keys(t, i), done = round_up(visible);
        if (visible > 0 && !t->weights)
            forward_row(s, i, visible);
        else if (visible > 0 && t->dtype == DT_FP32)
            forward_row_weights(s, i, visible, DT_FP32);
        else if (visible > 0 && t->dtype == DT_BF16)
            forward_row_weights(s, i, visible, DT_BF16);
        else if (visible > 0)
            forward_row_weights(s, i, visible, DT_FP16);
        memset((element *)s->probabilities + (size_t)i * t->ld + done, 0, (size_t)(t->keys - done) * sizeof(element));
    }
}

/* Vectors of one row, backward: compute the gradient of the scores from the gradient after the
 * dropout and from the scores; with `given` from probabilities instead of scores. */
struct gradients {
    const float *scores, *dprobabilities;
    const uint16_t *bits;
    uint32_t threshold;
    float scale, lse, dropout_scale, dot;
};

V_INLINE vfloat gradients_vector(const struct gradients *g, int k, vint mask, bool given, vfloat *dropped)
{
    vfloat scores = load_floats(g->scores + k), dp = load_floats(g->dprobabilities + k) * g->dropout_scale;
    vfloat p = masked(given ? scores : v_exp(scores * g->scale - g->lse), mask);
    *dropped = p;
    if (g->threshold) {
        vint keep = kept(g->bits + k, g->threshold);
        dp = masked(dp, keep);
        *dropped = masked(p, keep);
    }
    return masked(p * (dp - g->dot), mask);
}

/* DEPTH rows that share words: their inputs, the number of keys that each sees, and the place of
 * the results. */
struct gradient_rows {
    struct gradients row[DEPTH];
    int visible[DEPTH];
    element *dscores[DEPTH];
    uint32_t *dscores_words, *probabilities_words;
    size_t panel_words;
};

V_INLINE void gradient_rows_vector(const struct gradient_rows *g, int k, bool whole, bool given)
{
    vfloat p[DEPTH], ds[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        ds[i] = gradients_vector(&g->row[i], k, whole ? (vint){0} - 1 : first_lanes(g->visible[i] - k), given, &p[i]);
        store_elements(g->dscores[i] + k, ds[i]);
    }
    size_t place = (size_t)(k / 64) * g->panel_words + (size_t)(k % 64);
    store_words(g->dscores_words + place, words_of(ds));
    store_words(g->probabilities_words + place, words_of(p));
}

/* Rows first to first + DEPTH, over the tile's keys. */
V_INLINE void backward_rows(const struct gpt_tile_softmax_backward *s, int first, const float dot[DEPTH], bool given)
{
    const struct gpt_tile_softmax *t = &s->tile;
    uint16_t bits[DEPTH][SEGMENT];
    for (int key = 0; key < t->keys; key += SEGMENT) {
        size_t words = (size_t)(key / 64) * s->panel_words + (size_t)first / DEPTH * 64;
        struct gradient_rows g = {.dscores_words = (uint32_t *)s->dscores_panels + words,
                                  .probabilities_words = (uint32_t *)s->probabilities_panels + words,
                                  .panel_words = s->panel_words};
        int n = t->keys - key < SEGMENT ? t->keys - key : SEGMENT, whole = n, some = 0;
        for (int i = 0; i < DEPTH; i++) {
            int row = first + i, visible = visible_keys(t, row) - key;
            size_t place = (size_t)row * t->ld + (size_t)key;
            visible = visible < 0 ? 0 : visible < n ? visible : n;
            if (t->dropout->threshold)
                random_bits(t, row, key, visible, bits[i]);
            g.row[i] = (struct gradients){t->scores + place, s->dprobabilities + place,
                                          bits[i],           t->dropout->threshold,
                                          t->scale,          given || visible == 0 ? 0 : s->lse[row],
                                          t->dropout->scale, dot[i]};
            g.visible[i] = visible;
            g.dscores[i] = (element *)s->dscores + place;
            whole = visible < whole ? visible : whole;
            some = visible > some ? visible : some;
        }
        int k = 0;
        for (; k + V_LANES <= whole; k += V_LANES)
            gradient_rows_vector(&g, k, true, given);
        for (; k < some; k += V_LANES)
            gradient_rows_vector(&g, k, false, given);
        for (; k < n; k += V_LANES) {
            size_t place = (size_t)(k / 64) * s->panel_words + (size_t)(k % 64);
            store_words(g.dscores_words + place, (vuint){0});
            store_words(g.probabilities_words + place, (vuint){0});
            for (int i = 0; i < DEPTH; i++)
                store_elements(g.dscores[i] + k, (vfloat){0});
        }
    }
}

/* Replace the scores of row i by its weights. Returns the sum of probability times gradient. */
V_INLINE float given_row(const struct gpt_tile_softmax_backward *s, int i, enum dt_dtype dtype)
{
    const struct gpt_tile_softmax *t = &s->tile;
    const char *weights = weights_row(t, i);
    uint16_t bits[SEGMENT];
    int visible = visible_keys(t, i);
    vfloat sum = {0};
    for (int k = 0; k < visible; k += V_LANES) {
        if (t->dropout->threshold && k % SEGMENT == 0)
            random_bits(t, i, k, visible - k < SEGMENT ? visible - k : SEGMENT, bits);
        vfloat p = v_load(dtype, weights, (size_t)k, (size_t)(visible - k)), dp = load_floats(s->dprobabilities + (size_t)i * t->ld + k);
        store_floats(t->scores + (size_t)i * t->ld + k, p);
        sum += t->dropout->threshold ? masked(p * dp, kept(bits + k % SEGMENT, t->dropout->threshold)) : p * dp;
    }
    return v_sum(sum) * t->dropout->scale;
}

V_INLINE void backward_given(const struct gpt_tile_softmax_backward *s, enum dt_dtype dtype)
{
    for (int first = 0; first < s->tile.padded_rows; first += DEPTH) {
        float dot[DEPTH];
        for (int i = 0; i < DEPTH; i++)
            dot[i] = given_row(s, first + i, dtype);
        backward_rows(s, first, dot, true);
    }
}

void TILE(gpt_tile_softmax_backward)(const struct gpt_tile_softmax_backward *s)
{
    if (!s->tile.weights)
        hide(&s->tile);
    if (s->tile.slope != 0 && !s->tile.weights)
        add_distances(&s->tile);
    if (!s->tile.weights)
        for (int first = 0; first < s->tile.padded_rows; first += DEPTH) {
            float dot[DEPTH];
            for (int i = 0; i < DEPTH; i++)
                dot[i] = first + i < s->tile.rows ? s->dots[first + i] : 0;
            backward_rows(s, first, dot, false);
        }
    else if (s->tile.dtype == DT_FP32)
        backward_given(s, DT_FP32);
    else if (s->tile.dtype == DT_BF16)
        backward_given(s, DT_BF16);
    else
        backward_given(s, DT_FP16);
}

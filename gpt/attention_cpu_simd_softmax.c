/* Softmax, dropout and their gradients on a tile of scores. Compiled once per instruction set, see attention_cpu_element.h. */
#include "gpt/attention_cpu_element.h"

#include "lib/random.h"

#include <math.h>

enum { SEGMENT = 256 }; /* keys whose random bits are made at a time; a multiple of 8, and so is every tile's first key */

/* e^x for x <= 0 or a little above, to two units in the last place: 2^n from the exponent bits times a polynomial on [-ln 2 / 2, ln 2 / 2].
 * Below -87 the result is e^-87, nothing beside the row's largest weight. NaN stays NaN. */
static inline float exponential(float x)
{
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504f + 0x1.8p23f, n = shifted - 0x1.8p23f; /* the sum's last bits hold the nearest integer */
    float r = x - n * 0x1.62e4p-1f;
    r = r - n * 0x1.7f7d1cp-20f;
    float p = 1.9875691e-4f;
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665796e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return float_of_bits(bits_of_float(p) + (bits_of_float(shifted) << 23));
}

/* 16 random bits for each key of first_key.. (a multiple of 8), as lib/random.h lays them out. */
static inline void random_bits(const struct gpt_tile_dropout *d, int query, int first_key, int keys, uint32_t *bits)
{
    uint32_t start = d->head << 20 | (uint32_t)first_key / 8, last = (uint32_t)DT_RANDOM_ATTENTION << 24 | d->layer;
    uint64_t seed = d->seed;
    uint32_t sample = d->sample;
    int blocks = (keys + 7) / 8;
#pragma omp simd
    for (int i = 0; i < blocks; i++) {
        struct dt_philox r = dt_philox4x32(seed, start + (uint32_t)i, (uint32_t)query, sample, last);
        for (int word = 0; word < 4; word++)
            bits[4 * i + word] = r.word[word];
    }
}

/* row[i] = kept ? row[i] : 0 */
static inline void drop(const struct gpt_tile_dropout *d, int query, int first_key, int keys, float *row)
{
    typedef uint16_t half_word __attribute__((may_alias));
    uint32_t bits[SEGMENT / 2];
    const half_word *halves = (const half_word *)bits; /* low half first: the processors here are little-endian */
    for (int first = 0; first < keys; first += SEGMENT) {
        int n = keys - first < SEGMENT ? keys - first : SEGMENT;
        random_bits(d, query, first_key + first, n, bits);
        for (int i = 0; i < n; i++)
            row[first + i] = halves[i] >= d->threshold ? row[first + i] : 0.0f;
    }
}

/* How many of the tile's keys row i sees. */
static inline int visible_keys(const struct gpt_tile_softmax *t, int i)
{
    int visible = i < t->rows ? t->first_row + i - t->first_key + 1 : 0;
    return visible < 0 ? 0 : visible < t->keys ? visible : t->keys;
}

static inline char *weights_row(const struct gpt_tile_softmax *t, int i)
{
    return (char *)t->weights + (size_t)i * (size_t)t->row_elems * dt_dtype_bytes(t->dtype);
}

/* The running softmax of row i over `visible` more keys: scores become exp(score - maximum), and what was summed so far is rescaled. */
static inline void softmax_row(const struct gpt_tile_softmax_forward *s, int i, float *row, int visible)
{
    float scale = s->tile.scale, maximum = s->maximum[i], before = maximum, sum = 0;
#pragma omp simd reduction(max : maximum)
    for (int k = 0; k < visible; k++)
        maximum = row[k] * scale > maximum ? row[k] * scale : maximum;
#pragma omp simd reduction(+ : sum)
    for (int k = 0; k < visible; k++) {
        row[k] = exponential(row[k] * scale - maximum);
        sum += row[k];
    }
    if (maximum > before && before > -INFINITY) {
        float shrink = exponential(before - maximum);
        s->sum[i] *= shrink;
        for (int j = 0; j < s->values_width; j++)
            s->values[(size_t)i * (size_t)s->values_width + (size_t)j] *= shrink;
    }
    s->maximum[i] = maximum;
    s->sum[i] += sum;
}

void TILE(gpt_tile_softmax_forward)(const struct gpt_tile_softmax_forward *s)
{
    const struct gpt_tile_softmax *t = &s->tile;
    for (int i = 0; i < t->padded_rows; i++) {
        float *row = t->scores + (size_t)i * t->ld;
        int visible = visible_keys(t, i);
        if (visible > 0)
            softmax_row(s, i, row, visible);
        memset(row + visible, 0, (size_t)(t->keys - visible) * sizeof *row);
        if (t->weights && i < t->rows) {
            char *weights = weights_row(t, i);
            size_t bytes = dt_dtype_bytes(t->dtype);
            float inverse = 1 / s->sum[i];
            for (int k = 0; k < visible; k++)
                row[k] *= inverse;
            floats_to(t->dtype, row, weights, visible);
            memset(weights + (size_t)visible * bytes, 0, (size_t)(t->row_elems - visible) * bytes);
            floats_from(t->dtype, weights, row, visible);
        }
        if (t->dropout->threshold)
            drop(t->dropout, t->first_row + i, t->first_key, visible, row);
        to_elements(row, (element *)s->probabilities + (size_t)i * t->ld, t->keys);
    }
}

/* Row i: the probabilities, 0 where dropped, into its scores, and the scores' gradient (before `scale`) into its dprobabilities. */
static inline void softmax_backward_row(const struct gpt_tile_softmax_backward *s, int i)
{
    const struct gpt_tile_softmax *t = &s->tile;
    float *row = t->scores + (size_t)i * t->ld, *gradient = s->dprobabilities + (size_t)i * t->ld;
    int visible = visible_keys(t, i), query = t->first_row + i;
    float dropout_scale = t->dropout->scale, scale = t->scale, dot = 0;
    if (visible > 0 && t->dropout->threshold)
        drop(t->dropout, query, t->first_key, visible, gradient);
    if (visible > 0 && t->weights) {
        floats_from(t->dtype, weights_row(t, i), row, visible);
#pragma omp simd reduction(+ : dot)
        for (int k = 0; k < visible; k++)
            dot += row[k] * gradient[k];
        dot *= dropout_scale;
    } else if (visible > 0) {
        float lse = s->lse[i];
        dot = s->dots[i];
        for (int k = 0; k < visible; k++)
            row[k] = exponential(row[k] * scale - lse);
    }
    for (int k = 0; k < visible; k++)
        gradient[k] = row[k] * (gradient[k] * dropout_scale - dot);
    if (visible > 0 && t->dropout->threshold)
        drop(t->dropout, query, t->first_key, visible, row);
    memset(row + visible, 0, (size_t)(t->keys - visible) * sizeof *row);
    memset(gradient + visible, 0, (size_t)(t->keys - visible) * sizeof *gradient);
}

#ifdef GPT_TILE_BF16

/* Rows i and i + 1 of `rows` as one row of words in the panels. */
static inline void to_panels(const float *rows, size_t ld, int i, int keys, uint32_t *panels, size_t panel_words)
{
    const float *even = rows + (size_t)i * ld, *odd = even + ld;
    for (int k = 0; k < keys; k += 64)
        to_words(even + k, odd + k, panels + (size_t)(k / 64) * panel_words + (size_t)i / 2 * 64, keys - k < 64 ? keys - k : 64);
}

#else

static inline void to_panels(const float *rows, size_t ld, int i, int keys, uint32_t *panels, size_t panel_words)
{
    for (int k = 0; k < keys; k += 64)
        memcpy(panels + (size_t)(k / 64) * panel_words + (size_t)i * 64, rows + (size_t)i * ld + (size_t)k,
               (size_t)(keys - k < 64 ? keys - k : 64) * sizeof *rows);
}

#endif

void TILE(gpt_tile_softmax_backward)(const struct gpt_tile_softmax_backward *s)
{
    const struct gpt_tile_softmax *t = &s->tile;
    for (int first = 0; first < t->padded_rows; first += DEPTH) {
        for (int i = first; i < first + DEPTH; i++) {
            softmax_backward_row(s, i);
            to_elements(s->dprobabilities + (size_t)i * t->ld, (element *)s->dscores + (size_t)i * t->ld, t->keys);
        }
        to_panels(t->scores, t->ld, first, t->keys, s->probabilities_panels, s->panel_words);
        to_panels(s->dprobabilities, t->ld, first, t->keys, s->dscores_panels, s->panel_words);
    }
}

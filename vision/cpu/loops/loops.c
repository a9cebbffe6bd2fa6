/* Compiled once for each instruction set and dtype (meson.build). DT_SIMD_DTYPE is the dtype,
 * VISION_LOOPS_TABLE the name of the table. */
#include "vision/cpu/loops/loops.h"

#include "lib/base/random.h"
#include "lib/kernels/cpu/simd_dtype.h"

/* fp32 numbers, one for each channel. */
V_INLINE vfloat wide(const float *from, size_t i, size_t count)
{
    return v_load(DT_FP32, from, i, count - i);
}

V_INLINE void add_wide(float *to, size_t i, size_t count, vfloat value)
{
    v_store(DT_FP32, to, i, count - i, wide(to, i, count) + value);
}

/* Row r of a matrix. */
V_INLINE const void *row(const void *matrix, size_t r, size_t channels)
{
    return (const char *)matrix + r * channels * (DT_SIMD_DTYPE == DT_FP32 ? 4 : 2);
}

enum { TILE_VECTORS = VISION_TILE_COLUMNS / V_LANES };

static void weight_tile(const struct vision_weight_tile *t)
{
    vfloat sums[VISION_TILE_ROWS][TILE_VECTORS] = {{{0}}};
    const float *dy = t->dy;
    for (size_t line = 0; line < t->lines; line++) {
        const float *x = t->x + t->offsets[line];
        for (size_t p = 0; p < t->positions; p++, x += t->x_step, dy += VISION_TILE_ROWS) {
            vfloat of_x[TILE_VECTORS];
            for (int j = 0; j < TILE_VECTORS; j++)
                memcpy(&of_x[j], x + j * V_LANES, sizeof of_x[j]);
            for (int i = 0; i < VISION_TILE_ROWS; i++)
                for (int j = 0; j < TILE_VECTORS; j++)
                    sums[i][j] += v_set(dy[i]) * of_x[j];
        }
    }
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < TILE_VECTORS; j++) {
            float *to = t->dw + (size_t)i * t->dw_step + j * V_LANES;
            v_store(DT_FP32, to, 0, V_LANES, t->fresh ? sums[i][j] : sums[i][j] + v_load(DT_FP32, to, 0, V_LANES));
        }
}

static void moments(float *sums, float *squares, const void *x, const float *shift, size_t rows, size_t channels)
{
    for (size_t i = 0; i < channels; i += V_LANES) {
        vfloat sum = {0}, square = {0}, from = wide(shift, i, channels);
        for (size_t r = 0; r < rows; r++) {
            vfloat off = load(row(x, r, channels), i, channels) - from;
            sum += off;
            square += off * off;
        }
        add_wide(sums, i, channels, sum);
        add_wide(squares, i, channels, square);
    }
}

/* The factors that normalise a channel. */
struct factors {
    vfloat mean, scale, bias;
};

V_INLINE struct factors factors(const float *mean, const float *scale, const float *bias, size_t i, size_t channels)
{
    return (struct factors){wide(mean, i, channels), wide(scale, i, channels), wide(bias, i, channels)};
}

V_INLINE vfloat normal(const void *x, const void *residual, const struct factors *f, size_t r, size_t i, size_t channels)
{
    vfloat y = (load(row(x, r, channels), i, channels) - f->mean) * f->scale + f->bias;
    return residual ? y + load(row(residual, r, channels), i, channels) : y;
}

static void normalise(void *y, const void *x, const void *residual, const float *mean, const float *scale, const float *bias, size_t rows,
                      size_t channels, bool relu)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < channels; i += V_LANES) {
            struct factors f = factors(mean, scale, bias, i, channels);
            vfloat value = normal(x, residual, &f, r, i, channels);
            store((void *)row(y, r, channels), i, channels, relu ? v_max(value, v_set(0)) : value);
        }
}

static void norm_sums(float *sums, float *products, void *dy, const void *x, const void *residual, const float *mean, const float *scale,
                      const float *bias, size_t rows, size_t channels, bool relu)
{
    for (size_t i = 0; i < channels; i += V_LANES) {
        vfloat sum = {0}, product = {0};
        struct factors f = factors(mean, scale, bias, i, channels);
        for (size_t r = 0; r < rows; r++) {
            void *at = (void *)row(dy, r, channels);
            vfloat gradient = load(at, i, channels);
            if (relu) {
                gradient = v_select(normal(x, residual, &f, r, i, channels) > v_set(0), gradient, v_set(0));
                store(at, i, channels, gradient);
            }
            sum += gradient;
            product += gradient * (load(row(x, r, channels), i, channels) - f.mean);
        }
        add_wide(sums, i, channels, sum);
        add_wide(products, i, channels, product);
    }
}

static void norm_gradient(void *dx, const void *dy, const void *x, const float *of_dy, const float *of_x, const float *rest,
                          const float *mean, size_t rows, size_t channels)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < channels; i += V_LANES) {
            vfloat off = load(row(x, r, channels), i, channels) - wide(mean, i, channels);
            vfloat value = load(row(dy, r, channels), i, channels) * wide(of_dy, i, channels) + off * wide(of_x, i, channels);
            store((void *)row(dx, r, channels), i, channels, value + wide(rest, i, channels));
        }
}

/* Convert up to a vector's lanes of places to integers, and back. */
V_INLINE vint places_of(const uint8_t *from, size_t i, size_t count)
{
    vint lanes = {0};
    for (size_t j = 0; j < V_LANES && i + j < count; j++)
        lanes[j] = from[i + j];
    return lanes;
}

static void max_pool(void *y, uint8_t *chosen, const void *const *window, const uint8_t *places, int count, size_t channels)
{
    for (size_t i = 0; i < channels; i += V_LANES) {
        vfloat largest = load(window[0], i, channels);
        vint place = (vint){0} + places[0];
        for (int w = 1; w < count; w++) {
            vfloat value = load(window[w], i, channels);
            vint larger = value > largest;
            largest = v_select(larger, value, largest);
            place = (place & ~larger) | (((vint){0} + places[w]) & larger);
        }
        store(y, i, channels, largest);
        for (size_t j = 0; j < V_LANES && i + j < channels; j++)
            chosen[i + j] = (uint8_t)place[j];
    }
}

static void max_pool_gradient(float *sums, const void *dy, const uint8_t *chosen, uint8_t place, size_t channels)
{
    for (size_t i = 0; i < channels; i += V_LANES) {
        vint mine = places_of(chosen, i, channels) == (vint){0} + place;
        add_wide(sums, i, channels, v_select(mine, load(dy, i, channels), v_set(0)));
    }
}

static void add_scaled(float *sums, const void *x, float scale, size_t channels)
{
    for (size_t i = 0; i < channels; i += V_LANES)
        add_wide(sums, i, channels, load(x, i, channels) * scale);
}

static void dropout(void *y, const void *x, size_t channels, uint64_t seed, uint32_t position, uint32_t sample, uint32_t layer_word,
                    float probability)
{
    uint16_t bits[V_DROPOUT_COLUMNS];
    vint threshold = (vint){0} + (int32_t)dt_dropout_threshold(probability);
    vfloat scale = v_set(dt_dropout_scale(probability));
    for (size_t i = 0; i < channels; i += V_LANES) {
        vhalf half;
        if (i % V_DROPOUT_COLUMNS == 0)
            v_dropout_bits(seed, (uint32_t)(i / 8), position, sample, layer_word, bits);
        memcpy(&half, bits + i % V_DROPOUT_COLUMNS, sizeof half);
        store(y, i, channels, v_select((vint)v_widen_bits(half) >= threshold, load(x, i, channels) * scale, v_set(0)));
    }
}

const struct vision_loops VISION_LOOPS_TABLE = {
    .weight_tile = weight_tile,
    .moments = moments,
    .normalise = normalise,
    .norm_sums = norm_sums,
    .norm_gradient = norm_gradient,
    .max_pool = max_pool,
    .max_pool_gradient = max_pool_gradient,
    .add_scaled = add_scaled,
    .dropout = dropout,
};

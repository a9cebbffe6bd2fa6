/* Compiled once for each instruction set and dtype (meson.build). DT_SIMD_DTYPE is the dtype,
 * GPT_SIMD_TABLE the name of the table. */
#include "gpt/cpu/loops/loops.h"

#include "lib/kernels/cpu/simd_dtype.h"

#include <math.h>

/* An activation of the MLP, and its gradient. */
#define ACTIVATION(name)                                                                                                                   \
    static void name(void *y, const void *x, size_t count)                                                                                 \
    {                                                                                                                                      \
        for (size_t i = 0; i < count; i += V_LANES)                                                                                        \
            store(y, i, count, v_##name(load(x, i, count)));                                                                               \
    }                                                                                                                                      \
                                                                                                                                           \
    static void name##_gradient(void *dy_to_dx, const void *x, size_t count)                                                               \
    {                                                                                                                                      \
        for (size_t i = 0; i < count; i += V_LANES)                                                                                        \
            store(dy_to_dx, i, count, load(dy_to_dx, i, count) * v_##name##_gradient(load(x, i, count)));                                  \
    }

ACTIVATION(gelu)
ACTIVATION(gelu_new)
ACTIVATION(relu)

/* The factors of V_DROPOUT_COLUMNS columns from `column` on. */
enum { DROPOUT_VECTORS = V_DROPOUT_COLUMNS / V_LANES };
struct dropout_factors {
    vfloat lanes[DROPOUT_VECTORS];
};

V_INLINE struct dropout_factors dropout_factors(const struct gpt_dropout_row *row, size_t column)
{
    uint16_t bits[V_DROPOUT_COLUMNS];
    struct dropout_factors f;
    vint threshold = (vint){0} + (int32_t)row->threshold;
    v_dropout_bits(row->seed, (uint32_t)(column / 8), row->t, row->sample, row->layer_word, bits);
    for (int j = 0; j < DROPOUT_VECTORS; j++) {
        vhalf half;
        memcpy(&half, bits + j * V_LANES, sizeof half);
        f.lanes[j] = v_select((vint)v_widen_bits(half) >= threshold, v_set(row->scale), v_set(0));
    }
    return f;
}

/* The use of a row's columns: out = residual + f * branch, out = f * branch, out = f * (residual +
 * branch), sums += f * branch. */
enum dropout_use { RESIDUAL, PLAIN, EMBEDDING, SUM };

V_INLINE void dropout_columns(enum dropout_use use, void *out, const void *residual, const void *branch, size_t i, size_t d, vfloat factor)
{
    vfloat x = load(branch, i, d);
    switch (use) {
    case RESIDUAL: store(out, i, d, load(residual, i, d) + x * factor); break;
    case PLAIN: store(out, i, d, x * factor); break;
    case EMBEDDING: store(out, i, d, (load(residual, i, d) + x) * factor); break;
    case SUM: v_store(DT_FP32, out, i, d - i, v_load(DT_FP32, out, i, d - i) + x * factor); break;
    }
}

V_INLINE void dropout_row(enum dropout_use use, void *out, const void *residual, const void *branch, size_t d,
                          const struct gpt_dropout_row *from)
{
    const struct gpt_dropout_row copy = *from, *row = &copy; /* a copy, which stores through other pointers cannot change */
    size_t i = 0;
    for (; row->threshold && i + V_DROPOUT_COLUMNS <= d; i += V_DROPOUT_COLUMNS) {
        struct dropout_factors f = dropout_factors(row, i);
        for (size_t j = 0; j < DROPOUT_VECTORS; j++)
            dropout_columns(use, out, residual, branch, i + j * V_LANES, i + V_DROPOUT_COLUMNS, f.lanes[j]);
    }
    if (row->threshold && i < d) {
        struct dropout_factors f = dropout_factors(row, i);
        for (size_t j = 0; i < d; i += V_LANES, j++)
            dropout_columns(use, out, residual, branch, i, d, f.lanes[j]);
    }
    for (; i < d; i += V_LANES)
        dropout_columns(use, out, residual, branch, i, d, v_set(1));
}

static void dropout_residual(void *out, const void *residual, const void *branch, size_t d, const struct gpt_dropout_row *row)
{
    dropout_row(RESIDUAL, out, residual, branch, d, row);
}

static void dropout_gradient(void *dbranch, const void *dout, size_t d, const struct gpt_dropout_row *row)
{
    dropout_row(PLAIN, dbranch, NULL, dout, d, row);
}

static void embedding(void *out, const void *token, const void *position, size_t d, const struct gpt_dropout_row *row)
{
    dropout_row(EMBEDDING, out, token, position, d, row);
}

static void dropout_sum(float *sums, const void *dout, size_t d, const struct gpt_dropout_row *row)
{
    dropout_row(SUM, sums, NULL, dout, d, row);
}

/* A row is read three times, twice of them from the nearest cache. Four sums at a time hide the
 * latency of additions. */
static void layer_norm(void *y, const void *x, const void *gain, const void *bias, size_t d, float epsilon, float *mean, float *rstd)
{
    vfloat sums[4] = {{0}}, squares[4] = {{0}};
    size_t whole = d / (4 * V_LANES) * (4 * V_LANES);
    for (size_t i = 0; i < whole; i += 4 * V_LANES)
        for (size_t j = 0; j < 4; j++)
            sums[j] += load(x, i + j * V_LANES, whole);
    for (size_t i = whole; i < d; i += V_LANES)
        sums[0] += load(x, i, d);
    *mean = v_sum((sums[0] + sums[1]) + (sums[2] + sums[3])) / (float)d;

    for (size_t i = 0; i < whole; i += 4 * V_LANES)
        for (size_t j = 0; j < 4; j++) {
            vfloat from_mean = load(x, i + j * V_LANES, whole) - *mean;
            squares[j] += from_mean * from_mean;
        }
    for (size_t i = whole; i < d; i += V_LANES) {
        vfloat from_mean = v_first(load(x, i, d) - *mean, d - i, 0);
        squares[0] += from_mean * from_mean;
    }
    *rstd = 1 / sqrtf(v_sum((squares[0] + squares[1]) + (squares[2] + squares[3])) / (float)d + epsilon);

    for (size_t i = 0; bias && i < d; i += V_LANES)
        store(y, i, d, (load(x, i, d) - *mean) * *rstd * load(gain, i, d) + load(bias, i, d));
    for (size_t i = 0; !bias && i < d; i += V_LANES)
        store(y, i, d, (load(x, i, d) - *mean) * *rstd * load(gain, i, d));
}

V_INLINE void add_to_sums(float *sums, size_t i, size_t d, vfloat value)
{
    v_store(DT_FP32, sums, i, d - i, v_load(DT_FP32, sums, i, d - i) + value);
}

/* One row of either norm's gradient; dbias may be NULL. An rms norm subtracts no mean, so its
 * gradient has no term for one. */
V_INLINE void norm_gradient(bool has_mean, void *dx, const void *dy, const void *x, const void *gain, float *dgain, float *dbias, size_t d,
                            float mean, float rstd, bool overwrite)
{
    vfloat sums = {0}, dots = {0};
    for (size_t i = 0; i < d; i += V_LANES) {
        vfloat g = load(dy, i, d), at = load(x, i, d), normal = (has_mean ? at - mean : at) * rstd, through = g * load(gain, i, d);
        if (has_mean)
            sums += through;
        dots += through * normal;
        add_to_sums(dgain, i, d, g * normal);
        if (dbias)
            add_to_sums(dbias, i, d, g);
    }
    float sum = has_mean ? v_sum(sums) / (float)d : 0, dot = v_sum(dots) / (float)d;
    for (size_t i = 0; i < d; i += V_LANES) {
        vfloat at = load(x, i, d), normal = (has_mean ? at - mean : at) * rstd, through = load(dy, i, d) * load(gain, i, d);
        vfloat gradient = ((has_mean ? through - sum : through) - normal * dot) * rstd;
        store(dx, i, d, overwrite ? gradient : load(dx, i, d) + gradient);
    }
}

static void layer_norm_gradient(void *dx, const void *dy, const void *x, const void *gain, float *dgain, float *dbias, size_t d, float mean,
                                float rstd, bool overwrite)
{
    if (dbias)
        norm_gradient(true, dx, dy, x, gain, dgain, dbias, d, mean, rstd, overwrite);
    else
        norm_gradient(true, dx, dy, x, gain, dgain, NULL, d, mean, rstd, overwrite);
}

static float rms_rstd(const void *x, size_t d, float epsilon)
{
    vfloat squares[4] = {{0}};
    size_t whole = d / (4 * V_LANES) * (4 * V_LANES);
    for (size_t i = 0; i < whole; i += 4 * V_LANES)
        for (size_t j = 0; j < 4; j++) {
            vfloat at = load(x, i + j * V_LANES, whole);
            squares[j] += at * at;
        }
    for (size_t i = whole; i < d; i += V_LANES) {
        vfloat at = load(x, i, d); /* past the end: 0 */
        squares[0] += at * at;
    }
    return 1 / sqrtf(v_sum((squares[0] + squares[1]) + (squares[2] + squares[3])) / (float)d + epsilon);
}

static void rms_norm(void *y, const void *x, const void *gain, size_t d, float epsilon, float *rstd)
{
    float scale = rms_rstd(x, d, epsilon);
    for (size_t i = 0; i < d; i += V_LANES)
        store(y, i, d, load(x, i, d) * scale * load(gain, i, d));
    *rstd = scale;
}

static void rms_norm_gradient(void *dx, const void *dy, const void *x, const void *gain, float *dgain, size_t d, float rstd, bool overwrite)
{
    norm_gradient(false, dx, dy, x, gain, dgain, NULL, d, 0, rstd, overwrite);
}

/* 1 / (1 + exp(-x)), computed from exp(-|x|), which cannot overflow. */
V_INLINE vfloat sigmoid(vfloat x)
{
    vfloat e = v_exp(-v_max(-x, x));
    return v_select(x < 0.0f, e, v_set(1)) / (e + 1.0f);
}

static void swiglu(void *y, const void *gate, const void *up, size_t count)
{
    for (size_t i = 0; i < count; i += V_LANES) {
        vfloat at = load(gate, i, count);
        store(y, i, count, at * sigmoid(at) * load(up, i, count));
    }
}

V_INLINE void swiglu_gradient_with(bool again, void *dgate, void *dup, void *y, const void *dy, const void *gate, const void *up,
                                   size_t count)
{
    for (size_t i = 0; i < count; i += V_LANES) {
        vfloat g = load(dy, i, count), at = load(gate, i, count), by = load(up, i, count), share = sigmoid(at), silu = at * share;
        store(dgate, i, count, g * by * (share + silu * (1.0f - share)));
        store(dup, i, count, g * silu);
        if (again)
            store(y, i, count, silu * by);
    }
}

static void swiglu_gradient(void *dgate, void *dup, void *y, const void *dy, const void *gate, const void *up, size_t count)
{
    if (y)
        swiglu_gradient_with(true, dgate, dup, y, dy, gate, up, count);
    else
        swiglu_gradient_with(false, dgate, dup, y, dy, gate, up, count);
}

static void rope(void *x, size_t heads, size_t half, const float *cosines, const float *sines, float direction)
{
    const size_t half_bytes = half * (DT_SIMD_DTYPE == DT_FP32 ? 4 : 2);
    for (size_t head = 0; head < heads; head++) {
        char *first = (char *)x + head * 2 * half_bytes, *second = first + half_bytes;
        for (size_t i = 0; i < half; i += V_LANES) {
            vfloat a = load(first, i, half), b = load(second, i, half);
            vfloat cosine = v_load(DT_FP32, cosines, i, half - i), sine = v_load(DT_FP32, sines, i, half - i) * direction;
            store(first, i, half, a * cosine - b * sine);
            store(second, i, half, b * cosine + a * sine);
        }
    }
}

const struct gpt_simd GPT_SIMD_TABLE = {
    .gelu = gelu,
    .gelu_gradient = gelu_gradient,
    .gelu_new = gelu_new,
    .gelu_new_gradient = gelu_new_gradient,
    .relu = relu,
    .relu_gradient = relu_gradient,
    .dropout_residual = dropout_residual,
    .dropout_gradient = dropout_gradient,
    .embedding = embedding,
    .dropout_sum = dropout_sum,
    .layer_norm = layer_norm,
    .layer_norm_gradient = layer_norm_gradient,
    .rms_norm = rms_norm,
    .rms_norm_gradient = rms_norm_gradient,
    .rms_rstd = rms_rstd,
    .swiglu = swiglu,
    .swiglu_gradient = swiglu_gradient,
    .rope = rope,
};

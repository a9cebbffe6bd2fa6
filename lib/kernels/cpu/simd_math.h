/* Functions on vectors of fp32, and the random bits of lib/base/random.h for a vector of blocks at
 * a time.
 *
 * Polynomials are minimax fits made for the given ranges. The given errors are relative, without
 * fp32's own rounding. */
#pragma once

#include "lib/base/random.h"
#include "lib/kernels/cpu/simd.h"

/* e^x for x from -87 to 88; NaN stays NaN. Error 1e-7, and |x| times 1e-8 (6e-8 without fused
 * multiply-add). */
V_INLINE vfloat v_exp_within(vfloat x)
{
    vfloat shifted = x * 1.44269504f + 12582912.0f;       /* 1.5 * 2^23: the low bits now hold x / ln 2, rounded to an integer */
    vfloat r = x * 1.44269504f - (shifted - 12582912.0f); /* e^x = 2^integer * 2^r, r in [-1/2, 1/2] */
    vfloat p = ((0.00132646999f * r + 0.00967153391f) * r + 0.05550734f) * r + 0.240222418f;
    p = (p * r + 0.693146977f) * r + 1.0f;
    return (vfloat)((vuint)p + ((vuint)shifted << 23)); /* the shift discards the other bits of `shifted` */
}

/* e^x. For x below -87 the result is e^-87, which stands for zero; x must not exceed 88; NaN stays
 * NaN. */
V_INLINE vfloat v_exp(vfloat x)
{
    return v_exp_within(v_max(v_set(-87.0f), x));
}

/* From here on e^(-x^2 / 2) is e^-87, and stands for zero. Functions of the normal distribution
 * limit |x| to this, because infinity times zero would be NaN. */
#define V_NORMAL_END 13.1909f

/* The normal distribution's tail beyond a, for a from 0 to V_NORMAL_END, and e^(-a^2 / 2), a
 * multiple of its density. Error 3e-7, in addition to that of e^(-a^2 / 2). */
V_INLINE vfloat v_normal_tail(vfloat a, vfloat *exponential)
{
    vfloat e = v_exp_within(a * a * -0.5f), t = 1.0f / (a * 0.3f + 1.0f);
    vfloat p = ((0.0359317315f * t - 0.158275986f) * t + 0.208206582f) * t - 0.055393826f;
    p = (((p * t + 0.12946919f) * t + 0.099637496f) * t + 0.120798358f) * t + 0.11962639f;
    *exponential = e;
    return p * t * e;
}

/* x * Phi(x), which is max(x, 0) minus |x| times the tail beyond |x|. */
V_INLINE vfloat v_gelu(vfloat x)
{
    vfloat a = v_min(v_set(V_NORMAL_END), v_max(-x, x)), exponential, tail = v_normal_tail(a, &exponential);
    return v_max(v_set(0), x) - a * tail;
}

/* The derivative of x * Phi(x). */
V_INLINE vfloat v_gelu_gradient(vfloat x)
{
    x = v_max(v_set(-V_NORMAL_END), v_min(v_set(V_NORMAL_END), x));
    vfloat exponential, tail = v_normal_tail(v_max(-x, x), &exponential);
    vfloat phi = v_select(x < 0.0f, tail, 1.0f - tail), density = exponential * 0.398942280f; /* 1 / sqrt(2 pi) */
    return x * density + phi;
}

/* For larger |x| the tanh form below has its limit values: e^(+-2 u) is outside of fp32's range. */
#define V_TANH_END 9.9f

/* (1 + tanh(u)) / 2 for u = sqrt(2 / pi) (x + 0.044715 x^3), |x| <= V_TANH_END; *exponential =
 * e^(-2 u). */
V_INLINE vfloat v_half_tanh(vfloat x, vfloat *exponential)
{
    *exponential = v_exp_within(x * (x * x * 0.0713548163f + 1.59576912f) * -1.0f);
    return 1.0f / (*exponential + 1.0f);
}

/* GELU's tanh form.  Source  Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016, section 2. */
V_INLINE vfloat v_gelu_new(vfloat x)
{
    vfloat low = v_max(v_set(-V_TANH_END), x), exponential;
    return low * v_half_tanh(v_min(v_set(V_TANH_END), low), &exponential);
}

/* The derivative of GELU's tanh form. */
V_INLINE vfloat v_gelu_new_gradient(vfloat x)
{
    x = v_max(v_set(-V_TANH_END), v_min(v_set(V_TANH_END), x));
    vfloat e, s = v_half_tanh(x, &e);
    return s + x * s * (e * s) * (x * x * 0.214064449f + 1.59576912f);
}

/* max(x, 0) and its derivative, which is 0 at 0; NaN stays NaN. */
V_INLINE vfloat v_relu(vfloat x)
{
    return v_max(v_set(0), x);
}

V_INLINE vfloat v_relu_gradient(vfloat x)
{
    return v_select(x <= 0.0f, v_set(0), v_select(x > 0.0f, v_set(1), x));
}

/* sqrt(-2 log u) for u = (word + 1) / 2^32, in (0, 1]. Error 4e-8, also near u = 1, where fp32
 * cannot represent u. */
V_INLINE vfloat v_box_muller_radius(vuint word)
{
    vuint rest = ~word; /* 2^32 (1 - u) */
    /* Convert the word's halves to fp32 exactly; only their sum is rounded. */
    vfloat u = __builtin_convertvector((vint)(word >> 16), vfloat) * 0x1p-16f +
               __builtin_convertvector((vint)(word & 0xFFFF) + 1, vfloat) * 0x1p-32f;
    vfloat from_one =
        __builtin_convertvector((vint)(rest >> 16), vfloat) * -0x1p-16f - __builtin_convertvector((vint)(rest & 0xFFFF), vfloat) * 0x1p-32f;
    vint exponent = ((vint)u - 0x3F3504F3) >> 23; /* u = 2^exponent * m, m in [sqrt(1/2), sqrt(2)) */
    vfloat f = (vfloat)((vint)u - (exponent << 23)) - 1.0f;
    f = v_select(exponent == 0, from_one, f);
    vfloat p = ((0.0891786938f * f - 0.143502014f) * f + 0.148769612f) * f - 0.165656345f;
    p = ((p * f + 0.199653981f) * f - 0.250017469f) * f + 0.333338581f;
    vfloat n = __builtin_convertvector(exponent, vfloat), square = f * f;
    vfloat logarithm = (n * -2.12194440e-4f + (p * f - 0.5f) * square) + f + n * 0.693359375f;
    return v_sqrt(v_max(logarithm * -2.0f, v_set(0)));
}

/* Cosine and sine of 2 pi word / 2^32. Relative error 1e-8, also near the zeros, because the angle
 * is reduced as an integer. */
V_INLINE void v_turn(vuint word, vfloat *cosine, vfloat *sine)
{
    vuint quarter = (word + 0x20000000) >> 30;
    vfloat a = __builtin_convertvector((vint)(word - (quarter << 30)), vfloat) * 1.46291808e-9f, z = a * a; /* 2 pi / 2^32 */
    vfloat s = ((-0.00019517299f * z + 0.00833217815f) * z - 0.166666549f) * (z * a) + a;
    vfloat c = ((2.44384515e-5f * z - 0.00138873675f) * z + 0.0416666469f) * (z * z) - 0.5f * z + 1.0f;
    vint swap = (vint)(quarter & 1) != 0;
    vuint cosine_sign = ((quarter + 1) & 2) << 30, sine_sign = (quarter & 2) << 30;
    *cosine = (vfloat)((vuint)v_select(swap, s, c) ^ cosine_sign);
    *sine = (vfloat)((vuint)v_select(swap, c, s) ^ sine_sign);
}

/* V_LANES Philox blocks: half of them in word[0], one for each wide lane, the other half in
 * word[1]. Counter words 0 and 1 together are incremented from block to block. The high halves of
 * the results are not zero, but unused. Two vectors are computed at a time, because one alone would
 * wait for its own multiplications. */
struct v_philox {
    vwide word[2][4];
};

/* The ten rounds. Each block has its own counter words 0 and 1. */
V_INLINE struct v_philox v_philox_rounds(uint64_t key, vwide a[2], vwide b[2], uint32_t c2, uint32_t c3)
{
    vwide c[2], d[2], zero = {0}, first = zero + 0xD2511F53u, second = zero + 0xCD9E8D57u;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int h = 0; h < 2; h++) {
        c[h] = zero + c2;
        d[h] = zero + c3;
    }
    for (int round = 0; round < 10; round++) {
        for (int h = 0; h < 2; h++) {
            vwide p0 = v_multiply_low(a[h], first), p1 = v_multiply_low(c[h], second);
            a[h] = (p1 >> 32) ^ b[h] ^ k0; /* b's high half gets into a's high half, which the multiplication ignores */
            c[h] = (p0 >> 32) ^ d[h] ^ k1;
            b[h] = p1;
            d[h] = p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct v_philox){{{a[0], b[0], c[0], d[0]}, {a[1], b[1], c[1], d[1]}}};
}

V_INLINE struct v_philox v_philox4x32(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    vwide a[2], b[2];
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < V_LANES / 2; i++)
            a[h][i] = (uint32_t)(h * V_LANES / 2 + i);
        a[h] += c0;
        b[h] = (a[h] >> 32) + c1;
    }
    return v_philox_rounds(key, a, b, c2, c3);
}

/* The 16-bit numbers of V_LANES dropout blocks in the order of their columns. */
enum { V_DROPOUT_COLUMNS = 8 * V_LANES };
V_INLINE void v_dropout_order(const struct v_philox *r, uint16_t *bits)
{
    for (int h = 0; h < 2; h++) {
        vwide low = (r->word[h][0] & 0xFFFFFFFFu) | r->word[h][1] << 32, high = (r->word[h][2] & 0xFFFFFFFFu) | r->word[h][3] << 32;
        vwide first = v_zip_first(low, high), second = v_zip_second(low, high);
        memcpy(bits + h * 4 * V_LANES, &first, sizeof first);
        memcpy(bits + h * 4 * V_LANES + 2 * V_LANES, &second, sizeof second);
    }
}

V_INLINE void v_dropout_bits(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t sample, uint32_t c3, uint16_t *bits)
{
    struct v_philox r = v_philox4x32(seed, c0, c1, sample, c3);
    v_dropout_order(&r, bits);
}

/* The same for 32 columns of V_DROPOUT_ROWS positions of one sample, from t on: bits
 * [V_DROPOUT_ROWS][32]. */
enum { V_DROPOUT_ROWS = V_LANES / 4 };
V_INLINE void v_dropout_square(uint64_t seed, uint32_t c0, uint32_t t, uint32_t sample, uint32_t c3, uint16_t *bits)
{
    uint64_t columns[V_LANES], rows[V_LANES];
    vwide a[2], b[2];
    for (int i = 0; i < V_LANES; i++) {
        columns[i] = c0 + (uint32_t)i % 4;
        rows[i] = t + (uint32_t)i / 4;
    }
    memcpy(a, columns, sizeof a);
    memcpy(b, rows, sizeof b);
    struct v_philox r = v_philox_rounds(seed, a, b, sample, c3);
    v_dropout_order(&r, bits);
}

/* Rates of products and attention that a user has measured alone, on the described GPU. Measured
 * products correct the formula of gemm.c near their shapes.
 *
 * A rate is the seconds of one product [m, k] x [k, n] in one dtype. The formula's time is
 * multiplied by the ratio of measured time to formula, averaged over the measured shapes that
 * differ by at most a factor of 2 in each of m, n and k (or n, m and k): the mean of logarithms,
 * each weighted by the inverse of its distance's fourth power (Shepard, "A two-dimensional
 * interpolation function for irregularly-spaced data", 1968). Without such shapes the formula is
 * used alone. A product alone is faster than in a step, where the GPU's power is limited and
 * operands are not in the cache: gemm.alone_fraction of a profile says by how much.
 *
 * Attention is a rate by the length of the sequence and the width of a head. */
#pragma once

#include "lib/base/dtype.h"

#include <stdbool.h>

enum { DT_PRODUCT_RATES_MAX = 2048, DT_ATTENTION_RATES_MAX = 256 };

struct dt_product_rate {
    enum dt_dtype dtype;
    float m, n, k;
    float seconds;
    /* Set by dt_product_rates_settle (lib/cost/cost.h): logarithms of the sides, and of the ratio
     * of measured time to formula. */
    float log_sides[3], log_ratio;
};

struct dt_product_rates {
    struct dt_product_rate entries[DT_PRODUCT_RATES_MAX];
    int count;
};

/* The factor of the formula's time; 1: no measured shape is near. */
double dt_product_rates_factor(const struct dt_product_rates *rates, double m, double n, double k);

/* Fused attention under a causal mask. */
struct dt_attention_rate {
    enum dt_dtype dtype;
    bool forward, backward; /* both true: rate of both together */
    double length, width;   /* tokens of a sequence; columns of a head */
    double flops_per_s;     /* counting what the mask leaves: two products of half a square in forward, five in backward */
};

struct dt_attention_rates {
    struct dt_attention_rate entries[DT_ATTENTION_RATES_MAX];
    int count;
};

/* Operations a second of the pass at this length: interpolated by a power of the length between two
 * measured ones of the nearest width; longer ones are as fast as the longest. 0: unknown, since no
 * width is within a factor of 2, or the length is below half of the shortest. */
double dt_attention_rate(const struct dt_attention_rates *rates, enum dt_dtype dtype, bool backward, double length, double width);

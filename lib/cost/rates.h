/* Products and attention as somebody has measured them alone, on the GPU that is described. Products correct the formula of product.c near their shapes.
 *
 * A rate is the seconds of one product [m, k] x [k, n] in one dtype. The formula's time is multiplied by what was measured over what it says
 * of the measured shapes that are no more than twice or half as long in each of m, n and k, or in n, m and k: their mean by logarithms, each
 * weighted by the inverse of its distance's fourth power (Shepard, "A two-dimensional interpolation function for irregularly-spaced data",
 * 1968). Where no such shape is known the formula stands. A product alone is faster than one in a step, whose power the GPU limits and whose
 * operands nobody has in its cache: gemm.alone_fraction of a profile says by how much.
 *
 * Attention is a rate by the length of the sequence and the width of a head. */
#ifndef LIB_COST_RATES_H
#define LIB_COST_RATES_H

#include "lib/base/dtype.h"

#include <stdbool.h>

enum { DT_PRODUCT_RATES_MAX = 2048, DT_ATTENTION_RATES_MAX = 256 };

struct dt_product_rate {
    enum dt_dtype dtype;
    float m, n, k;
    float seconds;
    /* Set by dt_product_rates_settle (lib/cost/cost.h): logarithms of the sides, and of what was measured over the formula. */
    float log_sides[3], log_ratio;
};

struct dt_product_rates {
    struct dt_product_rate entries[DT_PRODUCT_RATES_MAX];
    int count;
};

/* What the formula's time is to be multiplied by; 1: nothing is known near this shape. */
double dt_product_rates_factor(const struct dt_product_rates *rates, double m, double n, double k);

/* Fused attention under a causal mask. */
struct dt_attention_rate {
    enum dt_dtype dtype;
    bool forward, backward; /* both: of the two together */
    double length, width;   /* tokens of a sequence; columns of a head */
    double flops_per_s;     /* operations that the mask leaves: forward two products of half a square, backward five */
};

struct dt_attention_rates {
    struct dt_attention_rate entries[DT_ATTENTION_RATES_MAX];
    int count;
};

/* Operations a second of the pass at this length: by a power of it between two measured ones of the nearest width; longer ones are as fast as the longest.
 * 0: none is known whose width is no more than twice or half of this, or the length is below half of the shortest. */
double dt_attention_rate(const struct dt_attention_rates *rates, enum dt_dtype dtype, bool backward, double length, double width);

#endif

/* Products in FP8: what casting their operands costs, and what is kept and shared for it. No device of dtbench computes in FP8; sim predicts it.
 *
 * Tensor cores multiply numbers of one byte, of e4m3 or e5m2, at twice the rate of 16-bit ones, and write 16-bit results. A linear layer has three
 * products: y = x w^T, dx = dy w and dw = dy^T x. Before each, operands are cast: divided by a scale that the largest absolute value (amax) of a
 * tensor, or of each row, says. Products want both operands along the inner dimension (Hopper has no others in FP8), so that x and dy are needed
 * transposed for dw, and w for dx. Attention, norms and the head stay in the model's dtype.
 * Source  Micikevicius et al., "FP8 Formats for Deep Learning", 2022; NVIDIA, Transformer Engine user guide, "Using FP8 with Transformer Engine";
 *         pytorch/ao, torchao/float8 (float8_linear.py, config.py). */
#ifndef LIB_COST_FP8_H
#define LIB_COST_FP8_H

#include <stdbool.h>

enum dt_fp8 {
    DT_FP8_NONE,
    DT_FP8_DELAYED,    /* a scale for each tensor, of amaxes of steps before: Transformer Engine's DelayedScaling */
    DT_FP8_TENSORWISE, /* a scale for each tensor, of its own amax: torchao's "tensorwise" */
    DT_FP8_ROWWISE,    /* a scale for each row along the inner dimension: torchao's "rowwise" */
    DT_FP8_RECIPES
};

/* Kernels, and bytes that cross the memory for each element of a 16-bit tensor. */
struct dt_fp8_cast {
    double kernels, bytes;
};

struct dt_fp8_recipe {
    const char *name;
    struct dt_fp8_cast input, weight;             /* before the product of forward */
    struct dt_fp8_cast gradient;                  /* of the output, before the two of backward */
    struct dt_fp8_cast input_again, weight_again; /* for these: transposed, from what was kept */
    bool keeps_fp8;                               /* backward finds the input in FP8, where a framework would keep it in 16 bits */
    double weight_bytes;                          /* of each parameter of these layers, held beside it over all micro-batches */
    bool shares_amax;                             /* over the ranks, after each forward and each backward */
    double speed;                                 /* of the products, over those with one scale for each tensor */
};

/* The rows by enum dt_fp8; the first one has nothing. */
const struct dt_fp8_recipe *dt_fp8_recipe(enum dt_fp8 recipe);
const char *dt_fp8_name(int index); /* of a row; NULL past the last */

#endif

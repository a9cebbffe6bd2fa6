/* Products in FP8: the cost of casting their operands, and what is kept and communicated for it. No
 * device of dtbench computes in FP8; sim predicts it.
 *
 * Tensor cores multiply numbers of one byte, of e4m3 or e5m2, at twice the rate of 16-bit ones, and
 * write 16-bit results. A linear layer has three products: y = x w^T, dx = dy w and dw = dy^T x.
 * Before each, operands are cast: divided by a scale, which is computed from the largest absolute
 * value (amax) of a tensor, or of each row. The inner dimension of both operands must be contiguous
 * (Hopper has no other FP8 products), so dw needs x and dy transposed, and dx needs w transposed.
 * Attention, norms and the head stay in the model's dtype.
 * Recipes with one scale for a few numbers read a tensor once: the kernel has all numbers of a
 * scale in registers, and writes both orientations, each with separate scales.
 * Source  Micikevicius et al., "FP8 Formats for Deep Learning", 2022; NVIDIA, Transformer Engine
 *         user guide, "Using FP8 with Transformer Engine"; pytorch/ao, torchao/float8
 *         (float8_linear.py, config.py; float8_tensor_parallel.py: amaxes of parts); Transformer
 *         Engine, common/recipe/__init__.py (Float8BlockScaling, MXFP8BlockScaling). Megatron-LM,
 *         core/parallel_state.py, get_amax_reduction_group: tensor, context and data parallel.
 *         DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.2: blocks of 128. */
#pragma once

#include <stdbool.h>

enum dt_fp8 {
    DT_FP8_NONE,
    DT_FP8_DELAYED,    /* one scale for each tensor, from amaxes of earlier steps: Transformer Engine's DelayedScaling */
    DT_FP8_CURRENT,    /* one scale for each tensor, from its own amax: Transformer Engine's Float8CurrentScaling */
    DT_FP8_TENSORWISE, /* one scale for each tensor, from its own amax, and 16 bits are kept: torchao's "tensorwise" */
    DT_FP8_ROWWISE,    /* a scale for each row along the inner dimension: torchao's "rowwise" */
    DT_FP8_BLOCKWISE,  /* a scale for 128 numbers along the inner dimension, of weights for 128 x 128: Float8BlockScaling */
    /* a scale of one byte for 32 numbers along the inner dimension: MXFP8BlockScaling; only
     * Blackwell's tensor cores can use it */
    DT_FP8_MXFP8,
    DT_FP8_RECIPES
};

/* Kernels, and bytes of memory traffic per element of a 16-bit tensor. */
struct dt_fp8_cast {
    double kernels, bytes;
};

struct dt_fp8_recipe {
    const char *name;
    struct dt_fp8_cast input, weight;             /* casts before the product of forward */
    struct dt_fp8_cast gradient;                  /* cast of the output's gradient, before the two products of backward */
    struct dt_fp8_cast input_again, weight_again; /* for these two products: transposed casts of values that were kept */
    bool keeps_fp8;                               /* the input is kept in FP8 for backward, while a framework without FP8 keeps 16 bits */
    bool of_tensors;                              /* one scale for each tensor, which ranks with shards of it can agree on */
    double weight_bytes;                          /* FP8 copies per parameter of these layers, kept over all micro-batches */
    bool shares_amax;                             /* over all ranks with the same layers, after each forward and each backward */
    bool shares_parts;                            /* amaxes of tensors whose rows tensor-parallel ranks share, before these are gathered */
    bool microscaled;                             /* needs tensor cores that read scales for 32 numbers */
    double speed;                                 /* of the products, relative to those with one scale per tensor */
};

/* The rows by enum dt_fp8; the row of "none" is empty. */
const struct dt_fp8_recipe *dt_fp8_recipe(enum dt_fp8 recipe);
const char *dt_fp8_name(int index); /* name of a row; NULL after the last */

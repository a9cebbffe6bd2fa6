/* The model's linear layers as matrix products of cuBLASLt: which operand is which, and their
 * layouts in memory.
 *
 * gpt's arrays are row-major and cuBLASLt's matrices column-major: a row-major array [r, c] is
 * there a matrix of c rows and r columns with the leading dimension c. So each product is computed
 * transposed, without moving data. No CUDA in here. */
#pragma once

#include "gpt/kernels.h"

/* Operations that follow the product, in the same kernel if cuBLASLt can. */
enum gpt_cuda_epilogue {
    GPT_CUDA_PLAIN,
    GPT_CUDA_BIAS,          /* bias [m] is added to each column of d */
    GPT_CUDA_BIAS_GRADIENT, /* bias_gradient [n] becomes the sums of op(b)'s columns */
    GPT_CUDA_RELU,          /* d becomes max(d, 0) */
    GPT_CUDA_BIAS_RELU,     /* bias is added first */
    /* With GELU's tanh form; d and gelu_input [m, n] do not overlap. */
    GPT_CUDA_GELU,               /* gelu_input becomes the product, and d gelu of it */
    GPT_CUDA_BIAS_GELU,          /* bias is added to the product first */
    GPT_CUDA_GELU_GRADIENT,      /* d is the product times gelu'(gelu_input) */
    GPT_CUDA_GELU_BIAS_GRADIENT, /* the same, and bias_gradient [m] becomes the sums of d's rows */
    GPT_CUDA_EPILOGUE_COUNT
};

/* d [m, n] = op(a) [m, k] * op(b) [k, n]; accumulate: plus the old d, or with c plus c [m, n]. All
 * are column-major: a is stored [m, k], or [k, m] if it is transposed, b [k, n] or [n, k], always
 * without gaps. */
struct gpt_cuda_product {
    size_t m, n, k;
    bool transpose_a, transpose_b, accumulate;
    enum gpt_cuda_epilogue epilogue;
    const void *a, *b, *c;
    void *d;
    const void *bias;
    void *bias_gradient;
    void *gelu_input;
};

/* y^T [out, rows] = w [out, in] * x^T [in, rows] */
struct gpt_cuda_product gpt_cuda_product_forward(const struct gpt_linear *a);
/* The same product of `x`, plus the residual, if there is no dropout; the residual is aligned as y
 * is. */
struct gpt_cuda_product gpt_cuda_product_residual(const struct gpt_linear_residual *a, const void *x);
/* dx^T [in, rows] = w^T [in, out] * dy^T [out, rows] */
struct gpt_cuda_product gpt_cuda_product_input_gradient(const struct gpt_linear_input_gradient *a);
/* dw^T [in, out] = x^T [in, rows] * dy [rows, out]. An epilogue cannot add to old sums: then the
 * caller computes db. */
struct gpt_cuda_product gpt_cuda_product_weight_gradient(const struct gpt_linear_weight_gradient *a);
/* gpt_cuda_product_forward with relu after it, in the memory of its output. */
struct gpt_cuda_product gpt_cuda_product_relu(const struct gpt_linear *a);
/* The first two products, with GELU or its derivative after it, if gpt_cuda_product_takes_gelu. db
 * [in] may be NULL. */
struct gpt_cuda_product gpt_cuda_product_gelu(const struct gpt_linear_gelu *a);
struct gpt_cuda_product gpt_cuda_product_gelu_gradient(const struct gpt_linear_gelu_input_gradient *a, void *db);

/* Whether a product of cuBLASLt can apply the model's GELU: only in the tanh form, and not in fp32,
 * which is for comparisons with the CPU. Its header requires that columns are a multiple of 8
 * elements. hidden: the product's second array. */
bool gpt_cuda_product_takes_gelu(const struct dt_model *model, size_t columns, const void *hidden);

/* Rows that an operand is stored with: its leading dimension. */
size_t gpt_cuda_product_stored_rows_a(const struct gpt_cuda_product *p);
size_t gpt_cuda_product_stored_rows_b(const struct gpt_cuda_product *p);

/* Products with equal shapes can use the same algorithm. Alignments are those of the addresses, in
 * bytes, at most 16, because no access is larger. `extra` is that of the bias or its gradient;
 * gelu_input is always aligned to 16. */
struct gpt_cuda_product_shape {
    size_t m, n, k;
    bool transpose_a, transpose_b;
    enum gpt_cuda_epilogue epilogue;
    uint32_t a_bytes, b_bytes, d_bytes, extra_bytes;
};
struct gpt_cuda_product_shape gpt_cuda_product_shape(const struct gpt_cuda_product *p);
/* The epilogue's bias or bias gradient; NULL: none. */
const void *gpt_cuda_product_extra(const struct gpt_cuda_product *p);
/* The product to compute if cuBLASLt lacks the epilogue for the shape. */
struct gpt_cuda_product gpt_cuda_product_apart(const struct gpt_cuda_product *p);
bool gpt_cuda_product_shapes_equal(const struct gpt_cuda_product_shape *a, const struct gpt_cuda_product_shape *b);

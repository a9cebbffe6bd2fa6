/* The model's linear layers as matrix products of cuBLASLt: which operand is which, and how each lies in memory.
 *
 * gpt's arrays are row-major and cuBLASLt's matrices column-major: a row-major array [r, c] is there a matrix of c rows and r columns with
 * the leading dimension c. So each product is computed transposed, and nothing is moved for it. No CUDA in here. */
#ifndef GPT_CUDA_PRODUCT_H
#define GPT_CUDA_PRODUCT_H

#include "gpt/kernels.h"

/* What is done together with the product, in the same kernel if cuBLASLt can. */
enum gpt_cuda_epilogue {
    GPT_CUDA_PLAIN,
    GPT_CUDA_BIAS,          /* each column of d adds bias [m] */
    GPT_CUDA_BIAS_GRADIENT, /* bias_gradient [n] becomes the sums of op(b)'s columns */
    GPT_CUDA_RELU,          /* d becomes max(d, 0) */
    GPT_CUDA_BIAS_RELU,     /* the same of what has added bias */
    /* With GELU's tanh form; d and gelu_input [m, n] do not overlap. */
    GPT_CUDA_GELU,               /* gelu_input becomes the product, and d gelu of it */
    GPT_CUDA_BIAS_GELU,          /* the same with each column of the product adding bias */
    GPT_CUDA_GELU_GRADIENT,      /* d is the product times gelu'(gelu_input) */
    GPT_CUDA_GELU_BIAS_GRADIENT, /* the same, and bias_gradient [m] becomes the sums of d's rows */
    GPT_CUDA_EPILOGUE_COUNT
};

/* d [m, n] = op(a) [m, k] * op(b) [k, n]; accumulate: plus the existing d, or with c plus c [m, n].
 * All column-major: a is stored [m, k], or [k, m] when it is transposed, b [k, n] or [n, k], always
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
/* The same of `x`, plus the residual, where there is no dropout; the residual is aligned as y is. */
struct gpt_cuda_product gpt_cuda_product_residual(const struct gpt_linear_residual *a, const void *x);
/* dx^T [in, rows] = w^T [in, out] * dy^T [out, rows] */
struct gpt_cuda_product gpt_cuda_product_input_gradient(const struct gpt_linear_input_gradient *a);
/* dw^T [in, out] = x^T [in, rows] * dy [rows, out]. An epilogue cannot add to existing sums: the
 * caller then makes db. */
struct gpt_cuda_product gpt_cuda_product_weight_gradient(const struct gpt_linear_weight_gradient *a);
/* The first with relu after it, in the place of its output. */
struct gpt_cuda_product gpt_cuda_product_relu(const struct gpt_linear *a);
/* The first two with GELU after the product or its derivative, as it is where gpt_cuda_product_takes_gelu. db [in] may be NULL. */
struct gpt_cuda_product gpt_cuda_product_gelu(const struct gpt_linear_gelu *a);
struct gpt_cuda_product gpt_cuda_product_gelu_gradient(const struct gpt_linear_gelu_input_gradient *a, void *db);

/* Whether a product of cuBLASLt may do the model's GELU: the tanh form, which is the only one that it has, and not in fp32, which is there
 * to be compared with the CPU. Columns of a multiple of 8 elements are what its header asks for. hidden: the product's other array. */
bool gpt_cuda_product_takes_gelu(const struct dt_model *model, size_t columns, const void *hidden);

/* Rows that an operand is stored with, which is its leading dimension. */
size_t gpt_cuda_product_stored_rows_a(const struct gpt_cuda_product *p);
size_t gpt_cuda_product_stored_rows_b(const struct gpt_cuda_product *p);

/* Products with equal shapes can be computed by the same algorithm. Alignments are of the addresses, in bytes, at most 16: no kernel moves
 * more at once. `extra` is that of the bias or its gradient; gelu_input is always aligned to 16. */
struct gpt_cuda_product_shape {
    size_t m, n, k;
    bool transpose_a, transpose_b;
    enum gpt_cuda_epilogue epilogue;
    uint32_t a_bytes, b_bytes, d_bytes, extra_bytes;
};
struct gpt_cuda_product_shape gpt_cuda_product_shape(const struct gpt_cuda_product *p);
/* The epilogue's bias or bias gradient; NULL: it has none. */
const void *gpt_cuda_product_extra(const struct gpt_cuda_product *p);
/* The product to be computed where cuBLASLt has no such epilogue for the shape. */
struct gpt_cuda_product gpt_cuda_product_apart(const struct gpt_cuda_product *p);
bool gpt_cuda_product_shapes_equal(const struct gpt_cuda_product_shape *a, const struct gpt_cuda_product_shape *b);

#endif

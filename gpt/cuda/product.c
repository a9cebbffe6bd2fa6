#include "gpt/cuda/product.h"

struct gpt_cuda_product gpt_cuda_product_forward(const struct gpt_linear *a)
{
    return (struct gpt_cuda_product){
        .m = a->out,
        .n = a->rows,
        .k = a->in,
        .transpose_a = true, /* w [out, in] lies as a matrix [in, out] */
        .epilogue = a->b ? GPT_CUDA_BIAS : GPT_CUDA_PLAIN,
        .a = a->w,
        .b = a->x,
        .d = a->y,
        .bias = a->b,
    };
}

struct gpt_cuda_product gpt_cuda_product_input_gradient(const struct gpt_linear_input_gradient *a)
{
    return (struct gpt_cuda_product){.m = a->in, .n = a->rows, .k = a->out, .a = a->w, .b = a->dy, .d = a->dx};
}

struct gpt_cuda_product gpt_cuda_product_weight_gradient(const struct gpt_linear_weight_gradient *a)
{
    return (struct gpt_cuda_product){
        .m = a->in,
        .n = a->out,
        .k = a->rows,
        .transpose_b = true, /* dy [rows, out] lies as a matrix [out, rows] */
        .accumulate = a->accumulate,
        .epilogue = a->db && !a->accumulate ? GPT_CUDA_BIAS_GRADIENT : GPT_CUDA_PLAIN,
        .a = a->x,
        .b = a->dy,
        .d = a->dw,
        .bias_gradient = a->db && !a->accumulate ? a->db : NULL,
    };
}

size_t gpt_cuda_product_stored_rows_a(const struct gpt_cuda_product *p)
{
    return p->transpose_a ? p->k : p->m;
}

size_t gpt_cuda_product_stored_rows_b(const struct gpt_cuda_product *p)
{
    return p->transpose_b ? p->n : p->k;
}

/* The largest power of two, up to 16, that divides the address; 16 where there is none. */
static uint32_t alignment_bytes(const void *address)
{
    uintptr_t bits = (uintptr_t)address | 16;
    return (uint32_t)(bits & (~bits + 1));
}

struct gpt_cuda_product_shape gpt_cuda_product_shape(const struct gpt_cuda_product *p)
{
    const void *const extra[] = {[GPT_CUDA_BIAS] = p->bias, [GPT_CUDA_BIAS_GRADIENT] = p->bias_gradient};
    return (struct gpt_cuda_product_shape){
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .transpose_a = p->transpose_a,
        .transpose_b = p->transpose_b,
        .epilogue = p->epilogue,
        .a_bytes = alignment_bytes(p->a),
        .b_bytes = alignment_bytes(p->b),
        .d_bytes = alignment_bytes(p->d),
        .extra_bytes = alignment_bytes(extra[p->epilogue]),
    };
}

bool gpt_cuda_product_shapes_equal(const struct gpt_cuda_product_shape *a, const struct gpt_cuda_product_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
           a->epilogue == b->epilogue && a->a_bytes == b->a_bytes && a->b_bytes == b->b_bytes && a->d_bytes == b->d_bytes &&
           a->extra_bytes == b->extra_bytes;
}

#include "gpt/cuda/product.h"

struct gpt_cuda_product gpt_cuda_product_forward(const struct gpt_linear *a)
{
    return (struct gpt_cuda_product){
        .m = a->out,
        .n = a->rows,
        .k = a->in,
        .transpose_a = true, /* w [out, in] is a column-major matrix [in, out] */
        .epilogue = a->b ? GPT_CUDA_BIAS : GPT_CUDA_PLAIN,
        .a = a->w,
        .b = a->x,
        .d = a->y,
        .bias = a->b,
    };
}

struct gpt_cuda_product gpt_cuda_product_residual(const struct gpt_linear_residual *a, const void *x)
{
    struct gpt_cuda_product p = gpt_cuda_product_forward(&a->linear);
    p.b = x;
    p.accumulate = true;
    p.c = a->residual;
    return p;
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
        .transpose_b = true, /* dy [rows, out] is a column-major matrix [out, rows] */
        .accumulate = a->accumulate,
        .epilogue = a->db && !a->accumulate ? GPT_CUDA_BIAS_GRADIENT : GPT_CUDA_PLAIN,
        .a = a->x,
        .b = a->dy,
        .d = a->dw,
        .bias_gradient = a->db && !a->accumulate ? a->db : NULL,
    };
}

struct gpt_cuda_product gpt_cuda_product_relu(const struct gpt_linear *a)
{
    struct gpt_cuda_product p = gpt_cuda_product_forward(a);
    p.epilogue = a->b ? GPT_CUDA_BIAS_RELU : GPT_CUDA_RELU;
    return p;
}

struct gpt_cuda_product gpt_cuda_product_gelu(const struct gpt_linear_gelu *a)
{
    struct gpt_cuda_product p = gpt_cuda_product_forward(&a->linear);
    p.epilogue = a->linear.b ? GPT_CUDA_BIAS_GELU : GPT_CUDA_GELU;
    p.gelu_input = a->linear.y;
    p.d = a->active;
    return p;
}

struct gpt_cuda_product gpt_cuda_product_gelu_gradient(const struct gpt_linear_gelu_input_gradient *a, void *db)
{
    struct gpt_cuda_product p = gpt_cuda_product_input_gradient(&a->linear);
    p.epilogue = db ? GPT_CUDA_GELU_BIAS_GRADIENT : GPT_CUDA_GELU_GRADIENT;
    p.gelu_input = (void *)a->hidden; /* only read */
    p.bias_gradient = db;
    return p;
}

bool gpt_cuda_product_takes_gelu(const struct dt_model *model, size_t columns, const void *hidden)
{
    return gpt_of(model)->mlp == GPT_MLP_GELU_NEW && model->dtype != DT_FP32 && columns % 8 == 0 && (uintptr_t)hidden % 16 == 0;
}

size_t gpt_cuda_product_stored_rows_a(const struct gpt_cuda_product *p)
{
    return p->transpose_a ? p->k : p->m;
}

size_t gpt_cuda_product_stored_rows_b(const struct gpt_cuda_product *p)
{
    return p->transpose_b ? p->n : p->k;
}

/* The largest power of two, up to 16, that divides the address; 16 for NULL. */
static uint32_t alignment_bytes(const void *address)
{
    uintptr_t bits = (uintptr_t)address | 16;
    return (uint32_t)(bits & (~bits + 1));
}

const void *gpt_cuda_product_extra(const struct gpt_cuda_product *p)
{
    return p->epilogue == GPT_CUDA_PLAIN ? NULL : p->bias ? p->bias : p->bias_gradient;
}

struct gpt_cuda_product gpt_cuda_product_apart(const struct gpt_cuda_product *p)
{
    struct gpt_cuda_product apart = *p;
    bool makes_gelu = p->epilogue == GPT_CUDA_GELU || p->epilogue == GPT_CUDA_BIAS_GELU;
    apart.epilogue = p->epilogue == GPT_CUDA_BIAS_GELU || p->epilogue == GPT_CUDA_BIAS_RELU ? GPT_CUDA_BIAS : GPT_CUDA_PLAIN;
    apart.d = makes_gelu ? p->gelu_input : p->d;
    return apart;
}

struct gpt_cuda_product_shape gpt_cuda_product_shape(const struct gpt_cuda_product *p)
{
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
        .extra_bytes = alignment_bytes(gpt_cuda_product_extra(p)),
    };
}

bool gpt_cuda_product_shapes_equal(const struct gpt_cuda_product_shape *a, const struct gpt_cuda_product_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
           a->epilogue == b->epilogue && a->a_bytes == b->a_bytes && a->b_bytes == b->b_bytes && a->d_bytes == b->d_bytes &&
           a->extra_bytes == b->extra_bytes;
}

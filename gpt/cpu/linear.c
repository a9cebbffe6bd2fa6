/* The kernels of the linear layer. Each is one product, with the operations fused before or after
 * it. */
#include "gpt/cpu/kernels.h"
#include "gpt/cpu/matmul/products.h"

struct linear_task {
    struct gpt_kernels *k;
    struct gpt_cpu_product product;
};

static dt_status run_linear(void *arguments)
{
    struct linear_task *t = arguments;
    pthread_mutex_lock(&t->k->mutex);
    dt_status status = gpt_cpu_multiply(t->k->products, &t->product);
    pthread_mutex_unlock(&t->k->mutex);
    return status;
}

static dt_status submit(struct gpt_kernels *k, struct dt_stream *stream, const char *label, struct gpt_cpu_product product)
{
    struct linear_task t = {k, product};
    return dt_cpu_submit(stream, label, run_linear, &t, sizeof t);
}

static struct gpt_cpu_product forward_of(const struct gpt_linear *a)
{
    return (struct gpt_cpu_product){
        .a = a->x, .b = a->w, .bias = a->b, .c = a->y, .m = a->rows, .n = a->out, .k = a->in, .transpose_b = true};
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear, gpt_linear)
{
    return submit(k, stream, "linear", forward_of(a));
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_residual, gpt_linear_residual)
{
    struct gpt_dropout dropout = gpt_cpu_dropout(k, &a->dropout);
    struct gpt_cpu_product product = forward_of(&a->linear);
    product.residual = a->residual;
    product.active = a->active;
    product.gelu = a->active ? GPT_CPU_OPERAND_A : GPT_CPU_NO_OPERAND;
    product.dropout = gpt_cpu_dropout_rows(k, &dropout);
    return submit(k, stream, "linear and residual", product);
}

static struct gpt_cpu_product input_gradient_of(const struct gpt_linear_input_gradient *a)
{
    return (struct gpt_cpu_product){.a = a->dy, .b = a->w, .c = a->dx, .m = a->rows, .n = a->in, .k = a->out};
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_input_gradient, gpt_linear_input_gradient)
{
    return submit(k, stream, "linear input gradient", input_gradient_of(a));
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_gelu_input_gradient, gpt_linear_gelu_input_gradient)
{
    struct gpt_cpu_product product = input_gradient_of(&a->linear);
    product.gelu_of = a->hidden;
    return submit(k, stream, "linear input gradient through GELU", product);
}

static struct gpt_cpu_product weight_gradient_of(const struct gpt_linear_weight_gradient *a)
{
    return (struct gpt_cpu_product){.a = a->dy,
                                    .b = a->x,
                                    .c = a->dw,
                                    .row_sums = a->db,
                                    .m = a->out,
                                    .n = a->in,
                                    .k = a->rows,
                                    .transpose_a = true,
                                    .accumulate = a->accumulate};
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_weight_gradient, gpt_linear_weight_gradient)
{
    return submit(k, stream, "linear weight gradient", weight_gradient_of(a));
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_gelu_weight_gradient, gpt_linear_gelu_weight_gradient)
{
    struct gpt_cpu_product product = weight_gradient_of(&a->linear);
    product.active = a->active;
    product.gelu = GPT_CPU_OPERAND_B;
    return submit(k, stream, "linear weight gradient after GELU", product);
}

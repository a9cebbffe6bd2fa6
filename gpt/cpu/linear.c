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

GPT_KERNEL_FUNCTION(gpt_cpu_linear, gpt_linear)
{
    struct gpt_cpu_product product = {
        .a = a->x, .b = a->w, .bias = a->b, .c = a->y, .m = a->rows, .n = a->out, .k = a->in, .transpose_b = true};
    return submit(k, stream, "linear", product);
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_residual, gpt_linear_residual)
{
    struct gpt_dropout dropout = gpt_cpu_dropout(k, &a->dropout);
    struct gpt_cpu_product product = {.a = a->x,
                                      .b = a->w,
                                      .bias = a->b,
                                      .residual = a->residual,
                                      .c = a->y,
                                      .active = a->active,
                                      .m = a->rows,
                                      .n = a->out,
                                      .k = a->in,
                                      .transpose_b = true,
                                      .gelu = a->gelu ? GPT_CPU_OPERAND_A : GPT_CPU_NO_OPERAND,
                                      .dropout = gpt_cpu_dropout_rows(k, &dropout)};
    return submit(k, stream, "linear and residual", product);
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_input_gradient, gpt_linear_input_gradient)
{
    struct gpt_cpu_product product = {.a = a->dy, .b = a->w, .c = a->dx, .m = a->rows, .n = a->in, .k = a->out};
    return submit(k, stream, "linear input gradient", product);
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_gelu_input_gradient, gpt_linear_gelu_input_gradient)
{
    struct gpt_cpu_product product = {.a = a->dy, .b = a->w, .gelu_of = a->hidden, .c = a->dx, .m = a->rows, .n = a->in, .k = a->out};
    return submit(k, stream, "linear input gradient through GELU", product);
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_weight_gradient, gpt_linear_weight_gradient)
{
    struct gpt_cpu_product product = {.a = a->dy,
                                      .b = a->x,
                                      .c = a->dw,
                                      .row_sums = a->db,
                                      .m = a->out,
                                      .n = a->in,
                                      .k = a->rows,
                                      .transpose_a = true,
                                      .accumulate = a->accumulate};
    return submit(k, stream, "linear weight gradient", product);
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_gelu_weight_gradient, gpt_linear_gelu_weight_gradient)
{
    struct gpt_cpu_product product = {.a = a->dy,
                                      .b = a->hidden,
                                      .c = a->dw,
                                      .row_sums = a->db,
                                      .active = a->active,
                                      .m = a->out,
                                      .n = a->in,
                                      .k = a->rows,
                                      .transpose_a = true,
                                      .accumulate = a->accumulate,
                                      .gelu = GPT_CPU_OPERAND_B};
    return submit(k, stream, "linear weight gradient after GELU", product);
}

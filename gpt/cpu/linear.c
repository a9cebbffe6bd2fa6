/* The linear layer's kernels: products of oneDNN, and the sums for the bias. */
#include "gpt/cpu/kernels.h"
#include "gpt/cpu/product.h"
#include "gpt/cpu/team.h"
#include "lib/device/cpu/device.h"

#include <stdlib.h>

struct linear_task {
    struct gpt_kernels *k;
    struct gpt_cpu_product product;
    const void *dy; /* a weight gradient's, for db */
    void *db;       /* or NULL */
};

static dt_status run_linear(void *arguments)
{
    struct linear_task *t = arguments;
    pthread_mutex_lock(&t->k->mutex);
    dt_status status = gpt_cpu_multiply(t->k->products, &t->product);
    pthread_mutex_unlock(&t->k->mutex);
    return status;
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear, gpt_linear)
{
    struct linear_task t = {
        .k = k,
        .product = {.a = a->x, .b = a->w, .bias = a->b, .c = a->y, .m = a->rows, .n = a->out, .k = a->in, .transpose_b = true},
    };
    return dt_cpu_submit(stream, "linear", run_linear, &t, sizeof t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_input_gradient, gpt_linear_input_gradient)
{
    struct linear_task t = {
        .k = k,
        .product = {.a = a->dy, .b = a->w, .c = a->dx, .m = a->rows, .n = a->in, .k = a->out},
    };
    return dt_cpu_submit(stream, "linear input gradient", run_linear, &t, sizeof t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_gelu_input_gradient, gpt_linear_gelu_input_gradient)
{
    struct gpt_linear_input_gradient product = {.dy = a->dy, .w = a->w, .dx = a->dx, .rows = a->rows, .in = a->in, .out = a->out};
    DT_TRY(gpt_cpu_linear_input_gradient(k, stream, &product));
    return gpt_cpu_gelu_gradient(k, stream, &(struct gpt_gelu_gradient){a->dx, a->hidden, a->rows * a->in});
}

struct bias_gradient {
    const struct linear_task *task;
    float *sums; /* [out] */
};

/* A share of the columns, all rows: no sum depends on the number of threads. */
static void bias_gradient_part(void *argument, int thread, int threads)
{
    const struct bias_gradient *b = argument;
    const struct gpt_kernels *k = b->task->k;
    size_t rows = b->task->product.k, out = b->task->product.m, bytes = gpt_cpu_element_bytes(k);
    struct gpt_cpu_share share = gpt_cpu_share(out, 64, thread, threads);
    size_t columns = share.end - share.first;
    if (columns == 0)
        return;
    char *db = (char *)b->task->db + share.first * bytes;
    k->simd->column_sums(b->sums + share.first, (const char *)b->task->dy + share.first * bytes, rows, columns, out);
    if (b->task->product.accumulate)
        k->simd->narrow_add(db, b->sums + share.first, columns);
    else
        k->simd->narrow(db, b->sums + share.first, columns);
}

static dt_status run_linear_weight_gradient(void *arguments)
{
    struct linear_task *t = arguments;
    if (t->db) {
        struct bias_gradient b = {t, malloc(t->product.m * sizeof(float))};
        if (!b.sums)
            return dt_fail(DT_ERR_HOST_MEMORY, "no host memory");
        gpt_cpu_parallel(t->k->threads, bias_gradient_part, &b);
        free(b.sums);
    }
    return run_linear(t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_linear_weight_gradient, gpt_linear_weight_gradient)
{
    struct linear_task t = {
        .k = k,
        .product =
            {.a = a->dy, .b = a->x, .c = a->dw, .m = a->out, .n = a->in, .k = a->rows, .transpose_a = true, .accumulate = a->accumulate},
        .dy = a->dy,
        .db = a->db,
    };
    return dt_cpu_submit(stream, "linear weight gradient", run_linear_weight_gradient, &t, sizeof t);
}

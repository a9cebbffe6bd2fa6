/* The cpu device's table of kernels: each entry queues a task with a copy of its arguments, which the stream's thread runs. */
#include "gpt/cpu/kernels.h"

#include "gpt/cpu/attention.h"
#include "gpt/cpu/linear.h"
#include "gpt/cpu/team.h"
#include "lib/base/random.h"
#include "lib/device/cpu/device.h"

#include <stdlib.h>

/* ---- the object ---- */

static void cpu_destroy(struct gpt_kernels *k)
{
    if (!k)
        return;
    gpt_cpu_attention_destroy(k->attention);
    gpt_cpu_linear_destroy(k->linear);
    pthread_mutex_destroy(&k->mutex);
    free(k);
}

dt_status gpt_kernels_cpu_create(struct dt_device *device, const struct gpt_model *model, enum dt_cpu_isa isa, struct gpt_kernels **out)
{
    *out = NULL;
    if (!gpt_simd_for(isa, model->dtype))
        return dt_fail(DT_ERR_UNAVAILABLE, "cpu kernels: this machine has no %s", dt_cpu_isa_name(isa));
    struct gpt_kernels *k = calloc(1, sizeof *k);
    if (!k)
        return dt_fail(DT_ERR_HOST_MEMORY, "cpu kernels: no host memory");
    k->model = *model;
    k->threads = dt_cpu_threads(device);
    k->step = 1;
    k->simd = gpt_simd_for(isa, model->dtype);
    k->simd_fp32 = gpt_simd_for(isa, DT_FP32);
    pthread_mutex_init(&k->mutex, NULL);
    dt_status status = gpt_cpu_linear_create(model->dtype, k->simd, k->threads, &k->linear);
    if (status == DT_OK)
        status = gpt_cpu_attention_create(&k->model, k->threads, &k->attention);
    if (status < 0) {
        cpu_destroy(k);
        return status;
    }
    *out = k;
    return DT_OK;
}

static dt_status cpu_create(struct dt_device *device, const struct gpt_model *model, struct gpt_kernels **out)
{
    return gpt_kernels_cpu_create(device, model, dt_cpu_isa(), out);
}

size_t gpt_cpu_element_bytes(const struct gpt_kernels *k)
{
    return dt_dtype_bytes(k->model.dtype);
}

struct gpt_dropout gpt_cpu_dropout(const struct gpt_kernels *k, const struct gpt_dropout *dropout)
{
    struct gpt_dropout queued = *dropout;
    queued.first_sample += k->first_sample;
    return queued;
}

struct gpt_dropout_row gpt_cpu_dropout_row(const struct gpt_kernels *k, const struct gpt_dropout *dropout, size_t row)
{
    size_t T = (size_t)k->model.block_size;
    return (struct gpt_dropout_row){
        .seed = dropout->seed,
        .layer_word = (uint32_t)DT_RANDOM_DROPOUT << 24 | dropout->layer,
        .sample = dropout->first_sample + (uint32_t)(row / T),
        .t = (uint32_t)(row % T),
        .threshold = dt_dropout_threshold(dropout->probability),
        .scale = dt_dropout_scale(dropout->probability),
    };
}

/* ---- steps ---- */

struct step_task {
    struct gpt_kernels *k;
    uint64_t *to; /* or NULL: a new step begins */
};

static dt_status run_step(void *arguments)
{
    const struct step_task *t = arguments;
    if (t->to)
        *t->to = __atomic_load_n(&t->k->overflows, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&t->k->overflows, 0, __ATOMIC_RELAXED);
    return DT_OK;
}

static dt_status cpu_begin_step(struct gpt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int number)
{
    struct step_task t = {.k = k};
    k->first_sample = first_sample;
    k->step = number;
    return dt_cpu_submit(stream, "begin step", run_step, &t, sizeof t);
}

static dt_status cpu_step_overflows(struct gpt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    struct step_task t = {k, to};
    return dt_cpu_submit(stream, "step's overflows", run_step, &t, sizeof t);
}

/* ---- linear ---- */

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
    dt_status status = gpt_cpu_multiply(t->k->linear, &t->product);
    pthread_mutex_unlock(&t->k->mutex);
    return status;
}

static dt_status cpu_linear(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear *a)
{
    struct linear_task t = {
        .k = k,
        .product = {.a = a->x, .b = a->w, .bias = a->b, .c = a->y, .m = a->rows, .n = a->out, .k = a->in, .transpose_b = true},
    };
    return dt_cpu_submit(stream, "linear", run_linear, &t, sizeof t);
}

static dt_status cpu_linear_input_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_input_gradient *a)
{
    struct linear_task t = {
        .k = k,
        .product = {.a = a->dy, .b = a->w, .c = a->dx, .m = a->rows, .n = a->in, .k = a->out},
    };
    return dt_cpu_submit(stream, "linear input gradient", run_linear, &t, sizeof t);
}

static dt_status cpu_linear_gelu_input_gradient(struct gpt_kernels *k, struct dt_stream *stream,
                                                const struct gpt_linear_gelu_input_gradient *a)
{
    struct gpt_linear_input_gradient product = {.dy = a->dy, .w = a->w, .dx = a->dx, .rows = a->rows, .in = a->in, .out = a->out};
    DT_TRY(cpu_linear_input_gradient(k, stream, &product));
    return gpt_cpu_gelu_gradient(k, stream, a->dx, a->hidden, a->rows * a->in);
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

static dt_status cpu_linear_weight_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_weight_gradient *a)
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

/* ---- attention ---- */

struct attention_task {
    struct gpt_kernels *k;
    struct gpt_attention_forward a;
};

static dt_status run_attention(void *arguments)
{
    struct attention_task *t = arguments;
    pthread_mutex_lock(&t->k->mutex);
    dt_status status = gpt_cpu_attention_forward(t->k->attention, &t->a);
    pthread_mutex_unlock(&t->k->mutex);
    return status;
}

static dt_status cpu_attention(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_forward *a)
{
    struct attention_task t = {k, *a};
    t.a.dropout = gpt_cpu_dropout(k, &a->dropout);
    return dt_cpu_submit(stream, "attention", run_attention, &t, sizeof t);
}

struct attention_gradient_task {
    struct gpt_kernels *k;
    struct gpt_attention_backward a;
};

static dt_status run_attention_gradient(void *arguments)
{
    struct attention_gradient_task *t = arguments;
    pthread_mutex_lock(&t->k->mutex);
    dt_status status = gpt_cpu_attention_backward(t->k->attention, &t->a);
    pthread_mutex_unlock(&t->k->mutex);
    return status;
}

static dt_status cpu_attention_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_backward *a)
{
    struct attention_gradient_task t = {k, *a};
    t.a.dropout = gpt_cpu_dropout(k, &a->dropout);
    return dt_cpu_submit(stream, "attention gradient", run_attention_gradient, &t, sizeof t);
}

const struct gpt_kernel_table gpt_kernels_cpu = {
    .name = "cpu",
    .available = gpt_kernels_need_nothing,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .begin_step = cpu_begin_step,
    .step_overflows = cpu_step_overflows,
    .init_normal = gpt_cpu_init_normal,
    .fill = gpt_cpu_fill,
    .tokens = gpt_cpu_tokens,
    .embedding = gpt_cpu_embedding,
    .embedding_gradient = gpt_cpu_embedding_gradient,
    .layer_norm = gpt_cpu_layer_norm,
    .layer_norm_gradient = gpt_cpu_layer_norm_gradient,
    .linear = cpu_linear,
    .linear_input_gradient = cpu_linear_input_gradient,
    .linear_gelu_input_gradient = cpu_linear_gelu_input_gradient,
    .linear_weight_gradient = cpu_linear_weight_gradient,
    .gelu = gpt_cpu_gelu,
    .gelu_gradient = gpt_cpu_gelu_gradient,
    .attention = cpu_attention,
    .attention_gradient = cpu_attention_gradient,
    .dropout_residual = gpt_cpu_dropout_residual,
    .dropout_gradient = gpt_cpu_dropout_gradient,
    .loss = gpt_cpu_loss,
    .sgd = gpt_cpu_sgd,
    .adam = gpt_cpu_adam,
    .add = gpt_cpu_add,
    .kept_bytes = gpt_kernels_keep_nothing,
    .sgd_host = gpt_cpu_sgd, /* its host is the device */
    .adam_host = gpt_cpu_adam,
    .add_host = gpt_cpu_add,
    .output_bytes = gpt_kernels_hold_nothing,
};

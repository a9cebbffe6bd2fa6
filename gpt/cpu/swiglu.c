/* SwiGLU and its gradient, row by row. */
#include "gpt/cpu/kernels.h"
#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/team.h"

/* Row r of gate or up: in one array, or in two. */
static const void *gate_row(const struct gpt_kernels *k, const void *hidden, const void *up, size_t r, size_t f)
{
    return gpt_cpu_row(k, hidden, up ? r : 2 * r, f);
}

static const void *up_row(const struct gpt_kernels *k, const void *hidden, const void *up, size_t r, size_t f)
{
    return up ? gpt_cpu_row(k, up, r, f) : gpt_cpu_row(k, hidden, 2 * r + 1, f);
}

struct swiglu_task {
    struct gpt_kernels *k;
    struct gpt_swiglu a;
};

static void swiglu_part(void *argument, int thread, int threads)
{
    const struct swiglu_task *t = argument;
    size_t f = t->a.f;
    struct dt_cpu_share share = dt_cpu_share(t->a.rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++)
        t->k->simd.swiglu(gpt_cpu_row(t->k, t->a.y, r, f), gate_row(t->k, t->a.hidden, t->a.up, r, f),
                          up_row(t->k, t->a.hidden, t->a.up, r, f), f);
}

static dt_status run_swiglu(void *arguments)
{
    struct swiglu_task *t = arguments;
    dt_cpu_parallel(t->k->threads, swiglu_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_swiglu, gpt_swiglu)
{
    struct swiglu_task t = {k, *a};
    return dt_cpu_submit(stream, "swiglu", run_swiglu, &t, sizeof t);
}

struct swiglu_gradient_task {
    struct gpt_kernels *k;
    struct gpt_swiglu_gradient a;
};

static void swiglu_gradient_part(void *argument, int thread, int threads)
{
    const struct swiglu_gradient_task *t = argument;
    const struct gpt_swiglu_gradient *a = &t->a;
    struct dt_cpu_share share = dt_cpu_share(a->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++)
        t->k->simd.swiglu_gradient(gpt_cpu_row(t->k, a->dhidden, 2 * r, a->f), gpt_cpu_row(t->k, a->dhidden, 2 * r + 1, a->f),
                                   a->y ? gpt_cpu_row(t->k, a->y, r, a->f) : NULL, gpt_cpu_row(t->k, a->dy, r, a->f),
                                   gate_row(t->k, a->hidden, a->up, r, a->f), up_row(t->k, a->hidden, a->up, r, a->f), a->f);
}

static dt_status run_swiglu_gradient(void *arguments)
{
    struct swiglu_gradient_task *t = arguments;
    dt_cpu_parallel(t->k->threads, swiglu_gradient_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_swiglu_gradient, gpt_swiglu_gradient)
{
    struct swiglu_gradient_task t = {k, *a};
    return dt_cpu_submit(stream, "swiglu gradient", run_swiglu_gradient, &t, sizeof t);
}

/* SwiGLU and its gradient, row by row. */
#include "gpt/cpu/kernels.h"

/* Row r of gate or up, which are in one array or in two. */
static const void *gate_row(const struct gpt_kernels *k, const void *hidden, const void *up, size_t r, size_t f)
{
    return gpt_cpu_row(k, hidden, up ? r : 2 * r, f);
}

static const void *up_row(const struct gpt_kernels *k, const void *hidden, const void *up, size_t r, size_t f)
{
    return up ? gpt_cpu_row(k, up, r, f) : gpt_cpu_row(k, hidden, 2 * r + 1, f);
}

static void swiglu_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct gpt_swiglu *a = arguments;
    for (size_t r = first; r < end; r++)
        k->simd.swiglu(gpt_cpu_row(k, a->y, r, a->f), gate_row(k, a->hidden, a->up, r, a->f), up_row(k, a->hidden, a->up, r, a->f), a->f);
}

GPT_KERNEL_FUNCTION(gpt_cpu_swiglu, gpt_swiglu)
{
    return gpt_cpu_submit_rows(k, stream, "swiglu", swiglu_rows, a->rows, a, sizeof *a);
}

static void swiglu_gradient_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct gpt_swiglu_gradient *a = arguments;
    for (size_t r = first; r < end; r++)
        k->simd.swiglu_gradient(gpt_cpu_row(k, a->dhidden, 2 * r, a->f), gpt_cpu_row(k, a->dhidden, 2 * r + 1, a->f),
                                a->y ? gpt_cpu_row(k, a->y, r, a->f) : NULL, gpt_cpu_row(k, a->dy, r, a->f),
                                gate_row(k, a->hidden, a->up, r, a->f), up_row(k, a->hidden, a->up, r, a->f), a->f);
}

GPT_KERNEL_FUNCTION(gpt_cpu_swiglu_gradient, gpt_swiglu_gradient)
{
    return gpt_cpu_submit_rows(k, stream, "swiglu gradient", swiglu_gradient_rows, a->rows, a, sizeof *a);
}

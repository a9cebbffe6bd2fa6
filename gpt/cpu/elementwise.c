/* Elementwise kernels, of which each thread computes a share, and random tokens. */
#include "gpt/cpu/kernels.h"
#include "lib/base/random.h"

#include <string.h>

enum { GRANULE = 256, LEAST_FOR_A_TEAM = 8192 }; /* in elements; waking a second thread takes about as long as LEAST_FOR_A_TEAM elements */

static dt_status submit_elements(struct gpt_kernels *k, struct dt_stream *stream, const char *label, dt_cpu_items make, size_t count,
                                 const void *arguments, size_t arguments_bytes)
{
    const struct dt_cpu_work work = {
        .make = make, .k = k, .count = count, .granule = GRANULE, .threads = count < LEAST_FOR_A_TEAM ? 1 : k->threads};
    return dt_cpu_submit_work(stream, label, &work, arguments, arguments_bytes);
}

static void gelu_elements(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct gpt_gelu *a = arguments;
    k->simd.gelu(gpt_cpu_row(k, a->y, first, 1), gpt_cpu_row(k, a->x, first, 1), end - first);
}

GPT_KERNEL_FUNCTION(gpt_cpu_gelu, gpt_gelu)
{
    return submit_elements(k, stream, "gelu", gelu_elements, a->count, a, sizeof *a);
}

static void gelu_gradient_elements(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct gpt_gelu_gradient *a = arguments;
    k->simd.gelu_gradient(gpt_cpu_row(k, a->dy_to_dx, first, 1), gpt_cpu_row(k, a->x, first, 1), end - first);
}

GPT_KERNEL_FUNCTION(gpt_cpu_gelu_gradient, gpt_gelu_gradient)
{
    return submit_elements(k, stream, "gelu gradient", gelu_gradient_elements, a->count, a, sizeof *a);
}

/* ---- parts of rows ---- */

static void move_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_move *a = arguments;
    for (size_t row = first; row < end; row++)
        memcpy(gpt_cpu_row(kernels, a->to, row, a->to_stride), gpt_cpu_row(kernels, a->from, row, a->from_stride),
               a->columns * gpt_cpu_element_bytes(kernels));
}

GPT_KERNEL_FUNCTION(gpt_cpu_move, gpt_move)
{
    return gpt_cpu_submit_rows(k, stream, "move", move_rows, a->rows, a, sizeof *a);
}

/* ---- tokens ---- */

struct tokens_task {
    struct gpt_kernels *k;
    struct gpt_tokens a; /* first_sample includes the step's first sample */
};

static dt_status run_tokens(void *arguments)
{
    const struct tokens_task *t = arguments;
    const struct gpt_tokens *a = &t->a;
    size_t T = (size_t)gpt_of(&t->k->model)->block_size, rows = a->samples * gpt_positions_count(&a->positions, &t->k->model);
    uint32_t vocab = (uint32_t)gpt_of(&t->k->model)->vocab_size;
    for (size_t row = 0; row < rows; row++) {
        struct gpt_place place = gpt_place_of(&a->positions, T, row);
        uint32_t sample = a->first_sample + (uint32_t)place.sample, position = (uint32_t)place.position;
        a->inputs[row] = (int32_t)dt_random_token(a->seed, sample, position, vocab);
        a->targets[row] = (int32_t)dt_random_token(a->seed, sample, position + 1, vocab);
    }
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_tokens, gpt_tokens)
{
    struct tokens_task t = {k, *a};
    t.a.first_sample += k->base->first_sample;
    return dt_cpu_submit(stream, "tokens", run_tokens, &t, sizeof t);
}

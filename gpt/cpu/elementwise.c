/* Kernels over arrays whose elements stand alone: each thread takes a share. Also tokens. */
#include "gpt/cpu/kernels.h"
#include "lib/base/random.h"
#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/team.h"

enum { GRANULE = 256, LEAST_FOR_A_TEAM = 8192 }; /* elements; waking a second thread costs about what these cost */

static int threads_for(const struct gpt_kernels *k, size_t count)
{
    return count < LEAST_FOR_A_TEAM ? 1 : k->threads;
}

/* Two arrays of the model's dtype. */
struct flat_task {
    struct gpt_kernels *k;
    void *to;
    const void *from;
    size_t count;
};

struct piece {
    char *to;
    const char *from;
    size_t count;
};

static struct piece piece_of(const struct flat_task *t, int thread, int threads)
{
    struct dt_cpu_share share = dt_cpu_share(t->count, GRANULE, thread, threads);
    size_t offset_bytes = share.first * gpt_cpu_element_bytes(t->k);
    return (struct piece){(char *)t->to + offset_bytes, t->from ? (const char *)t->from + offset_bytes : NULL, share.end - share.first};
}

static void gelu_part(void *argument, int thread, int threads)
{
    const struct flat_task *t = argument;
    struct piece p = piece_of(t, thread, threads);
    t->k->simd.gelu(p.to, p.from, p.count);
}

static void gelu_gradient_part(void *argument, int thread, int threads)
{
    const struct flat_task *t = argument;
    struct piece p = piece_of(t, thread, threads);
    t->k->simd.gelu_gradient(p.to, p.from, p.count);
}

static dt_status run_flat(struct flat_task *t, dt_cpu_part part)
{
    dt_cpu_parallel(threads_for(t->k, t->count), part, t);
    return DT_OK;
}

static dt_status run_gelu(void *arguments)
{
    return run_flat(arguments, gelu_part);
}

static dt_status run_gelu_gradient(void *arguments)
{
    return run_flat(arguments, gelu_gradient_part);
}

GPT_KERNEL_FUNCTION(gpt_cpu_gelu, gpt_gelu)
{
    struct flat_task t = {.k = k, .to = a->y, .from = a->x, .count = a->count};
    return dt_cpu_submit(stream, "gelu", run_gelu, &t, sizeof t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_gelu_gradient, gpt_gelu_gradient)
{
    struct flat_task t = {.k = k, .to = a->dy_to_dx, .from = a->x, .count = a->count};
    return dt_cpu_submit(stream, "gelu gradient", run_gelu_gradient, &t, sizeof t);
}

/* ---- tokens ---- */

struct tokens_task {
    struct gpt_kernels *k;
    struct gpt_tokens a; /* with the step's first sample in first_sample */
};

static dt_status run_tokens(void *arguments)
{
    const struct tokens_task *t = arguments;
    const struct gpt_tokens *a = &t->a;
    size_t T = (size_t)gpt_of(&t->k->model)->block_size;
    uint32_t vocab = (uint32_t)gpt_of(&t->k->model)->vocab_size;
    for (size_t s = 0; s < a->samples; s++)
        for (size_t position = 0; position <= T; position++) {
            uint32_t token = dt_random_token(a->seed, a->first_sample + (uint32_t)s, (uint32_t)position, vocab);
            if (position < T)
                a->inputs[s * T + position] = (int32_t)token;
            if (position > 0)
                a->targets[s * T + position - 1] = (int32_t)token;
        }
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_tokens, gpt_tokens)
{
    struct tokens_task t = {k, *a};
    t.a.first_sample += k->base->first_sample;
    return dt_cpu_submit(stream, "tokens", run_tokens, &t, sizeof t);
}

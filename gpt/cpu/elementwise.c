/* Kernels over arrays whose elements stand alone: each thread takes a share. Also random weights and tokens. */
#include "gpt/cpu/kernels.h"
#include "gpt/cpu/loops/team.h"
#include "lib/base/random.h"
#include "lib/device/cpu/device.h"

#include <math.h>

enum { GRANULE = 256, LEAST_FOR_A_TEAM = 8192 }; /* elements; waking a second thread costs about what these cost */

static int threads_for(const struct gpt_kernels *k, size_t count)
{
    return count < LEAST_FOR_A_TEAM ? 1 : k->threads;
}

/* Two arrays of the model's dtype, and a number. */
struct flat_task {
    struct gpt_kernels *k;
    void *to;
    const void *from;
    size_t count;
    float value;
};

struct piece {
    char *to;
    const char *from;
    size_t count;
};

static struct piece piece_of(const struct flat_task *t, int thread, int threads)
{
    struct gpt_cpu_share share = gpt_cpu_share(t->count, GRANULE, thread, threads);
    size_t offset_bytes = share.first * gpt_cpu_element_bytes(t->k);
    return (struct piece){(char *)t->to + offset_bytes, t->from ? (const char *)t->from + offset_bytes : NULL, share.end - share.first};
}

static void fill_part(void *argument, int thread, int threads)
{
    const struct flat_task *t = argument;
    struct piece p = piece_of(t, thread, threads);
    t->k->simd->fill(p.to, p.count, t->value);
}

static void add_part(void *argument, int thread, int threads)
{
    const struct flat_task *t = argument;
    struct piece p = piece_of(t, thread, threads);
    t->k->simd->add(p.to, p.from, p.count);
}

static void gelu_part(void *argument, int thread, int threads)
{
    const struct flat_task *t = argument;
    struct piece p = piece_of(t, thread, threads);
    t->k->simd->gelu(p.to, p.from, p.count);
}

static void gelu_gradient_part(void *argument, int thread, int threads)
{
    const struct flat_task *t = argument;
    struct piece p = piece_of(t, thread, threads);
    t->k->simd->gelu_gradient(p.to, p.from, p.count);
}

static void count_overflows(struct gpt_kernels *k, size_t left_out)
{
    if (left_out)
        __atomic_fetch_add(&k->overflows, left_out, __ATOMIC_RELAXED);
}

static void sgd_part(void *argument, int thread, int threads)
{
    const struct flat_task *t = argument;
    struct piece p = piece_of(t, thread, threads);
    count_overflows(t->k, t->k->simd->sgd(p.to, p.from, p.count, t->value));
}

static dt_status run_flat(struct flat_task *t, gpt_cpu_part part)
{
    gpt_cpu_parallel(threads_for(t->k, t->count), part, t);
    return DT_OK;
}

static dt_status run_fill(void *arguments)
{
    return run_flat(arguments, fill_part);
}

static dt_status run_add(void *arguments)
{
    return run_flat(arguments, add_part);
}

static dt_status run_gelu(void *arguments)
{
    return run_flat(arguments, gelu_part);
}

static dt_status run_gelu_gradient(void *arguments)
{
    return run_flat(arguments, gelu_gradient_part);
}

static dt_status run_sgd(void *arguments)
{
    return run_flat(arguments, sgd_part);
}

GPT_KERNEL_FUNCTION(gpt_cpu_fill, gpt_fill)
{
    struct flat_task t = {.k = k, .to = a->to, .count = a->count, .value = a->value};
    return dt_cpu_submit(stream, "fill", run_fill, &t, sizeof t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_add, gpt_add)
{
    struct flat_task t = {.k = k, .to = a->to, .from = a->from, .count = a->count};
    return dt_cpu_submit(stream, "add", run_add, &t, sizeof t);
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

GPT_KERNEL_FUNCTION(gpt_cpu_sgd, gpt_sgd)
{
    struct flat_task t = {.k = k, .to = a->params, .from = a->grads, .count = a->count, .value = a->learning_rate * a->gradient_scale};
    return dt_cpu_submit(stream, "sgd", run_sgd, &t, sizeof t);
}

/* ---- Adam ---- */

struct adam_task {
    struct gpt_kernels *k;
    struct gpt_adam a;
    struct gpt_adam_step step;
};

static void adam_part(void *argument, int thread, int threads)
{
    const struct adam_task *t = argument;
    const struct gpt_adam *a = &t->a;
    struct gpt_cpu_share share = gpt_cpu_share(a->count, GRANULE, thread, threads);
    size_t offset_bytes = share.first * gpt_cpu_element_bytes(t->k);
    count_overflows(t->k,
                    t->k->simd->adam((char *)a->params + offset_bytes, (const char *)a->grads + offset_bytes, a->first_moment + share.first,
                                     a->second_moment + share.first, a->master + share.first, share.end - share.first, &t->step));
}

static dt_status run_adam(void *arguments)
{
    struct adam_task *t = arguments;
    gpt_cpu_parallel(threads_for(t->k, t->a.count), adam_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_adam, gpt_adam)
{
    struct adam_task t = {
        .k = k,
        .a = *a,
        .step = {.first = k->step == 1,
                 .learning_rate = a->learning_rate,
                 .beta1 = a->beta1,
                 .beta2 = a->beta2,
                 .epsilon = a->epsilon,
                 .gradient_scale = a->gradient_scale,
                 .correction1 = (float)(1 / (1 - pow(a->beta1, k->step))),
                 .correction2 = (float)(1 / (1 - pow(a->beta2, k->step)))},
    };
    return dt_cpu_submit(stream, "adam", run_adam, &t, sizeof t);
}

/* ---- random weights and tokens ---- */

struct normal_task {
    struct gpt_kernels *k;
    struct gpt_init_normal a;
};

static void normal_part(void *argument, int thread, int threads)
{
    const struct normal_task *t = argument;
    const struct gpt_init_normal *a = &t->a;
    struct gpt_cpu_share share = gpt_cpu_share(a->count, GRANULE, thread, threads);
    size_t whole = a->run_elems ? a->run_elems : a->run_done + a->count; /* of a run */
    for (size_t at = share.first, here; at < share.end; at += here) {
        size_t place = a->run_done + at, left = whole - place % whole;
        here = share.end - at < left ? share.end - at : left;
        t->k->simd->normal((char *)a->to + at * gpt_cpu_element_bytes(t->k), here, a->seed, a->tensor_id,
                           a->first_element + place / whole * a->stride_elems + place % whole, a->standard_deviation);
    }
}

static dt_status run_normal(void *arguments)
{
    struct normal_task *t = arguments;
    gpt_cpu_parallel(threads_for(t->k, t->a.count), normal_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_init_normal, gpt_init_normal)
{
    struct normal_task t = {k, *a};
    return dt_cpu_submit(stream, "initial weights", run_normal, &t, sizeof t);
}

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
    t.a.first_sample += k->first_sample;
    return dt_cpu_submit(stream, "tokens", run_tokens, &t, sizeof t);
}

/* ---- where parameters live in host memory: the cpu device's host is the device ---- */

GPT_KERNEL_FUNCTION(gpt_cpu_sgd_host, gpt_sgd)
{
    return gpt_cpu_sgd(k, stream, a);
}

GPT_KERNEL_FUNCTION(gpt_cpu_adam_host, gpt_adam)
{
    return gpt_cpu_adam(k, stream, a);
}

GPT_KERNEL_FUNCTION(gpt_cpu_add_host, gpt_add)
{
    return gpt_cpu_add(k, stream, a);
}

/* The cpu device's kernels: the object, its steps, and the table. */
#include "gpt/cpu/kernels.h"

#include "gpt/cpu/attention/attention.h"
#include "gpt/cpu/matmul/products.h"
#include "lib/device/cpu/device.h"

#include <stdlib.h>

/* ---- the object ---- */

static void cpu_destroy(struct gpt_kernels *k)
{
    if (!k)
        return;
    gpt_cpu_attention_destroy(k->attention);
    gpt_cpu_products_destroy(k->products);
    free(k->rope);
    pthread_mutex_destroy(&k->mutex);
    free(k);
}

dt_status gpt_kernels_cpu_create(struct dt_device *device, const struct dt_model *model, enum dt_cpu_isa isa, struct gpt_kernels **out)
{
    *out = NULL;
    if (!gpt_simd_for(isa, model->dtype))
        return dt_fail(DT_ERR_UNAVAILABLE, "cpu kernels: this machine, or this build, has no %s", dt_cpu_isa_name(isa));
    struct gpt_kernels *k = calloc(1, sizeof *k);
    if (!k)
        return dt_fail(DT_ERR_HOST_MEMORY, "cpu kernels: no host memory");
    k->model = *model;
    k->threads = dt_cpu_threads(device);
    k->step = 1;
    k->simd = gpt_simd_for(isa, model->dtype);
    k->simd_fp32 = gpt_simd_for(isa, DT_FP32);
    pthread_mutex_init(&k->mutex, NULL);
    dt_status status = gpt_cpu_products_create(model->dtype, k->simd, k->threads, &k->products);
    if (status < 0)
        goto fail;
    status = gpt_cpu_attention_create(&k->model, k->threads, &k->attention);
    if (status < 0)
        goto fail;
    status = gpt_cpu_rope_table(&k->model, &k->rope);
    if (status < 0)
        goto fail;
    *out = k;
    return DT_OK;
fail:
    cpu_destroy(k);
    return status;
}

static dt_status cpu_create(struct dt_device *device, const struct dt_model *model, struct gpt_kernels **out)
{
    return gpt_kernels_cpu_create(device, model, dt_cpu_isa(), out);
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

static const char *cpu_products(const struct gpt_kernels *k)
{
    return gpt_cpu_products_name(k->products);
}

#define ROW(entry, ...) .entry = gpt_cpu_##entry,
const struct gpt_kernel_table gpt_kernels_cpu = {.name = "cpu",
                                                 .create = cpu_create,
                                                 .destroy = cpu_destroy,
                                                 .begin_step = cpu_begin_step,
                                                 .step_overflows = cpu_step_overflows,
                                                 .products = cpu_products,
                                                 GPT_KERNELS(ROW, GPT_NO_KERNEL_ROW, ROW)};

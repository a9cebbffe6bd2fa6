/* The cpu device's kernels: the object, and the table. */
#include "gpt/cpu/kernels.h"

#include "gpt/cpu/attention/attention.h"
#include "gpt/cpu/matmul/products.h"
#include "lib/device/cpu/device.h"

#include <stdlib.h>

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

DT_DESTROYS(cpu_destroy, struct gpt_kernels)

dt_status gpt_kernels_cpu_create(struct dt_kernels *base, const struct dt_model *model, enum dt_cpu_isa isa, struct gpt_kernels **out)
{
    *out = NULL;
    if (!gpt_simd_for(isa, model->dtype))
        return dt_fail(DT_ERR_UNAVAILABLE, "cpu kernels: this machine, or this build, has no %s", dt_cpu_isa_name(isa));
    DT_DESTROYED(cpu_destroy) struct gpt_kernels *k = calloc(1, sizeof *k);
    enum gpt_mlp_kind mlp = gpt_of(model)->mlp;
    DT_TRY(dt_allocated(k, "cpu kernels: no host memory"));
    k->base = base;
    k->model = *model;
    k->threads = dt_cpu_threads(base->device);
    k->simd = gpt_simd_of(isa, model->dtype, mlp);
    k->flat = dt_simd_for(isa, model->dtype);
    k->flat_fp32 = dt_simd_for(isa, DT_FP32);
    pthread_mutex_init(&k->mutex, NULL);
    DT_TRY(gpt_cpu_products_create(model->dtype, isa, mlp, k->threads, &k->products));
    DT_TRY(gpt_cpu_attention_create(&k->model, k->threads, &k->attention));
    DT_TRY(gpt_cpu_rope_table(&k->model, &k->rope));
    *out = DT_PASSED_ON(k);
    return DT_OK;
}

static dt_status cpu_create(struct dt_kernels *base, const struct dt_model *model, struct gpt_kernels **out)
{
    return gpt_kernels_cpu_create(base, model, dt_cpu_isa(), out);
}

static const char *cpu_products(const struct gpt_kernels *k)
{
    return gpt_cpu_products_name(k->products);
}

#define ROW(entry, ...) .entry = gpt_cpu_##entry,
const struct gpt_kernel_table gpt_kernels_cpu = {
    .name = "cpu", .create = cpu_create, .destroy = cpu_destroy, .products = cpu_products, GPT_KERNELS(ROW, GPT_NO_KERNEL_ROW, ROW)};

#include "gpt/kernel_set.h"
#include "gpt/kernels_traced.h"

#include <stdio.h>
#include <stdlib.h>

const struct gpt_kernel_table *gpt_kernels_for(const struct dt_device_kind *kind)
{
    static const struct gpt_kernel_table *const tables[DT_DEVICE_KINDS] = {
        [DT_DEVICE_CPU] = &gpt_kernels_cpu, [DT_DEVICE_CUDA] = &gpt_kernels_cuda, [DT_DEVICE_SIM] = &gpt_kernels_cost};
    return tables[kind->index];
}

bool gpt_kernels_available(const struct dt_device_kind *kind, char *text, size_t text_bytes)
{
    const struct gpt_kernel_table *table = gpt_kernels_for(kind);
    snprintf(text, text_bytes, "%s", table->missing ? table->missing : "");
    return !table->missing && (!table->available || table->available(text, text_bytes));
}

dt_status gpt_kernel_set_create(const struct dt_model *model, struct dt_device *device, struct dt_kernels **out)
{
    struct gpt_kernel_set *k = calloc(1, sizeof *k);
    *out = NULL;
    DT_TRY(dt_allocated(k, "no host memory for kernels"));
    dt_status status;
    k->plain.table = gpt_kernels_for(dt_device_kind_of(device));
    DT_TRY_ELSE(fail, status, dt_kernels_init(&k->base, device, model->dtype));
    DT_TRY_ELSE(fail, status, k->plain.table->create(&k->base, model, &k->plain.state));
    k->table = k->offers = k->plain.table;
    k->state = k->plain.state;
    *out = &k->base;
    return DT_OK;

fail:
    dt_kernels_finish(&k->base);
    free(k);
    return status;
}

static void put_back_plain(struct gpt_kernel_set *k)
{
    if (k->table == k->plain.table)
        return;
    k->table->destroy(k->state);
    k->table = k->plain.table;
    k->state = k->plain.state;
}

dt_status gpt_kernel_set_trace(struct dt_kernels *base, bool on)
{
    struct gpt_kernel_set *k = gpt_kernel_set(base);
    struct gpt_kernels *around; /* a failure leaves the plain ones in use */
    if (!on)
        put_back_plain(k);
    if (!on || k->table == &gpt_kernels_traced)
        return DT_OK;
    DT_TRY(gpt_kernels_traced_create(k->plain.table, k->plain.state, &around));
    k->table = &gpt_kernels_traced;
    k->state = around;
    return DT_OK;
}

dt_status gpt_kernel_set_list(struct dt_kernels *base, struct dt_tuning *to, const struct dt_model *model)
{
    struct gpt_kernel_set *k = gpt_kernel_set(base);
    struct gpt_kernels *listing;
    DT_TRY(gpt_kernels_listing_create(to, model, &listing));
    put_back_plain(k);
    k->table = k->offers = &gpt_kernels_listing;
    k->state = listing;
    return DT_OK;
}

void gpt_kernel_set_destroy(struct dt_kernels *base)
{
    struct gpt_kernel_set *k = gpt_kernel_set(base);
    if (!k)
        return;
    put_back_plain(k);
    k->plain.table->destroy(k->plain.state);
    dt_kernels_finish(base);
    free(k);
}

const char *gpt_kernel_set_products(const struct dt_kernels *base)
{
    const struct gpt_kernel_set *k = gpt_kernel_set(base);
    return k->plain.table->products ? k->plain.table->products(k->plain.state) : "";
}

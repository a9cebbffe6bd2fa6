#include "gpt/kernel_set.h"
#include "gpt/kernels_traced.h"

#include <stdlib.h>

dt_status gpt_kernel_set_create(const struct dt_model *model, struct dt_device *device, struct dt_kernels **out)
{
    struct dt_device_info info;
    struct gpt_kernel_set *k = calloc(1, sizeof *k);
    *out = NULL;
    DT_TRY(dt_allocated(k, "no host memory for kernels"));
    dt_status status = DT_ERR_UNAVAILABLE;
    dt_device_info(device, &info);
    k->plain.table = gpt_kernels_for(info.kind->name);
    if (!k->plain.table)
        goto fail;
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

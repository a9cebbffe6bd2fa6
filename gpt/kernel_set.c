#include "gpt/kernel_set.h"
#include "gpt/kernels_traced.h"

#include <stdio.h>

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

static dt_status begin(struct dt_kernels *base, const struct dt_model *model)
{
    struct gpt_kernel_set *k = gpt_kernel_set(base);
    const struct gpt_kernel_table *table = gpt_kernels_for(dt_device_kind_of(base->device));
    DT_TRY(table->create(base, model, &k->state));
    k->table = k->offers = k->plain.table = table;
    k->plain.state = k->state;
    return DT_OK;
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
    struct gpt_kernels *around; /* after a failure the plain ones stay in use */
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

static void end(struct dt_kernels *base)
{
    struct gpt_kernel_set *k = gpt_kernel_set(base);
    put_back_plain(k);
    if (k->plain.table)
        k->plain.table->destroy(k->plain.state);
}

const struct dt_own_kernels gpt_own_kernels = {sizeof(struct gpt_kernel_set), begin, end};

const char *gpt_kernel_set_products(const struct dt_kernels *base)
{
    const struct gpt_kernel_set *k = gpt_kernel_set(base);
    return k->plain.table->products ? k->plain.table->products(k->plain.state) : "";
}

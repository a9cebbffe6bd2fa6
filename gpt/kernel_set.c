#include "gpt/kernel_set.h"
#include "lib/device/span.h"

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

/* ---- while a step is traced: a span around each kernel, with its name (lib/device/span.h) ---- */

/* The state of these kernels is the plain kernels' state. */
#define TRACED(entry, arguments, ...)                                                                                                      \
    static GPT_KERNEL_FUNCTION(traced_##entry, arguments)                                                                                  \
    {                                                                                                                                      \
        const struct gpt_plain_kernels *plain = (const void *)k;                                                                           \
        DT_TRY(dt_span_begin(stream, #entry, DT_SPAN_COMPUTE, 0, NULL));                                                                   \
        DT_TRY(plain->table->entry(plain->state, stream, a));                                                                              \
        return dt_span_end(stream);                                                                                                        \
    }
GPT_KERNELS(TRACED, GPT_NO_KERNEL_ROW, TRACED)
GPT_FUSED_KERNELS(TRACED) /* called only if the plain kernels have them */

#define ROW(entry, ...) .entry = traced_##entry,
static const struct gpt_kernel_table traced = {.name = "traced", GPT_FUSED_KERNELS(ROW) GPT_KERNELS(ROW, GPT_NO_KERNEL_ROW, ROW)};

static void put_back_plain(struct gpt_kernel_set *k)
{
    if (k->table != k->plain.table && k->table != &traced)
        k->table->destroy(k->state);
    k->table = k->plain.table;
    k->state = k->plain.state;
}

dt_status gpt_kernel_set_trace(struct dt_kernels *base, bool on)
{
    struct gpt_kernel_set *k = gpt_kernel_set(base);
    put_back_plain(k);
    if (on) {
        k->table = &traced;
        k->state = (struct gpt_kernels *)&k->plain;
    }
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

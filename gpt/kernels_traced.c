#include "gpt/kernels_traced.h"
#include "lib/device/span.h"

#include <stdlib.h>

struct gpt_kernels {
    const struct gpt_kernel_table *table;
    struct gpt_kernels *inner;
};

dt_status gpt_kernels_traced_create(const struct gpt_kernel_table *table, struct gpt_kernels *inner, struct gpt_kernels **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for traced kernels");
    **out = (struct gpt_kernels){table, inner};
    return DT_OK;
}

static dt_status traced_create(struct dt_kernels *base, const struct dt_model *model, struct gpt_kernels **out)
{
    *out = NULL;
    return dt_fail(DT_ERR_INVALID, "traced kernels: use gpt_kernels_traced_create");
}

static void traced_destroy(struct gpt_kernels *k)
{
    free(k);
}

/* Each entry of the list, between the begin and the end of a span with its name. */
#define TRACED(entry, arguments, ...)                                                                                                      \
    static GPT_KERNEL_FUNCTION(traced_##entry, arguments)                                                                                  \
    {                                                                                                                                      \
        DT_TRY(dt_span_begin(stream, #entry, DT_SPAN_COMPUTE, 0, NULL));                                                                   \
        DT_TRY(k->table->entry(k->inner, stream, a));                                                                                      \
        return dt_span_end(stream);                                                                                                        \
    }
GPT_KERNELS(TRACED, GPT_NO_KERNEL_ROW, TRACED)
GPT_FUSED_KERNELS(TRACED) /* called only if the inner kernels have them */

#define ROW(entry, ...) .entry = traced_##entry,
const struct gpt_kernel_table gpt_kernels_traced = {
    .name = "traced", .create = traced_create, .destroy = traced_destroy, GPT_FUSED_KERNELS(ROW) GPT_KERNELS(ROW, GPT_NO_KERNEL_ROW, ROW)};

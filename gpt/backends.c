/* Which backend's kernels belong to a kind of device. */
#include "gpt/kernels.h"

#include <stdio.h>
#include <string.h>

const struct gpt_kernel_table *gpt_kernels_for(const char *device_kind)
{
    if (strcmp(device_kind, "cpu") == 0)
        return &gpt_kernels_cpu;
    if (strcmp(device_kind, "sim") == 0)
        return &gpt_kernels_cost;
    if (strcmp(device_kind, "cuda") == 0)
        return &gpt_kernels_cuda;
    dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\": there are no kernels for it; use \"cuda\", \"cpu\" or \"sim\"", device_kind);
    return NULL;
}

bool gpt_kernels_available(const char *device_kind, char *text, size_t text_bytes)
{
    const struct gpt_kernel_table *table = gpt_kernels_for(device_kind);
    if (table && table->available)
        return table->available(text, text_bytes);
    snprintf(text, text_bytes, "%s", table ? "" : dt_error_message());
    return table;
}

/* Stands in for backend.c and its entries in a build without oneDNN. */
#include "gpt/cpu/kernels.h"

#include <stdio.h>

static const char missing[] = "this build has no oneDNN; install libdnnl-dev and configure with -Dcpu=enabled";

static bool none_available(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", missing);
    return false;
}

dt_status gpt_kernels_cpu_create(struct dt_kernels *base, const struct dt_model *model, enum dt_cpu_isa isa, struct gpt_kernels **out)
{
    *out = NULL;
    return dt_fail(DT_ERR_UNAVAILABLE, "cpu kernels: %s", missing);
}

static dt_status none_create(struct dt_kernels *base, const struct dt_model *model, struct gpt_kernels **out)
{
    return gpt_kernels_cpu_create(base, model, DT_ISA_BASE, out);
}

static void none_destroy(struct gpt_kernels *kernels)
{
}

/* The rest is never reached: there is no object to call it with. */
const struct gpt_kernel_table gpt_kernels_cpu = {
    .name = "cpu", .available = none_available, .create = none_create, .destroy = none_destroy};

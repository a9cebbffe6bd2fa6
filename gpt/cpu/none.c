/* Replaces backend.c and its entries in a build without oneDNN. */
#include "gpt/cpu/kernels.h"

const struct gpt_kernel_table gpt_kernels_cpu = {
    .name = "cpu", .missing = "this build has no oneDNN; install libdnnl-dev and configure with -Dcpu=enabled"};

dt_status gpt_kernels_cpu_create(struct dt_kernels *base, const struct dt_model *model, enum dt_cpu_isa isa, struct gpt_kernels **out)
{
    *out = NULL;
    return dt_fail(DT_ERR_UNAVAILABLE, "cpu kernels: %s", gpt_kernels_cpu.missing);
}

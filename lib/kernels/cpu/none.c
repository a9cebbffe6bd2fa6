/* Stands in for backend.c in a build without the cpu device, so that there is no device to init kernels for. */
#include "lib/kernels/backend.h"

static dt_status none_init(struct dt_kernels *k)
{
    return dt_fail(DT_ERR_UNAVAILABLE, "kernels: this build has no cpu device; configure with -Dcpu=enabled");
}

const struct dt_kernel_backend dt_kernels_cpu = {.name = "cpu", .init = none_init};

/* Stands in for the other files of this folder in a build without CUDA, so that there is no device to init kernels for. */
#include "lib/kernels/backend.h"

static dt_status none_init(struct dt_kernels *k)
{
    return dt_fail(DT_ERR_UNAVAILABLE, "kernels: this build has no CUDA");
}

const struct dt_kernel_backend dt_kernels_cuda = {.name = "cuda", .init = none_init};

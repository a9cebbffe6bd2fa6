/* Stands in for the other files of this folder in a build without CUDA. */
#include "vision/kernels.h"

#include <stdio.h>

static const char missing[] =
    "this build has no CUDA: it needs nvcc and cublasLt.h of CUDA 12 or 13 (-Dcuda=enabled says what it looked for)";

static bool none_available(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", missing);
    return false;
}

static dt_status none_create(struct vision_kernels *k)
{
    return dt_fail(DT_ERR_UNAVAILABLE, "cuda kernels: %s", missing);
}

static void none_destroy(struct vision_kernels *k)
{
}

/* The rest is never reached: there is no object to call it with. */
const struct vision_kernel_table vision_kernels_cuda = {
    .name = "cuda", .available = none_available, .create = none_create, .destroy = none_destroy};

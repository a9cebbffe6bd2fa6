/* Replaces the other files of this folder in a build without CUDA. */
#include "gpt/cuda/tuning.h"

/* Never called: there is no device of this kind. */
dt_status gpt_cuda_tune(struct dt_tuning *tuning, struct dt_device *device, const struct dt_tune_hooks *hooks)
{
    return dt_fail(DT_ERR_UNAVAILABLE, "tuning: %s", gpt_kernels_cuda.missing);
}

const struct gpt_kernel_table gpt_kernels_cuda = {
    .name = "cuda",
    .missing = "this build has no CUDA: it needs nvcc and cublasLt.h of CUDA 12 or 13 (-Dcuda=enabled says what it looked for)"};

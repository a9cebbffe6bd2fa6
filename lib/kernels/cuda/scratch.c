/* Memory that kernels use during one call. */
#include "lib/kernels/cuda/kernels.h"

dt_status dt_cuda_scratch_reserve(struct dt_device *device, struct dt_cuda_scratch *scratch, size_t bytes)
{
    enum { UNIT = 1 << 20 };
    if (bytes <= scratch->bytes)
        return DT_OK;
    if (dt_cuda_capturing(device))
        return dt_fail(DT_ERR_INVALID, "cuda kernels: %zu bytes of scratch are first asked for while a graph is captured", bytes);
    dt_cuda_scratch_free(device, scratch);
    bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    DT_TRY(dt_cuda_own_alloc(device, bytes, &scratch->data));
    scratch->bytes = bytes;
    return DT_OK;
}

void dt_cuda_scratch_free(struct dt_device *device, struct dt_cuda_scratch *scratch)
{
    dt_cuda_own_free(device, scratch->data);
    *scratch = (struct dt_cuda_scratch){0};
}

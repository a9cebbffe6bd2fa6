/* Memory that kernels use during one call. */
#include "gpt/cuda/kernels.h"

dt_status gpt_cuda_scratch(struct gpt_kernels *k, size_t bytes)
{
    enum { UNIT = 1 << 20 };
    if (bytes <= k->scratch_bytes)
        return DT_OK;
    if (dt_cuda_capturing(k->base->device))
        return dt_fail(DT_ERR_INVALID, "cuda kernels: %zu bytes of scratch are first asked for while a graph is captured", bytes);
    dt_cuda_own_free(k->base->device, k->scratch);
    k->scratch = NULL;
    k->scratch_bytes = 0;
    bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    DT_TRY(dt_cuda_own_alloc(k->base->device, bytes, &k->scratch));
    k->scratch_bytes = bytes;
    return DT_OK;
}

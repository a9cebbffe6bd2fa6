#include "gpt/cpu/loops/scratch.h"

#include <stdlib.h>

dt_status gpt_cpu_scratch_reserve(struct gpt_cpu_scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->bytes)
        return DT_OK;
    gpt_cpu_scratch_free(scratch);
    scratch->data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!scratch->data)
        return dt_fail(DT_ERR_HOST_MEMORY, "cpu kernels: no host memory for %zu bytes of scratch", bytes);
    scratch->bytes = bytes;
    return DT_OK;
}

void gpt_cpu_scratch_free(struct gpt_cpu_scratch *scratch)
{
    free(scratch->data);
    *scratch = (struct gpt_cpu_scratch){0};
}

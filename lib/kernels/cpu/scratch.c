#include "lib/kernels/cpu/scratch.h"

#include <stdlib.h>

dt_status dt_cpu_scratch_reserve(struct dt_cpu_scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->bytes)
        return DT_OK;
    dt_cpu_scratch_free(scratch);
    scratch->data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    DT_TRY(dt_allocated(scratch->data, "cpu kernels: no host memory for %zu bytes of scratch", bytes));
    scratch->bytes = bytes;
    return DT_OK;
}

void dt_cpu_scratch_free(struct dt_cpu_scratch *scratch)
{
    free(scratch->data);
    *scratch = (struct dt_cpu_scratch){0};
}

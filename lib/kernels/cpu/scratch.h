/* Host memory that only grows: scratch memory of a kernel, kept from call to call. */
#ifndef LIB_KERNELS_CPU_SCRATCH_H
#define LIB_KERNELS_CPU_SCRATCH_H

#include "lib/base/status.h"

#include <stddef.h>

struct dt_cpu_scratch {
    void *data; /* page-aligned */
    size_t bytes;
};

/* At least `bytes`; what was there is lost when it grows. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_cpu_scratch_reserve(struct dt_cpu_scratch *scratch, size_t bytes);
void dt_cpu_scratch_free(struct dt_cpu_scratch *scratch); /* takes a zeroed one */

#endif

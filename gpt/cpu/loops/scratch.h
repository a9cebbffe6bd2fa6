/* Host memory that only grows: what a kernel needs beside its arguments, kept from call to call. */
#ifndef GPT_CPU_SCRATCH_H
#define GPT_CPU_SCRATCH_H

#include "lib/base/status.h"

#include <stddef.h>

struct gpt_cpu_scratch {
    void *data; /* page-aligned */
    size_t bytes;
};

/* At least `bytes`; what was there is lost when it grows. Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_cpu_scratch_reserve(struct gpt_cpu_scratch *scratch, size_t bytes);
void gpt_cpu_scratch_free(struct gpt_cpu_scratch *scratch); /* takes a zeroed one */

#endif

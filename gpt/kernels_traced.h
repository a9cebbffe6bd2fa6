/* A table of kernels around another one, with a span around each kernel (lib/device/span.h): for
 * runs in which a step is traced. */
#ifndef GPT_KERNELS_TRACED_H
#define GPT_KERNELS_TRACED_H

#include "gpt/kernels.h"

/* Entries call those of the kernels given to gpt_kernels_traced_create; a span has the entry's
 * name. Use this create, not the table's. */
extern const struct gpt_kernel_table gpt_kernels_traced;

/* *out calls `inner`, which `table` made; both must outlive it. Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_kernels_traced_create(const struct gpt_kernel_table *table, struct gpt_kernels *inner, struct gpt_kernels **out);

#endif

/* Any table of kernels, with a span around each (lib/device/span.h): for runs of which a step is traced. */
#ifndef GPT_KERNELS_TRACED_H
#define GPT_KERNELS_TRACED_H

#include "gpt/kernels.h"

/* Entries call those of the kernels given to gpt_kernels_traced_create; a span has the entry's name. Without its create: use that one. */
extern const struct gpt_kernel_table gpt_kernels_traced;

/* *out works through `inner`, made by `table`; both outlive it. Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_kernels_traced_create(const struct gpt_kernel_table *table, struct gpt_kernels *inner, struct gpt_kernels **out);

#endif

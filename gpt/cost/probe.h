/* One kernel at a time, to be timed: sets up memory and arguments for a kernel of a shape (gpt/cost/measured.h), and queues it as often as
 * the caller likes. The kernels are those of the device, as training uses them.
 *
 * What a layer has just computed is in the processor's caches when the next one reads it, if it fits; weights and fresh outputs are not. So
 * inputs stay where they are from one call to the next, and weights and outputs go on through memory that is larger than the caches. */
#ifndef GPT_COST_PROBE_H
#define GPT_COST_PROBE_H

#include "gpt/cost/measured.h"
#include "gpt/kernels.h"

struct gpt_probe;

/* region_bytes: of each of three pieces of memory; those of a kernel that needs more are refused. Owner: the caller.
 * Errors: DT_ERR_HOST_MEMORY, DT_ERR_OOM, those of the kernels. */
dt_status gpt_probe_create(struct dt_device *device, size_t region_bytes, struct gpt_probe **out);
void gpt_probe_destroy(struct gpt_probe *probe); /* takes NULL */

/* From now on calls are of this kernel; kernel, variant, dtype and shape count. Errors: DT_ERR_INVALID where region_bytes do not suffice or
 * the shape is none, DT_ERR_HOST_MEMORY, those of the kernels. */
dt_status gpt_probe_set(struct gpt_probe *probe, const struct gpt_measured *what);

/* Queue it `times` times and wait for it. Errors: those of the kernel. */
dt_status gpt_probe_run(struct gpt_probe *probe, int times);

#endif

/* The GPUs of all ranks, before and after the timed steps (lib/device/condition.h). */
#ifndef SCHEDULES_RUN_RANK_CONDITIONS_H
#define SCHEDULES_RUN_RANK_CONDITIONS_H

#include "lib/comm/comm.h"
#include "lib/device/device.h"

/* Collective over `world`, each with its own device and what that was before; now is after. *out: the entries of all ranks as an array of JSON,
 * in order, or NULL where no rank knows anything; owner: the caller, free. To doubts is appended which ranks' GPUs may not have done what they
 * can ("rank 3's GPU: clocks held down by heat for 1.2 s"), the first few of them.
 * Errors: DT_ERR_COMM, DT_ERR_HOST_MEMORY. */
dt_status rank_conditions_gather(struct dt_comm *world, const struct dt_device *device, const struct dt_device_condition *before,
                                 char **out, char *doubts, size_t doubts_bytes);

#endif

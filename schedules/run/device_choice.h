/* Which kind of device an experiment runs on, on this machine. */
#pragma once

#include "schedules/config/experiment.h"

/* The kind that the experiment names, or for "auto" the first of cuda and cpu that has all it
 * needs. Checks, without starting anything, that this machine has device, kernels, and for several
 * ranks the communicator. Errors: DT_ERR_UNAVAILABLE, saying what is missing; DT_ERR_INVALID. */
dt_status device_choose(const struct experiment *experiment, const struct dt_device_kind **out);

/* Whether "auto" chooses the cpu although this machine has a GPU. `why` gets the reason. */
bool device_choice_skips_gpu(const struct experiment *experiment, char *why, size_t why_bytes);

/* provenance.gpu_conditions: what the ranks' GPUs said of themselves (lib/device/condition.h), as JSON. */
#ifndef LIB_RECORD_CONDITIONS_H
#define LIB_RECORD_CONDITIONS_H

#include "lib/device/condition.h"

/* Before and after the timed steps. */
struct dt_condition_pair {
    struct dt_device_condition before, after;
};

/* Those of `count` ranks, the first at `all`, each `stride` bytes after the one before, as a JSON array in one line; null for a GPU that says
 * nothing. Owner of *out: the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_conditions_write(const struct dt_condition_pair *all, size_t stride, int count, char **out);

#endif

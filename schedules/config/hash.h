/* The hash of experiments: two with the same one measure the same thing. It is FNV-1a 64 of the canonical JSON of the keys that an experiment
 * depends on (experiment_depends_on). A sweep's experiments are hashed one after another, and what one has in common with the last is not
 * written again. */
#ifndef SCHEDULES_CONFIG_HASH_H
#define SCHEDULES_CONFIG_HASH_H

#include "schedules/config/experiment.h"

struct experiment_hasher;

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_hasher_create(struct experiment_hasher **out);
void experiment_hasher_destroy(struct experiment_hasher *hasher); /* takes NULL */

/* Set e->hash. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_hasher_set(struct experiment_hasher *hasher, struct experiment *e);

#endif

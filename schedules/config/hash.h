/* The hash of an experiment: two with the same one measure the same thing. It is FNV-1a 64 of the canonical JSON of the keys that the
 * experiment depends on (experiment_depends_on). */
#ifndef SCHEDULES_CONFIG_HASH_H
#define SCHEDULES_CONFIG_HASH_H

#include "schedules/config/experiment.h"

/* Set e->hash. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_set_hash(struct experiment *e);

/* What a file that the experiment names says has a part in its hash, too. */
void experiment_hash_file(struct experiment *e, const char *text, size_t bytes);

#endif

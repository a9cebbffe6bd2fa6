/* An experiment that is written out: which keys it has, and its hash. Two with the same hash measure the same thing. It is FNV-1a 64 of the
 * canonical JSON of the keys that the experiment depends on (experiment_depends_on). */
#ifndef SCHEDULES_CONFIG_PRINT_H
#define SCHEDULES_CONFIG_PRINT_H

#include "lib/config/config.h"
#include "schedules/config/experiment.h"

/* Keys that have a part in it, and its name; not strings and settings that are empty. */
bool experiment_shows(const struct experiment *e, const struct dt_field *field);

/* Set e->hash. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_set_hash(struct experiment *e);

/* What a file that the experiment names says has a part in its hash, too. */
void experiment_hash_file(struct experiment *e, const char *text, size_t bytes);

#endif

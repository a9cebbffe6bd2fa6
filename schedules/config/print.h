/* Writing an experiment: which keys it shows, and its hash. Experiments with the same hash measure
 * the same thing. The hash is FNV-1a 64 of the canonical JSON of the keys that the experiment
 * depends on (experiment_depends_on). */
#pragma once

#include "lib/config/config.h"
#include "schedules/config/experiment.h"

/* Whether the field is written: keys that matter, and the name; no empty strings or settings. */
bool experiment_shows(const struct experiment *e, const struct dt_field *field);

/* Set e->hash. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_set_hash(struct experiment *e);

/* Add the contents of a file that the experiment names to its hash. */
void experiment_hash_file(struct experiment *e, const char *text, size_t bytes);

/* Which keys an experiment has when it is written out. */
#ifndef SCHEDULES_CONFIG_PRINT_H
#define SCHEDULES_CONFIG_PRINT_H

#include "lib/config/config.h"
#include "schedules/config/experiment.h"

/* Not strings and settings that are empty, keys that came later and have their default or concern another model, and of preset and sizes the
 * one that it was not made of. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_shows(const struct experiment *e, const struct dt_field *field, bool *shown);

#endif

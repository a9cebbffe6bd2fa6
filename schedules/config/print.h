/* Which keys an experiment has when it is written out. */
#ifndef SCHEDULES_CONFIG_PRINT_H
#define SCHEDULES_CONFIG_PRINT_H

#include "lib/config/config.h"
#include "schedules/config/experiment.h"

/* Those that have a part in it, and its name; not strings and settings that are empty. */
bool experiment_shows(const struct experiment *e, const struct dt_field *field);

#endif

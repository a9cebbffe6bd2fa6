/* What dtbench knows of an experiment's file of samples without reading its content. */
#pragma once

#include "schedules/config/experiment.h"

/* Find how many samples the file has. With steps.epochs, set the number of timed steps that follows
 * from it; if the config gives that number too (timed_given), both must be equal. Where nothing is
 * trained, the file may be missing unless epochs are counted. Does nothing where no file is named.
 * `where` begins the error text. Errors: DT_ERR_INVALID. */
dt_status experiment_resolve_data(struct experiment *experiment, bool timed_given, const char *where);

/* Replace the file's name by its full path, since rank processes do not know the config's folder.
 * Errors: DT_ERR_IO. */
dt_status experiment_find_data(struct experiment *experiment);

/* In which order the experiment takes the file's samples. */
struct dt_sampler experiment_sampler(const struct experiment *experiment);

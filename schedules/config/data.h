/* The file of samples of an experiment, as far as it can be known without reading it. */
#ifndef SCHEDULES_CONFIG_DATA_H
#define SCHEDULES_CONFIG_DATA_H

#include "schedules/config/experiment.h"

/* Find how many samples the file has, and with steps.epochs the number of timed steps, which must be that one where the config gives it
 * (timed_given). Where nothing is trained the file may be missing, unless epochs are counted. Where no file is named nothing happens.
 * `where` begins the error text. Errors: DT_ERR_INVALID. */
dt_status experiment_resolve_data(struct experiment *experiment, bool timed_given, const char *where);

/* Replace the file's name by the path at which it is: for processes that do not know where the config was. Errors: DT_ERR_IO. */
dt_status experiment_find_data(struct experiment *experiment);

/* In which order the experiment takes the file's samples. */
struct dt_sampler experiment_sampler(const struct experiment *experiment);

#endif

/* The tuning file of an experiment (lib/model/tuning.h), as far as it can be known without a GPU. */
#ifndef SCHEDULES_CONFIG_TUNING_H
#define SCHEDULES_CONFIG_TUNING_H

#include "schedules/config/experiment.h"

/* The file is looked for as a cluster file is (lib/config/data_file.h), and is one of dtbench tune; its contents become part of the
 * experiment's hash. Where the experiment cannot be on a GPU, or names no file, nothing happens. `where` begins the error text. Errors:
 * DT_ERR_INVALID, DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status experiment_check_tuning(struct experiment *experiment, const char *where);

/* Replace the file's name by the path at which it is: for processes that do not know where the config was. Errors: DT_ERR_IO. */
dt_status experiment_find_tuning(struct experiment *experiment);

#endif

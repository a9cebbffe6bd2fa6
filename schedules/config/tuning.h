/* The tuning file of an experiment (lib/model/tuning.h): what can be checked without a GPU. */
#pragma once

#include "schedules/config/experiment.h"

/* Find the file as a cluster file is found (lib/config/data_file.h), check that dtbench tune wrote
 * it, and add its contents to the experiment's hash. Does nothing if the experiment names no file
 * or cannot be on a GPU. `where` begins the error text. Errors: DT_ERR_INVALID, DT_ERR_IO,
 * DT_ERR_HOST_MEMORY. */
dt_status experiment_check_tuning(struct experiment *experiment, const char *where);

/* Replace the file's name by its path, since rank processes do not know the config's folder.
 * Errors: DT_ERR_IO. */
dt_status experiment_find_tuning(struct experiment *experiment);

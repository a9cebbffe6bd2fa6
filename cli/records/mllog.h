/* A run in MLPerf's log format, for what reads that: a line for each event, ":::MLLOG " and an object.
 *
 * Keys are those of mlperf_logging 6.1 (mllog/constants.py). A record has no time for each event: the run begins when its record says, trains
 * startup_s later, a warm-up step is taken to be as long as the median, and timed steps follow each other. There is no evaluation, and who
 * submits is not known, so that the compliance checker misses eval_accuracy, eval_samples and submission_*. */
#ifndef CLI_RECORDS_MLLOG_H
#define CLI_RECORDS_MLLOG_H

#include "lib/base/status.h"

#include <stdio.h>

struct cJSON;

/* Errors: DT_ERR_INVALID for a record that does not say when it began, DT_ERR_HOST_MEMORY. */
dt_status mllog_print(const struct cJSON *record, FILE *to);

#endif

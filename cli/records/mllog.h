/* A run in MLPerf's log format, for programs that read it: a line for each event, ":::MLLOG " and
 * an object.
 *
 * Keys are those of mlperf_logging 6.1 (mllog/constants.py). A record has no time for each event,
 * so times are derived: the run begins at the record's start time, training begins startup_s later,
 * warm-up steps take the median time, and timed steps follow each other. There is no evaluation,
 * and the submitter is unknown, so the compliance checker reports eval_accuracy, eval_samples and
 * submission_* as missing. */
#pragma once

#include "lib/base/status.h"

#include <stdio.h>

struct cJSON;

/* Errors: DT_ERR_INVALID for a record without a start time, DT_ERR_HOST_MEMORY. */
dt_status mllog_print(const struct cJSON *record, FILE *to);

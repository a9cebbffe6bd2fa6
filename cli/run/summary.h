/* The tables of a run: what would run, and what has run. */
#ifndef CLI_RUN_SUMMARY_H
#define CLI_RUN_SUMMARY_H

#include "cli/run/sweep.h"

#include <stdio.h>

/* The table of experiments, without running any. Errors: DT_ERR_HOST_MEMORY. */
dt_status summary_print_planned(const struct sweep *sweep, FILE *to);

/* The table of results, and below it why experiments failed. Errors: DT_ERR_HOST_MEMORY. */
dt_status summary_print(const struct sweep *sweep, FILE *to);

#endif

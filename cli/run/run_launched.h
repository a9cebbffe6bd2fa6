/* Run an experiment in processes of its own, started and watched from here. */
#ifndef CLI_RUN_RUN_LAUNCHED_H
#define CLI_RUN_RUN_LAUNCHED_H

#include "cli/records/draft.h"
#include "cli/run/progress.h"
#include "schedules/run/report.h"

/* trace: of one more step. Fills `report`, initialised, with whatever was measured and how it ended: a
 * crash, a kill and the end of the memory are results too. */
void run_launched(const struct experiment *experiment, struct dt_trace_wish trace, struct progress *progress, struct draft *draft,
                  struct report *report);

#endif

/* Run an experiment on device sim: in this process, without ranks of its own. */
#ifndef CLI_RUN_RUN_SIMULATED_H
#define CLI_RUN_RUN_SIMULATED_H

#include "cli/run/progress.h"
#include "schedules/run/report.h"

/* Whether an experiment is a simulation. */
bool is_simulated(const struct experiment *experiment);

/* Can it be simulated: are cluster and profile there and right, and does it fit the cluster? */
dt_status check_simulated(const struct experiment *experiment);

/* Whether the cluster and the profile are still those of an earlier record: hashes as in its provenance. */
dt_status simulated_hashes(const struct experiment *experiment, char cluster_hash[17], char profile_hash[17]);

/* Fills `report`, initialised. trace: file for a trace of one step; NULL: none. */
void run_simulated(const struct experiment *experiment, const char *trace, struct progress *progress, struct report *report);

#endif

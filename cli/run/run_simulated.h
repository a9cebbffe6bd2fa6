/* Run an experiment on device sim: in this process, without ranks of its own. */
#ifndef CLI_RUN_RUN_SIMULATED_H
#define CLI_RUN_RUN_SIMULATED_H

#include "cli/run/progress.h"
#include "schedules/predict/simulated_system.h"
#include "schedules/run/report.h"

/* Fills `report`, initialised. trace: of one step. */
void run_simulated(const struct experiment *experiment, struct dt_trace_wish trace, struct progress *progress, struct report *report);

/* Where a simulated experiment "ran", for its record. */
void run_simulated_describe(const struct experiment *experiment, const struct simulated_file *cluster_file,
                            const struct simulated_file *profile_file, const struct dt_sim_cluster *cluster, struct report *report);

#endif

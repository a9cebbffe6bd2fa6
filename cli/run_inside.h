/* Run an experiment on ranks that mpirun, srun or torchrun started: this process is one of them. */
#ifndef CLI_RUN_INSIDE_H
#define CLI_RUN_INSIDE_H

#include "cli/progress.h"
#include "lib/world.h"
#include "schedules/report.h"

/* Collective over the ranks of `place`. Fills `report`, initialised. False: the ranks have lost each other, and nothing more can run. */
bool run_inside(const struct experiment *experiment, const struct dt_world *place, struct progress *progress, struct report *report);

/* Wait, however long it takes, until every rank is here. *stop: this rank wants to end; afterwards, whether any does. Errors: DT_ERR_COMM.
 */
dt_status run_inside_agree(const struct experiment *experiment, const struct dt_world *place, bool *stop);

#endif

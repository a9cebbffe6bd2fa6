/* Scaling efficiency: how much of the throughput of a rank is left when more ranks train the same model. */
#ifndef CLI_RUN_SCALING_H
#define CLI_RUN_SCALING_H

#include "schedules/config/experiment_list.h"

/* fewest [experiments]: which of the experiments is like each but for its number of ranks, and has the fewest, the first of several; one rank
 * alone (paradigm none) is like any. -1: all of them have as many. Errors: DT_ERR_HOST_MEMORY. */
dt_status scaling_find(const struct experiment_list *experiments, int *fewest);

#endif

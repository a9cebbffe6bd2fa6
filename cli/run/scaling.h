/* Scaling efficiency: how much of the throughput of a rank is left when more ranks train the same model. */
#ifndef CLI_RUN_SCALING_H
#define CLI_RUN_SCALING_H

#include "schedules/config/experiment_list.h"

/* Which of the experiments is like `index` but for its number of ranks, and has the fewest; one rank alone (paradigm none) is like
 * any. -1: all of them have as many. */
int scaling_fewest_ranks(const struct experiment_list *experiments, int index);

#endif

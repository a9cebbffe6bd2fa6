/* How the ranks of a run were connected, as far as their library says so. */
#ifndef SCHEDULES_RUN_RANK_NETWORK_H
#define SCHEDULES_RUN_RANK_NETWORK_H

#include "lib/comm/comm.h"

/* *out: what all ranks know together. Collective over `world`. Errors: DT_ERR_COMM, DT_ERR_HOST_MEMORY. */
dt_status rank_network_gather(struct dt_comm *world, struct dt_comm_network *out);

#endif

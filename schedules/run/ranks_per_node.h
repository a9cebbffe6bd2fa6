/* How the ranks of a world lie on its machines, which are told apart by their names. */
#ifndef SCHEDULES_RUN_RANKS_PER_NODE_H
#define SCHEDULES_RUN_RANKS_PER_NODE_H

#include "lib/comm/comm.h"

struct host_name {
    char text[256];
};

/* How many ranks each machine has, where all have as many and they are neighbours in the world; else 0. *several: there are more machines
 * than one. ranks: [size] the machine of each, at least one. */
int ranks_per_node(const struct host_name *ranks, int size, bool *several);

/* Each machine once, in the order of its first rank, with line breaks between them. Owner: the caller, free. NULL: no memory. */
char *distinct_hosts(const struct host_name *ranks, int size);

/* ranks_per_node of the ranks of a communicator, over which it is collective; nothing is known after a failure: 0 and false. Errors: DT_ERR_COMM,
 * DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. */
dt_status ranks_per_node_find(struct dt_comm *world, int *out, bool *several);

#endif

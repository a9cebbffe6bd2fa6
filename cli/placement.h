/* Where a launcher put the ranks, held against what the experiments ask of it.
 *
 * A pipeline's stages and an hsdp shard group talk all the time, and are meant to do so over a node's own links. Spread over nodes by an
 * oversight of the launcher's options they measure something else, so that has to be asked for (straddle_nodes). */
#ifndef CLI_PLACEMENT_H
#define CLI_PLACEMENT_H

#include "schedules/experiment.h"

enum { NODE_NAME_BYTES = 64 };

struct placement_rank {
    char node[NODE_NAME_BYTES];
};

/* Check experiment `number` (from 1) of `count` on ranks[world_size], the node of each.
 * Errors: DT_ERR_INVALID, naming the config's key and what to do. */
dt_status placement_check(const struct experiment *experiment, int number, int count, const struct placement_rank *ranks);

/* The same where dtbench starts all ranks itself, on this machine. */
dt_status placement_check_alone(const struct experiment *experiment, int number, int count);

#endif

/* Where a launcher put the ranks, held against what the experiments ask of it.
 *
 * A pipeline's stages and an hsdp shard group talk all the time, and are meant to do so over a node's own links. Spread over nodes by an
 * oversight of the launcher's options they measure something else, so that has to be asked for (straddle_nodes). */
#ifndef CLI_RUN_PLACEMENT_H
#define CLI_RUN_PLACEMENT_H

#include "schedules/config/experiment.h"

enum { NODE_NAME_BYTES = 64 };

struct placement_rank {
    char node[NODE_NAME_BYTES];
    char gpu[48];   /* the uuid of the GPU that it will take; "": none, its device is another */
    int gpus;       /* that it may choose from; 1 also where the launcher gave it one of its own */
    int slurm_gpus; /* that Slurm gave the job on its node; 0: unknown */
};

/* Check experiment `number` (from 1) of `count` on ranks[world_size], the node of each.
 * Ranks with GPUs: each node has enough of them for its ranks, and no two ranks take the same, unless share_gpus allows it.
 * Errors: DT_ERR_INVALID, naming the config's key and what to do. */
dt_status placement_check(const struct experiment *experiment, int number, int count, const struct placement_rank *ranks);

/* The first rank of ranks [size] that sees one GPU while its node has several ranks; -1: none. What a launcher hides with cgroups
 * (--gpus-per-task) NCCL cannot reach over NVLink. */
int placement_hidden_gpus(const struct placement_rank *ranks, int size);

/* The same where dtbench starts all ranks itself, on this machine, each on a GPU of its own. gpus: how many it may use here; -1: its device
 * is another. */
dt_status placement_check_alone(const struct experiment *experiment, int number, int count, int gpus);

#endif

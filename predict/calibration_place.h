/* Where the ranks of a calibration are, and which groups of ranks represent the communicators of
 * experiments. */
#pragma once

#include "lib/comm/comm.h"

struct calibration_place {
    int nodes, ranks_per_node;
    bool shared_processors; /* the nodes are one machine: all report the same running Linux kernel */
};

/* Collective over `comm`. The launcher defines the nodes. DT_ERR_WORLD if they have unequal numbers
 * of ranks, or a node's ranks are not consecutive: device sim places ranks node by node. */
dt_status calibration_place_find(const struct dt_world *world, struct dt_comm *comm, struct calibration_place *out);

/* Group `index`: on one node all ranks; on several one rank of each of 2, 4, ... nodes, then 2, 4,
 * ... ranks of one node, then all ranks of 2, 4, ... nodes, each series ends with all. ranks: has
 * room for all. Returns the group's number of ranks, 0 past the last group; *out_nodes: the number
 * of nodes that it spans. */
int calibration_group(const struct calibration_place *place, int index, int *ranks, int *out_nodes);
int calibration_group_count(const struct calibration_place *place);

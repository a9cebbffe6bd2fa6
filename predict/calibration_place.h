/* Where the ranks of a calibration are, and which groups of them stand for the communicators of experiments. */
#ifndef PREDICT_CALIBRATION_PLACE_H
#define PREDICT_CALIBRATION_PLACE_H

#include "lib/comm/comm.h"

struct calibration_place {
    int nodes, ranks_per_node;
    bool shared_processors; /* the nodes are one machine: Linux says of all of them that it was started at the same time, as the same */
};

/* Collective over `comm`. Nodes are the launcher's. DT_ERR_WORLD where they have unequal numbers of ranks, or consecutive ranks are not on
 * one node: device sim places ranks node by node. */
dt_status calibration_place_find(const struct dt_world *world, struct dt_comm *comm, struct calibration_place *out);

/* Group `index`: on one node all ranks; on several one rank of each of 2, 4, ... nodes, then 2, 4, ... ranks of one node, then all ranks of
 * 2, 4, ... nodes, each series ending with all there are. ranks: room for all. Returns how many it has, 0 past the last; *out_nodes is how
 * many nodes it spans. */
int calibration_group(const struct calibration_place *place, int index, int *ranks, int *out_nodes);
int calibration_group_count(const struct calibration_place *place);

#endif

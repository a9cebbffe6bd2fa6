/* What a rank hands over to others in a step: bytes by axis of the mesh and by collective. An operation counts as its whole buffer: what is
 * reduced, gathered or sent; an all-gather's and a reduce-scatter's is that of all ranks together. What a group of one rank does is no
 * communication. Received messages are their senders'. */
#ifndef SCHEDULES_STEP_STEP_TRAFFIC_H
#define SCHEDULES_STEP_STEP_TRAFFIC_H

#include "lib/comm/comm.h"
#include "lib/record/metrics.h"
#include "schedules/mesh/shape.h"

struct step_traffic {
    uint64_t bytes[MESH_AXES][DT_COMM_KINDS]; /* those of DT_COMM_RECV are 0 */
};

uint64_t step_traffic_of(const struct step_traffic *traffic, enum dt_comm_kind kind); /* on all axes */
uint64_t step_traffic_all(const struct step_traffic *traffic);

/* Set a step's bytes. */
void step_traffic_measure(const struct step_traffic *traffic, struct dt_step_metrics *out);

#endif

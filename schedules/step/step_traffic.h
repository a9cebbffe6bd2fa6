/* What a rank hands over to others in a step: bytes by axis of the mesh and by collective. An operation counts as its whole buffer: what is
 * reduced, gathered or sent; an all-gather's and a reduce-scatter's is that of all ranks together. What a group of one rank does is no
 * communication. Received messages are their senders'.
 *
 * What crosses links is less or more. Collectives are taken to go around a ring, which is the least that a rank can send: a rank of N passes
 * on (N - 1) / N of what is gathered or reduced and scattered, an all-reduce is both, and who sends to all or has the sum of all is one
 * end of a chain in which each but the last passes on the whole. These are the factors of nccl-tests' bus bandwidth. */
#ifndef SCHEDULES_STEP_STEP_TRAFFIC_H
#define SCHEDULES_STEP_STEP_TRAFFIC_H

#include "lib/comm/comm.h"
#include "lib/record/metrics.h"
#include "schedules/mesh/shape.h"

/* By axis; of neighbours in a tensor group that hold copies; of ranks whose samples are computed together; and of all ranks. */
enum { TRAFFIC_COPIES = MESH_AXES, TRAFFIC_TOGETHER, TRAFFIC_WORLD, TRAFFIC_GROUPS };

struct step_traffic {
    uint64_t bytes[TRAFFIC_GROUPS][DT_COMM_KINDS]; /* those of DT_COMM_RECV are 0 */
    int ranks[TRAFFIC_GROUPS];                     /* of a group that communicates; of a pipeline 2, its ends, which sum copies */
};

const char *step_traffic_group_name(int group);                                       /* "replica", "world" */
uint64_t step_traffic_of(const struct step_traffic *traffic, enum dt_comm_kind kind); /* on all axes */
uint64_t step_traffic_all(const struct step_traffic *traffic);
uint64_t step_traffic_on_links(const struct step_traffic *traffic); /* what this rank sends; of all collectives and messages */

/* Set a step's bytes. */
void step_traffic_measure(const struct step_traffic *traffic, struct dt_step_metrics *out);

#endif

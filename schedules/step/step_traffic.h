/* What a rank communicates in a step: bytes by axis of the mesh and by collective. An operation
 * counts with its whole buffer; that of an all-gather or a reduce-scatter is the buffer of all
 * ranks together. Operations in a group of one rank do not count. Messages count for their senders.
 *
 * The bytes on links differ. Collectives are assumed to use a ring, with which a rank sends the
 * least: one of N ranks sends (N - 1) / N of what is gathered or reduce-scattered; an all-reduce is
 * both; a broadcast or reduction is a chain in which each rank but the last sends everything. These
 * are the factors of nccl-tests' bus bandwidth. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/record/metrics.h"
#include "schedules/mesh/shape.h"

/* Groups: the axes; neighbours in a tensor group that hold copies; ranks whose samples are computed
 * together; all ranks. */
enum { TRAFFIC_COPIES = MESH_AXES, TRAFFIC_TOGETHER, TRAFFIC_WORLD, TRAFFIC_GROUPS };

struct step_traffic {
    uint64_t bytes[TRAFFIC_GROUPS][DT_COMM_KINDS]; /* those of DT_COMM_RECV are 0 */
    int ranks[TRAFFIC_GROUPS];                     /* size of the communicating group; 2 for a pipeline, whose two ends sum copies */
};

const char *step_traffic_group_name(int group);                                       /* "replica", "world" */
uint64_t step_traffic_of(const struct step_traffic *traffic, enum dt_comm_kind kind); /* on all axes */
uint64_t step_traffic_all(const struct step_traffic *traffic);

/* Set a step's bytes. */
void step_traffic_measure(const struct step_traffic *traffic, struct dt_step_metrics *out);

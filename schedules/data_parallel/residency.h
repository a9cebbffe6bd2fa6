/* Which groups' parameters are on the device when they do not stay there. A plan says when a group is gathered and freed; here is what the
 * gathered groups are kept in. A mode says how one is fetched: gathered from its shards, copied from host memory, or both. */
#ifndef SCHEDULES_DATA_PARALLEL_RESIDENCY_H
#define SCHEDULES_DATA_PARALLEL_RESIDENCY_H

#include "schedules/data_parallel/mode.h"

/* From here on dp's parameters are on the device between GATHER and FREE only, one pass ahead of their use.
 * Errors: DT_ERR_HOST_MEMORY, DT_ERR_DEVICE; finish it also then. */
dt_status residency_init(struct data_parallel *dp);
void residency_finish(struct data_parallel *dp); /* also where none was begun */

dt_status residency_gather(struct data_parallel *dp, int g);
void residency_free(struct data_parallel *dp, int g);
/* Point the group at its parameters, for which compute waits. A group whose backward reads none, or whose parameters never leave, stays as it
 * is. */
dt_status residency_use(struct data_parallel *dp, struct dt_group *group);

#endif

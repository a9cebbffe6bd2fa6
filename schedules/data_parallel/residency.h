/* Parameters that are on the device only while they are used. A plan says when a group is gathered
 * and freed; this struct keeps the gathered groups. A mode says how one is fetched: gathered from
 * its shards, copied from host memory, or both. */
#pragma once

#include "schedules/data_parallel/mode.h"

/* From here on dp's parameters are on the device only between GATHER and FREE. Errors:
 * DT_ERR_HOST_MEMORY, DT_ERR_DEVICE; call residency_finish also then. */
dt_status residency_init(struct data_parallel *dp);
void residency_finish(struct data_parallel *dp); /* also if residency_init was not called */

dt_status residency_gather(struct data_parallel *dp, int g);
void residency_free(struct data_parallel *dp, int g);
/* Point the group at its parameters, and have compute wait for them. A group whose backward reads
 * none, or whose parameters stay on the device, is left unchanged. */
dt_status residency_use(struct data_parallel *dp, struct dt_group *group);

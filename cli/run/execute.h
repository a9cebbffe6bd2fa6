/* One experiment on this process's rank: device, communicator, trainer. Used by the processes that a supervisor starts (cli/commands/rank.c) and by
 * those that mpirun, srun or torchrun started (run_inside.c). */
#ifndef CLI_RUN_EXECUTE_H
#define CLI_RUN_EXECUTE_H

#include "lib/comm/comm.h"
#include "schedules/run/report.h"

struct execution {
    struct dt_device *device;
    struct dt_comm *world;
};

/* Create device and world, and describe them in `report`. Collective over the ranks of `place`. After a failure too the caller calls
 * execution_close. Errors: as dt_device_create and dt_comm_create. */
dt_status execution_open(const struct experiment *experiment, const struct dt_world *place, struct report *report, struct execution *out);
/* Did all ranks come to the same end, so that they can take leave of each other, or go on? */
bool execution_ended_together(dt_status status, const struct report *report);
void execution_close(struct execution *execution);

#endif

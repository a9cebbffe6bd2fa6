/* One experiment on this process's rank: its device and communicator. Used by the processes that a supervisor starts (cli/commands/rank.c)
 * and by those that mpirun, srun or torchrun started (run_inside.c). */
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
/* Have all ranks ended alike, so that they can close their communicators, or go on with something else? */
bool execution_ended_together(dt_status status, const struct report *report);
void execution_close(struct execution *execution);

#endif

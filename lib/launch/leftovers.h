/* What Open MPI leaves in /dev/shm where mpirun or its ranks are killed: a segment of several MiB for each rank, until the machine is started
 * again. */
#ifndef LIB_LAUNCH_LEFTOVERS_H
#define LIB_LAUNCH_LEFTOVERS_H

#include <sys/types.h>

/* Remove this user's segments that no process of this user has mapped, and that are older than a minute: a younger one may be on its way
 * from its maker to its mapping. Returns how many were removed. `folder` is "/dev/shm" but for tests. */
int dt_launch_remove_leftovers(const char *folder);

#endif

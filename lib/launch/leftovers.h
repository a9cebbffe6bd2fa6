/* What Open MPI leaves where mpirun or its ranks are killed: in /dev/shm a segment of several MiB for each rank, until the machine is
 * started again, and in /tmp the folder of mpirun's session. */
#ifndef LIB_LAUNCH_LEFTOVERS_H
#define LIB_LAUNCH_LEFTOVERS_H

#include <sys/types.h>

/* Remove this user's segments that no process of this user has mapped, and that are older than a minute: a younger one may be on its way
 * from its maker to its mapping. Returns how many were removed. `folder` is "/dev/shm" but for tests. */
int dt_launch_remove_leftovers(const char *folder);
/* Remove this user's session folders in `folder` (NULL: where Open MPI has them) of the mpirun `ended`, and those older than a minute whose
 * mpirun is no more. Returns how many were removed. */
int dt_launch_remove_sessions(const char *folder, pid_t ended);

#endif

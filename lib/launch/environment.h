/* What the processes that a supervisor starts find in their environment. Only lib/launch*.c know it. */
#ifndef LIB_LAUNCH_ENVIRONMENT_H
#define LIB_LAUNCH_ENVIRONMENT_H

#include "lib/base/status.h"

#include <stdbool.h>

enum { DT_LAUNCH_PLACE_VARIABLES = 7 };

struct dt_launch_environment {
    char place[DT_LAUNCH_PLACE_VARIABLES][96];
    char **variables; /* NULL-terminated: this process's own, the settings, and `place` */
};

/* This process's environment without the variables in which an outer launcher gave it a place. port > 0: with the place of rank `rank` of
 * `size` on this machine, in the variables that lib/launch/world.h calls torchrun's, and the ranks' `secret`; else mpirun sets it, or it is
 * alone. passive: and the variable by which the ranks' threads sleep while they wait, unless the user's own say how. settings: "NAME=value", NULL-terminated, which replace this process's own variables of these names; or NULL. They are referred to,
 * not copied. Owner: the caller, dt_launch_environment_finish. *out must not move meanwhile. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_launch_environment_make(int rank, int size, int port, const char *secret, bool passive, const char *const *settings,
                                     struct dt_launch_environment *out);
void dt_launch_environment_finish(struct dt_launch_environment *environment);

/* A port of the loopback on which rank 0 may listen: held by a socket that is bound and does not listen, so that nobody else is given it.
 * Two sockets with SO_REUSEADDR, as rank 0's has to have it too, may be bound to a port as long as one of them listens at most. Owner of
 * *out_fd: the caller, close, once the ranks are gone. Errors: DT_ERR_IO. */
dt_status dt_launch_reserve_port(int *out_fd, int *out_port);

#endif

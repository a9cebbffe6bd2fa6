/* Starting and ending the one process that a supervisor is the parent of: the only rank, or mpirun. Only lib/launch*.c know it. */
#ifndef DT_LIB_LAUNCH_CHILD_H
#define DT_LIB_LAUNCH_CHILD_H

#include "lib/launch.h"

#include <sys/types.h>

struct dt_child {
    pid_t pid;    /* its process group too (setsid); 0: none */
    int noise_fd; /* what it, and ranks that have not connected yet, write to stdout and stderr; -1 */
    bool gone;
    int wait_status; /* once gone */
};

/* Start it with `socket_name` as the program's last argument. Errors: DT_ERR_UNAVAILABLE (names mpirun's package, or the program),
 * DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status dt_child_start(const struct dt_launch *launch, const char *socket_name, struct dt_child *out);
/* Notice its end without waiting. */
void dt_child_check(struct dt_child *child);
/* Signal it alone, or it and its group; nothing once it is gone. */
void dt_child_signal(const struct dt_child *child, int signal_number, bool group);
void dt_child_finish(struct dt_child *child); /* closes; the process is gone by now */

/* What mpirun's text says of the first rank that died: its number and the signal or exit code, 0 where it does not say. False: nothing. */
bool dt_mpirun_names_rank(const char *noise, int *out_rank, int *out_signal, int *out_exit_code);

#endif

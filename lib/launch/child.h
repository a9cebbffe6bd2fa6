/* Starting and ending the processes that a supervisor is the parent of: the ranks, or mpirun. Included in this folder only. */
#ifndef LIB_LAUNCH_CHILD_H
#define LIB_LAUNCH_CHILD_H

#include "lib/launch/launch.h"

#include <sys/types.h>

struct dt_child {
    pid_t pid;        /* its process group too (setsid); 0: never started */
    int noise_fd;     /* what it, and ranks of mpirun's that have not connected yet, write to stdout and stderr; -1: closed */
    char noise[8192]; /* the end of that, NUL-terminated */
    size_t noise_bytes;
    bool gone;       /* true also before it is started */
    int wait_status; /* once gone */
};

/* Are the ranks mpirun's children, or the supervisor's own? */
bool dt_launch_uses_mpirun(const struct dt_launch *launch);

/* Start mpirun, or rank `rank` with its place in the environment and the ranks' secret (port 0: it is alone), with `socket_name` as the
 * program's last argument. *out starts with gone and noise_fd -1. Errors: DT_ERR_UNAVAILABLE (names mpirun's package, or the program),
 * DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status dt_child_start(const struct dt_launch *launch, int rank, int port, const char *secret, const char *socket_name,
                         struct dt_child *out);
/* Notice its end without waiting. */
void dt_child_check(struct dt_child *child);
/* Take what it wrote. `echo`: to stderr as well. */
void dt_child_read_noise(struct dt_child *child, bool echo);
/* Signal it alone, or it and its group; nothing once it is gone. */
void dt_child_signal(const struct dt_child *child, int signal_number, bool group);
void dt_child_finish(struct dt_child *child); /* closes; the process is gone by now */

/* What mpirun's text says of the first rank that died: its number and the signal or exit code, 0 where it does not say. False: nothing. */
bool dt_mpirun_names_rank(const char *noise, int *out_rank, int *out_signal, int *out_exit_code);

#endif

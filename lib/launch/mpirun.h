/* What mpirun is told when it starts the ranks of one machine, and what it says when one of them dies: Open MPI 4's and 5's, and MPICH's.
 * Included in this folder only. */
#ifndef LIB_LAUNCH_MPIRUN_H
#define LIB_LAUNCH_MPIRUN_H

#include <stdbool.h>

/* "NAME=value", NULL-terminated: the environment in which it is started. */
const char *const *dt_mpirun_settings(void);

/* What mpirun's text says of the first rank that died: its number and the signal or exit code, 0 where it does not say. False: nothing. */
bool dt_mpirun_names_rank(const char *noise, int *out_rank, int *out_signal, int *out_exit_code);

#endif

/* The supervisor: one experiment in processes of its own, so that a crash or the end of the memory is a record and not the end of a sweep.
 *
 * It starts the program once for each rank, all on this machine, or mpirun, which does the same; only ranks that talk over MPI need that.
 * Each rank process connects to the supervisor over a Unix-domain socket (lib/launch/rank.h), fetches the experiment, reports progress and,
 * on rank 0, the result. The socket is also how a death is seen, from both ends: a rank that vanishes without a last message ends the run,
 * and ranks whose supervisor vanishes end themselves. Whatever happens, when dt_launch_run returns no process is left.
 *
 * The processes leave the terminal (setsid): a Ctrl-C in the terminal reaches the supervisor alone, which asks them to stop in order. */
#ifndef LIB_LAUNCH_LAUNCH_H
#define LIB_LAUNCH_LAUNCH_H

#include "lib/base/status.h"

#include <stdbool.h>

struct dt_launch {
    /* What a rank process executes, NULL-terminated; the socket's name is appended. argv[0] is a path or on PATH; "/proc/self/exe" is
     * this program. */
    const char *const *argv;
    int world_size;
    /* More than one rank: mpirun starts them. Else dt_launch_run does, and gives each its place in the variables of torchrun
     * (lib/launch/world.h): RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, and as MASTER_ADDR and MASTER_PORT a port of 127.0.0.1 that
     * nobody else is given meanwhile; who listens there sets SO_REUSEADDR. */
    bool mpirun;
    bool passive;      /* the ranks have more threads than there are processors: these sleep while they wait (lib/base/machine.h) */
    const char *input; /* what dt_launch_rank_input gives to every rank */

    /* From the start to every rank's first progress, and from each progress to the next, `grace_s` longer than the ranks' own limits: a
     * communicator that times out knows more than the supervisor. 0: no limit. */
    double init_timeout_s, step_timeout_s, grace_s;

    bool verbose; /* what the processes write before they are connected, and mpirun's own messages, go to stderr as well */

    /* Callbacks, in the thread of dt_launch_run; each may be NULL. */
    void (*progress)(void *context, int rank, const char *text);
    /* How often a stop was asked for: once, and the ranks end after their step; twice, or before any of them is ready, and they are
     * killed. Asked ten times a second and after every signal. */
    int (*stop_requests)(void *context);
    void *context;
};

struct dt_launch_outcome {
    char *result;    /* rank 0's last dt_launch_rank_result; NULL when there was none. May come with a failure */
    int failed_rank; /* whose failure it is; -1 when nobody's or unknown */
};

/* Run it. Blocks until all processes are gone. Changes no signal handlers, but reaps the child that it started.
 * Returns what the first rank that failed reported (with its text), or
 *   DT_ERR_COMM         a rank was killed or crashed; the text names it, and the signal where that can be known
 *   DT_ERR_TIMEOUT      no progress in time; the text names the ranks that lag. They were asked to dump their communicators first
 *   DT_ERR_INTERRUPTED  killed upon stop requests
 *   DT_ERR_UNAVAILABLE  no mpirun, or the program cannot be executed
 *   DT_ERR_IO, DT_ERR_HOST_MEMORY, DT_ERR_INVALID
 * `out` is filled in every case; owner: the caller, who calls dt_launch_outcome_finish. */
dt_status dt_launch_run(const struct dt_launch *launch, struct dt_launch_outcome *out);
void dt_launch_outcome_finish(struct dt_launch_outcome *outcome);

#endif

/* The processes of a run and their places in the world: who this process is, what proves that it belongs to its job, the supervisor of ranks
 * on one machine, and a rank's end of that. */
#ifndef LIB_LAUNCH_LAUNCH_H
#define LIB_LAUNCH_LAUNCH_H

#include "lib/base/keyed_hash.h"
#include "lib/base/status.h"

#include <stdbool.h>

/* Who this process is among the ranks of a job: read from the launcher's environment variables.
 *
 * Known launchers, looked for in this order (mpirun inside sbatch leaves every rank SLURM_PROCID = 0, so MPI's variables win over Slurm's):
 *   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *   mpirun     OMPI_COMM_WORLD_RANK/_SIZE/_LOCAL_RANK/_LOCAL_SIZE (OpenMPI), PMIX_RANK, PMI_RANK/PMI_SIZE (MPICH)
 *   srun       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NODELIST
 *   none       one process alone */

struct dt_world {
    int rank, size;             /* 0 and 1 when alone */
    int local_rank, local_size; /* among the ranks of this machine */
    char launcher[16];          /* "none", "torchrun", "mpirun", "srun" */
};

/* Read the environment; touches nothing else. DT_ERR_WORLD, naming the variables, where they contradict each other or are not numbers. */
dt_status dt_world_from_environment(struct dt_world *out);

enum { DT_ADDRESS_BYTES = 256 };

/* The rendezvous of a world's ranks where MPI does not connect them: the host on which rank 0 listens, and its port. The same on all
 * ranks, with nothing said between them:
 *   torchrun   MASTER_ADDR, MASTER_PORT; the next port where torchrun itself listens at that one (TORCHELASTIC_USE_AGENT_STORE=True)
 *   srun       the first node of SLURM_STEP_NODELIST, where Slurm puts rank 0 (except with --distribution=arbitrary); a port from 20000 to
 *              29999 that follows from the numbers of job and step
 *   the rest   this machine, when all ranks are on it
 * MASTER_ADDR and MASTER_PORT go first under any launcher.
 * Errors: DT_ERR_WORLD, naming the variable that is missing or wrong. */
dt_status dt_world_meeting_point(const struct dt_world *world, char address[DT_ADDRESS_BYTES], int *port);

/* A secret that only the ranks of one job know, by which they authenticate each other
 * (lib/rendezvous).
 *
 * It comes from, in this order,
 *   DTBENCH_SECRET   a text of at least 16 characters, the same for all ranks: dtbench makes one for ranks that it starts itself; users pass
 *                    one where nodes do not share the key file (srun passes the environment on, mpirun with -x DTBENCH_SECRET)
 *   the key file     $XDG_STATE_HOME/dtbench/key, or ~/.local/state/dtbench/key: 32 random bytes, made once, which its owner alone can read
 *   nothing          a folder that takes no file, or a file that others can read: whoever reaches the port may then join
 * and from the numbers by which launcher and Slurm distinguish jobs, so that jobs with one key have different secrets. */

#define DT_SECRET_VARIABLE "DTBENCH_SECRET"

enum dt_secret_source { DT_SECRET_FROM_NOTHING, DT_SECRET_FROM_VARIABLE, DT_SECRET_FROM_FILE };

struct dt_secret {
    uint8_t bytes[DT_KEY_BYTES];
    enum dt_secret_source source;
    char missing[300]; /* why there is none, if so */
};

/* The secret of this process's job. The first call of a user makes the key file. Errors: DT_ERR_WORLD for a variable that is too short. */
dt_status dt_secret_of_job(const struct dt_world *world, struct dt_secret *out);
/* "variable", "file", "none", as records have it. */
const char *dt_secret_source_name(enum dt_secret_source source);

enum { DT_SECRET_TEXT_BYTES = 2 * DT_KEY_BYTES + 1 };
/* A new one as text, for the variable. Errors: DT_ERR_IO. */
dt_status dt_secret_make(char text[DT_SECRET_TEXT_BYTES]);

/* The supervisor: one experiment in processes of its own, so that a crash or the end of the memory is a record and not the end of a sweep.
 *
 * It starts the program once for each rank, all on this machine, or mpirun, which does the same; only ranks that talk over MPI need that.
 * Each rank process connects to the supervisor over a Unix-domain socket (rank.c), fetches the experiment, reports progress and,
 * on rank 0, the result. The socket is also how a death is seen, from both ends: a rank that vanishes without a last message ends the run,
 * and ranks whose supervisor vanishes end themselves. Whatever happens, when dt_launch_run returns no process is left.
 *
 * The processes leave the terminal (setsid): a Ctrl-C in the terminal reaches the supervisor alone, which asks them to stop in order. */

struct dt_launch {
    /* What a rank process executes, NULL-terminated; the socket's name is appended. argv[0] is a path or on PATH; "/proc/self/exe" is
     * this program. */
    const char *const *argv;
    int world_size;
    /* More than one rank: mpirun starts them. Else dt_launch_run does, and gives each its place in the variables of torchrun
     * (lib/launch/world.c): RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, and as MASTER_ADDR and MASTER_PORT a port of 127.0.0.1 that
     * no other process gets meanwhile; the process that listens there sets SO_REUSEADDR. */
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
    int failed_rank; /* rank whose failure it is; -1: none, or unknown */
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

/* The rank's side of lib/launch/launch.h: a process that a supervisor started.
 *
 *     dt_launch_rank_connect(socket, world.rank, &rank);   first of all: from here on a death is noticed, and stderr is the supervisor's
 *     ... dt_launch_rank_input(rank) ... dt_launch_rank_progress(rank, "ready") ... a step, a progress ...
 *     dt_launch_rank_result(rank, json);                   rank 0; or dt_launch_rank_failed(rank, status, text)
 *     dt_launch_rank_finish(rank);                         last of all
 *
 * A thread of its own listens to the supervisor. When the supervisor is gone the process ends at once (_exit): nobody is left to work
 * for, and the other ranks do the same. */

struct dt_launch_rank;

/* Announce this process as `rank` at `socket_name`, the text that the supervisor appended to the program's arguments. Waits for the input.
 * stdout and stderr become the supervisor's stderr: results travel as messages, and whatever a library prints is a diagnostic.
 * Errors: DT_ERR_COMM when there is no supervisor, DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status dt_launch_rank_connect(const char *socket_name, int rank, struct dt_launch_rank **out);

const char *dt_launch_rank_input(const struct dt_launch_rank *rank); /* lives as long as `rank` */

/* Alive, and a step further. The first one ends the start-up. From any thread, like the two below. */
dt_status dt_launch_rank_progress(struct dt_launch_rank *rank, const char *text);
dt_status dt_launch_rank_result(struct dt_launch_rank *rank, const char *text);
dt_status dt_launch_rank_failed(struct dt_launch_rank *rank, dt_status status, const char *text);

/* The supervisor asks to stop after the current step. Any thread. */
bool dt_launch_rank_stop_requested(const struct dt_launch_rank *rank);

/* What to call, in the listening thread, when the supervisor wants to know where this rank hangs; NULL: nothing any more, and when this
 * returns no call is under way. */
void dt_launch_rank_on_dump(struct dt_launch_rank *rank, void (*dump)(void *context), void *context);

/* Tell the supervisor that this rank is done, and free. Takes NULL. */
void dt_launch_rank_finish(struct dt_launch_rank *rank);

/* Slurm's lists of nodes: "gpu[01-03,7],login" is gpu01, gpu02, gpu03, gpu7 and login.
 *
 * A name may have several brackets ("rack[1-2]node[01-16]", the last one running fastest) and text after them. A range keeps its first
 * number's leading zeros. This is what `scontrol show hostnames` prints, for where neither Slurm's commands nor its library are. */

/* The longest name of a node, and the most that a list may name: Slurm's own limit is below both. */
enum { DT_NODE_NAME_BYTES = 256, DT_NODE_LIST_MAX = 1 << 17 };

/* All names in the list's order, a line each, without a newline after the last. Owner of *out_lines: the caller, free.
 * Errors: DT_ERR_INVALID with the list and what is wrong in it, DT_ERR_HOST_MEMORY. */
dt_status dt_node_list_expand(const char *list, char **out_lines, int *out_count);

/* The first name. Errors: DT_ERR_INVALID, as above, and for an empty list. */
dt_status dt_node_list_first(const char *list, char out[DT_NODE_NAME_BYTES]);

#endif

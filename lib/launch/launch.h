/* The processes of a run and their places in the world: the rank of this process, the secret that
 * proves that it belongs to its job, the supervisor of ranks on one machine, and the rank's side of
 * the supervisor. */
#pragma once

#include "lib/base/keyed_hash.h"
#include "lib/base/status.h"

#include <stdbool.h>

/* The place of this process among the ranks of a job, read from the launcher's environment
 * variables.
 *
 * Known launchers, tried in this order (under mpirun inside sbatch every rank has SLURM_PROCID = 0,
 * so MPI's variables come before Slurm's):
 *   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *   mpirun     OMPI_COMM_WORLD_RANK/_SIZE/_LOCAL_RANK/_LOCAL_SIZE (OpenMPI), PMIX_RANK,
 *              PMI_RANK/PMI_SIZE (MPICH)
 *   srun       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE,
 *              SLURM_STEP_NODELIST
 *   none       one process alone */

struct dt_world {
    int rank, size;             /* 0 and 1 when alone */
    int local_rank, local_size; /* among the ranks of this machine */
    char launcher[16];          /* "none", "torchrun", "mpirun", "srun" */
};

/* Read the environment; changes nothing. DT_ERR_WORLD, naming the variables, if they contradict
 * each other or are not numbers. */
dt_status dt_world_from_environment(struct dt_world *out);

enum { DT_ADDRESS_BYTES = 256 };

/* The rendezvous of a world's ranks if MPI does not connect them: the host on which rank 0 listens,
 * and its port. All ranks find the same without communication:
 *   torchrun   MASTER_ADDR, MASTER_PORT; the next port if torchrun itself listens at that one
 *              (TORCHELASTIC_USE_AGENT_STORE=True)
 *   srun       the first node of SLURM_STEP_NODELIST, where Slurm puts rank 0 (except with
 *              --distribution=arbitrary); a port from 20000 to 29999, computed from the numbers of
 *              job and step
 *   others     this machine, if all ranks are on it
 * MASTER_ADDR and MASTER_PORT take precedence under any launcher. Errors: DT_ERR_WORLD, naming the
 * variable that is missing or wrong. */
dt_status dt_world_meeting_point(const struct dt_world *world, char address[DT_ADDRESS_BYTES], int *port);

/* A secret that only the ranks of one job know, by which they authenticate each other
 * (lib/rendezvous).
 *
 * Its source is the first of
 *   DTBENCH_SECRET   a text of at least 16 characters, the same for all ranks: dtbench makes one
 *                    for ranks that it starts itself; users pass one if nodes do not share the key
 *                    file (srun passes the environment on, mpirun with -x DTBENCH_SECRET)
 *   the key file     $XDG_STATE_HOME/dtbench/key, or ~/.local/state/dtbench/key: 32 random bytes,
 *                    created once, readable only by its owner
 *   nothing          if the folder cannot take a file, or others can read the file: any process
 *                    that reaches the port may then join
 * combined with the numbers by which launcher and Slurm distinguish jobs, so that jobs with the
 * same key have different secrets. */

#define DT_SECRET_VARIABLE "DTBENCH_SECRET"

enum dt_secret_source { DT_SECRET_FROM_NOTHING, DT_SECRET_FROM_VARIABLE, DT_SECRET_FROM_FILE };

struct dt_secret {
    uint8_t bytes[DT_KEY_BYTES];
    enum dt_secret_source source;
    char missing[300]; /* the reason if there is none */
};

/* The secret of this process's job. A user's first call creates the key file. Errors: DT_ERR_WORLD
 * for a variable that is too short. */
dt_status dt_secret_of_job(const struct dt_world *world, struct dt_secret *out);
/* "variable", "file", "none", as in records. */
const char *dt_secret_source_name(enum dt_secret_source source);

enum { DT_SECRET_TEXT_BYTES = 2 * DT_KEY_BYTES + 1 };
/* A new secret as text, for the variable. Errors: DT_ERR_IO. */
dt_status dt_secret_make(char text[DT_SECRET_TEXT_BYTES]);

/* The supervisor: it runs one experiment in separate processes, so that a crash or a lack of memory
 * gives a record and does not end a sweep.
 *
 * It starts the program once for each rank, all on this machine, or mpirun, which does the same;
 * only ranks that communicate by MPI need mpirun. Each rank process connects to the supervisor over
 * a Unix-domain socket (rank.c), fetches the experiment, reports progress and, on rank 0, the
 * result. Both ends also detect a death by the socket: a rank that disappears without a last
 * message ends the run, and ranks whose supervisor disappears end themselves. In every case no
 * process is left when dt_launch_run returns.
 *
 * The processes leave the terminal (setsid): a Ctrl-C in the terminal reaches only the supervisor,
 * which asks them to stop after their step. */

struct dt_launch {
    /* Arguments of a rank process, NULL-terminated; the socket's name is appended. argv[0] is a
     * path or on PATH; "/proc/self/exe" is this program. */
    const char *const *argv;
    int world_size;
    /* true: mpirun starts the ranks, if there are several. Else dt_launch_run starts them and sets
     * each one's place in torchrun's variables (lib/launch/world.c): RANK, WORLD_SIZE, LOCAL_RANK,
     * LOCAL_WORLD_SIZE, and MASTER_ADDR and MASTER_PORT with a port of 127.0.0.1 that is reserved
     * meanwhile; the process that listens there sets SO_REUSEADDR. */
    bool mpirun;
    bool passive;      /* the ranks have more threads than there are processors: threads sleep while they wait (lib/base/machine.h) */
    const char *input; /* text that dt_launch_rank_input returns on every rank */

    /* Limits: init_timeout_s from the start to every rank's first progress, step_timeout_s from
     * each progress to the next. Both are extended by grace_s, to exceed the ranks' own limits,
     * because a communicator that times out knows more than the supervisor. 0: no limit. */
    double init_timeout_s, step_timeout_s, grace_s;

    /* Callbacks, in the thread of dt_launch_run; each may be NULL. */
    void (*progress)(void *context, int rank, const char *text);
    /* Number of stop requests so far. After one, the ranks end after their step; after two, or
     * before any rank is ready, they are killed. Called ten times a second and after every
     * signal. */
    int (*stop_requests)(void *context);
    void *context;
};

/* Run the processes. Blocks until all are gone. Changes no signal handlers, but reaps the child
 * that it started. Returns the status (with its text) that the first failed rank reported, or
 *   DT_ERR_COMM         a rank was killed or crashed; the text names the rank, and the signal if
 *                       known
 *   DT_ERR_TIMEOUT      no progress in time; the text names the slowest ranks. They were asked to
 *                       dump their communicators first, and the text names those that do not
 *                       answer; a rank that reports meanwhile whom it waited for gives the text
 *   DT_ERR_INTERRUPTED  killed after stop requests
 *   DT_ERR_UNAVAILABLE  no mpirun, or the program cannot be executed
 *   DT_ERR_IO, DT_ERR_HOST_MEMORY, DT_ERR_INVALID
 * *result: rank 0's last dt_launch_rank_result, also together with a failure; NULL: none. Owner: the
 * caller, free. */
dt_status dt_launch_run(const struct dt_launch *launch, char **result);

/* The rank's side of lib/launch/launch.h: a process that a supervisor started.
 *
 *   dt_launch_rank_connect(socket, world.rank, &rank);   first: from now on the supervisor notices
 *                                                        a death, and receives stderr
 *   dt_launch_rank_input(rank);
 *   dt_launch_rank_progress(rank, "ready");              and again after each step
 *   dt_launch_rank_result(rank, json);                   on rank 0; after a failure
 *                                                        dt_launch_rank_failed(rank, status, text)
 *   dt_launch_rank_finish(rank);                         last
 *
 * A separate thread listens to the supervisor. If the supervisor is gone, the process ends
 * immediately (_exit), and so do the other ranks. */

struct dt_launch_rank;

/* Announce this process as `rank` at `socket_name`, the text that the supervisor appended to the
 * program's arguments. Waits for the input. stdout and stderr then go to the supervisor's stderr:
 * results are sent as messages, and everything that libraries print is diagnostic. Errors:
 * DT_ERR_COMM if there is no supervisor, DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status dt_launch_rank_connect(const char *socket_name, int rank, struct dt_launch_rank **out);

const char *dt_launch_rank_input(const struct dt_launch_rank *rank); /* lives as long as `rank` */

/* Report that this rank is alive and one step further. The first report ends the start-up. May be
 * called from any thread, like the next two functions. */
dt_status dt_launch_rank_progress(struct dt_launch_rank *rank, const char *text);
dt_status dt_launch_rank_result(struct dt_launch_rank *rank, const char *text);
dt_status dt_launch_rank_failed(struct dt_launch_rank *rank, dt_status status, const char *text);

/* Has the supervisor asked to stop after the current step? Any thread. */
bool dt_launch_rank_stop_requested(const struct dt_launch_rank *rank);

/* Set the function that the listening thread calls when the supervisor asks where this rank hangs.
 * NULL: none; no call is active when this returns. */
void dt_launch_rank_on_dump(struct dt_launch_rank *rank, void (*dump)(void *context), void *context);

/* Tell the supervisor that this rank is done, and free. Takes NULL. */
void dt_launch_rank_finish(struct dt_launch_rank *rank);

/* Slurm's lists of nodes: "gpu[01-03,7],login" is gpu01, gpu02, gpu03, gpu7 and login.
 *
 * A name may have several brackets ("rack[1-2]node[01-16]", the last one running fastest) and text
 * after them. A range keeps its first number's leading zeros. This is what `scontrol show
 * hostnames` prints, for where neither Slurm's commands nor its library are. */

/* The longest name of a node, and the most that a list may name: Slurm's own limit is below
 * both. */
enum { DT_NODE_NAME_BYTES = 256, DT_NODE_LIST_MAX = 1 << 17 };

/* All names in the list's order, a line each, without a newline after the last. Owner of
 * *out_lines: the caller, free.
 * Errors: DT_ERR_INVALID with the list and what is wrong in it, DT_ERR_HOST_MEMORY. */
dt_status dt_node_list_expand(const char *list, char **out_lines, int *out_count);

/* The first name. Errors: DT_ERR_INVALID, as above, and for an empty list. */
dt_status dt_node_list_first(const char *list, char out[DT_NODE_NAME_BYTES]);

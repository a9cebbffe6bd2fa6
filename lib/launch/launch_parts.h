/* What this folder's files have together; included in this folder only, and by its tests. */
#ifndef LIB_LAUNCH_LAUNCH_PARTS_H
#define LIB_LAUNCH_LAUNCH_PARTS_H

#include "lib/base/status.h"
#include "lib/launch/launch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Messages between the supervisor (run.c) and its rank processes (rank.c): length-prefixed text with a type, over
 * a Unix-domain socket. Both ends are the same program on the same machine, so numbers are sent in
 * native format. */

enum dt_wire_type {
    DT_WIRE_HELLO = 1, /* rank to supervisor, first: value is the rank */
    DT_WIRE_INPUT,     /* answer: the input text, and the supervisor's stderr as a file descriptor */
    DT_WIRE_PROGRESS,  /* rank: a step is done; text for the supervisor's user */
    DT_WIRE_RESULT,    /* rank 0: the result */
    DT_WIRE_FAILED,    /* rank: value is the dt_status, text says why */
    DT_WIRE_STOP,      /* supervisor: end after the current step */
    DT_WIRE_DUMP,      /* supervisor: write the communicators' state to stderr */
    DT_WIRE_DUMPED,    /* rank: that is done */
    DT_WIRE_DONE,      /* rank, last: whatever happens to me now, I am finished */
    DT_WIRE_TYPES
};

/* Who reads: it takes only what the other end sends. */
enum dt_wire_end { DT_WIRE_RANK, DT_WIRE_SUPERVISOR };

struct dt_wire_message {
    enum dt_wire_type type;
    int32_t value;
    size_t length;
    const char *text; /* [length + 1], NUL-terminated; the reader's, until its next call */
};

/* Collects what arrives until a message is whole. Starts zeroed, but `end`, and passed_fd -1. */
struct dt_wire_reader {
    enum dt_wire_end end;
    char *data;
    size_t start, used, capacity; /* bytes [start, used) are unread */
    char *text;                   /* the last message's */
    int passed_fd;                /* a descriptor that was received; the function that takes it sets -1 */
};

/* The supervisor's address: `name` without the leading NUL of Linux' abstract sockets, which vanish with their last user. */
dt_status dt_wire_listen(const char *name, int *out_fd);
dt_status dt_wire_connect(const char *name, int *out_fd);

/* Blocks until the kernel took all of it. pass_fd: a descriptor to send along, or -1. DT_ERR_COMM when the other end is gone. */
dt_status dt_wire_send(int fd, enum dt_wire_type type, int32_t value, const char *text, size_t length, int pass_fd);

/* Take what has arrived; blocks only while there is nothing and `fd` is a blocking one. *out_end: the other end is gone. */
dt_status dt_wire_receive(struct dt_wire_reader *reader, int fd, bool *out_end);
/* The next whole message: 1; none yet: 0; out of memory: DT_ERR_HOST_MEMORY. DT_ERR_COMM: a message breaks the rules of its type, which is
 * found before its text is there. */
int dt_wire_next(struct dt_wire_reader *reader, struct dt_wire_message *out);
void dt_wire_finish(struct dt_wire_reader *reader);

/* Starting and ending the processes that a supervisor is the parent of: the ranks, or mpirun. */

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

/* What Open MPI leaves where mpirun or its ranks are killed: in /dev/shm a segment of several MiB for each rank, until the machine is
 * started again, and in /tmp the folder of mpirun's session. */

/* Remove this user's segments that no process of this user has mapped, and that are older than a minute: a younger one may be on its way
 * from its maker to its mapping. Returns how many were removed. `folder` is "/dev/shm" but for tests. */
int dt_launch_remove_leftovers(const char *folder);
/* A folder of this process's own for what mpirun keeps in files. In one that all of a user's share, as Open MPI has it, one mpirun can remove
 * what another one is making. dt_launch_remove_sessions with this process's number takes it away. Errors: DT_ERR_IO. */
dt_status dt_launch_make_session(char *path, size_t path_bytes);
/* Remove this user's session folders in `folder` (NULL: where Open MPI has them) of the process `ended`, mpirun or the one that started
 * it, and those older than a minute whose process is no more. Returns how many were removed. */
int dt_launch_remove_sessions(const char *folder, pid_t ended);

#endif

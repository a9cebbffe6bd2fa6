/* Shared by this folder's files; included only here and by their tests. */
#pragma once

#include "lib/base/status.h"
#include "lib/launch/launch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Messages between the supervisor (run.c) and its rank processes (rank.c): length-prefixed text
 * with a type, over a Unix-domain socket. Both ends are the same program on the same machine, so
 * numbers are sent in native format. */

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

/* The end that reads, which accepts only messages that the other end sends. */
enum dt_wire_end { DT_WIRE_RANK, DT_WIRE_SUPERVISOR };

struct dt_wire_message {
    enum dt_wire_type type;
    int32_t value;
    size_t length;
    const char *text; /* [length + 1], NUL-terminated; the reader's, until its next call */
};

/* Collects received bytes until a message is complete. Initially zero, except `end`, and passed_fd
 * -1. */
struct dt_wire_reader {
    enum dt_wire_end end;
    char *data;
    size_t start, used, capacity; /* bytes [start, used) are unread */
    char *text;                   /* text of the last message */
    int passed_fd;                /* a descriptor that was received; the function that takes it sets -1 */
};

/* The supervisor's address: `name`, without the leading NUL of Linux's abstract sockets, which
 * disappear with their last user. */
dt_status dt_wire_listen(const char *name, int *out_fd);
dt_status dt_wire_connect(const char *name, int *out_fd);

/* Blocks until the kernel has taken all bytes. pass_fd: a descriptor to send along, or -1.
 * DT_ERR_COMM if the other end is gone. */
dt_status dt_wire_send(int fd, enum dt_wire_type type, int32_t value, const char *text, size_t length, int pass_fd);

/* Read received bytes; blocks only if there are none and `fd` is blocking. *out_end: the other end
 * is gone. */
dt_status dt_wire_receive(struct dt_wire_reader *reader, int fd, bool *out_end);
/* The next complete message: 1; none yet: 0; out of memory: DT_ERR_HOST_MEMORY. DT_ERR_COMM: a
 * message breaks the rules of its type, which is detected before its text has arrived. */
int dt_wire_next(struct dt_wire_reader *reader, struct dt_wire_message *out);
void dt_wire_finish(struct dt_wire_reader *reader);

/* Starting and ending the supervisor's child processes: the ranks, or mpirun. */

struct dt_child {
    pid_t pid;        /* its process group too (setsid); 0: never started */
    int noise_fd;     /* output (stdout and stderr) of the child, and of mpirun's ranks that have not connected yet; -1: closed */
    char noise[8192]; /* the end of that output, NUL-terminated */
    size_t noise_bytes;
    bool gone;       /* true before it is started, too */
    int wait_status; /* valid if gone */
};

/* Are the ranks children of mpirun, or of the supervisor? */
bool dt_launch_uses_mpirun(const struct dt_launch *launch);

/* Start mpirun, or rank `rank` with its place in the environment and the ranks' secret (port 0: it
 * is the only rank), with `socket_name` as the program's last argument. *out starts with gone and
 * noise_fd -1. Errors: DT_ERR_UNAVAILABLE (names mpirun's package, or the program), DT_ERR_IO,
 * DT_ERR_HOST_MEMORY. */
dt_status dt_child_start(const struct dt_launch *launch, int rank, int port, const char *secret, const char *socket_name,
                         struct dt_child *out);
/* Check, without waiting, if it has ended. */
void dt_child_check(struct dt_child *child);
/* Read its output. */
void dt_child_read_noise(struct dt_child *child);
/* Send a signal to it alone, or to its group as well; no effect if it is gone. */
void dt_child_signal(const struct dt_child *child, int signal_number, bool group);
void dt_child_finish(struct dt_child *child); /* closes descriptors; the process has ended before */

/* Find the first rank that died in mpirun's text: its number, and its signal or exit code, 0 if not
 * given. False: none is named. */
bool dt_mpirun_names_rank(const char *noise, int *out_rank, int *out_signal, int *out_exit_code);

/* Files that Open MPI leaves if mpirun or its ranks are killed: in /dev/shm a segment of several
 * MiB for each rank, until the machine restarts, and in /tmp the folder of mpirun's session. */

/* Remove this user's segments that no process of this user has mapped, and that are older than a
 * minute: a younger one may be created but not mapped yet. Returns the number of removed segments.
 * `folder` is "/dev/shm", except in tests. */
int dt_launch_remove_leftovers(const char *folder);
/* Create a folder for this process's mpirun to keep its files in. In Open MPI's default, a folder
 * that all of a user's runs share, one mpirun can remove what another one is creating.
 * dt_launch_remove_sessions with this process's pid removes it. Errors: DT_ERR_IO. */
dt_status dt_launch_make_session(char *path, size_t path_bytes);
/* Remove this user's session folders in `folder` (NULL: Open MPI's default): those of the process
 * `ended`, which is mpirun or the process that started it, and those older than a minute whose
 * process no longer exists. Returns the number of removed folders. */
int dt_launch_remove_sessions(const char *folder, pid_t ended);

/* Messages between the supervisor (lib/launch/launch.h) and its rank processes (lib/launch/rank.h): length-prefixed text with a type, over
 * a Unix-domain socket. Both ends are the same program on the same machine, so numbers travel as they are. */
#ifndef LIB_LAUNCH_WIRE_H
#define LIB_LAUNCH_WIRE_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dt_wire_type {
    DT_WIRE_HELLO = 1, /* rank to supervisor, first: value is the rank */
    DT_WIRE_INPUT,     /* answer: the input text, and the supervisor's stderr as a file descriptor */
    DT_WIRE_PROGRESS,  /* rank: a step is done; text for whoever watches */
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
    int passed_fd;                /* a descriptor that came along; whoever takes it sets -1 */
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

#endif

/* Inside the supervisor: its state, the ranks' connections, and the failure that ends the run. Only run.c (the run's course) and peers.c
 * (what arrives) include it. */
#ifndef LIB_LAUNCH_SUPERVISOR_H
#define LIB_LAUNCH_SUPERVISOR_H

#include "lib/launch/child.h"
#include "lib/launch/launch.h"
#include "lib/launch/wire.h"

#include <poll.h>
#include <stdint.h>

struct peer {
    int fd;   /* -1: not connected, or gone */
    int rank; /* -1: not announced yet */
    pid_t pid;
    struct dt_wire_reader reader;
    long steps; /* progress messages */
    int64_t heard_ns;
    bool done;   /* has sent its last message */
    bool dumped; /* has done so when asked */
};

struct supervisor {
    const struct dt_launch *launch;
    struct dt_launch_outcome *outcome;
    struct dt_child *children; /* [child_count]: mpirun, or each rank at its number */
    int child_count;
    int listen_fd, port_fd; /* port_fd: holds the port of the rendezvous; -1: there is none */
    struct peer *peers;     /* [peer_count]: connections in the order in which they came */
    int peer_count;
    struct peer **by_rank;    /* [world_size]: NULL until announced */
    struct pollfd *polls;     /* [peer_count + 1 + child_count] */
    int64_t start_ns, end_ns; /* end_ns: give up waiting then; 0: not ending */
    dt_status status;         /* the first failure, its rank in outcome */
    char text[1024];
    int vanished;       /* the rank of that failure, when it is a disappearance; -1 */
    bool launcher_died; /* mpirun was killed, and not by this process */
    bool stop_sent, dump_sent;
    bool for_dumps; /* the end only waits for them */
};

/* The first failure counts; what follows is its echo. The run ends `linger_s` later at the latest. */
void dt_supervisor_fail(struct supervisor *s, dt_status status, int rank, double linger_s, const char *text);

/* A message without text to every rank that is not done. */
void dt_supervisor_send_all(struct supervisor *s, enum dt_wire_type type);
void dt_supervisor_ask_for_dumps(struct supervisor *s);    /* once */
bool dt_supervisor_dumps_done(const struct supervisor *s); /* all ranks that were asked have done it, or are gone */

/* Wait for the next events, at most `milliseconds`, and handle them. */
void dt_supervisor_handle_events(struct supervisor *s, int milliseconds);

bool dt_supervisor_children_gone(const struct supervisor *s); /* all of them */
int dt_supervisor_connected(const struct supervisor *s);      /* processes with an open connection, strangers included */

#endif

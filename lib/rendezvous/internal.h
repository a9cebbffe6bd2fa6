/* Inside lib/rendezvous: links (link.c) and the frames on them (frame.c), who a rank is (identity.c), how ranks find each other
 * (connect.c, port.c, listen.c), what has arrived (inbox.c), what rank 0 does for the others (hub.c), and waiting (rendezvous.c).
 * Included in this folder only. */
#ifndef LIB_RENDEZVOUS_INTERNAL_H
#define LIB_RENDEZVOUS_INTERNAL_H

#include "lib/rendezvous/frame.h"
#include "lib/rendezvous/proof.h"
#include "lib/rendezvous/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>

enum dt_link_state { DT_LINK_HERE, DT_LINK_LEFT, DT_LINK_LOST };

/* A payload that several links are still to send. */
struct dt_parcel {
    int users;
    char bytes[];
};

/* A frame that has not left yet, or not whole. */
struct dt_outgoing {
    struct dt_outgoing *next;
    struct dt_frame frame;
    struct dt_parcel *payload; /* NULL: none */
    size_t sent;               /* of frame and payload */
};

struct dt_link {
    int fd;                       /* -1: none */
    struct dt_outgoing *outgoing; /* the oldest first; by dt_link_post alone */
    int64_t moved_ns;             /* when some of it left last */
    struct dt_frame_reader reader;
    enum dt_frame_fault fault; /* the rule that the other end has broken: nothing more is taken from it */
    char *data;                /* [capacity] received and not taken: taken..used */
    size_t taken, used, capacity;
};

/* Set what every connection has: no delay for small messages, keepalive, and an end to sending to one that does not read. */
void dt_link_prepare(int fd);
/* Send a frame whole. False: the connection is of no use any more. */
bool dt_link_send(struct dt_link *link, const struct dt_frame *frame, const void *payload);
/* Send what the other end takes now, and keep the rest for dt_link_move: never waits. *copy is the payload's, made for the first of the links
 * that cannot send it whole; NULL before that, and given up with dt_parcel_leave in the end. False: as dt_link_send. */
bool dt_link_post(struct dt_link *link, const struct dt_frame *frame, const void *payload, struct dt_parcel **copy);
/* Send more of what was kept. False: as dt_link_send, or the other end has taken nothing for too long; `fault` then says so. */
bool dt_link_move(struct dt_link *link);
void dt_parcel_leave(struct dt_parcel *parcel); /* takes NULL */
/* Take in what has arrived, without waiting and a bounded amount at a time, so that frames are looked at before more is taken. False:
 * closed, or memory is out. */
bool dt_link_receive(struct dt_link *link);
/* The next complete frame and its payload, valid until the link's next call; false: not there yet, or `fault` is set. A frame that breaks a
 * rule is found by its fixed part, before its payload is there. */
bool dt_link_next(struct dt_link *link, struct dt_frame *frame, const char **payload);
void dt_link_close(struct dt_link *link);

struct letter {
    struct letter *next;
    struct dt_frame frame;
    char payload[];
};

/* A gathering at rank 0 that is not complete. */
struct gathering {
    struct gathering *next;
    uint64_t group, sequence;
    int begun_by; /* the world's rank */
    int count, arrived;
    size_t bytes;
    int *ranks;              /* [count] the world's rank that gave the piece; -1: none yet */
    enum dt_frame_type type; /* DT_FRAME_GATHER, DT_FRAME_REDUCE or DT_FRAME_GIVE */
    bool different;
    char *pieces; /* [count * bytes] */
};

struct dt_rendezvous {
    int rank, size;
    struct dt_link *links; /* rank 0: [size] by rank; the others: only [0] is used */
    pthread_t thread;
    bool thread_runs;
    int wake_fd; /* eventfd: there is more to send, or the thread is to end */
    atomic_bool interrupted, leaving, ending;
    pthread_mutex_t routing; /* rank 0: all frames of one event go out before those of the next; taken first */
    pthread_mutex_t sending; /* one frame at a time; taken after `mutex` or alone */
    pthread_mutex_t mutex;   /* everything below */
    pthread_cond_t changed;
    enum dt_link_state *states;     /* [size] of each rank, as far as is known here */
    enum dt_frame_fault *faults;    /* [size] what a rank that is lost was closed for */
    int *turns, last_turn;          /* [size] which ranks went first: the others may have gone because of them */
    struct letter *letters;         /* for this process's waits */
    struct gathering *gatherings;   /* rank 0 */
    uint64_t questions, open_group; /* asked so far; the group of the one that is open */
    bool question_open;
    struct letter *failure; /* the first word of another rank that gave up */
    dt_rendezvous_answer *answer;
    void *answer_context;
};

/* The port at which rank 0 listens while the ranks meet. */
enum { DT_PORT_SOCKETS = 4 };

struct dt_port {
    int fd[DT_PORT_SOCKETS], count;
};

/* Listen where the others will look for rank 0, and nowhere else: on this machine's loopback where all ranks are on it, else at the
 * address that place->address names. Where that name is of no use for it, as on machines that know their own name as 127.0.1.1, at all
 * addresses. A port in use is tried again for two seconds: a world that has just ended may still have it. `name` is place's in messages.
 * Owner: the caller, dt_port_close, also after a failure. Errors: DT_ERR_WORLD where the port is in use, DT_ERR_IO. */
dt_status dt_port_open(const struct dt_rendezvous_place *place, const char *name, struct dt_port *out);
void dt_port_close(struct dt_port *port);

/* Rank 0 at the meeting: fills links. The others: fills links[0]. Errors as dt_rendezvous_create. */
dt_status dt_rendezvous_listen(struct dt_rendezvous *r, const struct dt_rendezvous_place *place);
dt_status dt_rendezvous_connect(struct dt_rendezvous *r, const struct dt_rendezvous_place *place);
/* "1.0.0 1a2b3c4d5e6f" */
void dt_rendezvous_build_name(char out[DT_BUILD_BYTES]);
/* "node1:29500", "[::1]:29500" */
void dt_rendezvous_place_name(const struct dt_rendezvous_place *place, char *text, size_t text_bytes);

/* Keep a frame for this process's waits, and wake them. */
void dt_rendezvous_deliver(struct dt_rendezvous *r, const struct dt_frame *frame, const void *payload);
/* A rank is gone; fault: for what it was closed, where that is known. */
void dt_rendezvous_set_state(struct dt_rendezvous *r, int rank, enum dt_link_state state, enum dt_frame_fault fault);
/* Keep another rank's word that it gives up. */
void dt_rendezvous_keep_failure(struct dt_rendezvous *r, const struct dt_frame *frame, const char *payload);
/* This rank's own progress, as asked by frame: answered by a frame of the type DT_FRAME_STATE. */
bool dt_rendezvous_own_state(struct dt_rendezvous *r, const struct dt_frame *ask, struct dt_frame *out,
                             struct dt_rendezvous_progress *progress);

/* Another rank: a frame that rank 0 sent. */
void dt_rendezvous_handle(struct dt_rendezvous *r, const struct dt_frame *frame, const char *payload);
/* Rank 0: a frame that rank `from` sent (0: this process itself). */
void dt_rendezvous_hub_handle(struct dt_rendezvous *r, int from, const struct dt_frame *frame, const char *payload);
/* Rank 0: a connection has closed, or is to be for this fault. */
void dt_rendezvous_hub_lose(struct dt_rendezvous *r, int rank, enum dt_link_state how, enum dt_frame_fault fault);
void dt_rendezvous_hub_finish(struct dt_rendezvous *r);

#endif

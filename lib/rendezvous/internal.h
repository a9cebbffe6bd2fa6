/* Inside lib/rendezvous: links (link.c) and the frames on them (frame.c), identities of ranks
 * (identity.c), meeting (connect.c, port.c, listen.c), received data (inbox.c), rank 0's service
 * for the others (hub.c), and waiting (rendezvous.c). Included in this folder only. */
#pragma once

#include "lib/rendezvous/frame.h"
#include "lib/rendezvous/proof.h"
#include "lib/rendezvous/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>

enum dt_link_state { DT_LINK_HERE, DT_LINK_LEFT, DT_LINK_LOST };

/* A payload that several links must still send. */
struct dt_parcel {
    int users;
    char bytes[];
};

/* A frame that has not been sent, or only in part. */
struct dt_outgoing {
    struct dt_outgoing *next;
    struct dt_frame frame;
    struct dt_parcel *payload; /* NULL: none */
    size_t sent;               /* sent bytes of frame and payload */
};

struct dt_link {
    int fd;                       /* -1: none */
    struct dt_outgoing *outgoing; /* the oldest first; only dt_link_post adds to it */
    int64_t moved_ns;             /* when bytes of it were last sent */
    struct dt_frame_reader reader;
    enum dt_frame_fault fault; /* the rule that the other end has broken: no more is read from it */
    char *data;                /* [capacity] received bytes; taken..used are not used yet */
    size_t taken, used, capacity;
};

/* Set the options that every connection has: no delay for small messages, keepalive, and a time
 * limit for sending to an end that does not read. */
void dt_link_prepare(int fd);
/* Send a whole frame. False: the connection cannot be used any more. */
bool dt_link_send(struct dt_link *link, const struct dt_frame *frame, const void *payload);
/* Send as much as the other end accepts now, and keep the rest for dt_link_move: never waits.
 * *copy: a copy of the payload, made for the first link that cannot send it whole; initially NULL,
 * at the end released with dt_parcel_leave. False: as dt_link_send. */
bool dt_link_post(struct dt_link *link, const struct dt_frame *frame, const void *payload, struct dt_parcel **copy);
/* Send more of the kept data. False: as dt_link_send, or the other end has accepted nothing for too
 * long; `fault` then says so. */
bool dt_link_move(struct dt_link *link);
void dt_parcel_leave(struct dt_parcel *parcel); /* takes NULL */
/* Read received bytes without waiting, a bounded amount at a time, so that frames are checked
 * before more is read. False: closed, or out of memory. */
bool dt_link_receive(struct dt_link *link);
/* The next complete frame and its payload, valid until the link's next call; false: not complete
 * yet, or `fault` is set. A frame that breaks a rule is detected by its fixed part, before its
 * payload has arrived. */
bool dt_link_next(struct dt_link *link, struct dt_frame *frame, const char **payload);
void dt_link_close(struct dt_link *link);

struct letter {
    struct letter *next;
    struct dt_frame frame;
    char payload[];
};

/* An incomplete gathering at rank 0. */
struct gathering {
    struct gathering *next;
    uint64_t group, sequence;
    int begun_by; /* world rank that began it */
    int count, arrived;
    size_t bytes;
    int *ranks;              /* [count] world rank that gave the piece; -1: none yet */
    enum dt_frame_type type; /* DT_FRAME_GATHER, DT_FRAME_REDUCE or DT_FRAME_GIVE */
    bool different;
    char *pieces; /* [count * bytes] */
};

struct dt_rendezvous {
    int rank, size;
    struct dt_link *links; /* rank 0: [size] by rank; other ranks use only [0] */
    pthread_t thread;
    bool thread_runs;
    int wake_fd; /* eventfd: more data to send, or the thread must end */
    atomic_bool interrupted, leaving, ending;
    pthread_mutex_t routing; /* rank 0: all frames of one event are sent before those of the next; locked before the others */
    pthread_mutex_t sending; /* one frame at a time; locked after `mutex` or alone */
    pthread_mutex_t mutex;   /* guards all members below */
    pthread_cond_t changed;
    enum dt_link_state *states;     /* [size] state of each rank, as known here */
    enum dt_frame_fault *faults;    /* [size] the fault for which a lost rank was closed */
    int *turns, last_turn;          /* [size] order in which ranks were lost: later ones may be a consequence of earlier ones */
    struct letter *letters;         /* letters for this process's waits */
    struct gathering *gatherings;   /* rank 0 */
    uint64_t questions, open_group; /* number of questions so far; group of the open question */
    bool question_open;
    struct letter *failure; /* the failure of the first other rank that gave up */
    dt_rendezvous_answer *answer;
    void *answer_context;
};

/* The port at which rank 0 listens while the ranks meet. */
enum { DT_PORT_SOCKETS = 4 };

struct dt_port {
    int fd[DT_PORT_SOCKETS], count;
};

/* Listen only where the others look for rank 0: on this machine's loopback if all ranks are on it,
 * else at the address that place->address names. If that name does not help, as on machines that
 * know their own name as 127.0.1.1, listen at all addresses. A port in use is tried again for two
 * seconds: a world that has just ended may still have it. `name` is the place's name in messages.
 * Owner: the caller, dt_port_close, also after a failure. Errors: DT_ERR_WORLD if the port is in
 * use, DT_ERR_IO. */
dt_status dt_port_open(const struct dt_rendezvous_place *place, const char *name, struct dt_port *out);
void dt_port_close(struct dt_port *port);

/* listen: rank 0's part of the meeting; fills links. connect: the other ranks' part; fills
 * links[0]. Errors as dt_rendezvous_create. */
dt_status dt_rendezvous_listen(struct dt_rendezvous *r, const struct dt_rendezvous_place *place);
dt_status dt_rendezvous_connect(struct dt_rendezvous *r, const struct dt_rendezvous_place *place);
/* "1.0.0 1a2b3c4d5e6f" */
void dt_rendezvous_build_name(char out[DT_BUILD_BYTES]);
/* "node1:29500", "[::1]:29500" */
void dt_rendezvous_place_name(const struct dt_rendezvous_place *place, char *text, size_t text_bytes);

/* Keep a frame for this process's waits, and wake them. */
void dt_rendezvous_deliver(struct dt_rendezvous *r, const struct dt_frame *frame, const void *payload);
/* A rank is gone; fault: the reason for which it was closed, if known. */
void dt_rendezvous_set_state(struct dt_rendezvous *r, int rank, enum dt_link_state state, enum dt_frame_fault fault);
/* Keep another rank's message that it gives up. */
void dt_rendezvous_keep_failure(struct dt_rendezvous *r, const struct dt_frame *frame, const char *payload);
/* This rank's own progress, as an answer to the question in `frame`: makes a frame of type
 * DT_FRAME_STATE. */
bool dt_rendezvous_own_state(struct dt_rendezvous *r, const struct dt_frame *ask, struct dt_frame *out,
                             struct dt_rendezvous_progress *progress);

/* Ranks other than 0: handle a frame that rank 0 sent. */
void dt_rendezvous_handle(struct dt_rendezvous *r, const struct dt_frame *frame, const char *payload);
/* Rank 0: handle a frame that rank `from` sent (0: this process itself). */
void dt_rendezvous_hub_handle(struct dt_rendezvous *r, int from, const struct dt_frame *frame, const char *payload);
/* Rank 0: a connection has closed, or must be closed for this fault. */
void dt_rendezvous_hub_lose(struct dt_rendezvous *r, int rank, enum dt_link_state how, enum dt_frame_fault fault);
void dt_rendezvous_hub_finish(struct dt_rendezvous *r);

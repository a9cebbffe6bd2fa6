/* Inside lib/rendezvous: links and frames (link.c), who a rank is (identity.c), how ranks find each other (connect.c, listen.c), what has
 * arrived (inbox.c), what rank 0 does for the others (hub.c), and waiting (rendezvous.c). Included in this folder only. */
#ifndef LIB_RENDEZVOUS_PARTS_H
#define LIB_RENDEZVOUS_PARTS_H

#include "lib/rendezvous/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>

/* What travels once a link is accepted: this, and `bytes` behind it. Between machines of one kind: no byte order is turned. */
enum dt_frame_type {
    DT_FRAME_WELCOME = 1, /* rank 0: you are who you say; the others are still to come */
    DT_FRAME_REFUSED,     /* rank 0: the meeting has failed for you; count: the status, negated; a text */
    DT_FRAME_MET,         /* rank 0: all are here */
    DT_FRAME_GATHER,      /* to rank 0: index of count gives a piece for gathering `sequence` of `group` */
    DT_FRAME_GATHERED,    /* from rank 0: all pieces */
    DT_FRAME_DIFFERENT,   /* from rank 0 instead: the pieces are not alike */
    DT_FRAME_WITHDRAW,    /* to rank 0: I wait no longer, who is missing? */
    DT_FRAME_MISSING,     /* from rank 0, to all who gave a piece: a byte for each of the group, 1 for whom is missing */
    DT_FRAME_GOODBYE,     /* to rank 0: I leave in order */
    DT_FRAME_LEFT,        /* from rank 0: rank `index` did so */
    DT_FRAME_LOST,        /* from rank 0: rank `index` is gone without a goodbye */
    DT_FRAME_ASK,    /* to rank 0, and from it to all: rank `index` asks how far you are in `group`; sequence distinguishes its questions */
    DT_FRAME_STATE,  /* to rank 0, and from it to rank `index`: rank `count` answers with a struct dt_rendezvous_progress */
    DT_FRAME_FAILED, /* to rank 0, and from it to all: rank `index` gives up; count: the status, negated; a text */
};

struct dt_frame {
    uint32_t type, index, count, unused;
    uint64_t group, sequence, bytes;
};

/* The first thing that a rank says on a connection, in one piece. */
struct dt_hello {
    char magic[8]; /* DT_HELLO_MAGIC */
    int32_t rank, size;
    uint64_t job;
    char build[48];
};
#define DT_HELLO_MAGIC "dtbench" /* and its NUL */

enum dt_link_state { DT_LINK_HERE, DT_LINK_LEFT, DT_LINK_LOST };

struct dt_link {
    int fd;     /* -1: none */
    char *data; /* [capacity] received and not taken: taken..used */
    size_t taken, used, capacity;
};

/* Set what every connection has: no delay for small messages, keepalive, and an end to sending to one that does not read. */
void dt_link_prepare(int fd);
/* Send a frame whole. False: the connection is of no use any more. */
bool dt_link_send(struct dt_link *link, const struct dt_frame *frame, const void *payload);
/* Take in what has arrived, without waiting. False: closed, or memory is out. */
bool dt_link_receive(struct dt_link *link);
/* The next complete frame and its payload, valid until the link's next call; false: not there yet. */
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
    int count, arrived;
    size_t bytes;
    int *ranks; /* [count] the world's rank that gave the piece; -1: none yet */
    bool different;
    char *pieces; /* [count * bytes] */
};

struct dt_rendezvous {
    int rank, size;
    struct dt_link *links; /* rank 0: [size] by rank; the others: only [0] is used */
    pthread_t thread;
    bool thread_runs;
    int wake_fd; /* eventfd: ends the thread */
    atomic_bool interrupted, leaving;
    pthread_mutex_t routing; /* rank 0: all frames of one event go out before those of the next; taken first */
    pthread_mutex_t sending; /* one frame at a time; taken behind `mutex` or alone */
    pthread_mutex_t mutex;   /* everything below */
    pthread_cond_t changed;
    enum dt_link_state *states;   /* [size] of each rank, as far as is known here */
    int *turns, last_turn;        /* [size] which ranks went first: the others may have gone because of them */
    struct letter *letters;       /* for this process's waits */
    struct gathering *gatherings; /* rank 0 */
    uint64_t questions;
    struct letter *failure; /* the first word of another rank that gave up */
    dt_rendezvous_answer *answer;
    void *answer_context;
};

/* Rank 0 at the meeting: fills links. The others: fills links[0]. Errors as dt_rendezvous_create. */
dt_status dt_rendezvous_listen(struct dt_rendezvous *r, const struct dt_rendezvous_place *place);
dt_status dt_rendezvous_connect(struct dt_rendezvous *r, const struct dt_rendezvous_place *place);
void dt_rendezvous_fill_hello(const struct dt_rendezvous_place *place, struct dt_hello *out);
/* "node1:29500", "[::1]:29500" */
void dt_rendezvous_place_name(const struct dt_rendezvous_place *place, char *text, size_t text_bytes);

/* Keep a frame for this process's waits, and wake them. */
void dt_rendezvous_deliver(struct dt_rendezvous *r, const struct dt_frame *frame, const void *payload);
void dt_rendezvous_set_state(struct dt_rendezvous *r, int rank, enum dt_link_state state);
/* Keep another rank's word that it gives up. */
void dt_rendezvous_keep_failure(struct dt_rendezvous *r, const struct dt_frame *frame, const char *payload);
/* This rank's own progress, as asked by frame: answered by a frame of the type DT_FRAME_STATE. */
bool dt_rendezvous_own_state(struct dt_rendezvous *r, const struct dt_frame *ask, struct dt_frame *out,
                             struct dt_rendezvous_progress *progress);

/* Rank 0: a frame that rank `from` sent (0: this process itself). */
void dt_rendezvous_hub_handle(struct dt_rendezvous *r, int from, const struct dt_frame *frame, const char *payload);
/* Rank 0: a connection has closed. */
void dt_rendezvous_hub_lose(struct dt_rendezvous *r, int rank, enum dt_link_state how);
void dt_rendezvous_hub_finish(struct dt_rendezvous *r);

#endif

/* What the two files of the engine share; no other file includes it. */
#pragma once

#include "lib/base/heap.h"
#include "lib/sim/engine.h"

/* What a stream or host waits for. */
enum hold {
    HOLD_NONE,
    HOLD_ISSUE, /* a stream: the host has not issued its next operation */
    HOLD_ORDER, /* earlier operations of the same communicator, on other streams */
    HOLD_EVENT,
    HOLD_PEERS,  /* the other ranks of a collective or message have not arrived */
    HOLD_FLOW,   /* its flow in the network, or its latency */
    HOLD_STREAM, /* the host: a stream is not done */
    HOLD_END,    /* nothing more to do */
};

struct stream {
    double clock_s;          /* when the previous operation was done */
    double work_start_s;     /* begin of the uninterrupted work that ends at clock_s */
    double came_s;           /* when it arrived at the operation that it waits in */
    double *issued_s;        /* ring [room]: host's clock before each operation that was issued but not begun */
    uint32_t room;           /* a power of two, or 0 */
    uint32_t issued, done;   /* operations of the stream, counted from the start */
    uint32_t unfinished;     /* messages of the open group */
    uint8_t hold;            /* enum hold */
    struct dt_sim_idle idle; /* until now */
};

/* A rank's part in one communicator. */
struct seat {
    int group, place; /* place: rank within the group */
    uint32_t done;    /* finished operations of the communicator */
    double done_s;    /* when the last of those was */
};

struct rank {
    const struct dt_sim_program *program; /* NULL: none */
    struct stream *streams;               /* [program->stream_count] */
    struct seat *seats;                   /* [program->slot_count] */
    double *event_s;                      /* [program->event_count], NAN: it has not happened */
    struct dt_sim_idle *event_idle;       /* [program->event_count] idle time of the event's stream at that time */
    double host_s;
    size_t host_next; /* next operation of the host */
    uint8_t host_hold;
    bool queued; /* in the engine's list of ranks that may continue */
};

/* One rank's arrival at a collective. */
struct arrival {
    double at_s;
    uint32_t stream; /* counted from 1; 0: has not arrived */
};

/* A communicator, and the one collective that can be active in it: no rank arrives at the next
 * before all have left this one. */
struct group {
    struct dt_sim_group base; /* as the transport sees it */
    char *name;
    int *ranks, count;
    struct arrival *arrivals; /* [count] */
    int arrived;
    uint32_t number; /* of finished collectives */
    double start_s;  /* the last rank's arrival */
    const struct dt_sim_op *op;
    int op_rank; /* the rank that `op` belongs to */
};

/* A message between two ranks, a copy or shared work, or (collective) a group's current one. */
struct activity {
    enum { ACTIVITY_FREE, ACTIVITY_COLLECTIVE, ACTIVITY_MESSAGE, ACTIVITY_COPY } kind;
    int group;
    int rank[2], stream[2]; /* sender, receiver; copy, work: only the first is used */
    double came_s[2], start_s;
    bool lengthened; /* a collective: the time that concurrent kernels cost is counted */
    const struct dt_sim_op *op[2];
    struct dt_sim_movement movement;
};

/* A send or receive whose other end has not arrived. */
struct waiting {
    int group, from, to; /* places in the group */
    bool is_send;
    int rank, stream;
    double came_s;
    const struct dt_sim_op *op;
    uint32_t next; /* next in its bucket, counted from 1 */
};

struct dt_sim_engine {
    struct dt_sim_network *network;
    struct dt_sim_transport transport;
    struct dt_sim_collector collector;
    struct rank *ranks; /* [rank_count] */
    int rank_count;
    const int *world_ranks; /* [rank_count] NULL: the same numbers */
    struct group **groups;  /* [group_count] */
    int group_count, group_room;

    struct dt_heap starts; /* activities in their latency */
    struct activity *activities;
    uint32_t activity_count, activity_room, *free_activities, free_activity_count;
    struct waiting *waiting; /* sends and receives, by bucket */
    uint32_t waiting_count, waiting_room, free_waiting, *buckets, bucket_count;
    int *runnable, runnable_count; /* ranks that may continue */
    uint64_t operations;
    bool (*stop)(void *context);
    void *stop_context;
    bool ran;
};

/* Is it a flow of one rank, without peers? */
static inline bool is_alone(const struct dt_sim_op *op)
{
    return op->kind == DT_SIM_COPY || op->kind == DT_SIM_SHARED_WORK;
}

/* engine_report.c: report one operation's span to the collector, and the failure of a replay that
 * cannot continue. */
void engine_report_span(const struct dt_sim_engine *e, int rank, int stream, const struct dt_sim_op *op, double start_s, double moving_s,
                        double end_s);
/* Has the rank finished its program? */
bool engine_is_done(const struct rank *rank);
dt_status engine_fail_deadlock(const struct dt_sim_engine *e);

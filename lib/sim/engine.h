/* The replay: all ranks' programs in virtual time, over one network.
 *
 * Each rank has a host queue and streams. Host and stream clocks are plain sums while no other rank
 * is involved, so each rank runs ahead until it waits for others; only messages are events in
 * global time. A collective or message begins when all its ranks have arrived at it. It lasts for
 * its latency, then for its flow in the network (lib/sim/network.h), and ends for all of them at
 * once. The transport (lib/sim/transport.h) decides its latency, bytes and links.
 *
 * Nothing is random and nothing depends on addresses or on this machine: the same programs give the
 * same times to the last bit. */
#pragma once

#include "lib/sim/network.h"
#include "lib/sim/program.h"

struct dt_sim_engine;

/* The ranks of a communicator, in its order. */
struct dt_sim_group {
    const char *name;
    const int *ranks; /* [count] world ranks, all different */
    int count;
    int id; /* number from dt_sim_engine_add_group */
};

/* A collective, message or copy for the transport. */
struct dt_sim_movement {
    double latency_s;        /* before bytes move */
    struct dt_sim_flow flow; /* bytes 0: no bytes after the latency. flow.uses must stay valid as long as the transport */
    double compute_share;    /* collectives: the part, 0 or more and below 1, by which other work of its ranks is slower during it */
    double compute_slowdown; /* collectives: the part by which it takes longer while its ranks work on other streams */
};

/* How messages travel. The functions must not change virtual time; they may cache results. Their
 * errors end the replay. */
struct dt_sim_transport {
    void *context;
    dt_status (*collective)(void *context, const struct dt_sim_group *group, enum dt_sim_collective kind, double bytes, int root,
                            struct dt_sim_movement *out);
    dt_status (*message)(void *context, int from, int to, double bytes, struct dt_sim_movement *out); /* world ranks */
    dt_status (*copy)(void *context, int rank, enum dt_sim_direction direction, double bytes, struct dt_sim_movement *out);
    /* Work on shared processors; flow.bytes then counts nanoseconds. */
    dt_status (*work)(void *context, int rank, double seconds, double load, struct dt_sim_movement *out);
};

/* One bar of a row in a trace. Bars of a queue are reported in order, and overlap only within a
 * group of sends and receives; bars of different queues and ranks are reported in any order. */
struct dt_sim_span {
    int rank, queue;            /* queue: the program's stream, or -1: the host */
    const char *queue_name;     /* "host" for the host */
    const char *label;          /* the operation's label, or its kind ("all_reduce") */
    const char *group_name;     /* of communication; else NULL */
    double bytes;               /* of communication and copies; else 0 */
    int micro_batch, part;      /* of the pass that it belongs to; -1: none */
    const uint64_t *held_bytes; /* [DT_SIM_HELD_KINDS] device memory in use when it was queued; valid during the call */
    int peer;                   /* of a message: the other rank; else -1 */
    bool sends;                 /* of a message */
    double start_s;             /* when the queue arrived at it */
    double moving_s;            /* communication: when all ranks had arrived; else start_s */
    double end_s;
};

struct dt_sim_collector {
    void *context;
    void (*span)(void *context, const struct dt_sim_span *span); /* NULL: no listener. Texts are valid during the call */
};

/* ranks: of the whole job. network and transport must stay valid until the engine is destroyed. The
 * links must have been added; only the engine starts flows. Owner: the caller. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status dt_sim_engine_create(int ranks, struct dt_sim_network *network, const struct dt_sim_transport *transport,
                               const struct dt_sim_collector *collector, struct dt_sim_engine **out);
void dt_sim_engine_destroy(struct dt_sim_engine *engine); /* takes NULL */

/* Add a communicator; name and ranks are copied. Errors: DT_ERR_INVALID if a rank is out of range
 * or occurs twice, DT_ERR_HOST_MEMORY. */
dt_status dt_sim_engine_add_group(struct dt_sim_engine *engine, const char *name, const int *ranks, int count, int *out_group);

/* If the ranks are only a part of the world, of which each stands for others: their numbers in the
 * world [ranks], and the ranks of a communicator in the world, for the transport. The lists stay
 * valid until the engine is destroyed. */
void dt_sim_engine_set_world(struct dt_sim_engine *engine, const int *world_ranks);
void dt_sim_engine_set_members(struct dt_sim_engine *engine, int group, const int *ranks, int count);

/* Set a rank's program. It must be finished, stay valid until the engine is destroyed, and may be
 * shared by ranks; groups [program->slot_count] are the numbers of the communicators in its slots,
 * copied. A rank without a program does nothing. Errors: DT_ERR_INVALID if a rank is not in its
 * group, or is given twice; DT_ERR_HOST_MEMORY. */
dt_status dt_sim_engine_set_program(struct dt_sim_engine *engine, int rank, const struct dt_sim_program *program, const int *groups);

/* Called now and then while programs run: true ends them with DT_ERR_INTERRUPTED. NULL: never. */
void dt_sim_engine_set_stop(struct dt_sim_engine *engine, bool (*stop)(void *context), void *context);

/* Run all programs to their end, once. Errors: DT_ERR_COMM if no rank can continue (the text names
 * the operation in which most ranks wait, with communicator, number and missing ranks), or if ranks
 * of a communicator call different operations at the same place. DT_ERR_INVALID for a peer or root
 * that is not in the communicator; the transport's errors; DT_ERR_HOST_MEMORY. */
dt_status dt_sim_engine_run(struct dt_sim_engine *engine);

/* After the run: when an event of the rank's program happened, in seconds from the start; NAN if it
 * did not. */
double dt_sim_engine_event_s(const struct dt_sim_engine *engine, int rank, uint32_t event);
/* How long the stream of that event had no work to do until then, and why. */
struct dt_sim_idle dt_sim_engine_event_idle(const struct dt_sim_engine *engine, int rank, uint32_t event);
/* When the last queue of the rank, or (rank -1) of all ranks, was done. */
double dt_sim_engine_end_s(const struct dt_sim_engine *engine, int rank);

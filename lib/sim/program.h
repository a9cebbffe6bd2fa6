/* The program of one rank: the operations that its host code issued, in order, with their costs.
 *
 * A rank's host code runs once from begin to end; every call on a simulated stream or communicator
 * adds one operation here, and the engine (lib/sim/engine.h) replays all ranks' programs in virtual
 * time. A program does not name its rank: communicators are slots that the engine resolves for each
 * rank, and peers and roots are ranks within the communicator. So ranks that do the same share one
 * program by pointer.
 *
 * Order. Operations of a stream run in order, and none starts before the host has issued it.
 * Operations of one communicator run in the order of the calls, on whatever streams. Each recording
 * of an event is separate: a wait refers to the last recording before the call, as on a device.
 *
 * Errors of the functions that add: DT_ERR_HOST_MEMORY; DT_ERR_INVALID for an impossible stream,
 * event, cost or peer. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dt_sim_op_kind {
    DT_SIM_HOST,        /* host work alone, for host_s */
    DT_SIM_WORK,        /* the stream is busy for `amount` seconds */
    DT_SIM_RECORD,      /* event `target` happens when the stream (or DT_SIM_ON_HOST) reaches this */
    DT_SIM_WAIT,        /* the stream waits for event `target` */
    DT_SIM_HOST_WAIT,   /* the host waits for event `target` */
    DT_SIM_SYNCHRONIZE, /* the host waits until stream `peer`, or all (DT_SIM_ALL_STREAMS), have done all issued work */
    DT_SIM_COLLECTIVE,  /* `amount` bytes on communicator slot `target`; kind: `detail`; root: `peer` */
    DT_SIM_SEND,        /* `amount` bytes to `peer` of slot `target` */
    DT_SIM_RECV,
    DT_SIM_COPY,        /* `amount` bytes between host and device, or in the host's memory; direction: `detail` */
    DT_SIM_SHARED_WORK, /* the stream works for `amount` seconds, or longer, on shared processors; `load` */
};

/* Kinds before DT_SIM_COLLECTIVES are collectives of libraries, which are measured; kinds after it
 * are exchanges of messages between all ranks of a communicator. */
enum dt_sim_collective {
    DT_SIM_ALL_REDUCE,
    DT_SIM_REDUCE_SCATTER,
    DT_SIM_ALL_GATHER,
    DT_SIM_BROADCAST,
    DT_SIM_REDUCE,
    DT_SIM_COLLECTIVES,
    DT_SIM_ALL_TO_ALL,
    DT_SIM_SHIFT,
    DT_SIM_OPERATIONS
};

enum dt_sim_direction { DT_SIM_TO_DEVICE, DT_SIM_TO_HOST, DT_SIM_WITHIN_HOST, DT_SIM_DIRECTIONS };

enum { DT_SIM_ON_HOST = 0xFFFF, DT_SIM_ALL_STREAMS = -1, DT_SIM_MAX_STREAMS = 64, DT_SIM_MAX_LOAD = 16, DT_SIM_LABEL_PLACES = 64 };

/* Seconds in which a stream did no work. */
struct dt_sim_idle {
    double host_s; /* the host had not issued the next operation */
    double copy_s; /* it copied to or from the host */
};

struct dt_sim_op {
    uint8_t kind;     /* enum dt_sim_op_kind */
    uint8_t detail;   /* enum dt_sim_collective, enum dt_sim_direction */
    uint8_t in_group; /* send, recv: the stream continues to the next one without waiting; false for the last of a group */
    uint16_t stream;  /* or DT_SIM_ON_HOST */
    uint32_t target;  /* event or communicator slot */
    uint32_t label;   /* index in the program's labels */
    /* on a communicator: number of its operations that must be over first: those issued before it
     * or, in a group, before the group */
    uint32_t order;
    int32_t peer;  /* root or other end, as rank of the communicator; -1: none */
    double amount; /* seconds or bytes */
    double host_s; /* the host is busy for this time before it issues the operation */
    double load;   /* shared work: the part of its node's processors that it uses at full speed */
    /* work: time from the host's arrival to the end of the work if the stream never waits: host_s +
     * amount for one kernel, the longest such path for several merged ones */
    double lead_s;
};

enum { DT_SIM_HELD_KINDS = 6 };

/* Operations from first_op up to the next entry's belong to a pass of a micro-batch through a part
 * of the model, and are queued while the recording device holds this much memory of each kind. */
struct dt_sim_pass {
    size_t first_op;
    int micro_batch, part; /* -1: no pass */
    uint64_t held_bytes[DT_SIM_HELD_KINDS];
};

struct dt_sim_program {
    struct dt_sim_op *ops; /* [op_count] in the order of issue */
    size_t op_count;
    int stream_count, slot_count;
    uint32_t event_count;
    char **stream_names; /* [stream_count] */
    char **labels;       /* [label_count]; label 0 is "" */
    uint32_t label_count;
    uint32_t **stream_ops; /* [stream_count][stream_op_count[s]] indices of a stream's operations; made by dt_sim_program_finish */
    uint32_t *stream_op_count;
    bool *works;                /* [stream_count] the stream has work; made by dt_sim_program_finish */
    struct dt_sim_pass *passes; /* [pass_count] in the order of first_op; empty if work is coalesced */
    size_t pass_count, pass_room;

    /* used while recording */
    size_t op_room;
    uint32_t label_room;
    uint32_t label_places[DT_SIM_LABEL_PLACES]; /* the last label of each hash value; 0: none */
    uint32_t *slot_order;                       /* [slot_count] */
    double pending_host_s;
    bool coalesce, finished, grouping;
    size_t group_first; /* first operation of the open group */
};

/* coalesce: consecutive work of a stream becomes one operation. The replay's times are the same,
 * since work that follows work composes exactly: from host time H and stream time S, (host h, work
 * w, lead c) leads to host H + h and stream max(S + w, H + c). Traces then show one row for several
 * kernels. Owner: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_sim_program_create(bool coalesce, struct dt_sim_program **out);
void dt_sim_program_destroy(struct dt_sim_program *program); /* takes NULL */

/* Add a queue of the device; numbers count from 0. name is copied. */
dt_status dt_sim_program_add_stream(struct dt_sim_program *program, const char *name, int *out_stream);
/* Add a communicator slot; numbers count from 0. The engine maps it to a communicator for each
 * rank. */
dt_status dt_sim_program_add_slot(struct dt_sim_program *program, int *out_slot);

/* The host is busy before it issues the next operation: launch overhead, or the framework's own
 * time. */
dt_status dt_sim_program_host(struct dt_sim_program *program, double seconds);
/* label (here and below; copied once for each distinct text; NULL: none) names the work in
 * traces. */
dt_status dt_sim_program_work(struct dt_sim_program *program, int stream, double seconds, const char *label);
/* Work on processors that the ranks of a node share: it takes `seconds` alone, and longer if the
 * loads of all current work on the node add up to more than 1. load: above 0, at most
 * DT_SIM_MAX_LOAD. */
dt_status dt_sim_program_shared_work(struct dt_sim_program *program, int stream, double seconds, double load, const char *label);
/* The next operations belong to this pass, for traces. No-op while work is coalesced, which merges
 * the work of several passes. */
dt_status dt_sim_program_pass(struct dt_sim_program *program, int micro_batch, int part);
/* The next operations are queued while the device holds these bytes. No-op likewise. */
dt_status dt_sim_program_held(struct dt_sim_program *program, const uint64_t held_bytes[DT_SIM_HELD_KINDS]);
/* The pass of operation `op`; micro_batch and part are -1 if it has none. */
struct dt_sim_pass dt_sim_program_pass_of(const struct dt_sim_program *program, size_t op);
/* stream may be DT_SIM_ON_HOST: when the host reaches this point. */
dt_status dt_sim_program_record(struct dt_sim_program *program, int stream, uint32_t *out_event);
dt_status dt_sim_program_wait(struct dt_sim_program *program, int stream, uint32_t event);
dt_status dt_sim_program_host_wait(struct dt_sim_program *program, uint32_t event);
dt_status dt_sim_program_synchronize(struct dt_sim_program *program, int stream); /* or DT_SIM_ALL_STREAMS */

/* bytes: size of a rank's whole buffer: for all_reduce, broadcast and reduce the message; for
 * all_gather the received data, for reduce_scatter and all_to_all the sent data (size * count
 * elements); for shift what each rank sends to the next one. root: rank within the communicator;
 * ignored by collectives without one. */
dt_status dt_sim_program_collective(struct dt_sim_program *program, int stream, int slot, enum dt_sim_collective kind, double bytes,
                                    int root, const char *label);
dt_status dt_sim_program_send(struct dt_sim_program *program, int stream, int slot, int peer, double bytes, const char *label);
dt_status dt_sim_program_recv(struct dt_sim_program *program, int stream, int slot, int peer, double bytes, const char *label);
/* Sends and receives up to the group's end, all on one stream, run together. DT_ERR_INVALID if they
 * are not on one stream. */
dt_status dt_sim_program_group_start(struct dt_sim_program *program);
dt_status dt_sim_program_group_end(struct dt_sim_program *program);
dt_status dt_sim_program_copy(struct dt_sim_program *program, int stream, enum dt_sim_direction direction, double bytes, const char *label);

/* End the program: nothing more can be added. The engine takes finished programs only. */
dt_status dt_sim_program_finish(struct dt_sim_program *program);

/* Do both do the same at the same cost? Labels, names and passes are compared, too. */
bool dt_sim_program_equal(const struct dt_sim_program *left, const struct dt_sim_program *right);

const char *dt_sim_collective_name(enum dt_sim_collective kind); /* "all_reduce", ... */

/* What one rank does, recorded: the operations that its host code issued, in order, with their costs.
 *
 * A rank's host code runs straight through once; every call on a simulated stream or communicator adds one operation here, and the engine
 * (lib/sim/engine.h) replays all ranks' programs in virtual time. A program names no rank: communicators are slots that the engine resolves
 * for each rank, and peers and roots count within the communicator. So ranks that do the same share one program by pointer.
 *
 * Order. Operations of a stream run in order, and none starts before the host has issued it. Operations of one communicator run in the
 * order of the calls, whatever their streams. An event is one act of recording: a wait names the recording that it waits for, which is the
 * last one before the call, as on a device.
 *
 * Errors of the functions that add: DT_ERR_HOST_MEMORY; DT_ERR_INVALID for a stream, event, cost or peer that cannot be. */
#ifndef LIB_SIM_PROGRAM_H
#define LIB_SIM_PROGRAM_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dt_sim_op_kind {
    DT_SIM_HOST,        /* the host alone, for host_s */
    DT_SIM_WORK,        /* the stream is busy for `amount` seconds */
    DT_SIM_RECORD,      /* event `target` happens when the stream (or DT_SIM_ON_HOST) comes here */
    DT_SIM_WAIT,        /* the stream waits for event `target` */
    DT_SIM_HOST_WAIT,   /* the host waits for event `target` */
    DT_SIM_SYNCHRONIZE, /* the host waits until stream `peer`, or all (DT_SIM_ALL_STREAMS), have done all that was issued */
    DT_SIM_COLLECTIVE,  /* `amount` bytes on communicator slot `target`; which one: `detail`; root: `peer` */
    DT_SIM_SEND,        /* `amount` bytes to `peer` of slot `target` */
    DT_SIM_RECV,
    DT_SIM_COPY,        /* `amount` bytes between host and device, or in the host's memory; direction: `detail` */
    DT_SIM_SHARED_WORK, /* the stream works for `amount` seconds if left alone, on processors that it shares; `load` */
};

/* Before DT_SIM_COLLECTIVES those that libraries have, which are measured; after it what all ranks of a communicator exchange in messages. */
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

/* Seconds in which a stream did no work of its own. */
struct dt_sim_idle {
    double host_s; /* the host had not issued what comes next */
    double copy_s; /* it was copying to or from the host */
};

struct dt_sim_op {
    uint8_t kind;     /* enum dt_sim_op_kind */
    uint8_t detail;   /* enum dt_sim_collective, enum dt_sim_direction */
    uint8_t in_group; /* send, recv: the stream goes on to the next one without waiting; false for the last of a group */
    uint16_t stream;  /* or DT_SIM_ON_HOST */
    uint32_t target;  /* event or communicator slot */
    uint32_t label;   /* of the program's labels */
    uint32_t order;   /* on a communicator: how many of its operations must be over; those issued before it or, in a group, before that */
    int32_t peer;     /* root or other end, in the communicator; -1: none */
    double amount;    /* seconds or bytes */
    double host_s;    /* the host is busy for so long before the operation is issued */
    double load;      /* shared work: the part of its node's processors that it takes at its own pace */
    double lead_s;    /* work: from the host's arrival to the end of work when the stream never waits: host_s + amount for one kernel,
                         the longest such path of several made one */
};

enum { DT_SIM_HELD_KINDS = 6 };

/* Operations from first_op on, up to the next such entry's, belong to a pass of a micro-batch
 * through a part of the model, and are queued while the recording device holds this much memory of
 * each kind. */
struct dt_sim_pass {
    size_t first_op;
    int micro_batch, part; /* -1: to none */
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
    uint32_t **stream_ops; /* [stream_count][stream_op_count[s]] numbers of a stream's operations; made by dt_sim_program_finish */
    uint32_t *stream_op_count;
    bool *works;                /* [stream_count] the stream has work; made by dt_sim_program_finish */
    struct dt_sim_pass *passes; /* [pass_count] in the order of first_op; none while work is coalesced */
    size_t pass_count, pass_room;

    /* while recording */
    size_t op_room;
    uint32_t label_room;
    uint32_t label_places[DT_SIM_LABEL_PLACES]; /* the last label of each hash value; 0: none */
    uint32_t *slot_order;                       /* [slot_count] */
    double pending_host_s;
    bool coalesce, finished, grouping;
    size_t group_first; /* first operation of the open group */
};

/* coalesce: consecutive work of a stream becomes one operation. The replay's times are the same, since work that follows work composes
 * exactly: from host time H and stream time S, (host h, work w, lead c) leads to host H + h and stream max(S + w, H + c). Traces then show
 * one row for several kernels. Owner: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_sim_program_create(bool coalesce, struct dt_sim_program **out);
void dt_sim_program_destroy(struct dt_sim_program *program); /* takes NULL */

/* Another queue of the device; numbers count from 0. name is copied. */
dt_status dt_sim_program_add_stream(struct dt_sim_program *program, const char *name, int *out_stream);
/* Another communicator; numbers count from 0. The engine gets the number of the one that a rank has there. */
dt_status dt_sim_program_add_slot(struct dt_sim_program *program, int *out_slot);

/* The host is busy before it issues what comes next: launch overhead, the framework's own time. */
dt_status dt_sim_program_host(struct dt_sim_program *program, double seconds);
/* label (here and below; copied once for each distinct text; NULL: none) names the work in traces. */
dt_status dt_sim_program_work(struct dt_sim_program *program, int stream, double seconds, const char *label);
/* Work on processors that the ranks of a node share: it takes `seconds` when it is alone, and longer when the loads of all that is under
 * way there at once are more than 1 together. load: above 0, at most DT_SIM_MAX_LOAD. */
dt_status dt_sim_program_shared_work(struct dt_sim_program *program, int stream, double seconds, double load, const char *label);
/* What comes next belongs to this pass, for traces. No-op while work is coalesced, which joins that of several passes. */
dt_status dt_sim_program_pass(struct dt_sim_program *program, int micro_batch, int part);
/* What comes next is queued while the device holds these bytes, likewise. */
dt_status dt_sim_program_held(struct dt_sim_program *program, const uint64_t held_bytes[DT_SIM_HELD_KINDS]);
/* The pass of operation `op`; micro_batch and part are -1 where it has none. */
struct dt_sim_pass dt_sim_program_pass_of(const struct dt_sim_program *program, size_t op);
/* stream may be DT_SIM_ON_HOST: when the host came here. */
dt_status dt_sim_program_record(struct dt_sim_program *program, int stream, uint32_t *out_event);
dt_status dt_sim_program_wait(struct dt_sim_program *program, int stream, uint32_t event);
dt_status dt_sim_program_host_wait(struct dt_sim_program *program, uint32_t event);
dt_status dt_sim_program_synchronize(struct dt_sim_program *program, int stream); /* or DT_SIM_ALL_STREAMS */

/* bytes: what a rank's whole buffer holds: of all_reduce, broadcast and reduce the message; of all_gather what is received, of
 * reduce_scatter and all_to_all what is given (size * count elements); of shift what each rank sends to the next one. root: within the communicator; ignored where there is none. */
dt_status dt_sim_program_collective(struct dt_sim_program *program, int stream, int slot, enum dt_sim_collective kind, double bytes,
                                    int root, const char *label);
dt_status dt_sim_program_send(struct dt_sim_program *program, int stream, int slot, int peer, double bytes, const char *label);
dt_status dt_sim_program_recv(struct dt_sim_program *program, int stream, int slot, int peer, double bytes, const char *label);
/* Sends and receives in between, all on one stream, go together. DT_ERR_INVALID where they are not on one stream. */
dt_status dt_sim_program_group_start(struct dt_sim_program *program);
dt_status dt_sim_program_group_end(struct dt_sim_program *program);
dt_status dt_sim_program_copy(struct dt_sim_program *program, int stream, enum dt_sim_direction direction, double bytes, const char *label);

/* No more is added. The engine takes finished programs only. */
dt_status dt_sim_program_finish(struct dt_sim_program *program);

/* Do both do the same at the same cost? Labels, names and passes count too. */
bool dt_sim_program_equal(const struct dt_sim_program *left, const struct dt_sim_program *right);

const char *dt_sim_collective_name(enum dt_sim_collective kind); /* "all_reduce", ... */

#endif

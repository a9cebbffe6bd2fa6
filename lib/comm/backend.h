/* The functions that a communicator backend implements. Included only in lib/comm and its
 * folders. */
#pragma once

#include "lib/comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>

/* One operation with its caller's arguments, which have been checked. */
struct dt_comm_operation {
    enum dt_comm_kind kind;
    const void *send;   /* buffer that is read; for in-place operations: receive */
    void *receive;      /* buffer that is written; NULL for send */
    size_t count_elems; /* as in lib/comm/comm.h: for reduce_scatter, all_gather and all_to_all the part's */
    enum dt_dtype dtype;
    enum dt_reduction reduction;
    int peer; /* root of broadcast and reduce, or peer of send and recv */
    struct dt_stream *stream;
    uint64_t sequence; /* number within the communicator, from 1, in the order of calls */
};

/* State of an operation in the ring of the last ones. With NCCL waiting and moving cannot be
 * distinguished: both are WAITING. Nothing is known of a captured operation, which is replayed with
 * its graph. */
enum dt_comm_state { DT_COMM_QUEUED, DT_COMM_WAITING, DT_COMM_MOVING, DT_COMM_DONE, DT_COMM_FAILED, DT_COMM_IN_GRAPH };

enum { DT_COMM_RING = 64 };

struct dt_comm_entry {
    _Atomic uint64_t sequence; /* written last */
    enum dt_comm_kind kind;
    uint64_t bytes;
    _Atomic int state; /* enum dt_comm_state: changed by the stream's thread, read by any thread that dumps */
};

/* The ranks of a communicator that a backend makes. */
struct dt_comm_members {
    const int *ranks;       /* [count] numbers in the parent; NULL for a world */
    const int *world_ranks; /* [count] numbers in the world; valid as long as the communicator exists */
    int count, place;       /* place: this rank's among them */
};

struct dt_comm_backend {
    const char *name;                                                         /* "self", "mpi", "sim", "nccl" */
    const char *(*library)(const struct dt_comm *comm);                       /* NULL: "none" */
    const char *(*secret)(const struct dt_comm *comm);                        /* NULL: there is none */
    void (*network)(const struct dt_comm *comm, struct dt_comm_network *out); /* NULL: nothing is known; *out is zeroed */
    void (*destroy)(struct dt_comm *comm);                                    /* frees comm itself too; NULL: that is all */
    /* Queue an operation on its stream. Between group_start and group_end only sends and receives
     * are queued, all on one stream (dt_comm.group_stream). */
    dt_status (*queue)(struct dt_comm *comm, const struct dt_comm_operation *operation);
    dt_status (*group_start)(struct dt_comm *comm); /* NULL, as group_end: nothing needs to be done */
    dt_status (*group_end)(struct dt_comm *comm);
    /* As dt_comm_subset; also called, with count 0, on ranks that are not in the list. */
    dt_status (*subset)(struct dt_comm *parent, const struct dt_comm_members *members, const char *name, struct dt_comm **out);
    dt_status (*host_all_gather)(struct dt_comm *comm, const void *mine, size_t bytes, void *all);
    /* As dt_host_gather, dt_host_reduce and dt_host_gather_among; NULL: implemented by
     * host_all_gather. */
    dt_status (*host_gather)(struct dt_comm *comm, const void *mine, size_t bytes, void *all);
    dt_status (*host_reduce)(struct dt_comm *comm, const double *mine, int count, double *sums_and_highest);
    dt_status (*host_gather_among)(struct dt_comm *comm, const int *ranks, int count, const void *mine, size_t bytes, void *all);
    /* *out: device memory of at least `bytes`, not in the ledger, zeroed, for
     * dt_comm_start_together and dt_comm_reduce_numbers; valid until a call asks for more. If the
     * function or *out is NULL, the hosts exchange numbers instead. */
    dt_status (*control)(struct dt_comm *comm, size_t bytes, void **out);
    void (*give_up)(struct dt_comm *comm, dt_status status, const char *text); /* NULL: other ranks cannot be told */
    /* Update the ring's states; from any thread. NULL: they are always current. */
    void (*refresh)(struct dt_comm *comm);
};

/* Whether the operation's count is that of one rank's part of the buffer. */
static inline bool dt_comm_of_parts(enum dt_comm_kind kind)
{
    return kind == DT_COMM_REDUCE_SCATTER || kind == DT_COMM_ALL_GATHER || kind == DT_COMM_ALL_TO_ALL;
}

/* The common part of every backend's communicator. */
struct dt_comm {
    const struct dt_comm_backend *backend;
    struct dt_device *device;
    int rank, size;
    int *world_ranks; /* [size] numbers in the outermost communicator; set when the backend has made it */
    char name[32];
    struct dt_comm_options options;
    _Atomic uint64_t sequence; /* number of the last operation; counted by the host thread, read by any thread that dumps */
    struct dt_comm_entry ring[DT_COMM_RING];
    uint64_t bytes[DT_COMM_KINDS];  /* for dt_comm_bytes */
    struct dt_comm *twin;           /* the communicator whose bytes are counted instead; NULL: its own */
    bool in_group;                  /* between group_start and group_end */
    struct dt_stream *group_stream; /* stream of the group's first operation; NULL before it */
    /* The tree of subsets, for dumps; the root's mutex guards it. */
    struct dt_comm *root, *parent, *children, *sibling;
    pthread_mutex_t tree;
    /* The first of the kept subsets, and the set's name from dt_comm_keep; NULL: subsets are not
     * kept. */
    struct dt_comm_kept *kept;
    char *set;
};

/* Fill the common part. */
void dt_comm_init(struct dt_comm *comm, const struct dt_comm_backend *backend, struct dt_device *device, int rank, int size,
                  const char *name, const struct dt_comm_options *options);
/* Note an operation's state in the ring; from any thread. Operations that have left the ring are
 * ignored. */
void dt_comm_mark(struct dt_comm *comm, uint64_t sequence, enum dt_comm_state state);

dt_status dt_comm_self_create(struct dt_device *device, const char *name, const struct dt_comm_options *options, struct dt_comm **out);
dt_status dt_comm_sim_create(struct dt_device *device, const struct dt_comm_members *members, const char *name,
                             const struct dt_comm_options *options, struct dt_comm **out);
/* mpi/backend.c, or mpi/none.c, which says what is missing. Collective. */
dt_status dt_comm_mpi_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                             struct dt_comm **out);
/* As dt_comm_available. */
bool dt_comm_mpi_available(char *text, size_t text_bytes);
/* As dt_comm_check_world. */
dt_status dt_comm_mpi_check_world(const struct dt_world *world);
/* nccl/backend.c, or nccl/none.c, which says what is missing. Collective; the device is a cuda
 * device. */
dt_status dt_comm_nccl_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_members *members,
                              const struct dt_comm_options *options, struct dt_comm **out);
bool dt_comm_nccl_available(char *text, size_t text_bytes);
dt_status dt_comm_nccl_check_world(const struct dt_world *world);

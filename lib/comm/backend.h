/* What a communicator backend implements. Included in lib/comm and its folders only. */
#ifndef LIB_COMM_BACKEND_H
#define LIB_COMM_BACKEND_H

#include "lib/comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>

/* One operation as its caller gave it; arguments are checked. */
struct dt_comm_operation {
    enum dt_comm_kind kind;
    const void *send;   /* what is read; in place operations: receive */
    void *receive;      /* what is written; NULL for send */
    size_t count_elems; /* as in lib/comm/comm.h: of the part for reduce_scatter, all_gather and all_to_all */
    enum dt_dtype dtype;
    enum dt_reduction reduction;
    int peer; /* root of broadcast and reduce, other end of send and recv */
    struct dt_stream *stream;
    uint64_t sequence; /* counts from 1 within the communicator, in the order of calls */
};

/* State of an operation in the ring of the last ones. NCCL does not distinguish waiting from moving: both are WAITING; and of an operation
 * that was captured, and is replayed with its graph, nothing is known. */
enum dt_comm_state { DT_COMM_QUEUED, DT_COMM_WAITING, DT_COMM_MOVING, DT_COMM_DONE, DT_COMM_FAILED, DT_COMM_IN_GRAPH };

enum { DT_COMM_RING = 64 };

struct dt_comm_entry {
    _Atomic uint64_t sequence; /* written last */
    enum dt_comm_kind kind;
    uint64_t bytes;
    _Atomic int state; /* enum dt_comm_state: the stream's thread changes it while any thread may dump it */
};

struct dt_comm_backend {
    const char *name;                                                         /* "self", "mpi", "sim", "nccl" */
    const char *(*library)(const struct dt_comm *comm);                       /* NULL: "none" */
    const char *(*secret)(const struct dt_comm *comm);                        /* NULL: there is none */
    void (*network)(const struct dt_comm *comm, struct dt_comm_network *out); /* NULL: nothing is known; *out is zeroed */
    void (*destroy)(struct dt_comm *comm);                                    /* frees comm itself too */
    /* Queue an operation on its stream. Between group_start and group_end only sends and receives come. */
    dt_status (*queue)(struct dt_comm *comm, const struct dt_comm_operation *operation);
    dt_status (*group_start)(struct dt_comm *comm); /* NULL, as group_end: there is nothing to do */
    dt_status (*group_end)(struct dt_comm *comm);
    /* As dt_comm_subset, for ranks that are in the list and those that are not. */
    dt_status (*subset)(struct dt_comm *parent, const int *ranks, int count, const char *name, struct dt_comm **out);
    dt_status (*host_all_gather)(struct dt_comm *comm, const void *mine, size_t bytes, void *all);
    /* As dt_host_gather, dt_host_reduce and dt_host_gather_among; NULL: made of host_all_gather. */
    dt_status (*host_gather)(struct dt_comm *comm, const void *mine, size_t bytes, void *all);
    dt_status (*host_reduce)(struct dt_comm *comm, const double *mine, int count, double *sums_and_highest);
    dt_status (*host_gather_among)(struct dt_comm *comm, const int *ranks, int count, const void *mine, size_t bytes, void *all);
    /* *out: device memory of at least `bytes`, in no ledger, for dt_comm_start_together and dt_comm_reduce_numbers; until the next call that
     * asks for more. It begins as 0. NULL, or *out is: the hosts exchange numbers instead. */
    dt_status (*control)(struct dt_comm *comm, size_t bytes, void **out);
    void (*give_up)(struct dt_comm *comm, dt_status status, const char *text); /* NULL: the others cannot be told */
    /* Bring the ring's states up to date; from any thread. NULL: they always are. */
    void (*refresh)(struct dt_comm *comm);
};

/* Whose count is that of one rank's part of the buffer. */
static inline bool dt_comm_of_parts(enum dt_comm_kind kind)
{
    return kind == DT_COMM_REDUCE_SCATTER || kind == DT_COMM_ALL_GATHER || kind == DT_COMM_ALL_TO_ALL;
}

/* What every backend's communicator begins with. */
struct dt_comm {
    const struct dt_comm_backend *backend;
    struct dt_device *device;
    int rank, size;
    int *world_ranks; /* [size] of a subset, in the numbers of the communicator that all came of; NULL: those of its own */
    char name[32];
    struct dt_comm_options options;
    _Atomic uint64_t sequence; /* of the last operation; the host thread counts, any thread may dump */
    struct dt_comm_entry ring[DT_COMM_RING];
    uint64_t bytes[DT_COMM_KINDS];  /* dt_comm_bytes */
    bool in_group;                  /* between group_start and group_end */
    struct dt_stream *group_stream; /* of the group's first operation; NULL before it */
    /* Which is a subset of which, for dumps; the root's mutex guards it. */
    struct dt_comm *root, *parent, *children, *sibling;
    pthread_mutex_t tree;
    /* Subsets that are kept: the first of them, and what dt_comm_keep calls them all; NULL: they are not. */
    struct dt_comm_kept *kept;
    char *set;
};

/* Fill the common part. */
void dt_comm_init(struct dt_comm *comm, const struct dt_comm_backend *backend, struct dt_device *device, int rank, int size,
                  const char *name, const struct dt_comm_options *options);
/* Note an operation's state in the ring; from any thread. Operations that have left the ring are passed over. */
void dt_comm_mark(struct dt_comm *comm, uint64_t sequence, enum dt_comm_state state);

dt_status dt_comm_self_create(struct dt_device *device, const char *name, const struct dt_comm_options *options, struct dt_comm **out);
dt_status dt_comm_sim_create(struct dt_device *device, int rank, int size, const char *name, const struct dt_comm_options *options,
                             struct dt_comm **out);
/* mpi/backend.c, or mpi/none.c which says what is missing. Collective. */
dt_status dt_comm_mpi_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                             struct dt_comm **out);
/* As dt_comm_available. */
bool dt_comm_mpi_available(char *text, size_t text_bytes);
/* As dt_comm_check_world. */
dt_status dt_comm_mpi_check_world(const struct dt_world *world);
/* nccl/backend.c, or nccl/none.c which says what is missing. Collective; the device is a cuda one. */
dt_status dt_comm_nccl_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                              struct dt_comm **out);
bool dt_comm_nccl_available(char *text, size_t text_bytes);
dt_status dt_comm_nccl_check_world(const struct dt_world *world);

#endif

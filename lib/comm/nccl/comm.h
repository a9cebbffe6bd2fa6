/* Internals of the nccl communicator: backend.c (creation, subsets, end), queue.c (operations),
 * wait.c (what can go wrong meanwhile), abort.c (the end after that), register.c (registered
 * buffers), exchange.c (exchanges between hosts). Included only by these.
 *
 * All communicators of a world are a family: they share the ranks' connections
 * (lib/rendezvous/rendezvous.h), and fail together. Once an operation of one has failed, or has
 * waited too long, all are aborted, since a rank that misses one operation will miss others, too.
 *
 * NCCL is configured not to block. The host polls it: in the calls here as long as NCCL is busy,
 * and, through dt_cuda_watch, while a thread waits for a stream. Polling also checks whether a
 * rank's connection is still open, which NCCL alone notices late or never, and whether an operation
 * has exceeded the step timeout. A pair of events around each operation shows its progress; within
 * a graph there are none. */
#pragma once

#include "lib/comm/backend.h"
#include "lib/comm/nccl/library.h"
#include "lib/device/cuda/device.h"
#include "lib/rendezvous/rendezvous.h"

struct nccl_family {
    struct dt_nccl nccl;
    char library[32]; /* "NCCL 2.28.9" */
    struct dt_device *device;
    struct dt_rendezvous *rendezvous;
    struct dt_cuda_watch watch;
    struct dt_comm_options options;
    int world_rank;
    enum dt_secret_source secret;
    uint32_t groups; /* number of groups that this rank was the first to name */

    bool aborted; /* after a failure, set by the host thread; the next two members then have the reason */
    dt_status failure;
    char failure_text[900];
    int64_t finished_ns; /* when an operation was last found finished */
    bool in_graph;       /* some operations are in a graph */

    struct nccl_abort *aborts;        /* aborts under way; host thread only */
    struct nccl_registrar *registrar; /* the device's source of memory, which owns it; NULL: buffers are not registered */

    pthread_mutex_t mutex;     /* guards the list and the members' `finished` */
    struct nccl_comm *members; /* the newest first */
};

struct nccl_comm {
    struct dt_comm base;
    struct nccl_family *family;
    struct nccl_comm *next;
    ncclComm_t handle; /* NULL: not created yet, or aborted */
    struct dt_rendezvous_group group;
    cudaEvent_t begun[DT_COMM_RING], ended[DT_COMM_RING]; /* by sequence % DT_COMM_RING */
    uint64_t collective[DT_COMM_RING];                    /* its number among the communicator's collectives; 0: a send or receive */
    int peer[DT_COMM_RING];                               /* of a send or receive */
    uint64_t group_of[DT_COMM_RING];                      /* sequence number of the first operation that was queued together with it */
    _Atomic uint64_t collectives;                         /* number of collectives called */
    _Atomic uint64_t queued;                              /* all operations up to this sequence number are on their streams */
    uint64_t finished;                                    /* all operations up to this sequence number were found finished */

    void *control; /* for nccl_control [control_bytes]; freed with the device at the latest; NULL: not needed yet */
    size_t control_bytes;
    uint64_t gathered_among; /* number of calls of host_gather_among */
    struct nccl_registration *registrations;

    uint64_t group_first; /* host thread: sequence number of the open group's first operation; 0: none yet */
};

static inline struct nccl_comm *dt_nccl_of(const struct dt_comm *comm)
{
    return (struct nccl_comm *)comm;
}

/* Wait while NCCL is busy with the call that returned `result`, at most timeout_s (0: no limit).
 * `what` is for the error text; sequence: the operation's number (0: not an operation). The first
 * operation makes connections, and NCCL is busy until the peers have called it, too. Errors:
 * DT_ERR_COMM, DT_ERR_TIMEOUT naming who is missing; the family is then aborted. */
dt_status dt_nccl_settle(struct nccl_comm *comm, ncclResult_t result, const char *what, uint64_t sequence, double timeout_s);
/* The family's first failure: keep it, and abort all. Returns `status`, with `text` as this
 * thread's failure. */
dt_status dt_nccl_give_up(struct nccl_family *family, dt_status status, const char *text);
/* Abort every communicator, and destroy every graph of the device, which may hold their operations;
 * returns when this is done, or after a few seconds (hanging aborts are then abandoned); during a
 * capture it returns at once. No handle is left. Host thread. */
void dt_nccl_abort_all(struct nccl_family *family);
void dt_nccl_abort_one(struct nccl_comm *comm); /* aborts one communicator, without graphs */
/* Wait for aborts that dt_nccl_abort_all has not waited for, with the same limit. */
void dt_nccl_abort_wait(struct nccl_family *family);

/* register.c. From here on the device's memory comes from NCCL, and is registered with each
 * communicator. Call it before the device has buffers. Errors: DT_ERR_UNAVAILABLE: NCCL is too old;
 * DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_nccl_begin_registering(struct nccl_family *family);
void dt_nccl_end_registering(struct nccl_family *family); /* the memory returns to NCCL with the device's end, at the latest */
/* Register all existing memory with a communicator that NCCL has just made. Errors: DT_ERR_COMM,
 * DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. */
dt_status dt_nccl_register(struct nccl_comm *comm);
void dt_nccl_deregister(struct nccl_comm *comm); /* call it before the communicator ends */
uint64_t dt_nccl_registered_bytes(const struct nccl_comm *comm);

/* The result of all calls after a failure: DT_ERR_COMM. */
dt_status dt_nccl_is_over(struct nccl_family *family);
/* dt_cuda_watch's poll; context: the family. */
dt_status dt_nccl_poll(void *context, int64_t waited_ns);
/* Update which operations have begun and ended, for the ring. Any thread. */
void dt_nccl_refresh(struct dt_comm *base);
/* dt_rendezvous_answer; context: the family. */
bool dt_nccl_answer(void *context, uint64_t group, struct dt_rendezvous_progress *out);

/* all [size * bytes] gets the data of every rank's host. `what` begins the error text. A failure
 * ends the family. */
dt_status dt_nccl_gather(struct nccl_comm *comm, const char *what, const void *mine, size_t bytes, void *all, double timeout_s);
/* The backend's entries of these names. */
dt_status dt_nccl_host_all_gather(struct dt_comm *base, const void *mine, size_t bytes, void *all);
dt_status dt_nccl_host_gather(struct dt_comm *base, const void *mine, size_t bytes, void *all);
dt_status dt_nccl_host_reduce(struct dt_comm *base, const double *mine, int count, double *sums_and_highest);
dt_status dt_nccl_host_gather_among(struct dt_comm *base, const int *ranks, int count, const void *mine, size_t bytes, void *all);

dt_status dt_nccl_queue(struct dt_comm *base, const struct dt_comm_operation *operation);
dt_status dt_nccl_group_end(struct dt_comm *base);

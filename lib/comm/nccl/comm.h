/* Inside the nccl communicator: backend.c (creation, subsets, end), queue.c (operations), wait.c (what can go wrong meanwhile), abort.c
 * (the end after that), register.c (registered buffers), exchange.c (what the hosts tell each other). Included by these only.
 *
 * All communicators of a world are a family: they share the ranks' connections (lib/rendezvous/rendezvous.h) and one fate. Once an
 * operation of one has failed, or has waited too long, all are aborted, since what a rank has not got through it will miss everywhere.
 *
 * NCCL is configured not to block. The host polls it: in the calls here as long as NCCL is busy, and, through dt_cuda_watch, while somebody
 * waits for a stream. There it also sees whether a rank's connection is still open, which NCCL alone finds out late or never, and whether
 * an operation has outlived the step timeout. How far operations are is shown by a pair of events around each; within a graph there are
 * none. */
#ifndef LIB_COMM_NCCL_COMM_H
#define LIB_COMM_NCCL_COMM_H

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
    uint32_t groups; /* that this rank was the first to name */

    bool aborted; /* after a failure, by the host thread; then these two contain the reason */
    dt_status failure;
    char failure_text[900];
    int64_t finished_ns; /* when an operation was last seen finished */
    bool in_graph;       /* some operations are */

    struct nccl_abort *aborts;        /* under way; host thread */
    struct nccl_registrar *registrar; /* the device's source of memory, whose it is; NULL: buffers are not registered */

    pthread_mutex_t mutex;     /* guards the list and the members' `finished` */
    struct nccl_comm *members; /* the newest first */
};

struct nccl_comm {
    struct dt_comm base;
    struct nccl_family *family;
    struct nccl_comm *next;
    ncclComm_t handle; /* NULL: not there yet, or aborted */
    struct dt_rendezvous_group group;
    int *ranks;                                           /* [size] of the world */
    cudaEvent_t begun[DT_COMM_RING], ended[DT_COMM_RING]; /* by sequence % DT_COMM_RING */
    uint64_t collective[DT_COMM_RING];                    /* which collective of the communicator it is; 0: a send or receive */
    int peer[DT_COMM_RING];                               /* of a send or receive */
    uint64_t group_of[DT_COMM_RING];                      /* the sequence number of the first that was queued together with it */
    _Atomic uint64_t collectives;                         /* called */
    _Atomic uint64_t queued;                              /* all up to this sequence number are on their streams */
    uint64_t finished;                                    /* all up to this sequence number were seen finished */

    void *control; /* nccl_control's [control_bytes], which the device frees at the latest; NULL: not needed yet */
    size_t control_bytes;
    uint64_t gathered_among; /* calls of host_gather_among */
    struct nccl_registration *registrations;

    /* Host thread: between group_start and group_end. */
    bool grouping;
    struct dt_stream *group_stream;
    uint64_t group_first; /* sequence number; 0: none yet */
};

static inline struct nccl_comm *dt_nccl_of(const struct dt_comm *comm)
{
    return (struct nccl_comm *)comm;
}

/* Wait while NCCL says that it is busy with what returned `result`, at most timeout_s (0: never gives up). `what` is for the text, and
 * sequence, where it is an operation (0: none): its first one needs connections, and NCCL is busy until the peers have called it too.
 * Errors: DT_ERR_COMM, DT_ERR_TIMEOUT naming who is missing; the family is then aborted. */
dt_status dt_nccl_settle(struct nccl_comm *comm, ncclResult_t result, const char *what, uint64_t sequence, double timeout_s);
/* The family's first failure: keep it, and abort all. Returns `status`, with `text` as this thread's failure. */
dt_status dt_nccl_give_up(struct nccl_family *family, dt_status status, const char *text);
/* Abort every communicator, and destroy every graph of the device, which may hold their operations; returns when that is done, at the
 * latest after a few seconds (then aborts that hang are left behind), while a stream is captured at once. No handle is left. Host
 * thread. */
void dt_nccl_abort_all(struct nccl_family *family);
void dt_nccl_abort_one(struct nccl_comm *comm); /* the same of one, without graphs */
/* Wait for what dt_nccl_abort_all has not waited for, as long at most. */
void dt_nccl_abort_wait(struct nccl_family *family);

/* register.c. From here on the device's memory is NCCL's, and registered with each communicator. Before the device has buffers.
 * Errors: DT_ERR_UNAVAILABLE: NCCL is too old; DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_nccl_begin_registering(struct nccl_family *family);
void dt_nccl_end_registering(struct nccl_family *family); /* the memory goes back to NCCL with the device, at the latest */
/* A communicator that NCCL has just made: all memory that there is. Errors: DT_ERR_COMM, DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. */
dt_status dt_nccl_register(struct nccl_comm *comm);
void dt_nccl_deregister(struct nccl_comm *comm); /* before its end */
uint64_t dt_nccl_registered_bytes(const struct nccl_comm *comm);

/* What follows a failure: DT_ERR_COMM. */
dt_status dt_nccl_is_over(struct nccl_family *family);
/* dt_cuda_watch's poll; context: the family. */
dt_status dt_nccl_poll(void *context, int64_t waited_ns);
/* See which operations have begun and ended, for the ring. Any thread. */
void dt_nccl_refresh(struct dt_comm *base);
/* dt_rendezvous_answer; context: the family. */
bool dt_nccl_answer(void *context, uint64_t group, struct dt_rendezvous_progress *out);

/* all [size * bytes] gets what every rank's host gives. `what` begins the error text. A failure ends the family. */
dt_status dt_nccl_gather(struct nccl_comm *comm, const char *what, const void *mine, size_t bytes, void *all, double timeout_s);
/* The backend's entries of these names. */
dt_status dt_nccl_host_all_gather(struct dt_comm *base, const void *mine, size_t bytes, void *all);
dt_status dt_nccl_host_gather(struct dt_comm *base, const void *mine, size_t bytes, void *all);
dt_status dt_nccl_host_reduce(struct dt_comm *base, const double *mine, int count, double *sums_and_highest);
dt_status dt_nccl_host_gather_among(struct dt_comm *base, const int *ranks, int count, const void *mine, size_t bytes, void *all);

dt_status dt_nccl_queue(struct dt_comm *base, const struct dt_comm_operation *operation);
dt_status dt_nccl_group_start(struct dt_comm *base);
dt_status dt_nccl_group_end(struct dt_comm *base);

#endif

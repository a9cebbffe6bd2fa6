/* Internals of the MPI communicator: its state, and how an operation waits. Included only in this
 * folder, the only one that includes mpi.h: backend.c (the library, creation, queueing),
 * operation.c (what moves data), wait.c (waiting, and telling the others why a rank ends).
 *
 * Open MPI makes progress only while somebody calls it, so every operation is a task on its
 * stream's thread that sees it through. Ranks of one machine share its processors with their own
 * compute threads: a rank that waits for a late peer tests and sleeps instead of spinning. */
#pragma once

#include "lib/comm/backend.h"
#include "lib/kernels/cpu/loops.h"

#include <mpi.h>
#include <pthread.h>

/* What a rank that cannot go on sends to the others. */
struct mpi_notice {
    int status; /* dt_status; DT_OK: there is no notice */
    int rank;
    char text[800];
};

/* Shared by a world's communicator and all its subsets. */
struct mpi_family {
    atomic_int members;
    atomic_bool given_up;   /* an operation failed: peers are no longer reliable */
    struct mpi_comm *world; /* notices are sent over it; NULL: no rank listens */
    pthread_mutex_t mutex;  /* guards heard */
    struct mpi_notice heard;
};

struct mpi_transfer {
    char *buffer;
    size_t bytes;
    int peer, tag;
    bool send;
    uint64_t sequence;
};

/* A group's transfers; in the communicator's list until its task has run, which after a failure
 * never happens. */
struct mpi_batch {
    struct mpi_batch *next;
    int count, capacity;
    struct mpi_transfer transfers[];
};

struct mpi_comm {
    struct dt_comm base;
    struct mpi_family *family;
    MPI_Comm handle;
    char library[64];
    const struct dt_simd *loops[DT_DTYPE_COUNT]; /* sums */
    int tag_count;                               /* the number of tags, which are used in turn */

    /* Host thread only. All ranks count collectives in the same way, and both ends of each
     * direction count transfers. */
    unsigned collectives;
    unsigned *sent, *received; /* [size] */
    struct mpi_batch *group;   /* the open one; NULL: none, or it is empty */

    pthread_mutex_t mutex; /* guards batches */
    struct mpi_batch *batches;
    size_t scratch_bytes;
    _Atomic(void *) scratch; /* [scratch_bytes] a block that no operation is using, or NULL */
};

/* Room for data that has arrived and is not summed yet: small enough to stay in a processor's
 * second-level cache in between. It grows with the number of peers, so that their pieces do not
 * become too small. */
enum { DT_MPI_SCRATCH_BYTES = 1 << 20, DT_MPI_SCRATCH_PER_PEER_BYTES = 128 << 10 };

enum mpi_phase { MPI_PHASE_SCATTER, MPI_PHASE_GATHER, MPI_PHASE_TRANSFER, MPI_PHASE_NOTICE };

/* The tag of the n-th operation. Operations far apart share a tag, but are never under way at the
 * same time. */
static inline int dt_mpi_tag(const struct mpi_comm *comm, unsigned number, enum mpi_phase phase)
{
    return (int)(number % (unsigned)comm->tag_count) * 4 + (int)phase;
}

/* A waiting operation, for error texts, for the ring of last operations, and for the time limit. */
struct mpi_waiting {
    struct mpi_comm *comm;
    uint64_t sequence; /* the operation's number in the ring; 0: it is not in the ring, and `what` names it */
    const char *what;
    size_t bytes;
    double timeout_s; /* limit of the time without progress; 0: none */
    bool moving;      /* something has arrived */
};

/* Messages under way that are waited for together. Starts zeroed. */
struct mpi_requests {
    MPI_Request *requests; /* [count] */
    int *peers;            /* [count] the peer's rank; -1: not worth naming */
    int count, capacity;
};

/* Add a send or receive of memory [bytes], in pieces that fit MPI's int counts; nothing for 0
 * bytes. */
dt_status dt_mpi_post(struct mpi_waiting *waiting, struct mpi_requests *requests, bool send, int peer, int tag, char *memory, size_t bytes);
/* Add a request that MPI made. */
dt_status dt_mpi_requests_add(struct mpi_requests *requests, MPI_Request request, int peer);
/* Wait until all messages are complete; the list is then empty. Errors: DT_ERR_TIMEOUT,
 * DT_ERR_COMM; the whole family has then given up communicating. */
dt_status dt_mpi_wait(struct mpi_waiting *waiting, struct mpi_requests *requests);
/* Free the requests. After a failure, cancel incomplete ones first, so that nothing arrives in
 * memory that is about to be freed. Requests that a lost peer never completes are waited for until
 * the end of the withdrawal, 20 ms from its beginning for all requests of an operation. */
void dt_mpi_requests_finish(struct mpi_requests *requests, int64_t withdrawal_ns);
/* The end of the withdrawal, by dt_clock_ns; 0: there was no failure. */
int64_t dt_mpi_withdrawal(dt_status status);

/* As dt_comm_give_up: send the other ranks a notice, and give up. Waits only briefly for ranks that
 * do not receive it. */
void dt_mpi_tell(struct mpi_comm *world, dt_status status, const char *text);

/* DT_OK, or DT_ERR_COMM with MPI's own text; the family has then given up. */
dt_status dt_mpi_check(struct mpi_waiting *waiting, int error);

/* Run an operation, blocking. element_bytes: that of the operation's dtype, or 1 to move bytes. */
dt_status dt_mpi_run_collective(struct mpi_comm *comm, const struct dt_comm_operation *operation, size_t element_bytes, unsigned number);
dt_status dt_mpi_run_transfers(struct mpi_comm *comm, const struct mpi_transfer *transfers, int count);

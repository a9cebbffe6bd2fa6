/* Inside the MPI communicator: its state, and how an operation waits. Included in this folder only, which alone includes mpi.h:
 * backend.c (the library, creation, queueing), operation.c (what moves data), wait.c (waiting, and telling the others why a rank ends).
 *
 * Open MPI makes progress only while somebody calls it, so every operation is a task on its stream's thread that sees it through. The
 * ranks of one machine share its processors with their own compute threads: whoever waits for a late peer tests and sleeps, it does not
 * spin. */
#ifndef LIB_COMM_MPI_COMM_H
#define LIB_COMM_MPI_COMM_H

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
    atomic_bool given_up;   /* an operation failed: no peer can be relied on any more */
    struct mpi_comm *world; /* notices come over it; NULL: nobody listens */
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

/* Transfers that were grouped; in its communicator's list until its task has run, which after a failure it never does. */
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

    /* Host thread only. Collectives are numbered alike by all ranks, transfers by the two ends of each direction. */
    unsigned collectives;
    unsigned *sent, *received; /* [size] */
    bool grouping;
    struct mpi_batch *group;
    struct dt_stream *group_stream;

    pthread_mutex_t mutex; /* guards batches */
    struct mpi_batch *batches;
    size_t scratch_bytes;
    _Atomic(void *) scratch; /* [scratch_bytes] that no operation uses now, or NULL */
};

/* Room for what arrives and is not summed yet: small enough to stay in a processor's second-level cache between the two. Where there are so
 * many peers that their pieces would become crumbs it grows. */
enum { DT_MPI_SCRATCH_BYTES = 1 << 20, DT_MPI_SCRATCH_PER_PEER_BYTES = 128 << 10 };

enum mpi_phase { MPI_PHASE_SCATTER, MPI_PHASE_GATHER, MPI_PHASE_TRANSFER, MPI_PHASE_NOTICE };

/* The tag of the n-th operation. Operations far apart share one, and are never under way together. */
static inline int dt_mpi_tag(const struct mpi_comm *comm, unsigned number, enum mpi_phase phase)
{
    return (int)(number % (unsigned)comm->tag_count) * 4 + (int)phase;
}

/* Who waits, for error texts, for the ring of last operations, and for the time limit. */
struct mpi_waiting {
    struct mpi_comm *comm;
    uint64_t sequence; /* the operation's number in the ring; 0: it is not in the ring, and `what` names it */
    const char *what;
    size_t bytes;
    double timeout_s; /* without any request finished; 0: never */
    bool moving;      /* something has arrived */
};

/* Messages under way that are waited for together. Starts zeroed. */
struct mpi_requests {
    MPI_Request *requests; /* [count] */
    int *peers;            /* [count] the rank at the other end; -1 when it is of no use to name it */
    int count, capacity;
};

/* Add the sending or receiving of memory [bytes], in pieces that MPI's int counts can hold; nothing for 0 bytes. */
dt_status dt_mpi_post(struct mpi_waiting *waiting, struct mpi_requests *requests, bool send, int peer, int tag, char *memory, size_t bytes);
/* Add a request that MPI made. */
dt_status dt_mpi_requests_add(struct mpi_requests *requests, MPI_Request request, int peer);
/* Wait until all messages are complete; the list is then empty. Errors: DT_ERR_TIMEOUT, DT_ERR_COMM; the whole family has then given up. */
dt_status dt_mpi_wait(struct mpi_waiting *waiting, struct mpi_requests *requests);
/* Free. After a failure, take back first what is not complete, so that nothing arrives in memory whose owner is about to free it. What a
 * peer that is gone never lets go is waited for until the withdrawal's end, 20 ms from its beginning for all requests of an operation. */
void dt_mpi_requests_finish(struct mpi_requests *requests, int64_t withdrawal_ns);
/* The end of the withdrawal, by dt_clock_ns; 0: there was no failure. */
int64_t dt_mpi_withdrawal(dt_status status);

/* As dt_comm_give_up: send the others a notice, and give up. Does not wait long for those who do not take it. */
void dt_mpi_tell(struct mpi_comm *world, dt_status status, const char *text);

/* DT_OK, or DT_ERR_COMM with MPI's own text; the family has then given up. */
dt_status dt_mpi_check(struct mpi_waiting *waiting, int error);

/* Carry out an operation, blocking. element_bytes: that of the operation's dtype, or 1 to move bytes. */
dt_status dt_mpi_run_collective(struct mpi_comm *comm, const struct dt_comm_operation *operation, size_t element_bytes, unsigned number);
dt_status dt_mpi_run_transfers(struct mpi_comm *comm, const struct mpi_transfer *transfers, int count);

#endif

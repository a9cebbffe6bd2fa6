/* The MPI communicator's own parts: comm_mpi.c (creation, splitting, the backend's table) and comm_mpi_move.c (what moves the data). These
 * are the only files that include mpi.h. */
#ifndef DT_LIB_COMM_MPI_H
#define DT_LIB_COMM_MPI_H

#include "lib/comm_backend.h"
#include "lib/reduce.h"

#include <mpi.h>

/* Sends and receives of one group, posted together. */
struct mpi_group {
    struct mpi_group *next; /* all groups of a communicator, freed with it */
    struct mpi_comm *comm;
    struct dt_comm_operation *operations;
    int count, capacity;
};

struct mpi_comm {
    struct dt_comm base;
    MPI_Comm stream_comm;       /* operations of streams */
    MPI_Comm host_comm;         /* host_all_gather, and what creation itself exchanges */
    dt_sum_function const *sum; /* [dtype] */
    void *segments[2];          /* [MPI_SEGMENT_BYTES] each: what a ring receives before it is added */
    char library[64];           /* MPI's own name and version */
    bool grouping;
    struct mpi_group *groups; /* the newest first */
    _Atomic bool *aborted;    /* the world's: one flag for a communicator and all that were split from it */
    bool owns_aborted;
};

/* Pieces in which a ring passes a chunk on: small enough to stay in a core's cache between receiving and adding, large enough that the
 * wake-ups between them do not count. */
enum { MPI_SEGMENT_BYTES = 1 << 20 };

/* Run one operation now, on the stream's thread. Errors: DT_ERR_COMM, DT_ERR_TIMEOUT, with a text that names communicator, operation,
 * sequence number and the rank that was waited for. */
dt_status dt_mpi_run(struct mpi_comm *comm, const struct dt_comm_operation *operation);
dt_status dt_mpi_run_group(struct mpi_group *group);

/* Wait for requests [count] without keeping a core busy: the compute threads need it. `peer` < 0: everybody. */
dt_status dt_mpi_wait(struct mpi_comm *comm, MPI_Request *requests, int count, const char *what, int peer, double timeout_s);

/* DT_OK, or DT_ERR_COMM with MPI's own text. */
dt_status dt_mpi_check(const struct mpi_comm *comm, int code, const char *what);

#endif

/* Sends and receives, one or a group of them: all posted together, in pieces that MPI's int counts can hold. */
#include "lib/comm_mpi.h"

#include <stdlib.h>

/* Long enough to move at full speed, short enough for an abort to be heard in between. */
enum { PIECE_BYTES = 16 << 20 };

static size_t piece_of(const struct mpi_transfer *transfer, size_t piece)
{
    size_t first = piece * PIECE_BYTES;
    if (first >= transfer->bytes)
        return 0;
    return transfer->bytes - first < PIECE_BYTES ? transfer->bytes - first : PIECE_BYTES;
}

/* Post piece `piece` of every transfer that has one; `used` counts them. */
static dt_status post(struct mpi_waiting *waiting, const struct mpi_transfer *transfers, int count, size_t piece, MPI_Request *requests,
                      int *peers, int *used)
{
    *used = 0;
    for (int i = 0; i < count; i++) {
        const struct mpi_transfer *t = &transfers[i];
        int bytes = (int)piece_of(t, piece);
        if (bytes == 0)
            continue;
        char *memory = t->buffer + piece * PIECE_BYTES;
        int error = t->send ? MPI_Isend(memory, bytes, MPI_BYTE, t->peer, t->tag, waiting->comm->handle, &requests[*used])
                            : MPI_Irecv(memory, bytes, MPI_BYTE, t->peer, t->tag, waiting->comm->handle, &requests[*used]);
        peers[(*used)++] = t->peer;
        DT_TRY(dt_mpi_check(waiting, error));
    }
    return DT_OK;
}

/* Two pieces of each transfer are under way at a time. */
static dt_status run(struct mpi_waiting *waiting, const struct mpi_transfer *transfers, int count, MPI_Request *requests, int *peers)
{
    int used[2] = {0, 0};
    size_t pieces = 0;
    for (int i = 0; i < count; i++) {
        size_t of_this = (transfers[i].bytes + PIECE_BYTES - 1) / PIECE_BYTES;
        pieces = of_this > pieces ? of_this : pieces;
    }
    for (size_t piece = 0; piece < pieces + 1; piece++) {
        int now = piece % 2, before = !now;
        if (piece < pieces)
            DT_TRY(post(waiting, transfers, count, piece, requests + now * count, peers + now * count, &used[now]));
        if (piece > 0)
            DT_TRY(dt_mpi_wait(waiting, requests + before * count, peers + before * count, used[before]));
    }
    return DT_OK;
}

dt_status dt_mpi_run_transfers(struct mpi_comm *comm, const struct mpi_transfer *transfers, int count)
{
    struct mpi_waiting waiting = {
        .comm = comm,
        .sequence = transfers[0].sequence,
        .timeout_s = comm->base.options.step_timeout_s,
    };
    dt_status status = DT_OK;
    int *peers = malloc(2 * (size_t)count * sizeof *peers);
    MPI_Request *requests = malloc(2 * (size_t)count * sizeof *requests);
    if (!peers || !requests) {
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the requests of %d transfers", count);
        goto done;
    }
    for (int i = 0; i < 2 * count; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < count; i++) {
        waiting.bytes += transfers[i].bytes;
        dt_comm_mark(&comm->base, transfers[i].sequence, DT_COMM_WAITING);
    }
    status = run(&waiting, transfers, count, requests, peers);
    if (status < 0)
        dt_mpi_withdraw(requests, 2 * count);
    for (int i = 0; i < count; i++)
        dt_comm_mark(&comm->base, transfers[i].sequence, status < 0 ? DT_COMM_FAILED : DT_COMM_DONE);
done:
    free(peers);
    free(requests);
    return status;
}

/* Sends and receives, one or a group of them: all posted together. */
#include "lib/comm/mpi/comm.h"

dt_status dt_mpi_run_transfers(struct mpi_comm *comm, const struct mpi_transfer *transfers, int count)
{
    struct mpi_waiting waiting = {.comm = comm, .sequence = transfers[0].sequence, .timeout_s = comm->base.options.step_timeout_s};
    struct mpi_requests requests = {0};
    dt_status status = DT_OK;
    for (int i = 0; i < count; i++) {
        waiting.bytes += transfers[i].bytes;
        dt_comm_mark(&comm->base, transfers[i].sequence, DT_COMM_WAITING);
    }
    for (int i = 0; i < count && status == DT_OK; i++) {
        const struct mpi_transfer *t = &transfers[i];
        status = dt_mpi_post(&waiting, &requests, t->send, t->peer, t->tag, t->buffer, t->bytes);
    }
    if (status == DT_OK)
        status = dt_mpi_wait(&waiting, &requests);
    dt_mpi_requests_finish(&requests, status < 0);
    for (int i = 0; i < count; i++)
        dt_comm_mark(&comm->base, transfers[i].sequence, status < 0 ? DT_COMM_FAILED : DT_COMM_DONE);
    return status;
}

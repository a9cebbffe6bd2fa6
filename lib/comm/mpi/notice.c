/* A rank that cannot go on tells the others why, while they wait for it. */
#include "lib/base/clock.h"
#include "lib/comm/mpi/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A notice is small enough to leave at once; an unreachable rank must not keep its sender. */
static const double leaves_s = 1;

static int tag_of_notices(const struct mpi_comm *world)
{
    return dt_mpi_tag(world, 0, MPI_PHASE_NOTICE);
}

/* The requests of what an unreachable rank has not taken, and the notice, stay: this process is about to end. */
void dt_mpi_tell(struct mpi_comm *world, dt_status status, const char *text)
{
    struct mpi_family *family = world->family;
    struct mpi_notice heard;
    int size = world->base.size, complete = 0;
    if (dt_mpi_heard(family, &heard)) /* the others hear it from that rank */
        return;
    struct mpi_notice *notice = calloc(1, sizeof *notice);
    MPI_Request *requests = calloc((size_t)size, sizeof *requests);
    for (int i = 0; notice && requests && i < size; i++) {
        requests[i] = MPI_REQUEST_NULL;
        notice->status = status;
        notice->rank = world->base.rank;
        snprintf(notice->text, sizeof notice->text, "%s", text);
        if (i != world->base.rank)
            (void)MPI_Isend(notice, sizeof *notice, MPI_BYTE, i, tag_of_notices(world), world->handle, &requests[i]);
    }
    atomic_store(&family->given_up, true);
    int64_t deadline = dt_deadline_ns(leaves_s);
    while (notice && requests && !complete && !dt_deadline_passed(deadline)) {
        if (MPI_Testall(size, requests, &complete, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            break;
        if (!complete)
            dt_sleep_ms(1);
    }
    if (complete || !notice || !requests) {
        free(notice);
        free(requests);
    }
}

bool dt_mpi_listen(struct mpi_family *family)
{
    struct mpi_notice notice;
    MPI_Message message;
    int there = 0;
    if (!family->world)
        return false;
    if (MPI_Improbe(MPI_ANY_SOURCE, tag_of_notices(family->world), family->world->handle, &there, &message, MPI_STATUS_IGNORE) !=
            MPI_SUCCESS ||
        !there || MPI_Mrecv(&notice, sizeof notice, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    notice.text[sizeof notice.text - 1] = 0;
    pthread_mutex_lock(&family->mutex);
    if (family->heard.status == DT_OK)
        family->heard = notice;
    pthread_mutex_unlock(&family->mutex);
    return true;
}

bool dt_mpi_heard(struct mpi_family *family, struct mpi_notice *out)
{
    pthread_mutex_lock(&family->mutex);
    *out = family->heard;
    pthread_mutex_unlock(&family->mutex);
    return out->status != DT_OK;
}

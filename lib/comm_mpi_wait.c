#include "lib/comm_mpi.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int dt_mpi_tag(const struct mpi_comm *comm, unsigned number, enum mpi_phase phase)
{
    return (int)(number % (unsigned)comm->tag_count) * 4 + (int)phase;
}

/* Between two looks: at once in the first microseconds, while the data is probably on its way; then ever longer naps. The longest costs
 * little processor time and delays a step by no more than a scheduler's tick. */
static void nap(int64_t waited_ns)
{
    if (waited_ns < 5000)
        return;
    long length_ns = waited_ns < 200000 ? 10000 : waited_ns < 2000000 ? 50000 : 200000;
    struct timespec t = {0, length_ns};
    nanosleep(&t, NULL);
}

/* An operation's own name stands before the text already: the stream puts it there. */
static dt_status give_up(struct mpi_waiting *w, dt_status status, const char *why)
{
    const struct dt_comm *comm = &w->comm->base;
    char text[1024], what[48];
    snprintf(text, sizeof text, "%s", why);
    if (w->sequence)
        snprintf(what, sizeof what, "operation %llu", (unsigned long long)w->sequence);
    else
        snprintf(what, sizeof what, "%s", w->what);
    atomic_store(&w->comm->family->given_up, true);
    if (w->sequence)
        dt_comm_mark(&w->comm->base, w->sequence, DT_COMM_FAILED);
    return dt_fail(status, "%s of communicator %s, %zu bytes, rank %d of %d: %s", what, comm->name, w->bytes, comm->rank, comm->size, text);
}

dt_status dt_mpi_check(struct mpi_waiting *w, int error)
{
    if (error == MPI_SUCCESS)
        return DT_OK;
    char text[MPI_MAX_ERROR_STRING] = "an error without a name";
    int length = 0, class = 0;
    MPI_Error_string(error, text, &length);
    MPI_Error_class(error, &class);
    if (class == MPI_ERR_TRUNCATE)
        snprintf(text, sizeof text, "the ranks call different operations, or with different counts");
    return give_up(w, DT_ERR_COMM, text);
}

/* Requests are looked at one by one: MPI_Testall tells that something failed, but not what. */
static dt_status test_all(struct mpi_waiting *w, MPI_Request *requests, int count, bool *out_complete)
{
    for (int i = 0; i < count; i++) {
        int complete = 0;
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        DT_TRY(dt_mpi_check(w, MPI_Test(&requests[i], &complete, MPI_STATUS_IGNORE)));
        if (!complete) { /* the others' turn comes when this one is through */
            *out_complete = false;
            return DT_OK;
        }
    }
    *out_complete = true;
    return DT_OK;
}

/* The peers that have not done their part: "rank 1, 3". */
static void name_missing(MPI_Request *requests, const int *peers, int count, char *out, size_t out_bytes)
{
    int named = 0;
    snprintf(out, out_bytes, "the others");
    for (int i = 0; i < count; i++) {
        int complete = 0;
        bool known = peers[i] < 0;
        for (int j = 0; j < i; j++)
            known |= peers[j] == peers[i] && requests[j] != MPI_REQUEST_NULL;
        if (known || MPI_Test(&requests[i], &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS || complete)
            continue;
        size_t used = named ? strlen(out) : 0;
        snprintf(out + used, out_bytes - used, "%s%d", named++ ? ", " : "rank ", peers[i]);
    }
}

dt_status dt_mpi_wait(struct mpi_waiting *w, MPI_Request *requests, const int *peers, int count)
{
    int64_t start_ns = 0;
    for (;;) {
        bool complete;
        DT_TRY(test_all(w, requests, count, &complete));
        if (complete) {
            if (!w->moving && w->sequence)
                dt_comm_mark(&w->comm->base, w->sequence, DT_COMM_MOVING);
            w->moving = true;
            return DT_OK;
        }
        if (atomic_load(&w->comm->family->given_up))
            return give_up(w, DT_ERR_COMM, "given up, as asked or because another operation failed");
        int64_t time_ns = now_ns();
        start_ns = start_ns ? start_ns : time_ns;
        if (w->timeout_s > 0 && (double)(time_ns - start_ns) * 1e-9 > w->timeout_s) {
            char missing[512], text[600];
            name_missing(requests, peers, count, missing, sizeof missing);
            snprintf(text, sizeof text, "waited %g s for %s", w->timeout_s, missing);
            return give_up(w, DT_ERR_TIMEOUT, text);
        }
        nap(time_ns - start_ns);
    }
}

void dt_mpi_withdraw(MPI_Request *requests, int count)
{
    int complete = 0;
    for (int i = 0; i < count; i++) {
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&requests[i]);
    }
    for (int tries = 0; tries < 20 && !complete; tries++) {
        struct timespec t = {0, 1000000};
        if (MPI_Testall(count, requests, &complete, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            break;
        if (!complete)
            nanosleep(&t, NULL);
    }
}

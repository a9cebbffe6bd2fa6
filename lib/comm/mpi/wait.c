/* Waiting for messages. A rank that cannot go on sends the others a notice with the reason, which
 * they receive while they wait. */
#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/comm/mpi/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* A notice is small enough to be sent at once; an unreachable rank must not delay its sender longer
 * than this. */
static const double leaves_s = 1;

static int tag_of_notices(const struct mpi_comm *world)
{
    return dt_mpi_tag(world, 0, MPI_PHASE_NOTICE);
}

/* The first notice that was received, by any thread. */
static bool heard_notice(struct mpi_family *family, struct mpi_notice *out)
{
    pthread_mutex_lock(&family->mutex);
    *out = family->heard;
    pthread_mutex_unlock(&family->mutex);
    return out->status != DT_OK;
}

/* Requests to an unreachable rank, and the notice, are not freed: this process is about to end. */
void dt_mpi_tell(struct mpi_comm *world, dt_status status, const char *text)
{
    struct mpi_family *family = world->family;
    struct mpi_notice heard;
    int size = world->base.size, complete = 0;
    if (heard_notice(family, &heard)) /* the other ranks receive the notice from that rank */
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

/* Whether a notice has arrived. */
static bool listen_for_notice(struct mpi_family *family)
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

/* ---- waiting ---- */

/* Long enough for full speed, short enough to notice an abort in between. */
enum { PIECE_BYTES = 64 << 20 };

/* After this wait notices are polled, too, which costs a microsecond each time. */
enum { LISTEN_NS = 1000000 };

/* Pause between two polls: none in the first microseconds, while the data is probably arriving;
 * then a quarter of the time waited so far. Each pause costs the processor about 20 us, so the
 * longest ones take a few percent of a core from the kernels, and a wait is at most a quarter
 * longer than necessary. The kernel may delay the end of a pause by the thread's timer slack, 50 us
 * by default. */
static void nap(int64_t waited_ns)
{
    if (waited_ns < 10000)
        return;
    const int64_t shortest_ns = 20000, longest_ns = 1000000;
    int64_t length_ns = waited_ns / 4 > shortest_ns ? waited_ns / 4 : shortest_ns;
    if (length_ns > longest_ns)
        length_ns = longest_ns;
    prctl(PR_SET_TIMERSLACK, 1000);
    dt_sleep_ns(length_ns);
}

/* The stream adds the operation's name before the text. */
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

/* Another operation, thread or rank has given up. */
static dt_status give_up_with_others(struct mpi_waiting *w)
{
    struct mpi_notice heard;
    char text[sizeof heard.text + 32];
    if (!heard_notice(w->comm->family, &heard))
        return give_up(w, DT_ERR_COMM, "given up, as asked or because another operation failed");
    snprintf(text, sizeof text, "rank %d gave up: %s", heard.rank, heard.text);
    return give_up(w, (dt_status)heard.status, text);
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

dt_status dt_mpi_requests_add(struct mpi_requests *r, MPI_Request request, int peer)
{
    if (r->count == r->capacity) {
        int capacity = r->capacity ? 2 * r->capacity : 16;
        bool grown =
            dt_resize(&r->requests, (size_t)capacity * sizeof *r->requests) && dt_resize(&r->peers, (size_t)capacity * sizeof *r->peers);
        DT_TRY(dt_allocated(grown, "no host memory for %d messages", capacity));
        r->capacity = capacity;
    }
    r->requests[r->count] = request;
    r->peers[r->count++] = peer;
    return DT_OK;
}

/* Allocate the request's place before MPI starts it: no message may be under way that is not waited
 * for. */
dt_status dt_mpi_post(struct mpi_waiting *w, struct mpi_requests *r, bool send, int peer, int tag, char *memory, size_t bytes)
{
    MPI_Comm handle = w->comm->handle;
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        int piece = bytes - done < PIECE_BYTES ? (int)(bytes - done) : PIECE_BYTES;
        DT_TRY(dt_mpi_requests_add(r, MPI_REQUEST_NULL, peer));
        MPI_Request *request = &r->requests[r->count - 1];
        DT_TRY(dt_mpi_check(w, send ? MPI_Isend(memory + done, piece, MPI_BYTE, peer, tag, handle, request)
                                    : MPI_Irecv(memory + done, piece, MPI_BYTE, peer, tag, handle, request)));
    }
    return DT_OK;
}

/* The number of complete requests from the front. Tested one by one: MPI_Testall reports that
 * something failed, but not what. */
static dt_status test_from(struct mpi_waiting *w, struct mpi_requests *r, int *front)
{
    for (; *front < r->count; ++*front) {
        int complete = 1;
        if (r->requests[*front] != MPI_REQUEST_NULL)
            DT_TRY(dt_mpi_check(w, MPI_Test(&r->requests[*front], &complete, MPI_STATUS_IGNORE)));
        if (!complete)
            break;
    }
    return DT_OK;
}

/* Name the peers that have not done their part: "rank 1, 3". */
static void name_missing(struct mpi_requests *r, char *out, size_t out_bytes)
{
    int named = 0;
    snprintf(out, out_bytes, "the others");
    for (int i = 0; i < r->count; i++) {
        int complete = 0;
        bool known = r->peers[i] < 0;
        for (int j = 0; j < i; j++)
            known |= r->peers[j] == r->peers[i] && r->requests[j] != MPI_REQUEST_NULL;
        if (known || MPI_Test(&r->requests[i], &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS || complete)
            continue;
        size_t used = named ? strlen(out) : 0;
        snprintf(out + used, out_bytes - used, "%s%d", named++ ? ", " : "rank ", r->peers[i]);
    }
}

dt_status dt_mpi_wait(struct mpi_waiting *w, struct mpi_requests *r)
{
    int64_t start_ns = 0; /* beginning of the wait for the message in front */
    for (int front = 0;;) {
        int before = front;
        DT_TRY(test_from(w, r, &front));
        if (front > before && !w->moving) {
            if (w->sequence)
                dt_comm_mark(&w->comm->base, w->sequence, DT_COMM_MOVING);
            w->moving = true;
        }
        if (front == r->count)
            break;
        int64_t time_ns = dt_clock_ns();
        start_ns = front == before && start_ns ? start_ns : time_ns;
        if (atomic_load(&w->comm->family->given_up) || (time_ns - start_ns > LISTEN_NS && listen_for_notice(w->comm->family)))
            return give_up_with_others(w);
        if (w->timeout_s > 0 && (double)(time_ns - start_ns) * 1e-9 > w->timeout_s) {
            char missing[512], text[600];
            name_missing(r, missing, sizeof missing);
            snprintf(text, sizeof text, "waited %g s for %s", w->timeout_s, missing);
            return give_up(w, DT_ERR_TIMEOUT, text);
        }
        nap(time_ns - start_ns);
    }
    r->count = 0;
    return DT_OK;
}

static void take_back(struct mpi_requests *r, int64_t until_ns)
{
    int complete = 0;
    for (int i = 0; i < r->count; i++) {
        if (r->requests[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&r->requests[i]);
    }
    while (MPI_Testall(r->count, r->requests, &complete, MPI_STATUSES_IGNORE) == MPI_SUCCESS && !complete && dt_clock_ns() < until_ns)
        dt_sleep_ms(1);
}

int64_t dt_mpi_withdrawal(dt_status status)
{
    return status < 0 ? dt_clock_ns() + 20 * INT64_C(1000000) : 0;
}

void dt_mpi_requests_finish(struct mpi_requests *r, int64_t withdrawal_ns)
{
    if (withdrawal_ns && r->count)
        take_back(r, withdrawal_ns);
    free(r->requests);
    free(r->peers);
    *r = (struct mpi_requests){0};
}

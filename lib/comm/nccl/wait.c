/* Waiting for NCCL, and the failures that can happen meanwhile. */
#include "lib/base/clock.h"
#include "lib/comm/nccl/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* look_s: between two full checks of a poll; answers_s: for other ranks to report their progress;
 * left_s: how long a rank that has left normally may be missing while operations are under way,
 * since its own part may be done. */
static const double look_s = 0.002, answers_s = 1, left_s = 10;

/* No pause in the first microseconds, then ever longer pauses, up to a millisecond. */
static void nap(int64_t waited_ns)
{
    if (waited_ns < 50000)
        return;
    dt_sleep_ns(waited_ns / 4 < 1000000 ? waited_ns / 4 : 1000000);
}

/* ---- progress of operations ---- */

/* Update one communicator; the family's mutex is held. NCCL runs its operations in order, so the
 * first one that has not ended is the current one. */
static void refresh(struct nccl_comm *comm)
{
    uint64_t called = atomic_load(&comm->base.sequence), queued = atomic_load(&comm->queued);
    if (called > DT_COMM_RING && comm->finished < called - DT_COMM_RING)
        comm->finished = called - DT_COMM_RING;
    for (; comm->finished < queued; comm->finished++) {
        uint64_t sequence = comm->finished + 1;
        size_t slot = sequence % DT_COMM_RING;
        const struct dt_comm_entry *entry = &comm->base.ring[slot];
        if (atomic_load(&entry->state) == DT_COMM_IN_GRAPH || atomic_load(&entry->state) == DT_COMM_FAILED)
            continue;
        if (cudaEventQuery(comm->ended[slot]) == cudaSuccess) {
            dt_comm_mark(&comm->base, sequence, DT_COMM_DONE);
            comm->family->finished_ns = dt_clock_ns();
            continue;
        }
        cudaGetLastError(); /* "not ready" is not an error */
        if (cudaEventQuery(comm->begun[slot]) == cudaSuccess)
            dt_comm_mark(&comm->base, sequence, DT_COMM_WAITING);
        cudaGetLastError();
        return;
    }
}

void dt_nccl_refresh(struct dt_comm *base)
{
    struct nccl_comm *comm = dt_nccl_of(base);
    cudaSetDevice(dt_cuda_ordinal(base->device)); /* a thread that has not set its GPU would open GPU 0 */
    pthread_mutex_lock(&comm->family->mutex);
    if (!dt_cuda_capturing(base->device)) /* queries are forbidden during a capture */
        refresh(comm);
    pthread_mutex_unlock(&comm->family->mutex);
}

bool dt_nccl_answer(void *context, uint64_t group, struct dt_rendezvous_progress *out)
{
    struct nccl_family *f = context;
    bool found = false;
    pthread_mutex_lock(&f->mutex);
    for (const struct nccl_comm *c = f->members; c && !found; c = c->next) {
        found = c->group.id == group;
        if (found)
            *out = (struct dt_rendezvous_progress){.called = atomic_load(&c->collectives), .finished = c->finished};
    }
    pthread_mutex_unlock(&f->mutex);
    return found;
}

/* ---- giving up ---- */

dt_status dt_nccl_is_over(struct nccl_family *f)
{
    return dt_fail(DT_ERR_COMM, "given up, because of an earlier failure: %s", f->failure_text);
}

dt_status dt_nccl_give_up(struct nccl_family *f, dt_status status, const char *text)
{
    if (f->aborted)
        return dt_nccl_is_over(f);
    dt_rendezvous_tell(f->rendezvous, status, text); /* otherwise the other ranks would only see this rank leave */
    snprintf(f->failure_text, sizeof f->failure_text, "%s", text);
    f->failure = status;
    f->aborted = true;
    dt_rendezvous_interrupt(f->rendezvous);
    pthread_mutex_lock(&f->mutex);
    for (struct nccl_comm *c = f->members; c; c = c->next) {
        for (uint64_t s = c->finished + 1; s <= atomic_load(&c->base.sequence); s++)
            if (atomic_load(&c->base.ring[s % DT_COMM_RING].state) != DT_COMM_IN_GRAPH)
                dt_comm_mark(&c->base, s, DT_COMM_FAILED);
    }
    pthread_mutex_unlock(&f->mutex);
    dt_nccl_abort_all(f);
    return dt_fail(status, "%s", f->failure_text);
}

/* ---- checks for failures ---- */

/* Fail if a rank of the world has given up, its connection closed, or (with `left`) it has left. */
static dt_status check_ranks(struct nccl_family *f, bool left)
{
    char text[900], why[800];
    dt_status status;
    int rank;
    const struct nccl_comm *world = f->members;
    while (world && world->next) /* find the oldest */
        world = world->next;
    if (dt_rendezvous_heard(f->rendezvous, &rank, &status, why, sizeof why)) {
        snprintf(text, sizeof text, "rank %d gave up: %s", rank, why);
        return dt_nccl_give_up(f, status, text);
    }
    int gone = world ? dt_rendezvous_gone(f->rendezvous, &world->group, left) : -1;
    if (gone < 0)
        return DT_OK;
    const char *how = left ? "it has left while others wait" : dt_rendezvous_how_gone(f->rendezvous, &world->group, gone);
    snprintf(text, sizeof text, "rank %d of %d is gone: %s", gone, world->base.size, how);
    return dt_nccl_give_up(f, DT_ERR_COMM, text);
}

/* NCCL has failed. It may notice a lost peer a moment before the ranks' own connections do, which
 * know which rank it is and why. */
static dt_status fail_nccl(struct nccl_comm *comm, const char *what, ncclResult_t result)
{
    const struct dt_nccl *nccl = &comm->family->nccl;
    bool network = result == ncclRemoteError || result == ncclSystemError;
    char why[300], text[800];
    snprintf(why, sizeof why, "%s", nccl->last_error(comm->handle));
    for (int i = 0; network && i < 30; i++) {
        DT_TRY(check_ranks(comm->family, false));
        dt_sleep_ms(10);
    }
    snprintf(text, sizeof text, "%s of communicator %s, rank %d of %d: NCCL: %s%s%s%s", what, comm->base.name, comm->base.rank,
             comm->base.size, nccl->error_string(result), *why ? " (" : "", why, *why ? ")" : "");
    return dt_nccl_give_up(comm->family, DT_ERR_COMM, text);
}

/* Describe an operation that a communicator waits for, and the ranks that have not called it, as
 * far as the others answer. False: all have called it. */
static bool describe_wait(struct nccl_comm *comm, uint64_t sequence, double waited_s, char *text, size_t text_bytes)
{
    size_t slot = sequence % DT_COMM_RING, size = (size_t)comm->base.size;
    const struct dt_comm_entry *entry = &comm->base.ring[slot];
    DT_FREED struct dt_rendezvous_progress *progress = calloc(size, sizeof *progress);
    bool *flags = calloc(3 * size, sizeof *flags), *answered = flags, *behind = flags + size, *silent = behind + size;
    char who[300] = "";
    bool any_behind = false, any_silent = false;
    if (flags && !comm->collective[slot]) {
        uint64_t group = comm->group_of[slot];
        for (uint64_t s = sequence; s <= atomic_load(&comm->base.sequence) && comm->group_of[s % DT_COMM_RING] == group; s++)
            behind[comm->peer[s % DT_COMM_RING]] = true;
        dt_rendezvous_name_ranks(behind, (int)size, who, sizeof who);
    } else if (progress && flags) {
        dt_rendezvous_ask(comm->family->rendezvous, &comm->group, answers_s, progress, answered);
        for (size_t i = 0; i < size; i++) {
            any_behind |= behind[i] = answered[i] && progress[i].called < comm->collective[slot];
            any_silent |= silent[i] = !answered[i];
        }
        dt_rendezvous_name_ranks(any_behind ? behind : silent, (int)size, who, sizeof who);
        size_t used = strlen(who);
        if (any_behind || any_silent)
            snprintf(who + used, sizeof who - used, any_behind ? ", still before it" : ", from which nothing is heard");
    }
    free(flags);
    snprintf(text, text_bytes, "%s: operation %llu of communicator %s, %llu bytes, rank %d of %d: waited %.3g s for %s",
             dt_comm_kind_name(entry->kind), (unsigned long long)sequence, comm->base.name, (unsigned long long)entry->bytes,
             comm->base.rank, comm->base.size, waited_s, *who ? who : "the others, which have all called it");
    return *who != 0;
}

dt_status dt_nccl_settle(struct nccl_comm *comm, ncclResult_t result, const char *what, uint64_t sequence, double timeout_s)
{
    static const char hint[] = "NCCL_DEBUG=INFO shows what it tries, and NCCL_SOCKET_IFNAME sets which network it may use";
    struct nccl_family *f = comm->family;
    int64_t start_ns = dt_clock_ns();
    while (result == ncclInProgress) {
        int64_t waited_ns = dt_clock_ns() - start_ns;
        double waited_s = (double)waited_ns * 1e-9;
        if (f->aborted)
            return dt_nccl_is_over(f);
        if (waited_ns > 1000000)
            DT_TRY(check_ranks(f, sequence && waited_s > left_s));
        if (timeout_s > 0 && waited_s > timeout_s) {
            char text[800];
            if (!sequence)
                snprintf(text, sizeof text, "%s of communicator %s, rank %d of %d: NCCL was not done within %g s; %s", what,
                         comm->base.name, comm->base.rank, comm->base.size, timeout_s, hint);
            else if (!describe_wait(comm, sequence, timeout_s, text, sizeof text))
                snprintf(text + strlen(text), sizeof text - strlen(text), ", and NCCL does not connect them; %s", hint);
            return dt_nccl_give_up(f, DT_ERR_TIMEOUT, text);
        }
        nap(waited_ns);
        if (comm->handle && f->nccl.comm_async_error(comm->handle, &result) != ncclSuccess)
            result = ncclInternalError;
    }
    return result == ncclSuccess ? DT_OK : fail_nccl(comm, what, result);
}

/* Nothing has finished for too long, although operations are under way. */
static dt_status time_out(struct nccl_family *f, double waited_s)
{
    char text[800], names[300] = "";
    for (struct nccl_comm *c = f->members; c; c = c->next) {
        if (c->finished >= atomic_load(&c->queued))
            continue;
        const struct dt_comm_entry *entry = &c->base.ring[(c->finished + 1) % DT_COMM_RING];
        if (atomic_load(&entry->state) != DT_COMM_WAITING) /* it waits for other work on its stream */
            continue;
        describe_wait(c, c->finished + 1, waited_s, text, sizeof text);
        return dt_nccl_give_up(f, DT_ERR_TIMEOUT, text);
    }
    for (const struct nccl_comm *c = f->members; c; c = c->next) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", c->base.name);
    }
    snprintf(text, sizeof text, "a graph with operations of communicators (%s) was not done within %g s", names, waited_s);
    return dt_nccl_give_up(f, DT_ERR_TIMEOUT, text);
}

/* Whether operations have begun and not ended; unknown within a graph. */
static bool is_waiting(struct nccl_family *f)
{
    bool waiting = f->in_graph;
    pthread_mutex_lock(&f->mutex);
    for (struct nccl_comm *c = f->members; c; c = c->next) {
        refresh(c);
        uint64_t next = c->finished + 1;
        waiting |= next <= atomic_load(&c->queued) && atomic_load(&c->base.ring[next % DT_COMM_RING].state) == DT_COMM_WAITING;
    }
    pthread_mutex_unlock(&f->mutex);
    return waiting;
}

dt_status dt_nccl_poll(void *context, int64_t waited_ns)
{
    struct nccl_family *f = context;
    if (f->aborted)
        return dt_nccl_is_over(f);
    if ((double)waited_ns * 1e-9 < look_s) /* most waits end before this */
        return DT_OK;
    bool waiting = is_waiting(f);
    DT_TRY(check_ranks(f, false)); /* the connections know more than NCCL, which only sees them close */
    for (struct nccl_comm *c = f->members; c; c = c->next) {
        ncclResult_t error = ncclSuccess;
        if (c->handle && f->nccl.comm_async_error(c->handle, &error) != ncclSuccess)
            error = ncclInternalError;
        if (error != ncclSuccess && error != ncclInProgress)
            return fail_nccl(c, "operations", error);
    }
    int64_t now = dt_clock_ns(), begin_ns = now - waited_ns, idle_ns = now - (f->finished_ns > begin_ns ? f->finished_ns : begin_ns);
    double idle_s = (double)idle_ns * 1e-9;
    if (waiting && idle_s > left_s)
        DT_TRY(check_ranks(f, true));
    if (waiting && f->options.step_timeout_s > 0 && idle_s > f->options.step_timeout_s)
        return time_out(f, f->options.step_timeout_s);
    return DT_OK;
}

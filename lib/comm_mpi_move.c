/* Moving data with MPI's point-to-point messages.
 *
 * Collectives are rings of our own: MPI knows no 16-bit floats, and its blocking calls keep a core busy while they wait, a core that
 * belongs to the kernels beside which this thread runs. Every wait here tests, yields a few times and then sleeps.
 * Source  ring all-reduce: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009. */
#include "lib/comm_mpi.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TAG_COLLECTIVE = 1,
    TAG_PAIR = 2,
    PIECE_BYTES = 1 << 30, /* MPI counts with an int */
    YIELDS = 20,           /* tests that only yield, before the first sleep */
    SLEEP_NS = 50 * 1000,
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

dt_status dt_mpi_check(const struct mpi_comm *comm, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (code == MPI_SUCCESS)
        return DT_OK;
    MPI_Error_string(code, text, &length);
    return dt_fail(DT_ERR_COMM, "%s: %s: %.*s", comm->base.name, what, length, text);
}

dt_status dt_mpi_wait(struct mpi_comm *comm, MPI_Request *requests, int count, const char *what, int peer, double timeout_s)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};
    double start_s = 0;
    for (int tests = 0;; tests++) {
        int done = 0;
        DT_TRY(dt_mpi_check(comm, MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), what));
        if (done)
            return DT_OK;
        if (atomic_load(comm->aborted))
            return dt_fail(DT_ERR_COMM, "%s: %s: given up", comm->base.name, what);
        if (tests < YIELDS) {
            sched_yield();
            continue;
        }
        if (tests == YIELDS)
            start_s = now_s();
        nanosleep(&pause, NULL);
        if (timeout_s > 0 && now_s() - start_s > timeout_s) {
            char whom[32] = "the other ranks";
            if (peer >= 0)
                snprintf(whom, sizeof whom, "rank %d", peer);
            return dt_fail(DT_ERR_TIMEOUT, "%s: %s: rank %d has waited %.0f s for %s", comm->base.name, what, comm->base.rank, timeout_s,
                           whom);
        }
    }
}

/* One exchange of a running operation: where it is, for texts and the ring of operations. */
struct move {
    struct mpi_comm *comm;
    const struct dt_comm_operation *operation;
    char what[64];
    bool moving; /* something has arrived: this is no longer waiting for a late peer */
};

static struct move move_of(struct mpi_comm *comm, const struct dt_comm_operation *operation)
{
    struct move m = {.comm = comm, .operation = operation};
    snprintf(m.what, sizeof m.what, "%s number %llu (%zu elements)", dt_comm_kind_name(operation->kind),
             (unsigned long long)operation->sequence, operation->count_elems);
    dt_comm_mark(&comm->base, operation->sequence, DT_COMM_WAITING);
    return m;
}

static dt_status move_wait(struct move *m, MPI_Request *requests, int count, int peer)
{
    DT_TRY(dt_mpi_wait(m->comm, requests, count, m->what, peer, m->comm->base.options.step_timeout_s));
    if (!m->moving)
        dt_comm_mark(&m->comm->base, m->operation->sequence, DT_COMM_MOVING);
    m->moving = true;
    return DT_OK;
}

static dt_status post_send(struct move *m, const void *data, size_t bytes, int peer, int tag, MPI_Request *request)
{
    return dt_mpi_check(m->comm, MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, m->comm->stream_comm, request), m->what);
}

static dt_status post_receive(struct move *m, void *data, size_t bytes, int peer, int tag, MPI_Request *request)
{
    return dt_mpi_check(m->comm, MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, m->comm->stream_comm, request), m->what);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- the steps of a ring ---- */

/* Send `out` to the next rank while `in` arrives from the previous one. */
static dt_status ring_copy(struct move *m, const char *out, size_t out_bytes, char *in, size_t in_bytes)
{
    int size = m->comm->base.size, next = (m->comm->base.rank + 1) % size, previous = (m->comm->base.rank + size - 1) % size;
    while (out_bytes || in_bytes) {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        size_t out_piece = smaller(out_bytes, PIECE_BYTES), in_piece = smaller(in_bytes, PIECE_BYTES);
        if (in_piece)
            DT_TRY(post_receive(m, in, in_piece, previous, TAG_COLLECTIVE, &requests[0]));
        if (out_piece)
            DT_TRY(post_send(m, out, out_piece, next, TAG_COLLECTIVE, &requests[1]));
        DT_TRY(move_wait(m, requests, 2, previous));
        out += out_piece;
        out_bytes -= out_piece;
        in += in_piece;
        in_bytes -= in_piece;
    }
    return DT_OK;
}

/* Send `out` to the next rank while what arrives from the previous one is added to `sum`: a segment is added while the next one arrives. */
static dt_status ring_add(struct move *m, const char *out, size_t out_bytes, char *sum, size_t sum_bytes, float scale)
{
    struct mpi_comm *comm = m->comm;
    size_t element_bytes = dt_dtype_bytes(m->operation->dtype), received = 0, sent = 0;
    int size = comm->base.size, next = (comm->base.rank + 1) % size, previous = (comm->base.rank + size - 1) % size;
    MPI_Request receives[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, send = MPI_REQUEST_NULL;

    if (sum_bytes)
        DT_TRY(post_receive(m, comm->segments[0], smaller(sum_bytes, MPI_SEGMENT_BYTES), previous, TAG_COLLECTIVE, &receives[0]));
    for (int turn = 0; received < sum_bytes || sent < out_bytes; turn = 1 - turn) {
        size_t out_piece = smaller(out_bytes - sent, MPI_SEGMENT_BYTES), in_piece = smaller(sum_bytes - received, MPI_SEGMENT_BYTES);
        size_t behind = received + in_piece;
        if (out_piece)
            DT_TRY(post_send(m, out + sent, out_piece, next, TAG_COLLECTIVE, &send));
        if (behind < sum_bytes)
            DT_TRY(post_receive(m, comm->segments[1 - turn], smaller(sum_bytes - behind, MPI_SEGMENT_BYTES), previous, TAG_COLLECTIVE,
                                &receives[1 - turn]));
        if (in_piece) {
            DT_TRY(move_wait(m, &receives[turn], 1, previous));
            comm->sum[m->operation->dtype](sum + received, sum + received, comm->segments[turn], in_piece / element_bytes, scale);
        }
        DT_TRY(move_wait(m, &send, 1, next));
        sent += out_piece;
        received = behind;
    }
    return DT_OK;
}

/* Where chunk `index` of `elems` elements begins: even shares, the first ones an element larger. */
static size_t chunk_begin(size_t elems, int size, int index)
{
    size_t even = elems / (size_t)size, larger = elems % (size_t)size, i = (size_t)index;
    return i * even + smaller(i, larger);
}

/* data [elems] in `size` chunks: afterwards chunk `rank` holds everybody's sum, the others partial ones. */
static dt_status ring_reduce_scatter(struct move *m, char *data, size_t elems)
{
    int size = m->comm->base.size, rank = m->comm->base.rank;
    size_t element_bytes = dt_dtype_bytes(m->operation->dtype);
    for (int step = 0; step < size - 1; step++) {
        int out = (rank - step - 1 + 2 * size) % size, in = (rank - step - 2 + 2 * size) % size;
        bool finishes = step == size - 2; /* what is added now completes this rank's chunk */
        float scale = finishes && m->operation->reduction == DT_AVG ? 1.0f / (float)size : 1.0f;
        size_t out_begin = chunk_begin(elems, size, out), in_begin = chunk_begin(elems, size, in);
        DT_TRY(ring_add(m, data + out_begin * element_bytes, (chunk_begin(elems, size, out + 1) - out_begin) * element_bytes,
                        data + in_begin * element_bytes, (chunk_begin(elems, size, in + 1) - in_begin) * element_bytes, scale));
    }
    return DT_OK;
}

/* data [elems] in `size` chunks, of which this rank has its own: afterwards all of them. */
static dt_status ring_all_gather(struct move *m, char *data, size_t elems)
{
    int size = m->comm->base.size, rank = m->comm->base.rank;
    size_t element_bytes = dt_dtype_bytes(m->operation->dtype);
    for (int step = 0; step < size - 1; step++) {
        int out = (rank - step + size) % size, in = (rank - step - 1 + size) % size;
        size_t out_begin = chunk_begin(elems, size, out), in_begin = chunk_begin(elems, size, in);
        DT_TRY(ring_copy(m, data + out_begin * element_bytes, (chunk_begin(elems, size, out + 1) - out_begin) * element_bytes,
                         data + in_begin * element_bytes, (chunk_begin(elems, size, in + 1) - in_begin) * element_bytes));
    }
    return DT_OK;
}

/* ---- operations ---- */

static dt_status all_reduce(struct move *m)
{
    DT_TRY(ring_reduce_scatter(m, m->operation->receive, m->operation->count_elems));
    return ring_all_gather(m, m->operation->receive, m->operation->count_elems);
}

static dt_status reduce_scatter(struct move *m)
{
    const struct dt_comm_operation *o = m->operation;
    size_t part_bytes = o->count_elems * dt_dtype_bytes(o->dtype);
    char *data = (char *)o->send; /* the caller gives it up for scratch */
    DT_TRY(ring_reduce_scatter(m, data, o->count_elems * (size_t)m->comm->base.size));
    const char *mine = data + (size_t)m->comm->base.rank * part_bytes;
    if (mine != o->receive)
        memcpy(o->receive, mine, part_bytes);
    return DT_OK;
}

static dt_status all_gather(struct move *m)
{
    const struct dt_comm_operation *o = m->operation;
    size_t part_bytes = o->count_elems * dt_dtype_bytes(o->dtype);
    char *mine = (char *)o->receive + (size_t)m->comm->base.rank * part_bytes;
    if (mine != o->send)
        memcpy(mine, o->send, part_bytes);
    return ring_all_gather(m, o->receive, o->count_elems * (size_t)m->comm->base.size);
}

/* Along a chain that starts at the root: a rank passes a segment on while the next one arrives. */
static dt_status broadcast(struct move *m)
{
    const struct dt_comm_operation *o = m->operation;
    int size = m->comm->base.size, place = (m->comm->base.rank - o->peer + size) % size;
    int next = (m->comm->base.rank + 1) % size, previous = (m->comm->base.rank + size - 1) % size;
    size_t bytes = o->count_elems * dt_dtype_bytes(o->dtype);
    char *data = o->receive;
    MPI_Request send = MPI_REQUEST_NULL;

    for (size_t at = 0; at < bytes; at += MPI_SEGMENT_BYTES) {
        size_t piece = smaller(bytes - at, MPI_SEGMENT_BYTES);
        MPI_Request receive = MPI_REQUEST_NULL;
        if (place > 0) {
            DT_TRY(post_receive(m, data + at, piece, previous, TAG_COLLECTIVE, &receive));
            DT_TRY(move_wait(m, &receive, 1, previous));
        }
        if (place < size - 1) {
            DT_TRY(move_wait(m, &send, 1, next)); /* of the segment before */
            DT_TRY(post_send(m, data + at, piece, next, TAG_COLLECTIVE, &send));
        }
    }
    return move_wait(m, &send, 1, next);
}

/* The root adds what the others have, in rank order from the root on. */
static dt_status reduce(struct move *m)
{
    const struct dt_comm_operation *o = m->operation;
    struct mpi_comm *comm = m->comm;
    size_t element_bytes = dt_dtype_bytes(o->dtype), bytes = o->count_elems * element_bytes;
    int size = comm->base.size;

    for (size_t at = 0; at < bytes; at += MPI_SEGMENT_BYTES) {
        size_t piece = smaller(bytes - at, MPI_SEGMENT_BYTES);
        MPI_Request request = MPI_REQUEST_NULL;
        if (comm->base.rank != o->peer) {
            DT_TRY(post_send(m, (const char *)o->send + at, piece, o->peer, TAG_COLLECTIVE, &request));
            DT_TRY(move_wait(m, &request, 1, o->peer));
            continue;
        }
        char *sum = (char *)o->receive + at;
        for (int step = 1; step < size; step++) {
            int from = (o->peer + step) % size;
            float scale = step == size - 1 && o->reduction == DT_AVG ? 1.0f / (float)size : 1.0f;
            DT_TRY(post_receive(m, comm->segments[0], piece, from, TAG_COLLECTIVE, &request));
            DT_TRY(move_wait(m, &request, 1, from));
            comm->sum[o->dtype](sum, sum, comm->segments[0], piece / element_bytes, scale);
        }
    }
    return DT_OK;
}

static dt_status send_or_recv(struct move *m)
{
    const struct dt_comm_operation *o = m->operation;
    size_t bytes = o->count_elems * dt_dtype_bytes(o->dtype);
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t piece = smaller(bytes - at, PIECE_BYTES);
        MPI_Request request = MPI_REQUEST_NULL;
        if (o->kind == DT_COMM_SEND)
            DT_TRY(post_send(m, (const char *)o->send + at, piece, o->peer, TAG_PAIR, &request));
        else
            DT_TRY(post_receive(m, (char *)o->receive + at, piece, o->peer, TAG_PAIR, &request));
        DT_TRY(move_wait(m, &request, 1, o->peer));
    }
    return DT_OK;
}

static dt_status (*const moves[DT_COMM_KINDS])(struct move *m) = {
    [DT_COMM_ALL_REDUCE] = all_reduce, [DT_COMM_REDUCE_SCATTER] = reduce_scatter,
    [DT_COMM_ALL_GATHER] = all_gather, [DT_COMM_BROADCAST] = broadcast,
    [DT_COMM_REDUCE] = reduce,         [DT_COMM_SEND] = send_or_recv,
    [DT_COMM_RECV] = send_or_recv,
};

dt_status dt_mpi_run(struct mpi_comm *comm, const struct dt_comm_operation *operation)
{
    struct move m = move_of(comm, operation);
    dt_status status = moves[operation->kind](&m);
    dt_comm_mark(&comm->base, operation->sequence, status < 0 ? DT_COMM_FAILED : DT_COMM_DONE);
    return status;
}

/* ---- groups ---- */

/* All requests of a group at once, so that none waits for another. Posted in the order of calls, piece by piece, as the peers do. */
dt_status dt_mpi_run_group(struct mpi_group *group)
{
    int pieces = 0, posted = 0;
    dt_status status = DT_OK;
    for (int i = 0; i < group->count; i++) {
        const struct dt_comm_operation *o = &group->operations[i];
        pieces += (int)((o->count_elems * dt_dtype_bytes(o->dtype) + PIECE_BYTES - 1) / PIECE_BYTES);
    }
    if (pieces == 0)
        return DT_OK;
    MPI_Request *requests = malloc((size_t)pieces * sizeof *requests);
    if (!requests)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: no host memory for a group of %d messages", group->comm->base.name, pieces);

    struct move m = {0};
    for (int i = 0; status == DT_OK && i < group->count; i++) {
        const struct dt_comm_operation *o = &group->operations[i];
        size_t bytes = o->count_elems * dt_dtype_bytes(o->dtype);
        m = move_of(group->comm, o);
        for (size_t at = 0; status == DT_OK && at < bytes; at += PIECE_BYTES) {
            size_t piece = smaller(bytes - at, PIECE_BYTES);
            status = o->kind == DT_COMM_SEND ? post_send(&m, (const char *)o->send + at, piece, o->peer, TAG_PAIR, &requests[posted])
                                             : post_receive(&m, (char *)o->receive + at, piece, o->peer, TAG_PAIR, &requests[posted]);
            posted += status == DT_OK;
        }
    }
    if (status == DT_OK)
        status = move_wait(&m, requests, posted, -1);
    for (int i = 0; i < group->count; i++)
        dt_comm_mark(&group->comm->base, group->operations[i].sequence, status < 0 ? DT_COMM_FAILED : DT_COMM_DONE);
    free(requests);
    return status;
}

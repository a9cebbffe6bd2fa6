/* How operations transfer data: sends and receives, and collectives. */
#include "lib/comm/mpi/comm.h"

#include <stdlib.h>
#include <string.h>

/* ---- sends and receives, one or a group of them: all are posted together ---- */

static dt_status move(struct mpi_waiting *waiting, struct mpi_requests *requests, const struct mpi_transfer *transfers, int count)
{
    for (int i = 0; i < count; i++) {
        const struct mpi_transfer *t = &transfers[i];
        DT_TRY(dt_mpi_post(waiting, requests, t->send, t->peer, t->tag, t->buffer, t->bytes));
    }
    return dt_mpi_wait(waiting, requests);
}

dt_status dt_mpi_run_transfers(struct mpi_comm *comm, const struct mpi_transfer *transfers, int count)
{
    struct mpi_waiting waiting = {.comm = comm, .sequence = transfers[0].sequence, .timeout_s = comm->base.options.step_timeout_s};
    struct mpi_requests requests = {0};
    for (int i = 0; i < count; i++) {
        waiting.bytes += transfers[i].bytes;
        dt_comm_mark(&comm->base, transfers[i].sequence, DT_COMM_WAITING);
    }
    dt_status status = move(&waiting, &requests, transfers, count);
    dt_mpi_requests_finish(&requests, dt_mpi_withdrawal(status));
    for (int i = 0; i < count; i++)
        dt_comm_mark(&comm->base, transfers[i].sequence, status < 0 ? DT_COMM_FAILED : DT_COMM_DONE);
    return status;
}

/* ---- exchanges: an equal part to each other rank (all_to_all), or everything to the next one
 * (shift); all messages are posted together ---- */

static dt_status post_exchange(struct mpi_waiting *waiting, struct mpi_requests *requests, const struct dt_comm_operation *o, size_t bytes,
                               int tag)
{
    int rank = waiting->comm->base.rank, size = waiting->comm->base.size;
    bool parts = o->kind == DT_COMM_ALL_TO_ALL;
    for (int i = 1; i < (parts ? size : 2); i++) {
        int from = (rank - i + size) % size;
        DT_TRY(dt_mpi_post(waiting, requests, false, from, tag, (char *)o->receive + (parts ? (size_t)from * bytes : 0), bytes));
    }
    for (int i = 1; i < (parts ? size : 2); i++) {
        int to = (rank + i) % size;
        DT_TRY(dt_mpi_post(waiting, requests, true, to, tag, (char *)o->send + (parts ? (size_t)to * bytes : 0), bytes));
    }
    if (parts)
        memcpy((char *)o->receive + (size_t)rank * bytes, (const char *)o->send + (size_t)rank * bytes, bytes);
    return dt_mpi_wait(waiting, requests);
}

static dt_status run_exchange(struct mpi_comm *comm, const struct dt_comm_operation *o, size_t bytes, unsigned number)
{
    struct mpi_waiting waiting = {.comm = comm, .sequence = o->sequence, .bytes = bytes, .timeout_s = comm->base.options.step_timeout_s};
    struct mpi_requests requests = {0};
    dt_status status = post_exchange(&waiting, &requests, o, bytes, dt_mpi_tag(comm, number, MPI_PHASE_SCATTER));
    dt_mpi_requests_finish(&requests, dt_mpi_withdrawal(status));
    return status;
}

/* ---- collectives ---- */

/* The five collectives as one: parts are sent to their owners (phase 1), then from their owners to
 * the ranks that need them (phase 2).
 *
 *                    phase 1: to a part's owner         phase 2: from its owner
 *   all_reduce       everybody's, summed               to all
 *   reduce_scatter   everybody's, summed               -
 *   all_gather       -                                 to all
 *   broadcast        the root's                        to all
 *   reduce           everybody's, summed               to the root
 *
 * Every element is summed on one rank, in one order, and copied from there: all ranks get the same
 * bits. Both phases send directly between ranks, and transfer (size - 1) / size of the buffer in
 * and out of each rank, which is the minimum, as with a ring. On one machine a receiver copies from
 * the sender's memory, and the time depends on how often ranks wait for each other, since each wait
 * means sleeping. In a ring every rank waits for a neighbour at every step; here the data that a
 * rank may read is announced long before it is needed.
 *
 * Source  Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004
 *         (reduce-scatter, then gather); van de Geijn's broadcast (scatter, then gather), in Chan
 *         et al., "Collective communication: theory, practice, and experience", 2007. */
enum scatter_kind { SCATTER_NONE, SCATTER_SUM, SCATTER_COPY };
enum gather_kind { GATHER_NONE, GATHER_ALL, GATHER_ROOT };

enum {
    ARRIVING = 4, /* segments that arrive for the next sums */
    AHEAD = 32,   /* segments that others may fetch before this rank reaches them, */
    BEHIND = 32,  /* and after: so far ranks may drift apart before one waits for the other */
    ANNOUNCED = AHEAD + BEHIND,
    SHORTEST_PART_BYTES = 16 << 10,
    LONGEST_SUM_BYTES = 4 << 20, /* limit of a part whose owner has no memory for it (reduce) */
};

struct collective {
    struct mpi_comm *comm;
    struct mpi_waiting waiting;
    enum scatter_kind scatter;
    enum gather_kind gather;
    enum dt_dtype dtype;
    float scale; /* applied to the last sum */
    int root;    /* part i belongs to rank (root + i) % size */
    size_t element_bytes, total_elems, part_elems;
    const char *in; /* [total] phase 1: this rank's contribution */
    char *out;      /* [total] phase 2 fills it */
    char *own;      /* [part] this rank's part: phase 1 sums here, phase 2 sends from here */
    int tags[2];    /* by phase */

    size_t segment_elems, segments; /* of the longest part */
    char *arrivals;                 /* [ARRIVING, size - 1, segment] */
    struct mpi_requests arriving[ARRIVING], announced[ANNOUNCED], moved;
};

/* The part of `rank`: its first element, and the number of elements (possibly 0). */
static size_t part_of(const struct collective *c, int rank, size_t *out_first)
{
    int size = c->comm->base.size;
    size_t first = (size_t)((rank - c->root + size) % size) * c->part_elems;
    *out_first = first;
    if (first >= c->total_elems)
        return 0;
    return c->total_elems - first < c->part_elems ? c->total_elems - first : c->part_elems;
}

/* Segment `s` of the part of `rank`. */
static size_t segment_of(const struct collective *c, int rank, size_t s, size_t *out_first)
{
    size_t elems = part_of(c, rank, out_first), skip = s * c->segment_elems;
    *out_first += skip;
    if (skip >= elems)
        return 0;
    return elems - skip < c->segment_elems ? elems - skip : c->segment_elems;
}

static dt_status post(struct collective *c, struct mpi_requests *to, int phase, bool send, int peer, const char *memory, size_t elems)
{
    return dt_mpi_post(&c->waiting, to, send, peer, c->tags[phase], (char *)memory, elems * c->element_bytes);
}

/* ---- phase 1 ---- */

/* The order of peers differs from rank to rank, so that not all ranks read from the same one
 * first. */
static dt_status announce(struct collective *c, size_t s)
{
    int rank = c->comm->base.rank, size = c->comm->base.size;
    for (int i = 1; i < size; i++) {
        size_t first, elems = segment_of(c, (rank + i) % size, s, &first);
        DT_TRY(post(c, &c->announced[s % ANNOUNCED], 0, true, (rank + i) % size, c->in + first * c->element_bytes, elems));
    }
    return DT_OK;
}

static char *arrival(const struct collective *c, size_t s, int place)
{
    size_t peers = (size_t)c->comm->base.size - 1;
    return c->arrivals + ((s % ARRIVING) * peers + (size_t)place) * c->segment_elems * c->element_bytes;
}

static dt_status fetch(struct collective *c, size_t s)
{
    int rank = c->comm->base.rank, size = c->comm->base.size;
    size_t first, elems = segment_of(c, rank, s, &first);
    for (int i = 1; i < size; i++)
        DT_TRY(post(c, &c->arriving[s % ARRIVING], 0, false, (rank - i + size) % size, arrival(c, s, i - 1), elems));
    return DT_OK;
}

/* own segment = in's segment + all arrivals; the last sum is scaled. */
static void sum(struct collective *c, size_t s)
{
    size_t first, elems = segment_of(c, c->comm->base.rank, s, &first);
    int last = c->comm->base.size - 2;
    char *out = c->own + s * c->segment_elems * c->element_bytes;
    const char *left = c->in + first * c->element_bytes;
    for (int i = 0; i <= last && elems; i++) {
        c->comm->loops[c->dtype]->combine(out, left, arrival(c, s, i), elems, i == last ? c->scale : 1.0f);
        left = out;
    }
}

static dt_status scatter_sum(struct collective *c)
{
    for (size_t s = 0; s < AHEAD && s < c->segments; s++)
        DT_TRY(announce(c, s));
    for (size_t s = 0; s < ARRIVING && s < c->segments; s++)
        DT_TRY(fetch(c, s));
    for (size_t s = 0; s < c->segments; s++) {
        DT_TRY(dt_mpi_wait(&c->waiting, &c->arriving[s % ARRIVING]));
        sum(c, s);
        if (s + ARRIVING < c->segments)
            DT_TRY(fetch(c, s + ARRIVING));
        if (s + AHEAD < c->segments) {
            DT_TRY(dt_mpi_wait(&c->waiting, &c->announced[(s + AHEAD) % ANNOUNCED]));
            DT_TRY(announce(c, s + AHEAD));
        }
    }
    return DT_OK;
}

/* Send the root's parts to their owners, in place. */
static dt_status scatter_copy(struct collective *c)
{
    int rank = c->comm->base.rank, size = c->comm->base.size;
    size_t first, elems;
    for (int i = 1; i < size && rank == c->root; i++) {
        elems = part_of(c, (rank + i) % size, &first);
        DT_TRY(post(c, &c->moved, 0, true, (rank + i) % size, c->in + first * c->element_bytes, elems));
    }
    if (rank != c->root)
        DT_TRY(post(c, &c->moved, 0, false, c->root, c->own, part_of(c, rank, &first)));
    return dt_mpi_wait(&c->waiting, &c->moved);
}

/* ---- phase 2 ---- */

static bool gathers(const struct collective *c, int rank)
{
    if (c->gather == GATHER_ROOT)
        return rank == c->root;
    return c->gather == GATHER_ALL && !(c->scatter == SCATTER_COPY && rank == c->root); /* that root has the whole buffer */
}

static dt_status gather(struct collective *c)
{
    int rank = c->comm->base.rank, size = c->comm->base.size;
    size_t first, elems, mine = part_of(c, rank, &first);
    for (int i = 1; i < size; i++) {
        int to = (rank + i) % size;
        if (gathers(c, to))
            DT_TRY(post(c, &c->moved, 1, true, to, c->own, mine));
    }
    /* Received data overwrites what this rank has announced, which must have been fetched. */
    for (int slot = 0; slot < ANNOUNCED; slot++)
        DT_TRY(dt_mpi_wait(&c->waiting, &c->announced[slot]));
    for (int i = 1; i < size && gathers(c, rank); i++) {
        int from = (rank - i + size) % size;
        elems = part_of(c, from, &first);
        DT_TRY(post(c, &c->moved, 1, false, from, c->out + first * c->element_bytes, elems));
    }
    return dt_mpi_wait(&c->waiting, &c->moved);
}

static dt_status run(struct collective *c)
{
    if (c->scatter == SCATTER_SUM)
        DT_TRY(scatter_sum(c));
    if (c->scatter == SCATTER_COPY)
        DT_TRY(scatter_copy(c));
    return gather(c);
}

/* ---- one operation ---- */

/* Divide `elems` elements into parts. A few elements are one part: there are fewer messages, and
 * for broadcast and reduce none through a third rank. Segments are as long as the scratch block
 * allows. */
static void set_parts(struct collective *c, size_t elems, bool even)
{
    size_t size = (size_t)c->comm->base.size, width = c->element_bytes, grain = even ? 1 : SHORTEST_PART_BYTES / width;
    c->total_elems = elems;
    c->part_elems = ((elems + size - 1) / size + grain - 1) / grain * grain;
    c->segment_elems = c->comm->scratch_bytes / ARRIVING / (size - 1) / width;
    if (c->segment_elems > c->part_elems)
        c->segment_elems = c->part_elems;
    c->segments = (c->part_elems + c->segment_elems - 1) / c->segment_elems;
}

static dt_status run_even(struct collective *c, const struct dt_comm_operation *o)
{
    size_t size = (size_t)c->comm->base.size, rank = (size_t)c->comm->base.rank;
    set_parts(c, o->count_elems * size, true);
    c->own = o->kind == DT_COMM_REDUCE_SCATTER ? o->receive : (char *)o->receive + rank * c->part_elems * c->element_bytes;
    if (o->kind == DT_COMM_ALL_GATHER && c->own != o->send)
        memcpy(c->own, o->send, o->count_elems * c->element_bytes);
    return run(c);
}

static dt_status run_in_place(struct collective *c, const struct dt_comm_operation *o)
{
    size_t first;
    set_parts(c, o->count_elems, false);
    part_of(c, c->comm->base.rank, &first);
    c->own = c->out + first * c->element_bytes;
    return run(c);
}

/* On other ranks than the root the buffer is only read: sums need separate memory, and a large
 * buffer is reduced in blocks to keep this small. */
static dt_status run_reduce(struct collective *c, const struct dt_comm_operation *o)
{
    size_t width = c->element_bytes, block_elems = (size_t)c->comm->base.size * LONGEST_SUM_BYTES / width;
    dt_status status = DT_OK;
    DT_FREED char *sums = NULL;
    for (size_t done = 0; done < o->count_elems && status == DT_OK; done += block_elems) {
        set_parts(c, o->count_elems - done < block_elems ? o->count_elems - done : block_elems, false);
        c->in = (const char *)o->send + done * width;
        c->out = (char *)o->receive + done * width;
        if (c->comm->base.rank == c->root) {
            c->own = c->out;
        } else {
            if (!sums)
                sums = malloc(c->part_elems * width); /* the first block is the longest */
            DT_TRY(dt_allocated(sums, "no host memory for partial sums"));
            c->own = sums;
        }
        status = run(c);
    }
    return status;
}

static void finish(struct collective *c, dt_status status)
{
    int64_t withdrawal_ns = dt_mpi_withdrawal(status);
    for (int i = 0; i < ARRIVING; i++)
        dt_mpi_requests_finish(&c->arriving[i], withdrawal_ns);
    for (int i = 0; i < ANNOUNCED; i++)
        dt_mpi_requests_finish(&c->announced[i], withdrawal_ns);
    dt_mpi_requests_finish(&c->moved, withdrawal_ns);
    free(atomic_exchange(&c->comm->scratch, c->arrivals));
}

dt_status dt_mpi_run_collective(struct mpi_comm *comm, const struct dt_comm_operation *o, size_t element_bytes, unsigned number)
{
    static const struct {
        enum scatter_kind scatter;
        enum gather_kind gather;
        dt_status (*run)(struct collective *c, const struct dt_comm_operation *o);
    } kinds[DT_COMM_KINDS] = {
        [DT_COMM_ALL_REDUCE] = {SCATTER_SUM, GATHER_ALL, run_in_place}, [DT_COMM_REDUCE_SCATTER] = {SCATTER_SUM, GATHER_NONE, run_even},
        [DT_COMM_ALL_GATHER] = {SCATTER_NONE, GATHER_ALL, run_even},    [DT_COMM_BROADCAST] = {SCATTER_COPY, GATHER_ALL, run_in_place},
        [DT_COMM_REDUCE] = {SCATTER_SUM, GATHER_ROOT, run_reduce},
    };
    if (o->kind == DT_COMM_ALL_TO_ALL || o->kind == DT_COMM_SHIFT)
        return run_exchange(comm, o, o->count_elems * element_bytes, number);
    bool rooted = o->kind == DT_COMM_BROADCAST || o->kind == DT_COMM_REDUCE;
    struct collective c = {
        .comm = comm,
        .waiting = {comm, o->sequence, "host_all_gather", o->count_elems * element_bytes, comm->base.options.step_timeout_s, false},
        .scatter = kinds[o->kind].scatter,
        .gather = kinds[o->kind].gather,
        .dtype = o->dtype,
        .scale = o->reduction == DT_AVG ? 1.0f / (float)comm->base.size : 1.0f,
        .root = rooted ? o->peer : 0,
        .element_bytes = element_bytes,
        .in = o->send,
        .out = o->receive,
        .tags = {dt_mpi_tag(comm, number, MPI_PHASE_SCATTER), dt_mpi_tag(comm, number, MPI_PHASE_GATHER)},
        .arrivals = atomic_exchange(&comm->scratch, NULL),
    };
    if (!c.arrivals)
        c.arrivals = malloc(comm->scratch_bytes);
    DT_TRY(dt_allocated(c.arrivals, "no host memory for what %d ranks send", comm->base.size));
    dt_status status = kinds[o->kind].run(&c, o);
    finish(&c, status);
    return status;
}

/* The five collectives as one: parts are brought to their owners (phase 1), then from their owners to whoever needs them (phase 2).
 *
 *                    phase 1: to the owner of a part   phase 2: from its owner
 *   all_reduce       everybody's, summed               to all
 *   reduce_scatter   everybody's, summed               -
 *   all_gather       -                                 to all
 *   broadcast        the root's                        to all
 *   reduce           everybody's, summed               to the root
 *
 * Every element is summed at one place, in one order, and copied from there: all ranks hold the same bits. Both phases go straight from
 * rank to rank and move (size - 1) / size of the buffer in and out of each rank, as a ring does and which nothing undercuts; on one machine
 * the receiver copies from the sender's memory, and nobody waits for his turn in a ring. Parts are cut into segments, several under
 * way at a time, so that a sum finds its operands in the cache, the phases overlap, and naps cost no bandwidth.
 *
 * Source  Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004 (reduce-scatter, then gather); van de Geijn's
 *         broadcast (scatter, then gather), in Chan et al., "Collective communication: theory, practice, and experience", 2007. */
#include "lib/comm_mpi.h"

#include <stdlib.h>
#include <string.h>

enum scatter_kind { SCATTER_NONE, SCATTER_SUM, SCATTER_COPY };
enum gather_kind { GATHER_NONE, GATHER_ALL, GATHER_ROOT };

/* Segments under way in each phase. */
enum { WINDOW = 4, LONGEST_SEGMENT_BYTES = 1 << 20, SHORTEST_PART_BYTES = 16 << 10 };

struct collective {
    struct mpi_comm *comm;
    struct mpi_waiting waiting;
    enum scatter_kind scatter;
    enum gather_kind gather;
    enum dt_dtype dtype;
    float scale; /* of the last sum */
    int root;    /* part i belongs to rank (root + i) % size */
    size_t element_bytes, total_elems, part_elems, segment_elems;
    size_t segments;          /* of the longest part */
    char *in;                 /* [total] phase 1: this rank's contribution */
    char *out;                /* [total] what phase 2 fills */
    char *own;                /* this rank's part: where its sum goes, and where phase 2 takes it from */
    char *arrivals;           /* [WINDOW, size - 1, segment]: contributions that are to be summed */
    char *sums;               /* [WINDOW, segment]: stands for `own` where a rank owns no memory for its part; or NULL */
    MPI_Request *requests[2]; /* by phase [WINDOW, 2 (size - 1)] */
    int *peers[2];            /* likewise */
    int used[2][WINDOW];
    int tags[2];
};

static int part_of(const struct collective *c, int rank)
{
    int size = c->comm->base.size;
    return (rank - c->root + size) % size;
}

/* Segment `s` of the part that `rank` owns: its first element, and how many (possibly none). */
static size_t segment_of(const struct collective *c, int rank, size_t s, size_t *out_first)
{
    size_t part = (size_t)part_of(c, rank) * c->part_elems, first = part + s * c->segment_elems;
    size_t part_end = part + c->part_elems < c->total_elems ? part + c->part_elems : c->total_elems;
    size_t end = first + c->segment_elems < part_end ? first + c->segment_elems : part_end;
    *out_first = first;
    return end > first ? end - first : 0;
}

static dt_status post(struct collective *c, int phase, size_t s, bool send, int peer, void *memory, size_t elems)
{
    int slot = (int)(s % WINDOW), n = c->used[phase][slot], stride = 2 * (c->comm->base.size - 1);
    MPI_Request *request = &c->requests[phase][slot * stride + n];
    int bytes = (int)(elems * c->element_bytes);
    int error = send ? MPI_Isend(memory, bytes, MPI_BYTE, peer, c->tags[phase], c->comm->handle, request)
                     : MPI_Irecv(memory, bytes, MPI_BYTE, peer, c->tags[phase], c->comm->handle, request);
    c->peers[phase][slot * stride + n] = peer;
    c->used[phase][slot]++;
    return dt_mpi_check(&c->waiting, error);
}

static dt_status wait_for(struct collective *c, int phase, size_t s)
{
    int slot = (int)(s % WINDOW), stride = 2 * (c->comm->base.size - 1), count = c->used[phase][slot];
    c->used[phase][slot] = 0;
    if (count == 0)
        return DT_OK;
    return dt_mpi_wait(&c->waiting, &c->requests[phase][slot * stride], &c->peers[phase][slot * stride], count);
}

static char *arrival(const struct collective *c, size_t s, int place)
{
    return c->arrivals + ((s % WINDOW) * (size_t)(c->comm->base.size - 1) + (size_t)place) * c->segment_elems * c->element_bytes;
}

/* Where the finished segment `s` of this rank's own part stands; offset is the segment's within the part. */
static char *own_segment(const struct collective *c, size_t s)
{
    return c->sums ? c->sums + (s % WINDOW) * c->segment_elems * c->element_bytes : c->own + s * c->segment_elems * c->element_bytes;
}

/* Phase 1 of segment `s`: contributions leave for the parts' owners, and arrive for this rank's part. Peers are taken in an order that
 * differs from rank to rank, so that not everybody reads from the same one first. */
static dt_status post_scatter(struct collective *c, size_t s)
{
    int rank = c->comm->base.rank, size = c->comm->base.size;
    size_t first, elems, mine_first, mine = segment_of(c, rank, s, &mine_first);
    for (int i = 1; i < size; i++) {
        int from = (rank - i + size) % size, to = (rank + i) % size;
        if (c->scatter == SCATTER_SUM && mine)
            DT_TRY(post(c, 0, s, false, from, arrival(c, s, i - 1), mine));
        if (c->scatter == SCATTER_COPY && mine && from == c->root)
            DT_TRY(post(c, 0, s, false, from, own_segment(c, s), mine));
        elems = segment_of(c, to, s, &first);
        if (elems && (c->scatter == SCATTER_SUM || rank == c->root))
            DT_TRY(post(c, 0, s, true, to, c->in + first * c->element_bytes, elems));
    }
    return DT_OK;
}

/* own segment = in's + all arrivals, the last sum scaled. */
static void sum(struct collective *c, size_t s)
{
    size_t first, elems = segment_of(c, c->comm->base.rank, s, &first);
    int last = c->comm->base.size - 2;
    char *out = own_segment(c, s);
    const char *left = c->in + first * c->element_bytes;
    for (int i = 0; i <= last && elems; i++) {
        c->comm->isa->sum[c->dtype](out, left, arrival(c, s, i), elems, i == last ? c->scale : 1.0f);
        left = out;
    }
}

/* Phase 2 of segment `s`: this rank's own part leaves, the others' parts arrive in place. */
static dt_status post_gather(struct collective *c, size_t s)
{
    int rank = c->comm->base.rank, size = c->comm->base.size;
    bool receives = c->gather == GATHER_ROOT ? rank == c->root : !(c->scatter == SCATTER_COPY && rank == c->root);
    size_t first, elems, mine_first, mine = segment_of(c, rank, s, &mine_first);
    for (int i = 1; i < size; i++) {
        int from = (rank - i + size) % size, to = (rank + i) % size;
        bool wanted = c->gather == GATHER_ROOT ? to == c->root : !(c->scatter == SCATTER_COPY && to == c->root);
        elems = segment_of(c, from, s, &first);
        if (receives && elems)
            DT_TRY(post(c, 1, s, false, from, c->out + first * c->element_bytes, elems));
        if (wanted && mine)
            DT_TRY(post(c, 1, s, true, to, own_segment(c, s), mine));
    }
    return DT_OK;
}

static dt_status run(struct collective *c)
{
    for (size_t s = 0; c->scatter && s < WINDOW && s < c->segments; s++)
        DT_TRY(post_scatter(c, s));
    for (size_t s = 0; s < c->segments; s++) {
        DT_TRY(wait_for(c, 1, s)); /* of segment s - WINDOW: its sum's memory is used again */
        if (c->scatter) {
            DT_TRY(wait_for(c, 0, s));
            if (c->scatter == SCATTER_SUM)
                sum(c, s);
            if (s + WINDOW < c->segments)
                DT_TRY(post_scatter(c, s + WINDOW));
        }
        if (c->gather)
            DT_TRY(post_gather(c, s));
    }
    for (size_t s = 0; s < WINDOW; s++)
        DT_TRY(wait_for(c, 1, s));
    return DT_OK;
}

/* How the buffer falls into parts. Small ones are one rank's: fewer messages, and none through a third rank for broadcast and reduce. */
static void set_parts(struct collective *c, const struct dt_comm_operation *o)
{
    size_t size = (size_t)c->comm->base.size, rank = (size_t)c->comm->base.rank, width = c->element_bytes;
    bool given = o->kind == DT_COMM_REDUCE_SCATTER || o->kind == DT_COMM_ALL_GATHER;
    size_t grain = SHORTEST_PART_BYTES / width;
    c->total_elems = given ? o->count_elems * size : o->count_elems;
    c->part_elems = given ? o->count_elems : ((o->count_elems + size - 1) / size + grain - 1) / grain * grain;
    c->in = (char *)o->send;
    c->out = o->receive;
    c->root = o->kind == DT_COMM_BROADCAST || o->kind == DT_COMM_REDUCE ? o->peer : 0;
    if (o->kind == DT_COMM_REDUCE_SCATTER)
        c->own = o->receive;
    else
        c->own = c->out + (o->kind == DT_COMM_ALL_GATHER ? rank : (size_t)part_of(c, (int)rank)) * c->part_elems * width;
}

/* Segments that let WINDOW of them, from every peer, lie in the scratch block; cut alike on all ranks. */
static void set_segments(struct collective *c, char *scratch)
{
    bool needs_sums = c->gather == GATHER_ROOT; /* everywhere but at the root */
    size_t peers = (size_t)c->comm->base.size - 1, width = c->element_bytes;
    size_t longest = c->scatter == SCATTER_SUM ? c->comm->scratch_bytes / WINDOW / (peers + needs_sums) : LONGEST_SEGMENT_BYTES;
    c->segment_elems = longest / width < c->part_elems ? longest / width : c->part_elems;
    c->segment_elems = c->segment_elems ? c->segment_elems : 1;
    c->segments = (c->part_elems + c->segment_elems - 1) / c->segment_elems;
    c->arrivals = scratch;
    c->sums = needs_sums && c->comm->base.rank != c->root ? scratch + WINDOW * peers * c->segment_elems * width : NULL;
}

dt_status dt_mpi_run_collective(struct mpi_comm *comm, const struct dt_comm_operation *o, size_t element_bytes, unsigned number)
{
    static const struct {
        enum scatter_kind scatter;
        enum gather_kind gather;
    } phases[DT_COMM_KINDS] = {
        [DT_COMM_ALL_REDUCE] = {SCATTER_SUM, GATHER_ALL},  [DT_COMM_REDUCE_SCATTER] = {SCATTER_SUM, GATHER_NONE},
        [DT_COMM_ALL_GATHER] = {SCATTER_NONE, GATHER_ALL}, [DT_COMM_BROADCAST] = {SCATTER_COPY, GATHER_ALL},
        [DT_COMM_REDUCE] = {SCATTER_SUM, GATHER_ROOT},
    };
    struct collective c = {
        .comm = comm,
        .waiting = {comm, o->sequence, "host_all_gather", o->count_elems * element_bytes, comm->base.options.step_timeout_s, false},
        .scatter = phases[o->kind].scatter,
        .gather = phases[o->kind].gather,
        .dtype = o->dtype,
        .scale = o->reduction == DT_AVG ? 1.0f / (float)comm->base.size : 1.0f,
        .element_bytes = element_bytes,
        .tags = {dt_mpi_tag(comm, number, MPI_PHASE_SCATTER), dt_mpi_tag(comm, number, MPI_PHASE_GATHER)},
    };
    int slots = 2 * WINDOW * 2 * (comm->base.size - 1);
    void *scratch = atomic_exchange(&comm->scratch, NULL);
    if (!scratch)
        scratch = malloc(comm->scratch_bytes);
    MPI_Request *requests = malloc((size_t)slots * sizeof *requests);
    int *peers = malloc((size_t)slots * sizeof *peers);
    dt_status status;
    if (!scratch || !requests || !peers) {
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the requests of %d ranks", comm->base.size);
        goto done;
    }
    for (int i = 0; i < slots; i++) {
        requests[i] = MPI_REQUEST_NULL;
        peers[i] = -1;
    }
    for (int phase = 0; phase < 2; phase++) {
        c.requests[phase] = requests + phase * slots / 2;
        c.peers[phase] = peers + phase * slots / 2;
    }
    set_parts(&c, o);
    set_segments(&c, scratch);
    if (o->kind == DT_COMM_ALL_GATHER && c.own != o->send)
        memcpy(c.own, o->send, o->count_elems * element_bytes);
    status = run(&c);
    if (status < 0)
        dt_mpi_withdraw(requests, slots);
done:
    free(requests);
    free(peers);
    free(atomic_exchange(&comm->scratch, scratch));
    return status;
}

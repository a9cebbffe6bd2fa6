/* The common part of all communicators: checks arguments once, notes the operation in the ring, and
 * calls the backend. */
#include "lib/base/text.h"
#include "lib/comm/backend.h"
#include "lib/device/span.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *dt_comm_kind_name(enum dt_comm_kind kind)
{
    static const char *const names[DT_COMM_KINDS] = {
        [DT_COMM_ALL_REDUCE] = "all_reduce",
        [DT_COMM_REDUCE_SCATTER] = "reduce_scatter",
        [DT_COMM_ALL_GATHER] = "all_gather",
        [DT_COMM_ALL_TO_ALL] = "all_to_all",
        [DT_COMM_SHIFT] = "shift",
        [DT_COMM_BROADCAST] = "broadcast",
        [DT_COMM_REDUCE] = "reduce",
        [DT_COMM_SEND] = "send",
        [DT_COMM_RECV] = "recv",
    };
    return names[kind];
}

void dt_comm_init(struct dt_comm *comm, const struct dt_comm_backend *backend, struct dt_device *device, int rank, int size,
                  const char *name, const struct dt_comm_options *options)
{
    *comm = (struct dt_comm){.backend = backend, .device = device, .rank = rank, .size = size};
    if (options)
        comm->options = *options;
    strncat(comm->name, name, sizeof comm->name - 1);
    comm->root = comm;
    pthread_mutex_init(&comm->tree, NULL);
}

static void add_child(struct dt_comm *parent, struct dt_comm *child)
{
    child->root = parent->root;
    child->parent = parent;
    pthread_mutex_lock(&parent->root->tree);
    child->sibling = parent->children;
    parent->children = child;
    pthread_mutex_unlock(&parent->root->tree);
}

static void remove_child(struct dt_comm *child)
{
    if (!child->parent)
        return;
    pthread_mutex_lock(&child->root->tree);
    struct dt_comm **link = &child->parent->children;
    while (*link != child)
        link = &(*link)->sibling;
    *link = child->sibling;
    pthread_mutex_unlock(&child->root->tree);
}

/* ---- kept subsets: making one takes all ranks of the parent in turn, and NCCL connects its ranks
 * again ---- */

struct dt_comm_kept {
    struct dt_comm_kept *next;
    struct dt_comm *comm; /* NULL: this rank is in none of the subsets */
    bool given;           /* returned since the last dt_comm_keep */
    char name[32];
};

static void forget(struct dt_comm *parent)
{
    while (parent->kept) {
        struct dt_comm_kept *first = parent->kept;
        parent->kept = first->next;
        dt_comm_destroy(first->comm); /* it is no longer kept */
        free(first);
    }
}

dt_status dt_comm_keep(struct dt_comm *comm, const char *set)
{
    if (!comm->set || strcmp(comm->set, set) != 0) {
        forget(comm);
        free(comm->set);
        comm->set = strdup(set);
        return dt_allocated(comm->set, "no host memory for the communicators of %s", set);
    }
    for (struct dt_comm_kept *kept = comm->kept; kept; kept = kept->next) {
        kept->given = false;
        if (kept->comm)
            DT_TRY(dt_comm_keep(kept->comm, set));
    }
    return DT_OK;
}

static bool is_kept(const struct dt_comm *comm)
{
    const struct dt_comm_kept *kept = comm->parent ? comm->parent->kept : NULL;
    while (kept && kept->comm != comm)
        kept = kept->next;
    return kept;
}

static bool take_kept(struct dt_comm *parent, const char *name, struct dt_comm **out)
{
    struct dt_comm_kept *kept = parent->kept;
    while (kept && (kept->given || strncmp(kept->name, name, sizeof kept->name - 1) != 0))
        kept = kept->next;
    if (!kept)
        return false;
    kept->given = true;
    *out = kept->comm;
    return true;
}

/* Append, since all ranks destroy them in the order in which they were made. */
static dt_status add_kept(struct dt_comm *parent, const char *name, struct dt_comm *comm)
{
    struct dt_comm_kept **end = &parent->kept, *kept = calloc(1, sizeof *kept);
    DT_TRY(dt_allocated(kept, "%s: no host memory to keep it", name));
    while (*end)
        end = &(*end)->next;
    *kept = (struct dt_comm_kept){.comm = comm, .given = true};
    strncat(kept->name, name, sizeof kept->name - 1);
    *end = kept;
    return comm ? dt_comm_keep(comm, parent->set) : DT_OK;
}

/* ---- subsets ---- */

static dt_status find_place(const struct dt_comm *parent, const int *ranks, int count, const char *name, int *out)
{
    *out = count;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return dt_fail(DT_ERR_INVALID, "%s: rank %d is not one of the %d of %s", name, ranks[i], parent->size, parent->name);
        *out = ranks[i] == parent->rank ? i : *out;
    }
    return count == 0 || *out < count ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: rank %d gave a list without itself", name, parent->rank);
}

static dt_status make_subset(struct dt_comm *parent, const int *ranks, int count, int place, const char *name, struct dt_comm **out)
{
    DT_FREED int *world_ranks = malloc(((size_t)count + 1) * sizeof *ranks);
    DT_TRY(dt_allocated(world_ranks, "%s: no host memory for the numbers of %d ranks", name, count));
    for (int i = 0; i < count; i++)
        world_ranks[i] = dt_comm_world_rank(parent, ranks[i]);
    const struct dt_comm_members members = {ranks, world_ranks, count, place};
    DT_TRY(parent->backend->subset(parent, &members, name, out));
    if (!*out)
        return DT_OK;
    (*out)->world_ranks = DT_PASSED_ON(world_ranks);
    add_child(parent, *out);
    return DT_OK;
}

dt_status dt_comm_subset(struct dt_comm *parent, const int *ranks, int count, const char *name, struct dt_comm **out)
{
    int place;
    *out = NULL;
    DT_TRY(find_place(parent, ranks, count, name, &place));
    if (parent->set && take_kept(parent, name, out))
        return DT_OK;
    dt_status status = make_subset(parent, ranks, count, place, name, out);
    if (status == DT_OK && parent->set)
        status = add_kept(parent, name, *out);
    if (status < 0) {
        dt_comm_destroy(*out);
        *out = NULL;
    }
    return status;
}

dt_status dt_comm_twin(struct dt_comm *comm, const char *name, struct dt_comm **out)
{
    DT_FREED int *ranks = malloc((size_t)comm->size * sizeof *ranks);
    DT_TRY(dt_allocated(ranks, "no host memory for %d ranks", comm->size));
    for (int rank = 0; rank < comm->size; rank++)
        ranks[rank] = rank;
    dt_status status = dt_comm_subset(comm, ranks, comm->size, name, out);
    if (*out)
        (*out)->twin = comm;
    return status;
}

void dt_comm_destroy(struct dt_comm *comm)
{
    if (!comm || is_kept(comm))
        return;
    forget(comm);
    remove_child(comm);
    pthread_mutex_destroy(&comm->tree);
    free(comm->set);
    int *world_ranks = comm->world_ranks; /* the backend may need them until its end */
    if (comm->backend->destroy)
        comm->backend->destroy(comm);
    else
        free(comm);
    free(world_ranks);
}

int dt_comm_rank(const struct dt_comm *comm)
{
    return comm->rank;
}

int dt_comm_size(const struct dt_comm *comm)
{
    return comm->size;
}

int dt_comm_world_rank(const struct dt_comm *comm, int rank)
{
    return comm->world_ranks[rank];
}

const char *dt_comm_library(const struct dt_comm *comm)
{
    return comm->backend->library ? comm->backend->library(comm) : "none";
}

const char *dt_comm_secret(const struct dt_comm *comm)
{
    return comm->backend->secret ? comm->backend->secret(comm) : NULL;
}

void dt_comm_network(const struct dt_comm *comm, struct dt_comm_network *out)
{
    *out = (struct dt_comm_network){.direct_channels = 0};
    if (comm->backend->network)
        comm->backend->network(comm, out);
}

static void add_words(char *list, size_t list_bytes, const char *words)
{
    for (const char *at = words; *at;) {
        size_t bytes = strcspn(at, ",");
        dt_append_once(list, list_bytes, at, bytes);
        at += bytes;
        at += strspn(at, ", ");
    }
}

void dt_comm_network_merge(struct dt_comm_network *all, const struct dt_comm_network *one)
{
    add_words(all->transports, sizeof all->transports, one->transports);
    add_words(all->network, sizeof all->network, one->network);
    add_words(all->cards, sizeof all->cards, one->cards);
    all->direct_channels += one->direct_channels;
    all->staged_channels += one->staged_channels;
    all->registered_bytes = all->registered_bytes > one->registered_bytes ? all->registered_bytes : one->registered_bytes;
}

static bool is_transfer(const struct dt_comm_operation *o)
{
    return o->kind == DT_COMM_SEND || o->kind == DT_COMM_RECV;
}

static dt_status check(const struct dt_comm *comm, const struct dt_comm_operation *o)
{
    const char *name = dt_comm_kind_name(o->kind);
    bool has_peer = o->kind >= DT_COMM_BROADCAST;
    if (has_peer && (o->peer < 0 || o->peer >= comm->size))
        return dt_fail(DT_ERR_INVALID, "%s: %s with rank %d, of %d", comm->name, name, o->peer, comm->size);
    if (is_transfer(o) && o->peer == comm->rank)
        return dt_fail(DT_ERR_INVALID, "%s: rank %d cannot %s itself", comm->name, o->peer,
                       o->kind == DT_COMM_SEND ? "send to" : "receive from");
    if (comm->in_group && !is_transfer(o))
        return dt_fail(DT_ERR_INVALID, "%s: %s within a group of sends and receives", comm->name, name);
    if (comm->in_group && comm->group_stream && comm->group_stream != o->stream)
        return dt_fail(DT_ERR_INVALID, "%s: the transfers of a group are not all on one stream", comm->name);
    return DT_OK;
}

/* Note the operation as queued and give it to the backend. An empty operation is skipped on every
 * rank. */
static dt_status queue(struct dt_comm *comm, struct dt_comm_operation operation)
{
    DT_TRY(check(comm, &operation));
    if (operation.count_elems == 0)
        return DT_OK;
    operation.sequence = comm->sequence + 1;
    struct dt_comm_entry *entry = &comm->ring[operation.sequence % DT_COMM_RING];
    entry->kind = operation.kind;
    entry->bytes = operation.count_elems * dt_dtype_bytes(operation.dtype);
    atomic_store(&entry->state, DT_COMM_QUEUED);
    atomic_store(&entry->sequence, operation.sequence);
    atomic_store(&comm->sequence, operation.sequence);
    bool of_parts = dt_comm_of_parts(operation.kind);
    (comm->twin ? comm->twin : comm)->bytes[operation.kind] += comm->size > 1 ? entry->bytes * (uint64_t)(of_parts ? comm->size : 1) : 0;

    /* A group runs when it ends: it is one span, which begins with its first operation. */
    bool spans = !comm->in_group || comm->group_stream == NULL;
    bool message = is_transfer(&operation);
    if (comm->in_group)
        comm->group_stream = operation.stream;
    if (spans)
        DT_TRY(dt_span_begin(operation.stream, comm->in_group ? "group" : dt_comm_kind_name(operation.kind), DT_SPAN_COMMUNICATION,
                             message ? 0 : entry->bytes, comm->name));
    if (message)
        DT_TRY(dt_span_message(operation.stream, operation.kind == DT_COMM_SEND, dt_comm_world_rank(comm, operation.peer), entry->bytes));
    DT_TRY(comm->backend->queue(comm, &operation));
    return comm->in_group ? DT_OK : dt_span_end(operation.stream);
}

uint64_t dt_comm_bytes(const struct dt_comm *comm, enum dt_comm_kind kind)
{
    return comm->bytes[kind];
}

dt_status dt_all_reduce(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, enum dt_reduction op,
                        struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_ALL_REDUCE, buffer, buffer, count_elems, dtype, op, 0, stream, 0});
}

dt_status dt_reduce_scatter(struct dt_comm *comm, void *send, void *receive, size_t receive_count_elems, enum dt_dtype dtype,
                            enum dt_reduction op, struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_REDUCE_SCATTER, send, receive, receive_count_elems, dtype, op, 0, stream, 0});
}

dt_status dt_all_gather(struct dt_comm *comm, const void *send, void *receive, size_t send_count_elems, enum dt_dtype dtype,
                        struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_ALL_GATHER, send, receive, send_count_elems, dtype, DT_SUM, 0, stream, 0});
}

dt_status dt_all_to_all(struct dt_comm *comm, const void *send, void *receive, size_t part_elems, enum dt_dtype dtype,
                        struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_ALL_TO_ALL, send, receive, part_elems, dtype, DT_SUM, 0, stream, 0});
}

dt_status dt_shift(struct dt_comm *comm, const void *send, void *receive, size_t count_elems, enum dt_dtype dtype, struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_SHIFT, send, receive, count_elems, dtype, DT_SUM, 0, stream, 0});
}

dt_status dt_broadcast(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, int root, struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_BROADCAST, buffer, buffer, count_elems, dtype, DT_SUM, root, stream, 0});
}

dt_status dt_reduce(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, enum dt_reduction op, int root,
                    struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_REDUCE, buffer, buffer, count_elems, dtype, op, root, stream, 0});
}

dt_status dt_send(struct dt_comm *comm, const void *buffer, size_t count_elems, enum dt_dtype dtype, int peer, struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_SEND, buffer, NULL, count_elems, dtype, DT_SUM, peer, stream, 0});
}

dt_status dt_recv(struct dt_comm *comm, void *buffer, size_t count_elems, enum dt_dtype dtype, int peer, struct dt_stream *stream)
{
    return queue(comm, (struct dt_comm_operation){DT_COMM_RECV, NULL, buffer, count_elems, dtype, DT_SUM, peer, stream, 0});
}

dt_status dt_group_start(struct dt_comm *comm)
{
    if (comm->in_group)
        return dt_fail(DT_ERR_INVALID, "%s: a group within a group", comm->name);
    comm->in_group = true;
    comm->group_stream = NULL;
    return comm->backend->group_start ? comm->backend->group_start(comm) : DT_OK;
}

dt_status dt_group_end(struct dt_comm *comm)
{
    if (!comm->in_group)
        return dt_fail(DT_ERR_INVALID, "%s: a group ends that never began", comm->name);
    comm->in_group = false;
    if (comm->backend->group_end)
        DT_TRY(comm->backend->group_end(comm));
    return comm->group_stream ? dt_span_end(comm->group_stream) : DT_OK;
}

dt_status dt_host_all_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all)
{
    return comm->backend->host_all_gather(comm, mine, bytes, all);
}

dt_status dt_host_collect(struct dt_comm *comm, const void *mine, size_t bytes, void *all)
{
    void *memory = calloc((size_t)comm->size, bytes);
    dt_status status = dt_allocated(memory, "no host memory for what %d ranks say", comm->size);
    DT_THEN(status, dt_host_all_gather(comm, mine, bytes, memory));
    if (status < 0) {
        free(memory);
        memory = NULL;
    }
    memcpy(all, &memory, sizeof memory);
    return status;
}

/* all [ranks * count] */
static void sum_up(const double *all, size_t ranks, size_t count, double *sums, double *highest)
{
    for (size_t j = 0; j < count; j++) {
        sums[j] = highest[j] = all[j];
        for (size_t i = 1; i < ranks; i++) {
            double value = all[i * count + j];
            sums[j] += value;
            highest[j] = highest[j] > value || isnan(highest[j]) ? highest[j] : value;
        }
    }
}

static dt_status reduce_gathered(struct dt_comm *comm, const double *mine, size_t count, double *sums_and_highest)
{
    DT_FREED double *all = NULL;
    DT_TRY(dt_host_collect(comm, mine, count * sizeof *mine, &all));
    sum_up(all, (size_t)comm->size, count, sums_and_highest, sums_and_highest + count);
    return DT_OK;
}

dt_status dt_host_reduce(struct dt_comm *comm, const double *mine, int count, double *sums_and_highest)
{
    return comm->backend->host_reduce ? comm->backend->host_reduce(comm, mine, count, sums_and_highest)
                                      : reduce_gathered(comm, mine, (size_t)count, sums_and_highest);
}

dt_status dt_host_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all)
{
    if (comm->backend->host_gather)
        return comm->backend->host_gather(comm, mine, bytes, all);
    if (comm->rank == 0)
        return dt_host_all_gather(comm, mine, bytes, all);
    DT_FREED void *unread = NULL;
    DT_TRY(dt_host_collect(comm, mine, bytes, &unread));
    return DT_OK;
}

static dt_status pick_gathered(struct dt_comm *comm, const int *ranks, int count, const void *mine, size_t bytes, char *out)
{
    DT_FREED char *all = malloc((size_t)comm->size * bytes + 1);
    DT_TRY(dt_allocated(all, "no host memory for what %d ranks give", comm->size));
    DT_TRY(dt_host_all_gather(comm, mine, bytes, all));
    for (int i = 0; i < count; i++)
        memcpy(out + (size_t)i * bytes, all + (size_t)ranks[i] * bytes, bytes);
    return DT_OK;
}

dt_status dt_host_gather_among(struct dt_comm *comm, const int *ranks, int count, const void *mine, size_t bytes, void *all)
{
    return comm->backend->host_gather_among ? comm->backend->host_gather_among(comm, ranks, count, mine, bytes, all)
                                            : pick_gathered(comm, ranks, count, mine, bytes, all);
}

/* Offset of the ranks' numbers in a backend's control memory, after the number that
 * dt_comm_start_together sums. */
enum { NUMBERS_AT = 256 };

static dt_status find_control(struct dt_comm *comm, size_t bytes, char **out)
{
    *out = NULL;
    return comm->backend->control ? comm->backend->control(comm, bytes, (void **)out) : DT_OK;
}

dt_status dt_comm_start_together(struct dt_comm *comm, struct dt_stream *stream)
{
    char *control;
    double mine = 0, all[2];
    if (comm->size == 1)
        return DT_OK;
    DT_TRY(find_control(comm, sizeof(float), &control));
    if (!control)
        return dt_host_reduce(comm, &mine, 1, all);
    DT_TRY(dt_all_reduce(comm, control, 1, DT_FP32, DT_SUM, stream));
    comm->bytes[DT_COMM_ALL_REDUCE] -= sizeof(float);
    return dt_stream_synchronize(stream);
}

/* numbers: on the device, [ranks * count]. NCCL copies gathered data unchanged: two 32-bit words
 * are a number. */
static dt_status gather_numbers(struct dt_comm *comm, const double *mine, size_t count, char *numbers, struct dt_stream *stream,
                                double *all)
{
    size_t bytes = count * sizeof *mine;
    char *own = numbers + (size_t)comm->rank * bytes;
    DT_TRY(dt_copy_from_host(stream, own, mine, bytes));
    DT_TRY(dt_all_gather(comm, own, numbers, bytes / sizeof(float), DT_FP32, stream));
    comm->bytes[DT_COMM_ALL_GATHER] -= (size_t)comm->size * bytes;
    DT_TRY(dt_copy_to_host(stream, all, numbers, (size_t)comm->size * bytes));
    return dt_stream_synchronize(stream);
}

dt_status dt_comm_reduce_numbers(struct dt_comm *comm, const double *mine, int count, struct dt_stream *stream, double *sums_and_highest)
{
    size_t each = (size_t)count, ranks = (size_t)comm->size;
    char *control;
    if (ranks == 1) {
        sum_up(mine, 1, each, sums_and_highest, sums_and_highest + count);
        return DT_OK;
    }
    DT_TRY(find_control(comm, NUMBERS_AT + ranks * each * sizeof *mine, &control));
    if (!control)
        return dt_host_reduce(comm, mine, count, sums_and_highest);
    DT_FREED double *all = malloc(ranks * each * sizeof *all);
    DT_TRY(dt_allocated(all, "no host memory for the numbers of %d ranks", comm->size));
    DT_TRY(gather_numbers(comm, mine, each, control + NUMBERS_AT, stream, all));
    sum_up(all, ranks, each, sums_and_highest, sums_and_highest + count);
    return DT_OK;
}

void dt_comm_give_up(struct dt_comm *comm, dt_status status, const char *text)
{
    if (comm->backend->give_up)
        comm->backend->give_up(comm, status, text);
}

void dt_comm_mark(struct dt_comm *comm, uint64_t sequence, enum dt_comm_state state)
{
    struct dt_comm_entry *entry = &comm->ring[sequence % DT_COMM_RING];
    if (atomic_load(&entry->sequence) == sequence)
        atomic_store(&entry->state, (int)state);
}

static void dump_one(struct dt_comm *comm, FILE *to)
{
    static const char *const states[] = {"queued", "waiting", "moving", "done", "failed", "in a graph"};
    if (comm->backend->refresh)
        comm->backend->refresh(comm);
    fprintf(to, "communicator %s, rank %d of %d (%s):\n", comm->name, comm->rank, comm->size, comm->backend->name);
    uint64_t last = atomic_load(&comm->sequence), first = last >= DT_COMM_RING ? last - DT_COMM_RING + 1 : 1;
    for (uint64_t sequence = first; sequence <= last; sequence++) {
        const struct dt_comm_entry *entry = &comm->ring[sequence % DT_COMM_RING];
        fprintf(to, "  %8llu  %-14s %14llu bytes  %s\n", (unsigned long long)sequence, dt_comm_kind_name(entry->kind),
                (unsigned long long)entry->bytes, states[atomic_load(&entry->state)]);
    }
}

/* Dump the descendants that have run an operation. */
static void dump_children(struct dt_comm *comm, FILE *to)
{
    for (struct dt_comm *child = comm->children; child; child = child->sibling) {
        if (atomic_load(&child->sequence) > 0)
            dump_one(child, to);
        dump_children(child, to);
    }
}

void dt_comm_dump(struct dt_comm *comm, FILE *to)
{
    pthread_mutex_lock(&comm->root->tree);
    dump_one(comm, to);
    dump_children(comm, to);
    pthread_mutex_unlock(&comm->root->tree);
}

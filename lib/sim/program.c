#include "lib/sim/program.h"

#include "lib/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dt_status allocated(bool memory)
{
    return memory ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for a rank's program");
}

const char *dt_sim_collective_name(enum dt_sim_collective kind)
{
    static const char *const names[DT_SIM_OPERATIONS] = {[DT_SIM_ALL_REDUCE] = "all_reduce",
                                                         [DT_SIM_REDUCE_SCATTER] = "reduce_scatter",
                                                         [DT_SIM_ALL_GATHER] = "all_gather",
                                                         [DT_SIM_BROADCAST] = "broadcast",
                                                         [DT_SIM_REDUCE] = "reduce",
                                                         [DT_SIM_ALL_TO_ALL] = "all_to_all",
                                                         [DT_SIM_SHIFT] = "shift"};
    return names[kind];
}

/* ---- creating ---- */

dt_status dt_sim_program_create(bool coalesce, struct dt_sim_program **out)
{
    struct dt_sim_program *p = calloc(1, sizeof *p);
    *out = NULL;
    DT_TRY(allocated(p));
    p->coalesce = coalesce;
    p->label_room = 16;
    p->labels = calloc(p->label_room, sizeof *p->labels);
    if (!p->labels || !(p->labels[0] = strdup(""))) {
        dt_sim_program_destroy(p);
        return allocated(false);
    }
    p->label_count = 1;
    *out = p;
    return DT_OK;
}

void dt_sim_program_destroy(struct dt_sim_program *p)
{
    if (!p)
        return;
    for (int s = 0; s < p->stream_count; s++) {
        free(p->stream_names[s]);
        free(p->stream_ops ? p->stream_ops[s] : NULL);
    }
    for (uint32_t l = 0; l < p->label_count; l++)
        free(p->labels[l]);
    free(p->stream_names);
    free(p->stream_ops);
    free(p->stream_op_count);
    free(p->works);
    free(p->labels);
    free(p->passes);
    free(p->slot_order);
    free(p->ops);
    free(p);
}

dt_status dt_sim_program_add_stream(struct dt_sim_program *p, const char *name, int *out_stream)
{
    if (p->stream_count == DT_SIM_MAX_STREAMS)
        return dt_fail(DT_ERR_INVALID, "simulation: stream %s is one more than the %d of a rank", name, DT_SIM_MAX_STREAMS);
    DT_TRY(allocated(DT_ONE_MORE(p->stream_names, p->stream_count)));
    p->stream_names[p->stream_count] = strdup(name);
    DT_TRY(allocated(p->stream_names[p->stream_count]));
    *out_stream = p->stream_count++;
    return DT_OK;
}

dt_status dt_sim_program_add_slot(struct dt_sim_program *p, int *out_slot)
{
    DT_TRY(allocated(DT_ONE_MORE(p->slot_order, p->slot_count)));
    p->slot_order[p->slot_count] = 0;
    *out_slot = p->slot_count++;
    return DT_OK;
}

/* ---- adding ---- */

/* Bernstein's hash. */
static uint32_t hash_label(const char *label)
{
    uint32_t hash = 5381;
    for (; *label; label++)
        hash = 33 * hash + (unsigned char)*label;
    return hash;
}

static dt_status intern(struct dt_sim_program *p, const char *label, uint32_t *out)
{
    *out = 0;
    if (!label || !*label)
        return DT_OK;
    uint32_t *place = &p->label_places[hash_label(label) % DT_SIM_LABEL_PLACES];
    *out = *place;
    if (*place && strcmp(p->labels[*place], label) == 0)
        return DT_OK;
    for (uint32_t l = p->label_count; l-- > 1;)
        if (strcmp(p->labels[l], label) == 0) {
            *out = *place = l;
            return DT_OK;
        }
    if (p->label_count == p->label_room) {
        DT_TRY(allocated(dt_resize(&p->labels, 2 * (size_t)p->label_room * sizeof *p->labels)));
        p->label_room *= 2;
    }
    p->labels[p->label_count] = strdup(label);
    DT_TRY(allocated(p->labels[p->label_count]));
    *out = *place = p->label_count++;
    return DT_OK;
}

static dt_status check_open(const struct dt_sim_program *p, int stream, double amount)
{
    if (p->finished)
        return dt_fail(DT_ERR_INVALID, "simulation: a finished program takes no more operations");
    if (stream != DT_SIM_ON_HOST && (stream < 0 || stream >= p->stream_count))
        return dt_fail(DT_ERR_INVALID, "simulation: no stream %d in a program of %d", stream, p->stream_count);
    if (!isfinite(amount) || amount < 0)
        return dt_fail(DT_ERR_INVALID, "simulation: an operation's cost must be finite and not negative, not %g", amount);
    return DT_OK;
}

/* Append an operation, with the host time since the last one. */
static dt_status append(struct dt_sim_program *p, struct dt_sim_op op, const char *label)
{
    bool hosts = op.kind == DT_SIM_HOST || op.kind == DT_SIM_HOST_WAIT || op.kind == DT_SIM_SYNCHRONIZE || op.kind == DT_SIM_RECORD;
    DT_TRY(check_open(p, op.stream, op.amount));
    if (op.stream == DT_SIM_ON_HOST && !hosts)
        return dt_fail(DT_ERR_INVALID, "simulation: work, waits and messages need a stream");
    DT_TRY(allocated(DT_ROOM(p->ops, p->op_count, p->op_room)));
    DT_TRY(intern(p, label, &op.label));
    op.host_s = p->pending_host_s;
    op.lead_s = op.host_s + op.amount;
    p->pending_host_s = 0;
    p->ops[p->op_count++] = op;
    return DT_OK;
}

dt_status dt_sim_program_host(struct dt_sim_program *p, double seconds)
{
    DT_TRY(check_open(p, DT_SIM_ON_HOST, seconds));
    p->pending_host_s += seconds;
    return DT_OK;
}

dt_status dt_sim_program_work(struct dt_sim_program *p, int stream, double seconds, const char *label)
{
    struct dt_sim_op *last = p->op_count ? &p->ops[p->op_count - 1] : NULL;
    if (p->coalesce && last && last->kind == DT_SIM_WORK && last->stream == stream) {
        DT_TRY(check_open(p, stream, seconds));
        double late = last->host_s + p->pending_host_s + seconds; /* the host comes after the work */
        last->lead_s = fmax(last->lead_s + seconds, late);
        last->host_s += p->pending_host_s;
        last->amount += seconds;
        p->pending_host_s = 0;
        return DT_OK;
    }
    return append(p, (struct dt_sim_op){.kind = DT_SIM_WORK, .stream = (uint16_t)stream, .peer = -1, .amount = seconds}, label);
}

dt_status dt_sim_program_shared_work(struct dt_sim_program *p, int stream, double seconds, double load, const char *label)
{
    struct dt_sim_op *last = p->op_count ? &p->ops[p->op_count - 1] : NULL;
    DT_TRY(check_open(p, stream, seconds));
    if (!(load > 0 && load <= DT_SIM_MAX_LOAD))
        return dt_fail(DT_ERR_INVALID, "simulation: work that takes %g times its node's processors", load);
    if (p->coalesce && last && last->kind == DT_SIM_SHARED_WORK && last->stream == stream && p->pending_host_s == 0) {
        double both = last->amount + seconds;
        last->load = both > 0 ? (last->load * last->amount + load * seconds) / both : load;
        last->lead_s += seconds;
        last->amount = both;
        return DT_OK;
    }
    struct dt_sim_op op = {.kind = DT_SIM_SHARED_WORK, .stream = (uint16_t)stream, .peer = -1, .amount = seconds, .load = load};
    return append(p, op, label);
}

static struct dt_sim_pass last_pass(const struct dt_sim_program *p)
{
    return p->pass_count ? p->passes[p->pass_count - 1] : (struct dt_sim_pass){.micro_batch = -1, .part = -1};
}

static bool pass_equal(const struct dt_sim_pass *a, const struct dt_sim_pass *b)
{
    return a->micro_batch == b->micro_batch && a->part == b->part && memcmp(a->held_bytes, b->held_bytes, sizeof a->held_bytes) == 0;
}

/* A pass begins with the next operation. */
static dt_status begin_pass(struct dt_sim_program *p, struct dt_sim_pass next)
{
    struct dt_sim_pass last = last_pass(p);
    next.first_op = p->op_count;
    if (p->coalesce || pass_equal(&last, &next))
        return DT_OK;
    if (p->pass_count > 0 && last.first_op == p->op_count) {
        p->passes[p->pass_count - 1] = next;
        return DT_OK;
    }
    DT_TRY(allocated(DT_ROOM(p->passes, p->pass_count, p->pass_room)));
    p->passes[p->pass_count++] = next;
    return DT_OK;
}

dt_status dt_sim_program_pass(struct dt_sim_program *p, int micro_batch, int part)
{
    struct dt_sim_pass next = last_pass(p);
    next.micro_batch = micro_batch;
    next.part = part;
    return begin_pass(p, next);
}

dt_status dt_sim_program_held(struct dt_sim_program *p, const uint64_t held_bytes[DT_SIM_HELD_KINDS])
{
    if (p->coalesce) /* the usual case: no trace is wanted */
        return DT_OK;
    struct dt_sim_pass next = last_pass(p);
    memcpy(next.held_bytes, held_bytes, sizeof next.held_bytes);
    return begin_pass(p, next);
}

struct dt_sim_pass dt_sim_program_pass_of(const struct dt_sim_program *p, size_t op)
{
    size_t low = 0, high = p->pass_count; /* entries before low begin at or before op, those from high on after it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->passes[middle].first_op <= op)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? p->passes[low - 1] : (struct dt_sim_pass){.micro_batch = -1, .part = -1};
}

dt_status dt_sim_program_record(struct dt_sim_program *p, int stream, uint32_t *out_event)
{
    DT_TRY(append(p, (struct dt_sim_op){.kind = DT_SIM_RECORD, .stream = (uint16_t)stream, .target = p->event_count, .peer = -1}, NULL));
    *out_event = p->event_count++;
    return DT_OK;
}

static dt_status wait_for(struct dt_sim_program *p, enum dt_sim_op_kind kind, int stream, uint32_t event)
{
    if (event >= p->event_count)
        return dt_fail(DT_ERR_INVALID, "simulation: a wait for an event that was never recorded");
    return append(p, (struct dt_sim_op){.kind = (uint8_t)kind, .stream = (uint16_t)stream, .target = event, .peer = -1}, NULL);
}

dt_status dt_sim_program_wait(struct dt_sim_program *p, int stream, uint32_t event)
{
    return wait_for(p, DT_SIM_WAIT, stream, event);
}

dt_status dt_sim_program_host_wait(struct dt_sim_program *p, uint32_t event)
{
    return wait_for(p, DT_SIM_HOST_WAIT, DT_SIM_ON_HOST, event);
}

dt_status dt_sim_program_synchronize(struct dt_sim_program *p, int stream)
{
    /* Here `peer` is the stream that the host waits for; the operation itself is the host's. */
    DT_TRY(check_open(p, stream == DT_SIM_ALL_STREAMS ? DT_SIM_ON_HOST : stream, 0));
    return append(p, (struct dt_sim_op){.kind = DT_SIM_SYNCHRONIZE, .stream = DT_SIM_ON_HOST, .peer = stream}, NULL);
}

/* ---- communication ---- */

static dt_status communicate(struct dt_sim_program *p, struct dt_sim_op op, int slot, const char *label)
{
    if (slot < 0 || slot >= p->slot_count)
        return dt_fail(DT_ERR_INVALID, "simulation: no communicator %d in a program of %d", slot, p->slot_count);
    op.target = (uint32_t)slot;
    op.order = p->slot_order[slot];
    for (size_t i = p->grouping ? p->group_first : p->op_count; i < p->op_count; i++)
        op.order -= p->ops[i].target == op.target; /* members of a group wait for operations before the group, not for each other */
    DT_TRY(append(p, op, label));
    p->slot_order[slot]++;
    return DT_OK;
}

dt_status dt_sim_program_collective(struct dt_sim_program *p, int stream, int slot, enum dt_sim_collective kind, double bytes, int root,
                                    const char *label)
{
    bool rooted = kind == DT_SIM_BROADCAST || kind == DT_SIM_REDUCE;
    if (p->grouping)
        return dt_fail(DT_ERR_INVALID, "simulation: %s inside a group of sends and receives", dt_sim_collective_name(kind));
    if (rooted && root < 0)
        return dt_fail(DT_ERR_INVALID, "simulation: %s has root %d", dt_sim_collective_name(kind), root);
    struct dt_sim_op op = {
        .kind = DT_SIM_COLLECTIVE, .detail = (uint8_t)kind, .stream = (uint16_t)stream, .peer = rooted ? root : -1, .amount = bytes};
    return communicate(p, op, slot, label);
}

static dt_status point_to_point(struct dt_sim_program *p, enum dt_sim_op_kind kind, int stream, int slot, int peer, double bytes,
                                const char *label)
{
    if (peer < 0)
        return dt_fail(DT_ERR_INVALID, "simulation: a send or receive with peer %d", peer);
    if (p->grouping && p->op_count > p->group_first && p->ops[p->group_first].stream != stream)
        return dt_fail(DT_ERR_INVALID, "simulation: a group's sends and receives are on several streams");
    struct dt_sim_op op = {.kind = (uint8_t)kind, .stream = (uint16_t)stream, .peer = peer, .amount = bytes, .in_group = p->grouping};
    return communicate(p, op, slot, label);
}

dt_status dt_sim_program_send(struct dt_sim_program *p, int stream, int slot, int peer, double bytes, const char *label)
{
    return point_to_point(p, DT_SIM_SEND, stream, slot, peer, bytes, label);
}

dt_status dt_sim_program_recv(struct dt_sim_program *p, int stream, int slot, int peer, double bytes, const char *label)
{
    return point_to_point(p, DT_SIM_RECV, stream, slot, peer, bytes, label);
}

dt_status dt_sim_program_group_start(struct dt_sim_program *p)
{
    if (p->grouping)
        return dt_fail(DT_ERR_INVALID, "simulation: a group inside a group");
    p->grouping = true;
    p->group_first = p->op_count;
    return DT_OK;
}

dt_status dt_sim_program_group_end(struct dt_sim_program *p)
{
    if (!p->grouping)
        return dt_fail(DT_ERR_INVALID, "simulation: a group ends that never started");
    p->grouping = false;
    if (p->op_count > p->group_first)
        p->ops[p->op_count - 1].in_group = false;
    for (size_t i = p->group_first; i < p->op_count; i++)
        if (p->ops[i].kind != DT_SIM_SEND && p->ops[i].kind != DT_SIM_RECV)
            return dt_fail(DT_ERR_INVALID, "simulation: a group holds more than sends and receives");
    return DT_OK;
}

dt_status dt_sim_program_copy(struct dt_sim_program *p, int stream, enum dt_sim_direction direction, double bytes, const char *label)
{
    return append(
        p, (struct dt_sim_op){.kind = DT_SIM_COPY, .detail = (uint8_t)direction, .stream = (uint16_t)stream, .peer = -1, .amount = bytes},
        label);
}

/* ---- finishing ---- */

dt_status dt_sim_program_finish(struct dt_sim_program *p)
{
    if (p->grouping)
        return dt_fail(DT_ERR_INVALID, "simulation: a group never ends");
    if (p->finished)
        return DT_OK;
    if (p->pending_host_s > 0)
        DT_TRY(append(p, (struct dt_sim_op){.kind = DT_SIM_HOST, .stream = DT_SIM_ON_HOST, .peer = -1}, NULL));
    if (p->op_count >= UINT32_MAX)
        return dt_fail(DT_ERR_INVALID, "simulation: a program of %zu operations is too long", p->op_count);
    struct dt_sim_op *shrunk = realloc(p->ops, (p->op_count + 1) * sizeof *shrunk); /* half of the array may be unused */
    p->ops = shrunk ? shrunk : p->ops;
    p->op_room = shrunk ? p->op_count + 1 : p->op_room;
    size_t streams = (size_t)p->stream_count + 1; /* one extra, so that zero streams need no special case */
    p->stream_op_count = calloc(streams, sizeof *p->stream_op_count);
    p->stream_ops = calloc(streams, sizeof *p->stream_ops);
    p->works = calloc(streams, sizeof *p->works);
    DT_TRY(allocated(p->stream_op_count && p->stream_ops && p->works));
    for (size_t i = 0; i < p->op_count; i++)
        if (p->ops[i].stream != DT_SIM_ON_HOST) {
            p->stream_op_count[p->ops[i].stream]++;
            p->works[p->ops[i].stream] |= p->ops[i].kind == DT_SIM_WORK;
        }
    for (int s = 0; s < p->stream_count; s++) {
        p->stream_ops[s] = malloc(((size_t)p->stream_op_count[s] + 1) * sizeof **p->stream_ops);
        DT_TRY(allocated(p->stream_ops[s]));
        p->stream_op_count[s] = 0;
    }
    for (size_t i = 0; i < p->op_count; i++)
        if (p->ops[i].stream != DT_SIM_ON_HOST)
            p->stream_ops[p->ops[i].stream][p->stream_op_count[p->ops[i].stream]++] = (uint32_t)i;
    p->finished = true;
    return DT_OK;
}

static bool op_equal(const struct dt_sim_op *a, const struct dt_sim_op *b)
{
    return a->kind == b->kind && a->detail == b->detail && a->in_group == b->in_group && a->stream == b->stream && a->target == b->target &&
           a->label == b->label && a->order == b->order && a->peer == b->peer && a->amount == b->amount && a->host_s == b->host_s &&
           a->lead_s == b->lead_s && a->load == b->load;
}

static bool passes_equal(const struct dt_sim_program *left, const struct dt_sim_program *right)
{
    bool equal = left->pass_count == right->pass_count;
    for (size_t i = 0; equal && i < left->pass_count; i++) {
        const struct dt_sim_pass *a = &left->passes[i], *b = &right->passes[i];
        equal = a->first_op == b->first_op && pass_equal(a, b);
    }
    return equal;
}

bool dt_sim_program_equal(const struct dt_sim_program *left, const struct dt_sim_program *right)
{
    if (left == right)
        return true;
    if (left->op_count != right->op_count || left->stream_count != right->stream_count || left->slot_count != right->slot_count ||
        left->label_count != right->label_count || left->pending_host_s != right->pending_host_s)
        return false;
    for (int s = 0; s < left->stream_count; s++)
        if (strcmp(left->stream_names[s], right->stream_names[s]) != 0)
            return false;
    for (uint32_t l = 0; l < left->label_count; l++)
        if (strcmp(left->labels[l], right->labels[l]) != 0)
            return false;
    for (size_t i = 0; i < left->op_count; i++)
        if (!op_equal(&left->ops[i], &right->ops[i]))
            return false;
    return passes_equal(left, right);
}

#include "lib/sim/engine_parts.h"

#include "lib/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dt_status allocated(bool memory)
{
    return memory ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for the ranks and their messages");
}

/* ---- setting up ---- */

dt_status dt_sim_engine_create(int ranks, struct dt_sim_network *network, const struct dt_sim_transport *transport,
                               const struct dt_sim_collector *collector, struct dt_sim_engine **out)
{
    struct dt_sim_engine *e = calloc(1, sizeof *e);
    *out = NULL;
    DT_TRY(allocated(e));
    e->network = network;
    e->transport = *transport;
    e->collector = collector ? *collector : (struct dt_sim_collector){0};
    e->rank_count = ranks;
    e->ranks = calloc((size_t)ranks, sizeof *e->ranks);
    e->runnable = malloc((size_t)ranks * sizeof *e->runnable);
    for (e->bucket_count = 256; e->bucket_count < 2 * (uint32_t)ranks;)
        e->bucket_count *= 2;
    e->buckets = calloc(e->bucket_count, sizeof *e->buckets);
    if (!e->ranks || !e->runnable || !e->buckets) {
        dt_sim_engine_destroy(e);
        return allocated(false);
    }
    *out = e;
    return DT_OK;
}

static void destroy_group(struct group *g)
{
    free(g->name);
    free(g->ranks);
    free(g->arrivals);
    free(g);
}

void dt_sim_engine_destroy(struct dt_sim_engine *e)
{
    if (!e)
        return;
    for (int r = 0; e->ranks && r < e->rank_count; r++) {
        struct rank *rank = &e->ranks[r];
        for (int s = 0; rank->streams && s < rank->program->stream_count; s++)
            free(rank->streams[s].issued_s);
        free(rank->streams);
        free(rank->seats);
        free(rank->event_s);
        free(rank->event_idle);
    }
    for (int g = 0; g < e->group_count; g++)
        destroy_group(e->groups[g]);
    dt_heap_finish(&e->starts);
    free(e->ranks);
    free(e->groups);
    free(e->activities);
    free(e->free_activities);
    free(e->waiting);
    free(e->buckets);
    free(e->runnable);
    free(e);
}

/* Each rank must be in range, and occur once: checked by sorting. */
static dt_status check_ranks(const struct dt_sim_engine *e, const char *name, const int *ranks, int count)
{
    DT_FREED bool *seen = calloc((size_t)e->rank_count, sizeof *seen);
    DT_TRY(allocated(seen));
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= e->rank_count)
            return dt_fail(DT_ERR_INVALID, "simulation: communicator %s has rank %d of %d", name, ranks[i], e->rank_count);
        if (seen[ranks[i]])
            return dt_fail(DT_ERR_INVALID, "simulation: communicator %s has rank %d twice", name, ranks[i]);
        seen[ranks[i]] = true;
    }
    return DT_OK;
}

dt_status dt_sim_engine_add_group(struct dt_sim_engine *e, const char *name, const int *ranks, int count, int *out_group)
{
    if (count < 1)
        return dt_fail(DT_ERR_INVALID, "simulation: communicator %s has no ranks", name);
    DT_TRY(check_ranks(e, name, ranks, count));
    DT_TRY(allocated(DT_ROOM(e->groups, e->group_count, e->group_room)));
    struct group *g = calloc(1, sizeof *g);
    DT_TRY(allocated(g));
    g->name = strdup(name);
    g->ranks = malloc((size_t)count * sizeof *g->ranks);
    g->arrivals = calloc((size_t)count, sizeof *g->arrivals);
    if (!g->name || !g->ranks || !g->arrivals) {
        destroy_group(g);
        return allocated(false);
    }
    memcpy(g->ranks, ranks, (size_t)count * sizeof *ranks);
    g->count = count;
    g->base = (struct dt_sim_group){.name = g->name, .ranks = g->ranks, .count = count, .id = e->group_count};
    e->groups[e->group_count] = g;
    *out_group = e->group_count++;
    return DT_OK;
}

void dt_sim_engine_set_world(struct dt_sim_engine *e, const int *world_ranks)
{
    e->world_ranks = world_ranks;
}

void dt_sim_engine_set_members(struct dt_sim_engine *e, int group, const int *ranks, int count)
{
    e->groups[group]->base.ranks = ranks;
    e->groups[group]->base.count = count;
}

/* The transport's number of a rank. */
static int world_rank(const struct dt_sim_engine *e, int rank)
{
    return e->world_ranks ? e->world_ranks[rank] : rank;
}

static dt_status take_seat(const struct dt_sim_engine *e, int rank, int group, struct seat *seat)
{
    if (group < 0 || group >= e->group_count)
        return dt_fail(DT_ERR_INVALID, "simulation: rank %d uses communicator %d of %d", rank, group, e->group_count);
    const struct group *g = e->groups[group];
    for (int i = 0; i < g->count; i++)
        if (g->ranks[i] == rank) {
            *seat = (struct seat){.group = group, .place = i};
            return DT_OK;
        }
    return dt_fail(DT_ERR_INVALID, "simulation: rank %d uses communicator %s, which it is not in", rank, g->name);
}

dt_status dt_sim_engine_set_program(struct dt_sim_engine *e, int number, const struct dt_sim_program *program, const int *groups)
{
    if (number < 0 || number >= e->rank_count || e->ranks[number].program || !program->finished)
        return dt_fail(DT_ERR_INVALID, "simulation: rank %d is not one of %d, has a program, or is given an unfinished one", number,
                       e->rank_count);
    struct rank *rank = &e->ranks[number];
    rank->program = program;
    rank->streams = calloc((size_t)program->stream_count + 1, sizeof *rank->streams);
    rank->seats = calloc((size_t)program->slot_count + 1, sizeof *rank->seats);
    rank->event_s = malloc(((size_t)program->event_count + 1) * sizeof *rank->event_s);
    rank->event_idle = calloc((size_t)program->event_count + 1, sizeof *rank->event_idle);
    DT_TRY(allocated(rank->streams && rank->seats && rank->event_s && rank->event_idle));
    for (uint32_t i = 0; i < program->event_count; i++)
        rank->event_s[i] = NAN;
    for (int s = 0; s < program->slot_count; s++)
        DT_TRY(take_seat(e, number, groups[s], &rank->seats[s]));
    return DT_OK;
}

/* ---- activities ---- */

static dt_status new_activity(struct dt_sim_engine *e, struct activity activity, uint32_t *out)
{
    if (e->free_activity_count) {
        *out = e->free_activities[--e->free_activity_count];
    } else {
        if (e->activity_count == e->activity_room) {
            uint32_t room = e->activity_room ? 2 * e->activity_room : 64;
            DT_TRY(allocated(dt_resize(&e->activities, room * sizeof *e->activities) &&
                             dt_resize(&e->free_activities, room * sizeof *e->free_activities)));
            e->activity_room = room;
        }
        *out = e->activity_count++;
    }
    e->activities[*out] = activity;
    return DT_OK;
}

/* All ranks have arrived: the latency begins. */
static dt_status set_out(struct dt_sim_engine *e, struct activity activity)
{
    uint32_t number = 0;
    if (!(activity.movement.latency_s >= 0) || !isfinite(activity.movement.latency_s))
        return dt_fail(DT_ERR_INVALID, "simulation: a latency of %g s", activity.movement.latency_s);
    DT_TRY(new_activity(e, activity, &number));
    return dt_heap_set(&e->starts, number, activity.start_s + activity.movement.latency_s);
}

/* Add a rank to the list of ranks that may continue. */
static void wake(struct dt_sim_engine *e, int number)
{
    if (!e->ranks[number].queued && e->ranks[number].program) {
        e->ranks[number].queued = true;
        e->runnable[e->runnable_count++] = number;
    }
}

/* A stream has finished its operation at now_s. */
static void release(struct dt_sim_engine *e, int number, int stream, const struct dt_sim_op *op, double now_s)
{
    struct rank *rank = &e->ranks[number];
    struct stream *s = &rank->streams[stream];
    bool message = op->kind == DT_SIM_SEND || op->kind == DT_SIM_RECV;
    e->operations++;
    if (!is_alone(op)) {
        rank->seats[op->target].done++;
        rank->seats[op->target].done_s = now_s;
    }
    wake(e, number);
    if (message && --s->unfinished)
        return;
    if (s->hold == HOLD_PEERS || s->hold == HOLD_FLOW) { /* otherwise other operations of an open group are still outstanding */
        s->clock_s = now_s;
        s->hold = HOLD_NONE;
        s->done++;
    }
}

/* How long a stream of the rank has worked during a collective on stream `except`; 0 for that
 * stream. */
static double worked_beside(const struct rank *rank, int stream, int except, double start_s, double now_s)
{
    const struct stream *s = &rank->streams[stream];
    return stream == except || !rank->program->works[stream] ? 0 : fmax(0, fmin(s->clock_s, now_s) - fmax(start_s, s->work_start_s));
}

/* The opposite effect: concurrent kernels have taken memory bandwidth and multiprocessors from the
 * collective's channels. The rank that worked longest delays all others. Returns the delay in
 * seconds. Source  Rashidi et al., "Enabling Compute-Communication Overlap in Distributed Deep
 * Learning Training Platforms", ISCA 2021, arXiv 2007.00156. */
static double slowed_s(const struct dt_sim_engine *e, const struct group *g, double now_s, double slowdown)
{
    double longest_s = 0;
    for (int i = 0; i < g->count; i++) {
        const struct rank *rank = &e->ranks[g->ranks[i]];
        for (int s = 0; s < rank->program->stream_count; s++)
            longest_s = fmax(longest_s, worked_beside(rank, s, (int)g->arrivals[i].stream - 1, g->start_s, now_s));
    }
    return slowdown * longest_s;
}

static void end_collective(struct dt_sim_engine *e, struct group *g, double now_s, double compute_share)
{
    g->number++;
    g->arrived = 0;
    for (int i = 0; i < g->count; i++) {
        struct rank *rank = &e->ranks[g->ranks[i]];
        int stream = (int)g->arrivals[i].stream - 1;
        const struct dt_sim_op *op = &rank->program->ops[rank->program->stream_ops[stream][rank->streams[stream].done]];
        g->arrivals[i].stream = 0;
        engine_report_span(e, g->ranks[i], stream, op, g->arrivals[i].at_s, g->start_s, now_s);
        /* The collective's kernel has taken multiprocessors from the rank's concurrent work. A
         * stream that worked in that time was slower, so it continues later by that part. A stream
         * that waited has lost nothing. Source  NVIDIA, NCCL documentation, NCCL_MAX_NCHANNELS: a
         * channel is a block of threads, and takes a multiprocessor from computation. */
        for (int s = 0; compute_share > 0 && s < rank->program->stream_count; s++)
            rank->streams[s].clock_s += compute_share * worked_beside(rank, s, stream, g->start_s, now_s);
        release(e, g->ranks[i], stream, op, now_s);
    }
}

/* The seconds that a collective takes longer because its ranks worked during it. Known only at the
 * time when it would otherwise end. */
static double more_s(const struct dt_sim_engine *e, const struct activity *a, double now_s)
{
    return a->kind != ACTIVITY_COLLECTIVE || a->lengthened || a->movement.compute_slowdown <= 0
               ? 0
               : slowed_s(e, e->groups[a->group], now_s, a->movement.compute_slowdown);
}

/* All ranks of the activity leave it. A collective during which they worked is first extended,
 * once, by the time that this cost. */
static dt_status end_activity(struct dt_sim_engine *e, uint32_t number, double now_s)
{
    struct activity *a = &e->activities[number];
    double more = more_s(e, a, now_s);
    if (more > 0) {
        a->lengthened = true;
        a->movement.flow.bytes = 0; /* all have arrived: only time passes */
        return dt_heap_set(&e->starts, number, now_s + more);
    }
    if (a->kind == ACTIVITY_COPY && a->op[0]->kind == DT_SIM_COPY)
        e->ranks[a->rank[0]].streams[a->stream[0]].idle.copy_s += now_s - a->came_s[0];
    for (int i = 0; i < 2 && a->kind != ACTIVITY_COLLECTIVE && a->op[i]; i++) {
        engine_report_span(e, a->rank[i], a->stream[i], a->op[i], a->came_s[i], a->start_s, now_s);
        release(e, a->rank[i], a->stream[i], a->op[i], now_s);
    }
    if (a->kind == ACTIVITY_COLLECTIVE)
        end_collective(e, e->groups[a->group], now_s, a->movement.compute_share);
    e->free_activities[e->free_activity_count++] = number;
    return DT_OK;
}

/* ---- collectives ---- */

static dt_status fail_mismatch(const struct group *g, const struct dt_sim_op *op, int rank)
{
    return dt_fail(DT_ERR_COMM,
                   "simulation: collective %u on %s: rank %d calls %s of %.0f bytes (root %d), rank %d %s of %.0f bytes (root %d)",
                   g->number + 1, g->name, g->op_rank, dt_sim_collective_name((enum dt_sim_collective)g->op->detail), g->op->amount,
                   g->op->peer, rank, dt_sim_collective_name((enum dt_sim_collective)op->detail), op->amount, op->peer);
}

static dt_status come_to_collective(struct dt_sim_engine *e, int rank, int stream, const struct dt_sim_op *op, double came_s)
{
    const struct seat *seat = &e->ranks[rank].seats[op->target];
    struct group *g = e->groups[seat->group];
    if (op->peer >= g->count)
        return dt_fail(DT_ERR_INVALID, "simulation: %s on %s: root %d of %d ranks",
                       dt_sim_collective_name((enum dt_sim_collective)op->detail), g->name, op->peer, g->count);
    if (g->arrived == 0) {
        g->op = op;
        g->op_rank = rank;
        g->start_s = came_s;
    } else if (g->op != op && (g->op->detail != op->detail || g->op->amount != op->amount || g->op->peer != op->peer)) {
        return fail_mismatch(g, op, rank);
    }
    g->arrivals[seat->place] = (struct arrival){.at_s = came_s, .stream = (uint32_t)stream + 1};
    g->start_s = fmax(g->start_s, came_s);
    if (++g->arrived < g->count)
        return DT_OK;
    struct activity a = {.kind = ACTIVITY_COLLECTIVE, .group = seat->group, .start_s = g->start_s};
    DT_TRY(e->transport.collective(e->transport.context, &g->base, (enum dt_sim_collective)op->detail, op->amount, op->peer, &a.movement));
    return set_out(e, a);
}

/* ---- messages: sends and receives between the same two places are matched in the order of their
 * calls ---- */

static uint32_t bucket_of(const struct dt_sim_engine *e, int group, int from, int to)
{
    uint64_t key = ((uint64_t)(uint32_t)group << 40) ^ ((uint64_t)(uint32_t)from << 20) ^ (uint32_t)to;
    return (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & (e->bucket_count - 1); /* Knuth's multiplicative hash */
}

/* Remove the oldest of the other kind; false: there is none. */
static bool take_waiting(struct dt_sim_engine *e, const struct waiting *mine, struct waiting *out)
{
    for (uint32_t *link = &e->buckets[bucket_of(e, mine->group, mine->from, mine->to)]; *link; link = &e->waiting[*link - 1].next) {
        uint32_t number = *link;
        struct waiting *w = &e->waiting[number - 1];
        if (w->group != mine->group || w->from != mine->from || w->to != mine->to || w->is_send == mine->is_send)
            continue;
        *out = *w;
        *link = w->next;
        w->next = e->free_waiting;
        w->op = NULL;
        e->free_waiting = number;
        return true;
    }
    return false;
}

static dt_status add_waiting(struct dt_sim_engine *e, struct waiting mine)
{
    uint32_t number = e->free_waiting;
    if (number) {
        e->free_waiting = e->waiting[number - 1].next;
    } else {
        DT_TRY(allocated(DT_ROOM(e->waiting, e->waiting_count, e->waiting_room)));
        number = ++e->waiting_count;
    }
    uint32_t *link = &e->buckets[bucket_of(e, mine.group, mine.from, mine.to)];
    while (*link)
        link = &e->waiting[*link - 1].next;
    mine.next = 0;
    e->waiting[number - 1] = mine;
    *link = number;
    return DT_OK;
}

static dt_status come_to_message(struct dt_sim_engine *e, int rank, int stream, const struct dt_sim_op *op, double came_s)
{
    const struct seat *seat = &e->ranks[rank].seats[op->target];
    const struct group *g = e->groups[seat->group];
    bool is_send = op->kind == DT_SIM_SEND;
    if (op->peer >= g->count || op->peer == seat->place)
        return dt_fail(DT_ERR_INVALID, "simulation: rank %d of %s sends to or receives from rank %d of %d", seat->place, g->name, op->peer,
                       g->count);
    struct waiting other, mine = {.group = seat->group,
                                  .from = is_send ? seat->place : op->peer,
                                  .to = is_send ? op->peer : seat->place,
                                  .is_send = is_send,
                                  .rank = rank,
                                  .stream = stream,
                                  .came_s = came_s,
                                  .op = op};
    if (!take_waiting(e, &mine, &other))
        return add_waiting(e, mine);
    if (other.op->amount != op->amount)
        return dt_fail(DT_ERR_COMM, "simulation: a message on %s from rank %d to %d: %.0f bytes are sent, %.0f received", g->name,
                       g->ranks[mine.from], g->ranks[mine.to], is_send ? op->amount : other.op->amount,
                       is_send ? other.op->amount : op->amount);
    const struct waiting *sender = is_send ? &mine : &other, *receiver = is_send ? &other : &mine;
    struct activity a = {
        .kind = ACTIVITY_MESSAGE,
        .group = seat->group,
        .rank = {sender->rank, receiver->rank},
        .stream = {sender->stream, receiver->stream},
        .came_s = {sender->came_s, receiver->came_s},
        .op = {sender->op, receiver->op},
        .start_s = fmax(sender->came_s, receiver->came_s),
    };
    DT_TRY(e->transport.message(e->transport.context, world_rank(e, sender->rank), world_rank(e, receiver->rank), op->amount, &a.movement));
    return set_out(e, a);
}

static dt_status come_to_copy(struct dt_sim_engine *e, int rank, int stream, const struct dt_sim_op *op, double came_s)
{
    struct activity a = {.kind = ACTIVITY_COPY, .rank = {rank}, .stream = {stream}, .came_s = {came_s}, .op = {op}, .start_s = came_s};
    const struct dt_sim_transport *t = &e->transport;
    int world = world_rank(e, rank);
    DT_TRY(op->kind == DT_SIM_COPY ? t->copy(t->context, world, (enum dt_sim_direction)op->detail, op->amount, &a.movement)
                                   : t->work(t->context, world, op->amount, op->load, &a.movement));
    return set_out(e, a);
}

/* ---- one rank by itself ---- */

static dt_status issue(struct rank *rank, const struct dt_sim_op *op)
{
    struct stream *s = &rank->streams[op->stream];
    if (s->issued - s->done == s->room) {
        uint32_t room = s->room ? 2 * s->room : 16;
        double *grown = malloc(room * sizeof *grown);
        DT_TRY(allocated(grown));
        for (uint32_t i = s->done; i != s->issued; i++)
            grown[i & (room - 1)] = s->issued_s[i & (s->room - 1)];
        free(s->issued_s);
        s->issued_s = grown;
        s->room = room;
    }
    s->issued_s[s->issued++ & (s->room - 1)] = rank->host_s;
    return DT_OK;
}

/* When a stream, or all of them, finished the issued work; NAN if it is not finished. */
static double synchronized_s(const struct rank *rank, int stream)
{
    double until = 0;
    for (int i = stream == DT_SIM_ALL_STREAMS ? 0 : stream; i < (stream == DT_SIM_ALL_STREAMS ? rank->program->stream_count : stream + 1);
         i++) {
        if (rank->streams[i].done != rank->streams[i].issued)
            return NAN;
        until = fmax(until, rank->streams[i].clock_s);
    }
    return until;
}

/* The host continues until it has to wait. It runs before the streams, so that these find all
 * issued operations. */
static dt_status advance_host(struct dt_sim_engine *e, int number)
{
    struct rank *rank = &e->ranks[number];
    const struct dt_sim_program *p = rank->program;
    for (; rank->host_next < p->op_count; rank->host_next++) {
        const struct dt_sim_op *op = &p->ops[rank->host_next];
        double until = 0;
        if (op->stream != DT_SIM_ON_HOST) {
            DT_TRY(issue(rank, op));
        } else if (op->kind == DT_SIM_HOST_WAIT) {
            until = rank->event_s[op->target];
            if (isnan(until)) {
                rank->host_hold = HOLD_EVENT;
                return DT_OK;
            }
        } else if (op->kind == DT_SIM_SYNCHRONIZE) {
            until = synchronized_s(rank, op->peer);
            if (isnan(until)) {
                rank->host_hold = HOLD_STREAM;
                return DT_OK;
            }
        }
        double called = rank->host_s + op->host_s;
        if (op->host_s > 0)
            engine_report_span(e, number, -1, op, rank->host_s, rank->host_s, called);
        rank->host_s = fmax(called, until);
        if (op->kind == DT_SIM_RECORD && op->stream == DT_SIM_ON_HOST)
            rank->event_s[op->target] = rank->host_s;
        e->operations += op->stream == DT_SIM_ON_HOST;
    }
    rank->host_hold = HOLD_END;
    return DT_OK;
}

static dt_status come_to(struct dt_sim_engine *e, int number, int stream, const struct dt_sim_op *op, double came_s)
{
    struct rank *rank = &e->ranks[number];
    struct stream *s = &rank->streams[stream];
    if (is_alone(op)) {
        s->hold = HOLD_FLOW;
        return come_to_copy(e, number, stream, op, came_s);
    }
    const struct seat *seat = &rank->seats[op->target];
    if (seat->done < op->order) {
        s->hold = HOLD_ORDER;
        return DT_OK;
    }
    came_s = fmax(came_s, seat->done_s);
    if (op->kind == DT_SIM_COLLECTIVE) {
        s->hold = HOLD_PEERS;
        return come_to_collective(e, number, stream, op, came_s);
    }
    s->unfinished++;
    if (op->in_group) /* continue with the group's next operation: the last one waits for all */
        s->done++;
    else
        s->hold = HOLD_PEERS;
    return come_to_message(e, number, stream, op, came_s);
}

/* One stream continues until it has to wait. */
static dt_status advance_stream(struct dt_sim_engine *e, int number, int stream, bool *progress)
{
    struct rank *rank = &e->ranks[number];
    struct stream *s = &rank->streams[stream];
    const uint32_t *numbers = rank->program->stream_ops[stream];
    if (s->hold == HOLD_PEERS || s->hold == HOLD_FLOW)
        return DT_OK;
    s->hold = HOLD_NONE;
    while (s->hold == HOLD_NONE && s->done != s->issued) {
        const struct dt_sim_op *op = &rank->program->ops[numbers[s->done]];
        double host = s->issued_s[s->done & (s->room - 1)], ready = fmax(s->clock_s, host + op->host_s), end = ready;
        if (op->kind > DT_SIM_WAIT) {
            uint32_t before = s->done;
            s->idle.host_s += is_alone(op) ? ready - s->clock_s : 0;
            DT_TRY(come_to(e, number, stream, op, ready));
            *progress |= s->done != before;
            continue;
        }
        if (op->kind == DT_SIM_WORK) {
            /* Compare sums: a difference could exceed an addend by rounding alone, and the work
             * would seem to pause. */
            bool pauses = host + op->lead_s > s->clock_s + op->amount;
            end = pauses ? host + op->lead_s : s->clock_s + op->amount;
            if (pauses) {
                s->work_start_s = end - op->amount;
                s->idle.host_s += s->work_start_s - s->clock_s;
            }
            engine_report_span(e, number, stream, op, end - op->amount, end - op->amount, end);
        } else if (op->kind == DT_SIM_RECORD) {
            s->idle.host_s += end - s->clock_s;
            rank->event_s[op->target] = end;
            rank->event_idle[op->target] = s->idle;
        } else if (isnan(rank->event_s[op->target])) {
            s->hold = HOLD_EVENT;
            return DT_OK;
        } else {
            end = fmax(ready, rank->event_s[op->target]);
            s->idle.host_s += fmax(0, ready - fmax(s->clock_s, rank->event_s[op->target])); /* not if it had to wait anyway */
            if (end > s->clock_s)
                s->work_start_s = end;
        }
        s->clock_s = end;
        s->done++;
        e->operations++;
        *progress = true;
    }
    if (s->hold == HOLD_NONE)
        s->hold = s->issued == rank->program->stream_op_count[stream] ? HOLD_END : HOLD_ISSUE;
    return DT_OK;
}

/* Queues of a rank wake each other through events, so they run in turn until all of them wait. */
static dt_status advance_rank(struct dt_sim_engine *e, int number)
{
    struct rank *rank = &e->ranks[number];
    bool progress = true;
    while (progress) {
        size_t before = rank->host_next;
        progress = false;
        if (rank->host_hold != HOLD_END)
            DT_TRY(advance_host(e, number));
        progress |= rank->host_next != before;
        for (int s = 0; s < rank->program->stream_count; s++)
            DT_TRY(advance_stream(e, number, s, &progress));
    }
    return DT_OK;
}

/* ---- all of them ---- */

static dt_status advance_runnable(struct dt_sim_engine *e)
{
    while (e->runnable_count) {
        int number = e->runnable[--e->runnable_count];
        e->ranks[number].queued = false;
        DT_TRY(advance_rank(e, number));
    }
    return DT_OK;
}

static dt_status pass_moment(struct dt_sim_engine *e, double now_s)
{
    while (dt_heap_time(&e->starts) == now_s) {
        uint32_t activity = dt_heap_pop(&e->starts);
        const struct dt_sim_flow *flow =
            &e->activities[activity].movement.flow; /* after the latency its bytes begin to be sent, if there are any */
        DT_TRY(flow->bytes > 0 ? dt_sim_network_start(e->network, now_s, flow, activity) : end_activity(e, activity, now_s));
    }
    for (uint32_t activity; (activity = dt_sim_network_take(e->network, now_s)) != UINT32_MAX;)
        DT_TRY(end_activity(e, activity, now_s));
    return DT_OK;
}

void dt_sim_engine_set_stop(struct dt_sim_engine *e, bool (*stop)(void *context), void *context)
{
    e->stop = stop;
    e->stop_context = context;
}

dt_status dt_sim_engine_run(struct dt_sim_engine *e)
{
    enum { MOMENTS_BETWEEN_QUESTIONS = 4096 };
    if (e->ran)
        return dt_fail(DT_ERR_INVALID, "simulation: programs run once");
    e->ran = true;
    for (int r = e->rank_count; r-- > 0;) /* the list is a stack: rank 0 comes out first */
        wake(e, r);
    for (uint32_t moment = 0;; moment++) {
        double next;
        if (e->stop && moment % MOMENTS_BETWEEN_QUESTIONS == 0 && e->stop(e->stop_context))
            return dt_fail(DT_ERR_INTERRUPTED, "simulation: stopped after %llu operations", (unsigned long long)e->operations);
        DT_TRY(advance_runnable(e));
        DT_TRY(dt_sim_network_next(e->network, &next));
        next = fmin(next, dt_heap_time(&e->starts));
        if (isinf(next))
            break;
        DT_TRY(pass_moment(e, next));
    }
    for (int r = 0; r < e->rank_count; r++)
        if (!engine_is_done(&e->ranks[r]))
            return engine_fail_deadlock(e);
    return DT_OK;
}

/* ---- results ---- */

double dt_sim_engine_event_s(const struct dt_sim_engine *e, int rank, uint32_t event)
{
    const struct rank *r = &e->ranks[rank];
    return r->program && event < r->program->event_count ? r->event_s[event] : NAN;
}

struct dt_sim_idle dt_sim_engine_event_idle(const struct dt_sim_engine *e, int rank, uint32_t event)
{
    const struct rank *r = &e->ranks[rank];
    return r->program && event < r->program->event_count ? r->event_idle[event] : (struct dt_sim_idle){0};
}

double dt_sim_engine_end_s(const struct dt_sim_engine *e, int rank)
{
    double end = 0;
    for (int r = rank < 0 ? 0 : rank; r < (rank < 0 ? e->rank_count : rank + 1); r++) {
        const struct rank *one = &e->ranks[r];
        end = fmax(end, one->host_s);
        for (int s = 0; one->program && s < one->program->stream_count; s++)
            end = fmax(end, one->streams[s].clock_s);
    }
    return end;
}

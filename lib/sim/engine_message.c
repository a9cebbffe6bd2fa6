/* Collectives, messages and copies, from the first rank's arrival to the moment when all ranks continue. */
#include "lib/sim/engine_parts.h"

#include <math.h>
#include <stdlib.h>

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for messages");
}

/* ---- activities ---- */

static dt_status new_activity(struct dt_sim_engine *e, struct activity activity, uint32_t *out)
{
    if (e->free_activity_count) {
        *out = e->free_activities[--e->free_activity_count];
    } else {
        if (e->activity_count == e->activity_room) {
            uint32_t room = e->activity_room ? 2 * e->activity_room : 64;
            struct activity *grown = realloc(e->activities, room * sizeof *grown);
            uint32_t *grown_free = realloc(e->free_activities, room * sizeof *grown_free);
            e->activities = grown ? grown : e->activities;
            e->free_activities = grown_free ? grown_free : e->free_activities;
            if (!grown || !grown_free)
                return no_memory();
            e->activity_room = room;
        }
        *out = e->activity_count++;
    }
    e->activities[*out] = activity;
    return DT_OK;
}

/* All have come: the latency begins. */
static dt_status set_out(struct dt_sim_engine *e, struct activity activity)
{
    uint32_t number = 0;
    if (!(activity.movement.latency_s >= 0) || !isfinite(activity.movement.latency_s))
        return dt_fail(DT_ERR_INVALID, "simulation: a latency of %g s", activity.movement.latency_s);
    DT_TRY(new_activity(e, activity, &number));
    return dt_sim_heap_set(&e->starts, number, activity.start_s + activity.movement.latency_s);
}

void engine_wake(struct dt_sim_engine *e, int number)
{
    if (!e->ranks[number].queued && e->ranks[number].program) {
        e->ranks[number].queued = true;
        e->runnable[e->runnable_count++] = number;
    }
}

/* A stream is past its operation at now_s. */
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
    engine_wake(e, number);
    if (message && --s->unfinished)
        return;
    if (s->hold == HOLD_PEERS || s->hold == HOLD_FLOW) { /* else others of an open group are yet to come */
        s->clock_s = now_s;
        s->hold = HOLD_NONE;
        s->done++;
    }
}

dt_status engine_begin_flow(struct dt_sim_engine *e, uint32_t number, double now_s, bool *out_over)
{
    const struct dt_sim_flow *flow = &e->activities[number].movement.flow;
    *out_over = flow->bytes <= 0;
    return *out_over ? DT_OK : dt_sim_network_start(e->network, now_s, flow, number);
}

/* For how long a stream of the rank has worked beside a collective that is on stream `except`; 0 for that one. */
static double worked_beside(const struct rank *rank, int stream, int except, double start_s, double now_s)
{
    const struct stream *s = &rank->streams[stream];
    return stream == except || !rank->program->works[stream] ? 0 : fmax(0, fmin(s->clock_s, now_s) - fmax(start_s, s->work_start_s));
}

/* The collective's kernel has taken multiprocessors from the rank's work beside it. What a stream has worked in that time it could not do
 * at full speed: it goes on so much later. A stream that waited has lost nothing. Source  NVIDIA, NCCL documentation, NCCL_MAX_NCHANNELS:
 * a channel is a block of threads, and takes a multiprocessor from computation. */
static void delay_work(struct rank *rank, int except, double start_s, double now_s, double share)
{
    for (int i = 0; i < rank->program->stream_count; i++)
        rank->streams[i].clock_s += share * worked_beside(rank, i, except, start_s, now_s);
}

/* The other way round: kernels beside the collective have taken memory bandwidth and multiprocessors from its channels. The rank that worked
 * longest holds up all others. Returns the seconds that this costs. Source  Rashidi et al., "Enabling Compute-Communication Overlap in
 * Distributed Deep Learning Training Platforms", ISCA 2021, arXiv 2007.00156. */
static double slowed_s(const struct dt_sim_engine *e, const struct group *g, double now_s, double slowdown)
{
    double longest_s = 0;
    for (int i = 0; i < g->base.count; i++) {
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
    for (int i = 0; i < g->base.count; i++) {
        struct rank *rank = &e->ranks[g->ranks[i]];
        int stream = (int)g->arrivals[i].stream - 1;
        const struct dt_sim_op *op = &rank->program->ops[rank->program->stream_ops[stream][rank->streams[stream].done]];
        g->arrivals[i].stream = 0;
        engine_report_span(e, g->ranks[i], stream, op, g->arrivals[i].at_s, g->start_s, now_s);
        if (compute_share > 0)
            delay_work(rank, stream, g->start_s, now_s, compute_share);
        release(e, g->ranks[i], stream, op, now_s);
    }
}

/* What ranks worked beside a collective is known only when it could be over: it then takes as much longer as that cost. */
static double more_s(const struct dt_sim_engine *e, const struct activity *a, double now_s)
{
    return a->kind != ACTIVITY_COLLECTIVE || a->lengthened || a->movement.compute_slowdown <= 0
               ? 0
               : slowed_s(e, e->groups[a->group], now_s, a->movement.compute_slowdown);
}

dt_status engine_end_activity(struct dt_sim_engine *e, uint32_t number, double now_s)
{
    struct activity *a = &e->activities[number];
    double more = more_s(e, a, now_s);
    if (more > 0) {
        a->lengthened = true;
        a->movement.flow.bytes = 0; /* all have arrived: only time passes */
        return dt_sim_heap_set(&e->starts, number, now_s + more);
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

dt_status engine_come_to_collective(struct dt_sim_engine *e, int rank, int stream, const struct dt_sim_op *op, double came_s)
{
    const struct seat *seat = &e->ranks[rank].seats[op->target];
    struct group *g = e->groups[seat->group];
    if (op->peer >= g->base.count)
        return dt_fail(DT_ERR_INVALID, "simulation: %s on %s: root %d of %d ranks",
                       dt_sim_collective_name((enum dt_sim_collective)op->detail), g->name, op->peer, g->base.count);
    if (g->arrived == 0) {
        g->op = op;
        g->op_rank = rank;
        g->start_s = came_s;
    } else if (g->op != op && (g->op->detail != op->detail || g->op->amount != op->amount || g->op->peer != op->peer)) {
        return fail_mismatch(g, op, rank);
    }
    g->arrivals[seat->place] = (struct arrival){.at_s = came_s, .stream = (uint32_t)stream + 1};
    g->start_s = fmax(g->start_s, came_s);
    if (++g->arrived < g->base.count)
        return DT_OK;
    struct activity a = {.kind = ACTIVITY_COLLECTIVE, .group = seat->group, .start_s = g->start_s};
    DT_TRY(e->transport.collective(e->transport.context, &g->base, (enum dt_sim_collective)op->detail, op->amount, op->peer, &a.movement));
    return set_out(e, a);
}

/* ---- messages: a send and a receive between the same two places find each other in the order of their calls ---- */

static uint32_t bucket_of(const struct dt_sim_engine *e, int group, int from, int to)
{
    uint64_t key = ((uint64_t)(uint32_t)group << 40) ^ ((uint64_t)(uint32_t)from << 20) ^ (uint32_t)to;
    return (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & (e->bucket_count - 1); /* Knuth's multiplicative hash */
}

/* Take out the oldest of the other kind; false when there is none. */
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
        if (e->waiting_count == e->waiting_room) {
            uint32_t room = e->waiting_room ? 2 * e->waiting_room : 64;
            struct waiting *grown = realloc(e->waiting, room * sizeof *grown);
            if (!grown)
                return no_memory();
            e->waiting = grown;
            e->waiting_room = room;
        }
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

dt_status engine_come_to_message(struct dt_sim_engine *e, int rank, int stream, const struct dt_sim_op *op, double came_s)
{
    const struct seat *seat = &e->ranks[rank].seats[op->target];
    const struct group *g = e->groups[seat->group];
    bool is_send = op->kind == DT_SIM_SEND;
    if (op->peer >= g->base.count || op->peer == seat->place)
        return dt_fail(DT_ERR_INVALID, "simulation: rank %d of %s sends to or receives from rank %d of %d", seat->place, g->name, op->peer,
                       g->base.count);
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
    DT_TRY(e->transport.message(e->transport.context, sender->rank, receiver->rank, op->amount, &a.movement));
    return set_out(e, a);
}

dt_status engine_come_to_copy(struct dt_sim_engine *e, int rank, int stream, const struct dt_sim_op *op, double came_s)
{
    struct activity a = {.kind = ACTIVITY_COPY, .rank = {rank}, .stream = {stream}, .came_s = {came_s}, .op = {op}, .start_s = came_s};
    const struct dt_sim_transport *t = &e->transport;
    DT_TRY(op->kind == DT_SIM_COPY ? t->copy(t->context, rank, (enum dt_sim_direction)op->detail, op->amount, &a.movement)
                                   : t->work(t->context, rank, op->amount, op->load, &a.movement));
    return set_out(e, a);
}

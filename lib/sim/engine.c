#include "lib/sim/engine_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for the ranks");
}

/* ---- setting up ---- */

dt_status dt_sim_engine_create(int ranks, struct dt_sim_network *network, const struct dt_sim_transport *transport,
                               const struct dt_sim_collector *collector, struct dt_sim_engine **out)
{
    struct dt_sim_engine *e = calloc(1, sizeof *e);
    *out = NULL;
    if (!e)
        return no_memory();
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
        return no_memory();
    }
    *out = e;
    return DT_OK;
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
    for (int g = 0; g < e->group_count; g++) {
        free(e->groups[g]->name);
        free(e->groups[g]->ranks);
        free(e->groups[g]->arrivals);
        free(e->groups[g]);
    }
    dt_sim_heap_finish(&e->starts);
    free(e->ranks);
    free(e->groups);
    free(e->activities);
    free(e->free_activities);
    free(e->waiting);
    free(e->buckets);
    free(e->runnable);
    free(e);
}

/* Every rank there, and once: their places in order say so. */
static dt_status check_ranks(const struct dt_sim_engine *e, const char *name, const int *ranks, int count)
{
    bool *seen = calloc((size_t)e->rank_count, sizeof *seen);
    dt_status status = seen ? DT_OK : no_memory();
    for (int i = 0; status == DT_OK && i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= e->rank_count)
            status = dt_fail(DT_ERR_INVALID, "simulation: communicator %s has rank %d of %d", name, ranks[i], e->rank_count);
        else if (seen[ranks[i]])
            status = dt_fail(DT_ERR_INVALID, "simulation: communicator %s has rank %d twice", name, ranks[i]);
        else
            seen[ranks[i]] = true;
    }
    free(seen);
    return status;
}

dt_status dt_sim_engine_add_group(struct dt_sim_engine *e, const char *name, const int *ranks, int count, int *out_group)
{
    if (count < 1)
        return dt_fail(DT_ERR_INVALID, "simulation: communicator %s has no ranks", name);
    DT_TRY(check_ranks(e, name, ranks, count));
    if (e->group_count == e->group_room) {
        int room = e->group_room ? 2 * e->group_room : 16;
        struct group **grown = realloc(e->groups, (size_t)room * sizeof *grown);
        if (!grown)
            return no_memory();
        e->groups = grown;
        e->group_room = room;
    }
    struct group *g = calloc(1, sizeof *g);
    if (!g)
        return no_memory();
    g->name = strdup(name);
    g->ranks = malloc((size_t)count * sizeof *g->ranks);
    g->arrivals = calloc((size_t)count, sizeof *g->arrivals);
    if (!g->name || !g->ranks || !g->arrivals) {
        free(g->name);
        free(g->ranks);
        free(g->arrivals);
        free(g);
        return no_memory();
    }
    memcpy(g->ranks, ranks, (size_t)count * sizeof *ranks);
    g->base = (struct dt_sim_group){.name = g->name, .ranks = g->ranks, .count = count, .id = e->group_count};
    e->groups[e->group_count] = g;
    *out_group = e->group_count++;
    return DT_OK;
}

static dt_status take_seat(const struct dt_sim_engine *e, int rank, int group, struct seat *seat)
{
    if (group < 0 || group >= e->group_count)
        return dt_fail(DT_ERR_INVALID, "simulation: rank %d uses communicator %d of %d", rank, group, e->group_count);
    const struct dt_sim_group *g = &e->groups[group]->base;
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
    if (!rank->streams || !rank->seats || !rank->event_s || !rank->event_idle)
        return no_memory();
    for (uint32_t i = 0; i < program->event_count; i++)
        rank->event_s[i] = NAN;
    for (int s = 0; s < program->slot_count; s++)
        DT_TRY(take_seat(e, number, groups[s], &rank->seats[s]));
    return DT_OK;
}

/* ---- one rank by itself ---- */

static dt_status issue(struct rank *rank, const struct dt_sim_op *op)
{
    struct stream *s = &rank->streams[op->stream];
    if (s->issued - s->done == s->room) {
        uint32_t room = s->room ? 2 * s->room : 16;
        double *grown = malloc(room * sizeof *grown);
        if (!grown)
            return no_memory();
        for (uint32_t i = s->done; i != s->issued; i++)
            grown[i & (room - 1)] = s->issued_s[i & (s->room - 1)];
        free(s->issued_s);
        s->issued_s = grown;
        s->room = room;
    }
    s->issued_s[s->issued++ & (s->room - 1)] = rank->host_s;
    return DT_OK;
}

/* When a stream, or all of them, has done what was issued; NAN while it has not. */
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

/* The host goes on until it has to wait. It runs before the streams, so these find all that they may do. */
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
        return engine_come_to_copy(e, number, stream, op, came_s);
    }
    const struct seat *seat = &rank->seats[op->target];
    if (seat->done < op->order) {
        s->hold = HOLD_ORDER;
        return DT_OK;
    }
    came_s = fmax(came_s, seat->done_s);
    if (op->kind == DT_SIM_COLLECTIVE) {
        s->hold = HOLD_PEERS;
        return engine_come_to_collective(e, number, stream, op, came_s);
    }
    s->unfinished++;
    if (op->in_group) /* on to the group's next: the last one waits for all */
        s->done++;
    else
        s->hold = HOLD_PEERS;
    return engine_come_to_message(e, number, stream, op, came_s);
}

/* One stream goes on until it has to wait. */
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
            end = fmax(s->clock_s + op->amount, host + op->lead_s);
            s->idle.host_s += end - op->amount - s->clock_s;
            if (end - op->amount > s->clock_s)
                s->work_start_s = end - op->amount;
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
            s->idle.host_s += fmax(0, ready - fmax(s->clock_s, rank->event_s[op->target])); /* not where it had to wait anyway */
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

/* Queues of a rank wake each other through events, so they take turns until all of them wait. */
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
    while (dt_sim_heap_time(&e->starts) == now_s) {
        uint32_t activity = dt_sim_heap_pop(&e->starts);
        bool over;
        DT_TRY(engine_begin_flow(e, activity, now_s, &over));
        if (over)
            DT_TRY(engine_end_activity(e, activity, now_s));
    }
    for (uint32_t activity; (activity = dt_sim_network_take(e->network, now_s)) != UINT32_MAX;)
        DT_TRY(engine_end_activity(e, activity, now_s));
    return DT_OK;
}

static bool is_done(const struct rank *rank)
{
    if (rank->program && rank->host_hold != HOLD_END)
        return false;
    for (int s = 0; rank->program && s < rank->program->stream_count; s++)
        if (rank->streams[s].done != rank->program->stream_op_count[s])
            return false;
    return true;
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
        engine_wake(e, r);
    for (uint32_t moment = 0;; moment++) {
        double next;
        if (e->stop && moment % MOMENTS_BETWEEN_QUESTIONS == 0 && e->stop(e->stop_context))
            return dt_fail(DT_ERR_INTERRUPTED, "simulation: stopped after %llu operations", (unsigned long long)e->operations);
        DT_TRY(advance_runnable(e));
        DT_TRY(dt_sim_network_next(e->network, &next));
        next = fmin(next, dt_sim_heap_time(&e->starts));
        if (isinf(next))
            break;
        DT_TRY(pass_moment(e, next));
    }
    for (int r = 0; r < e->rank_count; r++)
        if (!is_done(&e->ranks[r]))
            return engine_fail_deadlock(e);
    return DT_OK;
}

/* ---- what came of it ---- */

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

uint64_t dt_sim_engine_operations(const struct dt_sim_engine *e)
{
    return e->operations;
}

/* Reports of a replay: the span of an operation, and in a deadlock which rank waits for which. */
#include "lib/sim/engine_parts.h"

#include <stdio.h>

void engine_report_span(const struct dt_sim_engine *e, int rank, int stream, const struct dt_sim_op *op, double start_s, double moving_s,
                        double end_s)
{
    static const char *const names[] = {"host", "work", "record", "wait", "wait", "synchronize", "", "send", "recv", "copy", "work"};
    if (!e->collector.span)
        return;
    const struct dt_sim_program *p = e->ranks[rank].program;
    bool talks = op->kind == DT_SIM_COLLECTIVE || op->kind == DT_SIM_SEND || op->kind == DT_SIM_RECV;
    const char *label = op->kind == DT_SIM_COLLECTIVE ? dt_sim_collective_name((enum dt_sim_collective)op->detail) : names[op->kind];
    if (op->label)
        label = p->labels[op->label];
    const struct group *group = talks ? e->groups[e->ranks[rank].seats[op->target].group] : NULL;
    struct dt_sim_pass pass = dt_sim_program_pass_of(p, (size_t)(op - p->ops));
    struct dt_sim_span span = {
        .rank = rank,
        .queue = stream,
        .queue_name = stream < 0 ? "host" : p->stream_names[stream],
        .label = label,
        .group_name = talks ? group->name : NULL,
        .micro_batch = pass.micro_batch,
        .part = pass.part,
        .held_bytes = pass.held_bytes,
        .peer = stream >= 0 && (op->kind == DT_SIM_SEND || op->kind == DT_SIM_RECV) ? group->ranks[op->peer] : -1,
        .sends = op->kind == DT_SIM_SEND,
        .bytes = talks || op->kind == DT_SIM_COPY ? op->amount : 0,
        .start_s = start_s,
        .moving_s = moving_s,
        .end_s = end_s,
    };
    e->collector.span(e->collector.context, &span);
}

enum { TEXT_BYTES = 640 };

/* "0-3, 5 and 12 more": at most eight ranges. */
static void describe_ranks(const struct group *g, bool arrived, char *text, size_t text_bytes)
{
    size_t used = 0;
    int runs = 0, left = 0;
    text[0] = 0;
    for (int i = 0; i < g->count; i++) {
        if ((g->arrivals[i].stream != 0) != arrived)
            continue;
        int first = g->ranks[i], last = first;
        while (i + 1 < g->count && (g->arrivals[i + 1].stream != 0) == arrived && g->ranks[i + 1] == last + 1)
            last = g->ranks[++i];
        if (++runs > 8) {
            left += last - first + 1;
            continue;
        }
        used += (size_t)snprintf(text + used, text_bytes - used, first == last ? "%s%d" : "%s%d-%d", used ? ", " : "", first, last);
    }
    if (left)
        snprintf(text + used, text_bytes - used, " and %d more", left);
}

static void describe_op(const struct dt_sim_engine *e, int number, const struct dt_sim_op *op, char *text, size_t text_bytes)
{
    const struct rank *rank = &e->ranks[number];
    const struct group *g = op->kind == DT_SIM_COLLECTIVE || op->kind == DT_SIM_SEND || op->kind == DT_SIM_RECV
                                ? e->groups[rank->seats[op->target].group]
                                : NULL;
    switch ((enum dt_sim_op_kind)op->kind) {
    case DT_SIM_COLLECTIVE:
        snprintf(text, text_bytes, "%s %u on %s", dt_sim_collective_name((enum dt_sim_collective)op->detail), g->number + 1, g->name);
        break;
    case DT_SIM_SEND: snprintf(text, text_bytes, "send to rank %d on %s", g->ranks[op->peer], g->name); break;
    case DT_SIM_RECV: snprintf(text, text_bytes, "recv from rank %d on %s", g->ranks[op->peer], g->name); break;
    case DT_SIM_HOST:
    case DT_SIM_WORK:
    case DT_SIM_RECORD:
    case DT_SIM_WAIT:
    case DT_SIM_HOST_WAIT:
    case DT_SIM_SYNCHRONIZE:
    case DT_SIM_COPY:
    case DT_SIM_SHARED_WORK: snprintf(text, text_bytes, "a wait for its own streams"); break;
    }
}

bool engine_is_done(const struct rank *rank)
{
    bool done = !rank->program || rank->host_hold == HOLD_END;
    for (int s = 0; rank->program && s < rank->program->stream_count; s++)
        done &= rank->streams[s].done == rank->program->stream_op_count[s];
    return done;
}

/* The collective or message that a rank waits in: one that it has arrived at, or else one that
 * waits for earlier operations. NULL: none. */
static const struct dt_sim_op *held_in(const struct rank *rank)
{
    const struct dt_sim_op *found = NULL;
    for (int s = 0; rank->program && s < rank->program->stream_count; s++) {
        const struct stream *stream = &rank->streams[s];
        if (stream->hold != HOLD_PEERS && (stream->hold != HOLD_ORDER || found))
            continue;
        found = &rank->program->ops[rank->program->stream_ops[s][stream->done]];
        if (stream->hold == HOLD_PEERS)
            return found;
    }
    return found;
}

static void describe_rank(const struct dt_sim_engine *e, int number, char *text, size_t text_bytes)
{
    const struct dt_sim_op *op = held_in(&e->ranks[number]);
    if (op)
        describe_op(e, number, op, text, text_bytes);
    else
        snprintf(text, text_bytes, "%s", engine_is_done(&e->ranks[number]) ? "its end" : "a wait for its own streams");
}

static bool describe_collective(const struct dt_sim_engine *e, const struct group *g, char *text, size_t text_bytes)
{
    char waiting[160], missing[160], where[128];
    int first_missing = 0;
    if (g->arrived == 0 || g->arrived == g->count)
        return false;
    while (g->arrivals[first_missing].stream)
        first_missing++;
    describe_ranks(g, true, waiting, sizeof waiting);
    describe_ranks(g, false, missing, sizeof missing);
    describe_rank(e, g->ranks[first_missing], where, sizeof where);
    snprintf(text, text_bytes, "%s %u on %s: of %d ranks %s wait; missing are %s (rank %d is at %s)",
             dt_sim_collective_name((enum dt_sim_collective)g->op->detail), g->number + 1, g->name, g->count, waiting, missing,
             g->ranks[first_missing], where);
    return true;
}

static bool describe_message(const struct dt_sim_engine *e, const struct waiting *w, char *text, size_t text_bytes)
{
    char where[128];
    if (!w->op)
        return false;
    const struct group *g = e->groups[w->group];
    int other = g->ranks[w->is_send ? w->to : w->from];
    describe_rank(e, other, where, sizeof where);
    snprintf(text, text_bytes, "%s %s rank %d on %s: rank %d waits; rank %d is at %s", w->is_send ? "send" : "recv",
             w->is_send ? "to" : "from", other, g->name, w->rank, other, where);
    return true;
}

/* Describe the first wait for other ranks; false: there is none. */
static bool describe_any(const struct dt_sim_engine *e, char *text, size_t text_bytes)
{
    for (int g = 0; g < e->group_count; g++)
        if (describe_collective(e, e->groups[g], text, text_bytes))
            return true;
    for (uint32_t w = 0; w < e->waiting_count; w++)
        if (describe_message(e, &e->waiting[w], text, text_bytes))
            return true;
    return false;
}

/* The first missing rank that a rank waits for; -1: no particular one. */
static int waits_for(const struct dt_sim_engine *e, int number)
{
    const struct dt_sim_op *op = held_in(&e->ranks[number]);
    if (!op)
        return -1;
    const struct group *g = e->groups[e->ranks[number].seats[op->target].group];
    if (op->kind != DT_SIM_COLLECTIVE)
        return g->ranks[op->peer];
    for (int i = 0; i < g->count; i++)
        if (!g->arrivals[i].stream)
            return g->ranks[i];
    return -1;
}

/* Find the wait to report: start at any rank that waits and follow which rank each waits for, up to
 * a rank that will never arrive, or into a cycle. In a cycle, report the collective that most ranks
 * wait in, or a message. */
static int find_culprit(const struct dt_sim_engine *e, int number)
{
    int most = -1;
    for (int steps = 0; steps < e->rank_count; steps++) {
        int next = waits_for(e, number);
        if (next < 0 || engine_is_done(&e->ranks[next]))
            break;
        number = next;
    }
    int best = number;
    for (int at = number, steps = 0; steps == 0 || (at != number && steps < e->rank_count); steps++) {
        const struct dt_sim_op *op = held_in(&e->ranks[at]);
        int width = op && op->kind == DT_SIM_COLLECTIVE ? e->groups[e->ranks[at].seats[op->target].group]->arrived : 0;
        if (width > most) {
            most = width;
            best = at;
        }
        at = waits_for(e, at);
        if (at < 0)
            break;
    }
    return best;
}

dt_status engine_fail_deadlock(const struct dt_sim_engine *e)
{
    char text[TEXT_BYTES] = "each for an event that never happens";
    int unfinished = 0, first = -1;
    for (int r = e->rank_count; r-- > 0;)
        if (!engine_is_done(&e->ranks[r])) {
            unfinished++;
            first = r;
        }
    int culprit = find_culprit(e, first);
    const struct dt_sim_op *op = held_in(&e->ranks[culprit]);
    if (op && op->kind == DT_SIM_COLLECTIVE)
        describe_collective(e, e->groups[e->ranks[culprit].seats[op->target].group], text, sizeof text);
    bool told = op && op->kind == DT_SIM_COLLECTIVE;
    for (uint32_t w = 0; w < e->waiting_count && !told; w++)
        told = e->waiting[w].op && e->waiting[w].rank == culprit && describe_message(e, &e->waiting[w], text, sizeof text);
    if (!told)
        describe_any(e, text, sizeof text);
    return dt_fail(DT_ERR_COMM, "deadlock: %d of %d ranks wait for ever: %s", unfinished, e->rank_count, text);
}

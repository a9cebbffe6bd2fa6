/* Messages between stages: where they are needed, and the proof that all of them arrive. */
#include "schedules/plan/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- adding them ---- */

static bool makes_input_gradient(uint8_t op)
{
    return op == ACTION_BACKWARD || op == ACTION_BACKWARD_INPUT;
}

static dt_status append_message(struct plan *plan, const struct action *pass, enum action_op op, bool exists)
{
    struct action message = *pass;
    message.op = (uint8_t)op;
    return exists ? plan_append(plan, message) : DT_OK;
}

static dt_status add_around(void *context, const struct plan *from, int at, struct plan *out)
{
    const struct action *pass = &from->actions[at];
    int v = plan_virtual_stage(from, pass);
    bool previous = v > 0, next = v + 1 < from->stages * from->parts;
    bool forward = pass->op == ACTION_FORWARD, backward = makes_input_gradient(pass->op);
    DT_TRY(append_message(out, pass, ACTION_RECV_INPUT, forward && previous));
    DT_TRY(append_message(out, pass, ACTION_RECV_GRADIENT, backward && next));
    DT_TRY(plan_append(out, *pass));
    DT_TRY(append_message(out, pass, ACTION_SEND_OUTPUT, forward && next));
    return append_message(out, pass, ACTION_SEND_GRADIENT, backward && previous);
}

dt_status plan_add_messages(struct plan *plan)
{
    return plan_rewrite(plan, add_around, NULL);
}

/* ---- playing all ranks ---- */

enum direction { FORWARDS, BACKWARDS, DIRECTIONS };

/* A message is known by the virtual stage that receives it. */
struct message {
    int number; /* of those that its sender has sent in this direction, from 1; 0: not yet sent */
    int time;   /* when it was sent */
};

struct play {
    const struct plan *plans;
    int stages, virtual_stages, micro_batches;
    struct message *messages;    /* [DIRECTIONS, virtual_stages, micro_batches] */
    int *at, *now;               /* [stages] the action that comes next, and when the last one ended */
    int (*sent)[DIRECTIONS];     /* [stages] */
    int (*received)[DIRECTIONS]; /* [stages] */
};

static struct message *message_of(const struct play *p, enum direction direction, int receiver, uint32_t micro_batch)
{
    return &p->messages[((size_t)direction * (size_t)p->virtual_stages + (size_t)receiver) * (size_t)p->micro_batches + micro_batch];
}

static int duration(const struct plan *plan, uint8_t op)
{
    switch (op) {
    case ACTION_FORWARD:
    case ACTION_BACKWARD_INPUT:
    case ACTION_BACKWARD_WEIGHT: return UNIT_TIME / plan->parts;
    case ACTION_BACKWARD: return 2 * UNIT_TIME / plan->parts;
    default: return 0;
    }
}

static bool receives(uint8_t op)
{
    return op == ACTION_RECV_INPUT || op == ACTION_RECV_GRADIENT;
}

static bool sends(uint8_t op)
{
    return op == ACTION_SEND_OUTPUT || op == ACTION_SEND_GRADIENT;
}

static enum direction direction_of(uint8_t op)
{
    return op == ACTION_RECV_INPUT || op == ACTION_SEND_OUTPUT ? FORWARDS : BACKWARDS;
}

/* The rank at the other end of a message. */
static int peer_of(const struct play *p, int rank, const struct action *a)
{
    bool to_next = a->op == ACTION_SEND_OUTPUT || a->op == ACTION_RECV_GRADIENT;
    return (rank + (to_next ? 1 : p->stages - 1)) % p->stages;
}

static void describe(char *text, size_t bytes, const struct play *p, int rank)
{
    const struct action *a = &p->plans[rank].actions[p->at[rank]];
    int part = p->plans[rank].parts > 1 ? a->part : -1, peer = peer_of(p, rank, a);
    const char *what = a->op == ACTION_RECV_INPUT ? "the input" : "the output's gradient";
    if (part < 0)
        snprintf(text, bytes, "stage %d waits for %s of micro-batch %u from stage %d", rank, what, a->micro_batch, peer);
    else
        snprintf(text, bytes, "stage %d waits for %s of micro-batch %u, part %d, from stage %d", rank, what, a->micro_batch, part, peer);
}

/* The next action of `rank`, if it can run; *ran says so. */
static dt_status play_action(struct play *p, int rank, int **times, bool *ran)
{
    const struct plan *plan = &p->plans[rank];
    const struct action *a = &plan->actions[p->at[rank]];
    enum direction direction = direction_of(a->op);
    int v = plan_virtual_stage(plan, a), *now = &p->now[rank];
    *ran = true;
    *now += duration(plan, a->op);
    if (sends(a->op)) {
        struct message *m = message_of(p, direction, direction == FORWARDS ? v + 1 : v - 1, a->micro_batch);
        *m = (struct message){.number = ++p->sent[rank][direction], .time = *now};
    } else if (receives(a->op)) {
        const struct message *m = message_of(p, direction, v, a->micro_batch);
        int expected = p->received[rank][direction] + 1, peer = peer_of(p, rank, a);
        if (m->number == 0 && p->sent[peer][direction] < expected) {
            *ran = false; /* nothing else has arrived either */
            return DT_OK;
        }
        if (m->number != expected) {
            char text[160];
            describe(text, sizeof text, p, rank);
            return dt_fail(DT_ERR_INVALID, "messages cross: %s, which sends another one first", text);
        }
        p->received[rank][direction]++;
        *now = m->time > *now ? m->time : *now;
    }
    if (times)
        times[rank][p->at[rank]] = *now;
    p->at[rank]++;
    return DT_OK;
}

/* Nobody can go on: from the first rank that waits, follow whom each waits for, until a rank comes a second time. */
static dt_status name_deadlock(const struct play *p, int first)
{
    char text[900] = "";
    size_t used = 0;
    int rank = first;
    for (int i = 0; i < p->stages; i++) /* walk into the circle */
        if (p->at[rank] < p->plans[rank].count)
            rank = peer_of(p, rank, &p->plans[rank].actions[p->at[rank]]);
    for (int start = rank, i = 0; (i == 0 || rank != start) && used + 160 < sizeof text; i++) {
        if (p->at[rank] == p->plans[rank].count) {
            snprintf(text + used, sizeof text - used, "%sstage %d has finished and never sends it", used ? ", " : "", rank);
            break;
        }
        if (used)
            used += (size_t)snprintf(text + used, sizeof text - used, ", ");
        describe(text + used, sizeof text - used, p, rank);
        used += strlen(text + used);
        rank = peer_of(p, rank, &p->plans[rank].actions[p->at[rank]]);
    }
    return dt_fail(DT_ERR_INVALID, "deadlock: %s", text);
}

static dt_status play_all(struct play *p, int **times)
{
    for (bool any = true; any;) {
        any = false;
        for (int rank = 0; rank < p->stages; rank++) {
            for (bool ran = true; ran && p->at[rank] < p->plans[rank].count;) {
                DT_TRY(play_action(p, rank, times, &ran));
                any |= ran;
            }
        }
    }
    for (int rank = 0; rank < p->stages; rank++)
        if (p->at[rank] < p->plans[rank].count)
            return name_deadlock(p, rank);
    for (int rank = 0; rank < p->stages; rank++) {
        int next = (rank + 1) % p->stages;
        if (p->sent[rank][FORWARDS] != p->received[next][FORWARDS] || p->sent[next][BACKWARDS] != p->received[rank][BACKWARDS])
            return dt_fail(DT_ERR_INVALID, "stages %d and %d send each other messages that nobody receives", rank, next);
    }
    return DT_OK;
}

dt_status plan_play(const struct plan *plans, int stages, int **times)
{
    struct play p = {
        .plans = plans,
        .stages = stages,
        .virtual_stages = stages * plans[0].parts,
        .micro_batches = plans[0].micro_batches,
        .at = calloc((size_t)stages, sizeof *p.at),
        .now = calloc((size_t)stages, sizeof *p.now),
        .sent = calloc((size_t)stages, sizeof *p.sent),
        .received = calloc((size_t)stages, sizeof *p.received),
    };
    p.messages = calloc((size_t)DIRECTIONS * (size_t)p.virtual_stages * (size_t)p.micro_batches, sizeof *p.messages);
    bool all = p.at && p.now && p.sent && p.received && p.messages;
    dt_status status = all ? play_all(&p, times) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the messages of %d stages", stages);
    free(p.messages);
    free(p.received);
    free(p.sent);
    free(p.now);
    free(p.at);
    return status;
}

/* ---- both, for all ranks ---- */

static dt_status emit_all(const struct pipeline_order *order, const struct order_shape *shape, struct plan *plans, int **times)
{
    for (int stage = 0; stage < shape->stages; stage++) {
        struct order_shape one = *shape;
        one.stage = stage;
        DT_TRY(pipeline_order_emit(order, &one, &plans[stage]));
        DT_TRY(plan_add_messages(&plans[stage]));
        if (times)
            times[stage] = calloc((size_t)plans[stage].count, sizeof **times);
        if (times && !times[stage])
            return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the times of %d actions", plans[stage].count);
    }
    return plan_play(plans, shape->stages, times);
}

dt_status plan_from_order(const char *name, const struct order_shape *shape, struct plan *out)
{
    const struct pipeline_order *order = pipeline_order_find(name);
    *out = (struct plan){0};
    if (!order)
        return dt_fail(DT_ERR_INVALID, "unknown pipeline order \"%s\"", name);
    struct plan *plans = calloc((size_t)shape->stages, sizeof *plans);
    if (!plans)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the plans of %d stages", shape->stages);
    dt_status status = emit_all(order, shape, plans, NULL);
    if (status == DT_OK) {
        *out = plans[shape->stage];
        plans[shape->stage] = (struct plan){0};
    }
    for (int stage = 0; stage < shape->stages; stage++)
        plan_finish(&plans[stage]);
    free(plans);
    return status;
}

static double bubble_of(const struct plan *plans, int stages, int *const *times)
{
    double busy = 0, end = 0;
    for (int stage = 0; stage < stages; stage++) {
        for (int i = 0; i < plans[stage].count; i++) {
            busy += duration(&plans[stage], plans[stage].actions[i].op);
            end = times[stage][i] > end ? times[stage][i] : end;
        }
    }
    return 1 - busy / (end * stages);
}

dt_status plan_order_bubble(const char *name, const struct order_shape *shape, double *out)
{
    const struct pipeline_order *order = pipeline_order_find(name);
    struct order_shape window = *shape;
    *out = 0;
    if (!order)
        return dt_fail(DT_ERR_INVALID, "unknown pipeline order \"%s\"", name);
    if (order->flushes)
        window.micro_batches = shape->window; /* all windows are alike */
    struct plan *plans = calloc((size_t)shape->stages, sizeof *plans);
    int **times = calloc((size_t)shape->stages, sizeof *times);
    dt_status status = plans && times ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the plans of %d stages", shape->stages);
    if (status == DT_OK)
        status = emit_all(order, &window, plans, times);
    if (status == DT_OK)
        *out = bubble_of(plans, shape->stages, times);
    for (int stage = 0; plans && times && stage < shape->stages; stage++) {
        plan_finish(&plans[stage]);
        free(times[stage]);
    }
    free(plans);
    free(times);
    return status;
}

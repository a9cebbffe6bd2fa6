#include "schedules/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one virtual stage makes for another, stored with the receiving stage. */
struct made {
    int number;  /* its number among its sender's messages in this channel, from 1; 0: not sent yet */
    double time; /* time of its arrival */
};

/* A virtual stage, looked up once instead of for each action. */
struct place {
    int previous, next;                         /* ranks of v - 1 and v + 1; -1: there is none */
    double seconds[ACTION_BACKWARD_WEIGHT + 1]; /* of each kind of pass */
};

/* One rank in the play. */
struct player {
    int at;                        /* its next action */
    double now;                    /* end of its last one */
    double arrived[PLAN_CHANNELS]; /* arrival of the last message that it has sent */
    int sent[PLAN_CHANNELS];
    int received[PLAN_CHANNELS]; /* how many of those have been received */
};

struct play {
    const struct plan *plans;
    const struct plan_times *times;
    int stages, virtual_stages, micro_batches;
    struct made *activations, *gradients; /* [virtual_stages, micro_batches] */
    struct player *ranks;                 /* [stages] */
    struct place *places;                 /* [virtual_stages] */
};

/* ---- senders and receivers ---- */

static bool concerns_gradients(uint8_t op)
{
    return op == ACTION_RECV_GRADIENT || op == ACTION_SEND_GRADIENT;
}

/* The rank at the other end of a message of virtual stage v. */
static int peer_of(const struct play *p, int v, const struct action *a)
{
    return a->op == ACTION_SEND_OUTPUT || a->op == ACTION_RECV_GRADIENT ? p->places[v].next : p->places[v].previous;
}

/* The message that virtual stage `v` needs. */
static struct made *made_for(const struct play *p, bool gradient, int v, uint32_t micro_batch)
{
    return &(gradient ? p->gradients : p->activations)[(size_t)v * (size_t)p->micro_batches + micro_batch];
}

/* ---- plans that cannot run ---- */

/* The pass that a rank waits to run, as order files write it: F0, or F0.1 for part 1. */
static void name_pass(char *text, size_t bytes, const struct plan *plan, int at)
{
    const struct action *waits = &plan->actions[at];
    bool gradient = concerns_gradients(waits->op) || waits->op == ACTION_BACKWARD_INPUT;
    char letter = gradient ? 'I' : 'F';
    for (int i = at; gradient && i < plan->count; i++)
        if (plan->actions[i].op == ACTION_BACKWARD && plan->actions[i].micro_batch == waits->micro_batch &&
            plan->actions[i].part == waits->part)
            letter = 'B';
    int length = snprintf(text, bytes, "%c%u", letter, waits->micro_batch);
    if (plan->parts > 1)
        snprintf(text + length, bytes - (size_t)length, ".%d", waits->part);
}

static void describe(char *text, size_t bytes, const struct play *p, int rank)
{
    const struct plan *plan = &p->plans[rank];
    const struct action *a = &plan->actions[p->ranks[rank].at];
    bool input = a->op == ACTION_RECV_INPUT || a->op == ACTION_TAKE_OVER;
    char pass[32], from[48];
    name_pass(pass, sizeof pass, plan, p->ranks[rank].at);
    if (action_receives(a))
        snprintf(from, sizeof from, "rank %d", peer_of(p, plan_virtual_stage(plan, a), a));
    else
        snprintf(from, sizeof from, "its own part %d", input ? a->part - 1 : a->part + 1);
    snprintf(text, bytes, "rank %d cannot run %s, which needs the %s from %s", rank, pass, input ? "input" : "gradient", from);
}

/* The rank that a waiting rank waits for. */
static int awaited(const struct play *p, int rank)
{
    const struct action *a = &p->plans[rank].actions[p->ranks[rank].at];
    return action_receives(a) ? peer_of(p, plan_virtual_stage(&p->plans[rank], a), a) : rank;
}

/* No rank can go on: from the first waiting rank, follow whom each one waits for, until a rank
 * appears a second time. */
static dt_status name_deadlock(const struct play *p, int first)
{
    char text[900] = "";
    size_t used = 0;
    int rank = first;
    for (int i = 0; i < p->stages; i++) /* after this many steps the walk is inside the circle */
        if (p->ranks[rank].at < p->plans[rank].count)
            rank = awaited(p, rank);
    for (int start = rank, i = 0; (i == 0 || rank != start) && used + 160 < sizeof text; i++) {
        if (p->ranks[rank].at == p->plans[rank].count) {
            snprintf(text + used, sizeof text - used, "%srank %d has finished and never sends it", used ? "; " : "", rank);
            break;
        }
        if (used)
            used += (size_t)snprintf(text + used, sizeof text - used, "; ");
        describe(text + used, sizeof text - used, p, rank);
        used += strlen(text + used);
        rank = awaited(p, rank);
    }
    return dt_fail(DT_ERR_INVALID, "deadlock: %s", text);
}

static dt_status name_crossing(const struct play *p, int rank)
{
    char text[200];
    describe(text, sizeof text, p, rank);
    return dt_fail(DT_ERR_INVALID, "messages cross: %s, which sends another one first", text);
}

static dt_status check_received(const struct play *p)
{
    for (int rank = 0; rank < p->stages; rank++)
        for (int channel = 0; channel < PLAN_CHANNELS; channel++)
            if (p->ranks[rank].sent[channel] != p->ranks[rank].received[channel])
                return dt_fail(DT_ERR_INVALID, "rank %d sends messages that nobody receives", rank);
    return DT_OK;
}

/* ---- playing ---- */

static struct plan_part_times times_of(const struct plan *plan, const struct plan_times *t, const struct action *a)
{
    double part = 1.0 / plan->parts;
    return t->uneven ? t->uneven->parts[plan_virtual_stage(plan, a)]
                     : (struct plan_part_times){t->forward * part, t->backward_input * part, t->backward_weight * part, 0, 0};
}

static double duration(const struct plan *plan, const struct plan_times *t, const struct action *a)
{
    if (!action_computes(a))
        return 0;
    struct plan_part_times part = times_of(plan, t, a);
    return a->op == ACTION_FORWARD           ? part.forward
           : a->op == ACTION_BACKWARD        ? part.backward_input + part.backward_weight
           : a->op == ACTION_BACKWARD_INPUT  ? part.backward_input
           : a->op == ACTION_BACKWARD_WEIGHT ? part.backward_weight
                                             : 0;
}

/* Work that a rank does before a backward pass and before the pass's message has arrived. */
static double early_of(const struct plan *plan, int at, const struct plan_times *t)
{
    const struct action *a = &plan->actions[at];
    bool received = at > 0 && a[-1].op == ACTION_RECV_GRADIENT, backward = a->op == ACTION_BACKWARD || a->op == ACTION_BACKWARD_INPUT;
    if (a->op != ACTION_RECV_GRADIENT && (!backward || received))
        return 0;
    struct plan_part_times part = times_of(plan, t, a);
    int window = t->uneven ? t->uneven->window : 0;
    return part.early + (window > 0 && (int)a->micro_batch % window < window - 1 ? part.again : 0);
}

static double message_s(const struct play *p, int from, int to)
{
    const struct plan_uneven_times *uneven = p->times->uneven;
    return uneven && uneven->nodes && uneven->nodes[from] != uneven->nodes[to] ? uneven->send_away : p->times->send;
}

static void send(struct play *p, int rank, int v, const struct action *a)
{
    bool gradient = concerns_gradients(a->op);
    int channel = plan_channel(&p->plans[rank], a);
    double *arrived = &p->ranks[rank].arrived[channel], begins = p->ranks[rank].now;
    if (p->times->uneven && *arrived > begins) /* messages of a channel are sent one after another */
        begins = *arrived;
    *arrived = begins + message_s(p, rank, peer_of(p, v, a));
    *made_for(p, gradient, gradient ? v - 1 : v + 1, a->micro_batch) = (struct made){++p->ranks[rank].sent[channel], *arrived};
}

static dt_status receive(struct play *p, int rank, int v, const struct action *a, bool *ran)
{
    const struct plan *plan = &p->plans[rank];
    const struct made *m = made_for(p, concerns_gradients(a->op), v, a->micro_batch);
    struct player *peer = &p->ranks[peer_of(p, v, a)];
    int channel = plan_channel(plan, a), *received = &peer->received[channel], *sent = &peer->sent[channel];
    if (m->number == 0 && *sent == *received) {
        *ran = false; /* the message has not arrived */
        return DT_OK;
    }
    if (m->number != *received + 1)
        return name_crossing(p, rank);
    ++*received;
    p->ranks[rank].now += early_of(plan, p->ranks[rank].at, p->times);
    p->ranks[rank].now = m->time > p->ranks[rank].now ? m->time : p->ranks[rank].now;
    return DT_OK;
}

/* A message between two parts of one rank arrives as soon as the pass that makes it has run. */
static bool is_made(const struct play *p, int v, const struct action *a)
{
    return a->op != ACTION_TAKE_OVER || made_for(p, false, v, a->micro_batch)->number > 0;
}

/* Note what this rank has made for its own next part. */
static void keep_for_own_part(struct play *p, int rank, int v, const struct action *a)
{
    if (a->op == ACTION_FORWARD && p->places[v].next == rank)
        *made_for(p, false, v + 1, a->micro_batch) = (struct made){.number = 1, .time = p->ranks[rank].now};
    if (a->op == ACTION_GIVE_BACK)
        *made_for(p, true, v - 1, a->micro_batch) = (struct made){.number = 1, .time = p->ranks[rank].now};
}

/* Whether a backward pass lacks the gradient that another part of the rank has to make. */
static bool lacks_own_gradient(const struct play *p, int rank, int v, const struct action *a)
{
    bool reads = a->op == ACTION_BACKWARD || a->op == ACTION_BACKWARD_INPUT;
    return reads && p->places[v].next == rank && made_for(p, true, v, a->micro_batch)->number == 0;
}

/* Play the next action of `rank` if it can run; *ran: whether it did. */
static dt_status play_action(struct play *p, int rank, double **ends, bool *ran)
{
    const struct plan *plan = &p->plans[rank];
    const struct action *a = &plan->actions[p->ranks[rank].at];
    const int v = plan_virtual_stage(plan, a);
    *ran = is_made(p, v, a) && !lacks_own_gradient(p, rank, v, a);
    if (!*ran)
        return DT_OK;
    if (a->op != ACTION_RECV_GRADIENT)
        p->ranks[rank].now += early_of(plan, p->ranks[rank].at, p->times);
    if (a->op <= ACTION_BACKWARD_WEIGHT)
        p->ranks[rank].now += p->places[v].seconds[a->op];
    if (action_sends(a))
        send(p, rank, v, a);
    else if (action_receives(a))
        DT_TRY(receive(p, rank, v, a, ran));
    else
        keep_for_own_part(p, rank, v, a);
    if (!*ran)
        return DT_OK;
    if (ends)
        ends[rank][p->ranks[rank].at] = p->ranks[rank].now;
    p->ranks[rank].at++;
    return DT_OK;
}

static void find_places(struct play *p)
{
    for (int v = 0; v < p->virtual_stages; v++) {
        const struct plan *plan = &p->plans[plan_rank_of(&p->plans[0], v)];
        struct action pass = {.part = (uint8_t)(v / p->stages)};
        p->places[v].previous = v > 0 ? plan_rank_of(plan, v - 1) : -1;
        p->places[v].next = v + 1 < p->virtual_stages ? plan_rank_of(plan, v + 1) : -1;
        for (pass.op = 0; pass.op <= ACTION_BACKWARD_WEIGHT; pass.op++)
            p->places[v].seconds[pass.op] = duration(plan, p->times, &pass);
    }
}

static dt_status play_all(struct play *p, double **ends)
{
    for (bool any = true; any;) {
        any = false;
        for (int rank = 0; rank < p->stages; rank++) {
            for (bool ran = true; ran && p->ranks[rank].at < p->plans[rank].count;) {
                DT_TRY(play_action(p, rank, ends, &ran));
                any |= ran;
            }
        }
    }
    for (int rank = 0; rank < p->stages; rank++)
        if (p->ranks[rank].at < p->plans[rank].count)
            return name_deadlock(p, rank);
    return check_received(p);
}

dt_status plan_play(const struct plan *plans, int stages, const struct plan_times *times, double **ends)
{
    struct play p = {
        .plans = plans,
        .times = times ? times : &plan_unit_times,
        .stages = stages,
        .virtual_stages = stages * plans[0].parts,
        .micro_batches = plans[0].micro_batches,
        .ranks = calloc((size_t)stages, sizeof *p.ranks),
        .places = calloc((size_t)(stages * plans[0].parts), sizeof *p.places),
    };
    size_t places = (size_t)p.virtual_stages * (size_t)p.micro_batches;
    p.activations = calloc(places, sizeof *p.activations);
    p.gradients = calloc(places, sizeof *p.gradients);
    bool all = p.ranks && p.places && p.activations && p.gradients;
    dt_status status = dt_allocated(all, "no host memory for the messages of %d stages", stages);
    if (all)
        find_places(&p);
    DT_THEN(status, play_all(&p, ends));
    free(p.gradients);
    free(p.activations);
    free(p.places);
    free(p.ranks);
    return status;
}

/* ---- how long it takes ---- */

struct rank_time plan_rank_time(const struct plan *plan, const struct plan_times *times, const double *ends)
{
    struct rank_time t = {.begin = -1};
    for (int i = 0; i < plan->count; i++) {
        const struct action *a = &plan->actions[i];
        const struct plan_times *known = times ? times : &plan_unit_times;
        double length = duration(plan, known, a);
        t.busy += early_of(plan, i, known);
        if (!action_computes(a))
            continue;
        t.begin = t.begin < 0 ? ends[i] - length : t.begin;
        t.end = ends[i];
        t.busy += length;
    }
    return t;
}

dt_status plan_time(const struct plan *plans, int stages, const struct plan_times *times, struct rank_time *out)
{
    DT_FREED double **ends = calloc((size_t)stages, sizeof *ends);
    dt_status status = dt_allocated(ends, "no host memory for the times of %d stages", stages);
    for (int rank = 0; status == DT_OK && rank < stages; rank++) {
        ends[rank] = malloc((size_t)plans[rank].count * sizeof **ends);
        status = dt_allocated(ends[rank], "no host memory for the times of %d actions", plans[rank].count);
    }
    DT_THEN(status, plan_play(plans, stages, times, ends));
    for (int rank = 0; ends && rank < stages; rank++) {
        if (status == DT_OK)
            out[rank] = plan_rank_time(&plans[rank], times, ends[rank]);
        free(ends[rank]);
    }
    return status;
}

double plan_makespan(const struct rank_time *ranks, int stages)
{
    double longest = 0;
    for (int rank = 0; rank < stages; rank++)
        longest = ranks[rank].end - ranks[rank].begin > longest ? ranks[rank].end - ranks[rank].begin : longest;
    return longest;
}

double plan_bubble(const struct rank_time *ranks, int stages)
{
    double busiest = 0, makespan = plan_makespan(ranks, stages);
    for (int rank = 0; rank < stages; rank++)
        busiest = ranks[rank].busy > busiest ? ranks[rank].busy : busiest;
    return makespan > 0 ? 1 - busiest / makespan : 0;
}

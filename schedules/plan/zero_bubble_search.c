#include "schedules/plan/plan.h"

#include "lib/base/heap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The settings that are tried. */
struct rules {
    /* A waiting rank fills the gap with weight gradients if the gap is at least this part of one of
     * them long. */
    double least_gap;
    /* Number of micro-batches between forward and backward beyond those that fit into the time
     * until the first gradient can arrive. */
    double ahead;
    bool backward_first; /* if both could run; otherwise forward and backward alternate */
    /* Not 0: instead of these rules zb_h1 (1) or zb_h2 (2), whose sequence is fixed. */
    int by_hand;
};

static const double least_gaps[] = {0, 0.25, 0.5, 0.75, 1};
static const double aheads[] = {0, 0.5, 1, 1.5, 2};

enum {
    GAPS = sizeof least_gaps / sizeof *least_gaps,
    AHEADS = sizeof aheads / sizeof *aheads,
    TRIED = GAPS * AHEADS * 2,
    BY_HAND = 2,
    FINALISTS = 4, /* settings that are tried with all micro-batches; the others with fewer */
    ROUNDS = 4,    /* times the stages, in micro-batches: enough to tell good settings from bad ones */
    FEWEST = 4,    /* settings that are tried for any pipeline */
    /* Limit of the played passes when settings of a large plan are tried, which takes about a
     * second; half as many for finalists. */
    MOST_PASSES = 10000000,
};

/* One rank in a play. Passes of each kind go through the micro-batches in order, so that counts say
 * which one is next. */
struct player {
    int forward, input, weight; /* passes of each kind that have begun */
    int most_between;           /* micro-batches between forward and gradients of inputs */
    bool backward_is_next;
    double free;       /* when its last pass ends */
    double wakes;      /* time of its next decision; INFINITY: at the next arrival */
    double begin, end; /* of all its passes */
    /* [micro_batches] arrivals of activations and gradients; INFINITY: unknown yet */
    double *activations, *gradients;
    uint8_t *passes; /* [3 * micro_batches] enum action_op */
    int pass_count;
};

struct game {
    const struct order_shape *shape;
    int micro_batches, limit_halves;
    struct rules rules;
    struct player *players; /* [stages] */
    struct dt_heap waking;  /* ranks by the time at which they wake; it has room for all of them */
    double *times;          /* the players' arrivals */
    uint8_t *passes;        /* and passes */
};

/* ---- which rank decides next ---- */

/* An arrival never makes a rank wake later. */
static void wake(struct game *g, int rank, double time)
{
    struct player *p = &g->players[rank];
    double when = time > p->free ? time : p->free;
    if (when >= p->wakes)
        return;
    p->wakes = when;
    dt_heap_set(&g->waking, (uint32_t)rank, when);
}

/* ---- a rank's decision ---- */

enum { WAIT = -1 };

static double next_arrival(const double *arrivals, int next, int count)
{
    return next < count ? arrivals[next] : INFINITY;
}

/* Forward and backward alternate; weight gradients are delayed by as many passes as there are
 * stages before the rank. */
static int decide_by_hand(const struct game *g, const struct player *p, double now, double *wakes)
{
    int rank = (int)(p - g->players);
    bool forward = p->forward < g->micro_batches && p->forward - p->input < p->most_between;
    if (p->input - p->weight > g->rules.by_hand * rank || p->input == g->micro_batches)
        return ACTION_BACKWARD_WEIGHT;
    double arrival = forward ? p->activations[p->forward] : p->gradients[p->input];
    if (arrival <= now)
        return forward ? ACTION_FORWARD : ACTION_BACKWARD_INPUT;
    *wakes = arrival;
    return WAIT;
}

/* The pass that runs now; or WAIT, until *wakes. */
static int decide(const struct game *g, const struct player *p, double now, double *wakes)
{
    const struct plan_times *t = &g->shape->times;
    if (p->weight == g->micro_batches) {
        *wakes = INFINITY;
        return WAIT;
    }
    if (g->rules.by_hand)
        return decide_by_hand(g, p, now, wakes);
    double activations = next_arrival(p->activations, p->forward, g->micro_batches);
    double gradients = next_arrival(p->gradients, p->input, g->micro_batches);
    bool turn = p->forward - p->input < p->most_between;
    bool room = 2 * (p->forward - p->input) + (p->input - p->weight) + 2 <= g->limit_halves;
    bool forward = activations <= now && turn && room, backward = gradients <= now, weight = p->weight < p->input;
    if (forward && backward)
        return g->rules.backward_first || p->backward_is_next ? ACTION_BACKWARD_INPUT : ACTION_FORWARD;
    if (backward)
        return ACTION_BACKWARD_INPUT;
    if (forward)
        return ACTION_FORWARD;
    if (weight && activations <= now && turn)
        return ACTION_BACKWARD_WEIGHT; /* this makes room */
    double until = turn && room ? fmin(activations, gradients) : gradients;
    if (weight && until - now >= g->rules.least_gap * t->backward_weight)
        return ACTION_BACKWARD_WEIGHT;
    *wakes = until;
    return WAIT;
}

static void begin_pass(struct game *g, int rank, int op, double now)
{
    const struct plan_times *t = &g->shape->times;
    struct player *p = &g->players[rank];
    bool last = rank + 1 == g->shape->stages;
    p->begin = p->pass_count == 0 ? now : p->begin;
    p->passes[p->pass_count++] = (uint8_t)op;
    if (op == ACTION_FORWARD) {
        p->end = now + t->forward;
        if (last)
            p->gradients[p->forward] = p->end;
        else
            p[1].activations[p->forward] = p->end + t->send;
        p->forward++;
        p->backward_is_next = true;
    } else if (op == ACTION_BACKWARD_INPUT) {
        p->end = now + t->backward_input;
        if (rank > 0)
            p[-1].gradients[p->input] = p->end + t->send;
        p->input++;
        p->backward_is_next = false;
    } else {
        p->end = now + t->backward_weight;
        p->weight++;
    }
    p->free = p->end;
    wake(g, rank, p->end);
    if (op == ACTION_FORWARD && !last)
        wake(g, rank + 1, p->end + t->send);
    if (op == ACTION_BACKWARD_INPUT && rank > 0)
        wake(g, rank - 1, p->end + t->send);
}

/* ---- a play ---- */

/* One plus the number of forward passes that fit into the time from the end of a rank's first one
 * until its gradient can arrive. */
static int most_between(const struct game *g, int rank)
{
    const struct plan_times *t = &g->shape->times;
    if (g->rules.by_hand)
        return g->rules.by_hand * (g->shape->stages - 1 - rank) + 1;
    double behind = g->shape->stages - 1 - rank, away = behind * (t->forward + t->backward_input + 2 * t->send);
    double fit = floor(away / t->forward + g->rules.ahead) + 1;
    return fit >= 1 && fit < g->limit_halves / 2 ? (int)fit : g->limit_halves / 2;
}

static void prepare(struct game *g, int micro_batches, const struct rules *rules)
{
    int stages = g->shape->stages;
    g->micro_batches = micro_batches;
    g->rules = *rules;
    for (size_t i = 0; i < 2 * (size_t)stages * (size_t)micro_batches; i++)
        g->times[i] = INFINITY;
    for (int rank = 0; rank < stages; rank++) {
        struct player *p = &g->players[rank];
        *p = (struct player){.most_between = most_between(g, rank), .wakes = INFINITY};
        p->activations = g->times + 2 * (size_t)rank * (size_t)micro_batches;
        p->gradients = p->activations + micro_batches;
        p->passes = g->passes + 3 * (size_t)rank * (size_t)micro_batches;
    }
    for (int i = 0; i < micro_batches; i++)
        g->players[0].activations[i] = 0;
    wake(g, 0, 0);
}

/* The time from first to last pass of the rank that takes longest. */
static double play(struct game *g, int micro_batches, const struct rules *rules)
{
    double longest = 0;
    prepare(g, micro_batches, rules);
    while (g->waking.count > 0) {
        int rank = (int)dt_heap_pop(&g->waking);
        struct player *p = &g->players[rank];
        double now = p->wakes, wakes;
        p->wakes = INFINITY;
        int op = decide(g, p, now, &wakes);
        if (op == WAIT)
            wake(g, rank, wakes);
        else
            begin_pass(g, rank, op, now);
    }
    for (int rank = 0; rank < g->shape->stages; rank++)
        longest = fmax(longest, g->players[rank].end - g->players[rank].begin);
    return longest;
}

/* ---- the search ---- */

struct trial {
    struct rules rules;
    double time;
};

/* Sort by time; equal times keep the table's order. */
static void sort_trials(struct trial *trials, int count)
{
    for (int i = 1; i < count; i++) {
        struct trial trial = trials[i];
        int k = i;
        for (; k > 0 && trial.time < trials[k - 1].time; k--)
            trials[k] = trials[k - 1];
        trials[k] = trial;
    }
}

/* Whether a fixed order stays within the memory limit. */
static bool has_room(const struct game *g, int by_hand)
{
    for (int rank = 0; rank < g->shape->stages; rank++) {
        int between = by_hand * (g->shape->stages - 1 - rank) + 1, behind = by_hand * rank;
        if (2 * between + behind > g->limit_halves)
            return false;
    }
    return true;
}

/* How many plays of this many micro-batches the number of passes allows, within limits. */
static int plays_of(const struct order_shape *shape, int micro_batches, int passes, int least, int most)
{
    int64_t plays = passes / (3 * (int64_t)shape->stages * micro_batches);
    return plays < least ? least : plays < most ? (int)plays : most;
}

/* How many settings are tried with few micro-batches, how many micro-batches these are, and how
 * many finalists are tried with all. */
struct effort {
    int tried, micro_batches, finalists;
};

static struct effort effort_for(const struct order_shape *shape)
{
    struct effort effort = {.micro_batches = shape->micro_batches};
    if (effort.micro_batches / ROUNDS >= shape->stages)
        effort.micro_batches = ROUNDS * shape->stages;
    effort.tried = plays_of(shape, effort.micro_batches, MOST_PASSES, FEWEST, TRIED);
    effort.finalists = plays_of(shape, shape->micro_batches, MOST_PASSES / 2, 1, FINALISTS);
    return effort;
}

void search_tell(const struct order_shape *shape, char *text, size_t bytes)
{
    struct effort effort = effort_for(shape);
    snprintf(text, bytes, "%d of %d settings tried with %d micro-batches, and the best %d with all", effort.tried, TRIED,
             effort.micro_batches, effort.finalists);
}

static struct rules setting(int number)
{
    return (struct rules){.least_gap = least_gaps[number / 2 / AHEADS], .ahead = aheads[number / 2 % AHEADS], .backward_first = number % 2};
}

/* Try settings with few micro-batches, evenly spaced among all settings, then the best of them, and
 * the fixed orders, with all micro-batches. */
static struct rules find_rules(struct game *g)
{
    struct trial trials[TRIED + BY_HAND];
    struct effort effort = effort_for(g->shape);
    int count = effort.tried, all = g->shape->micro_batches;
    for (int i = 0; i < count; i++) {
        trials[i].rules = setting(i * TRIED / count);
        trials[i].time = play(g, effort.micro_batches, &trials[i].rules);
    }
    sort_trials(trials, count);
    count = effort.finalists;
    for (int by_hand = 1; by_hand <= BY_HAND; by_hand++)
        if (has_room(g, by_hand))
            trials[count++] = (struct trial){.rules = {.by_hand = by_hand}};
    for (int i = 0; i < count; i++)
        trials[i].time = play(g, all, &trials[i].rules);
    sort_trials(trials, count);
    return trials[0].rules;
}

static dt_status write_plans(const struct game *g, struct plan *plans)
{
    for (int rank = 0; rank < g->shape->stages; rank++) {
        const struct player *p = &g->players[rank];
        int next[ACTION_OPS] = {0};
        for (int i = 0; i < p->pass_count; i++)
            DT_TRY(plan_append_pass(&plans[rank], (enum action_op)p->passes[i], 0, next[p->passes[i]]++));
    }
    return DT_OK;
}

dt_status search_emit(const struct order_shape *shape, struct plan *plans)
{
    size_t stages = (size_t)shape->stages, micro_batches = (size_t)shape->micro_batches;
    struct game g = {.shape = shape,
                     .limit_halves = 2 * (shape->memory_limit ? shape->memory_limit : shape->stages),
                     .players = calloc(stages, sizeof *g.players),
                     .times = malloc(2 * stages * micro_batches * sizeof *g.times),
                     .passes = malloc(3 * stages * micro_batches)};
    dt_status status = dt_allocated(g.players && g.times && g.passes, "no host memory to search an order of %d stages and %d micro-batches",
                                    shape->stages, shape->micro_batches);
    for (uint32_t rank = 0; rank < stages; rank++)
        DT_THEN(status, dt_heap_set(&g.waking, rank, 0));
    dt_heap_clear(&g.waking);
    if (status == DT_OK) {
        struct rules rules = find_rules(&g);
        play(&g, shape->micro_batches, &rules);
        status = write_plans(&g, plans);
    }
    dt_heap_finish(&g.waking);
    free(g.players);
    free(g.times);
    free(g.passes);
    return status;
}

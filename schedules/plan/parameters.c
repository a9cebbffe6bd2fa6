/* Place a data-parallel mode's actions around the passes that read parameters and write
 * gradients. */
#include "schedules/plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* Counts of a group's passes so far. */
struct group_passes {
    int readers;                  /* future passes that read the parameters */
    int forward, input, weight;   /* over all micro-batches; a backward pass that is not in halves counts for both */
    int reduced;                  /* of these, micro-batches whose gradients have been reduced */
    bool left_input, left_weight; /* some gradients of this half are not reduced yet */
};

struct placement {
    const struct plan_part *parts;
    const struct plan_rules *rules;
    int group_count, micro_batches;
    bool *there;                 /* [group_count] parameters are on the device, or being fetched */
    struct group_passes *passes; /* [group_count] */
    bool *reduces;               /* [group_count, micro_batches] gradients are reduced after this micro-batch's */
    struct action *put_off;      /* REDUCE and UPDATE actions that wait for the sums over copies */
    int put_off_count;
};

static const struct plan_group *group_of(const struct placement *p, const struct action *a)
{
    return &p->parts[a->part].groups[a->group];
}

/* ---- parameters ---- */

static bool reads_params(const struct placement *p, const struct action *a)
{
    bool forward = a->op == ACTION_FORWARD || a->op == ACTION_RECOMPUTE;
    return forward || p->rules->gathers_in_turn || group_of(p, a)->backward_reads_params;
}

static int first_group_of(const struct placement *p, const struct action *a)
{
    return p->parts[a->part].first_group;
}

static bool reads_first(const struct placement *p, const struct action *a)
{
    return group_of(p, a)->reads_first;
}

static bool reads_params_of(const struct placement *p, const struct action *a, int group)
{
    return (a->group == group && reads_params(p, a)) || (reads_first(p, a) && first_group_of(p, a) == group);
}

static dt_status gather_group(struct placement *p, const struct action *user, int group, struct plan *out)
{
    struct action a = *user;
    a.op = ACTION_GATHER;
    a.group = (uint16_t)group;
    a.flags = 0;
    if (p->there[group] || !reads_params_of(p, user, group))
        return DT_OK;
    p->there[group] = true;
    return plan_append(out, a);
}

static dt_status gather(struct placement *p, const struct action *user, struct plan *out)
{
    if (reads_first(p, user))
        DT_TRY(gather_group(p, user, first_group_of(p, user), out));
    return gather_group(p, user, user->group, out);
}

static dt_status gather_ahead(struct placement *p, const struct plan *from, int at, struct plan *out)
{
    const struct action *next = plan_next_computing(from, at);
    for (int i = 0; i < p->rules->gathers_ahead && next; i++) {
        DT_TRY(gather(p, next, out));
        next = plan_next_computing(from, (int)(next - from->actions));
    }
    return DT_OK;
}

static dt_status free_group(struct placement *p, const struct action *user, const struct action *next, int group, struct plan *out)
{
    bool next_has_it = next && (next->group == group || reads_params_of(p, next, group));
    bool used_next = next_has_it && !p->rules->gathers_in_turn;
    bool used_later = p->rules->gathers_once && p->passes[group].readers > 0;
    struct action a = *user;
    a.op = ACTION_FREE;
    a.group = (uint16_t)group;
    a.flags = 0;
    if (!p->there[group] || used_next || used_later)
        return DT_OK;
    p->there[group] = false;
    return plan_append(out, a);
}

static dt_status free_params(struct placement *p, const struct action *user, const struct action *next, struct plan *out)
{
    if (reads_first(p, user))
        DT_TRY(free_group(p, user, next, first_group_of(p, user), out));
    return free_group(p, user, next, user->group, out);
}

static void count_readers(struct placement *p, const struct action *a, int by)
{
    p->passes[a->group].readers += reads_params(p, a) ? by : 0;
    if (reads_first(p, a))
        p->passes[first_group_of(p, a)].readers += by;
}

/* ---- gradients ---- */

static bool makes_input_gradients(const struct action *a)
{
    return a->op == ACTION_BACKWARD || a->op == ACTION_BACKWARD_INPUT || a->op == ACTION_FORWARD_BACKWARD;
}

static bool makes_weight_gradients(const struct action *a)
{
    return a->op == ACTION_BACKWARD || a->op == ACTION_BACKWARD_WEIGHT || a->op == ACTION_FORWARD_BACKWARD;
}

static void count(struct placement *p, const struct action *a)
{
    struct group_passes *passes = &p->passes[a->group];
    passes->forward += a->op == ACTION_FORWARD && !(a->flags & ACTION_AGAIN);
    passes->input += makes_input_gradients(a);
    passes->weight += makes_weight_gradients(a);
    passes->left_input |= makes_input_gradients(a);
    passes->left_weight |= makes_weight_gradients(a);
}

/* Backward goes from a bucket's last group to its first, which completes the bucket. *end: one past
 * its last group. */
static bool completes_bucket(const struct placement *p, const struct action *a, int *end)
{
    const struct plan_part *part = &p->parts[a->part];
    const struct plan_group *group = group_of(p, a);
    if (!makes_weight_gradients(a) || (a->group > part->first_group && group[-1].bucket == group->bucket))
        return false;
    for (*end = a->group + 1; *end < part->end_group && part->groups[*end].bucket == group->bucket;)
        ++*end;
    return true;
}

/* Whether groups [first, end) of a bucket have to wait for the gradients of other copies. */
static bool waits_for_copies(const struct placement *p, const struct action *a, int end)
{
    for (int g = a->group; g < end; g++)
        if (p->parts[a->part].groups[g].has_copy)
            return true;
    return false;
}

/* Whether the gradients of groups [a->group, end) are reduced after `a`: enough micro-batches are
 * complete, in both halves. */
static bool is_time_to_reduce(const struct placement *p, const struct action *a, int end)
{
    const struct group_passes *first = &p->passes[a->group];
    int done = first->weight;
    for (const struct group_passes *g = first; g < &p->passes[end]; g++)
        if (g->input != done || g->weight != done)
            return false;
    bool enough = done - first->reduced >= p->rules->reduce_every && !waits_for_copies(p, a, end);
    return p->rules->reduce_every && (done == p->micro_batches || enough);
}

static void reduced(struct placement *p, int first, int end)
{
    for (struct group_passes *g = &p->passes[first]; g < &p->passes[end]; g++) {
        g->reduced = g->weight;
        g->left_input = g->left_weight = false;
    }
}

/* A pass must know whether its gradients are reduced after the last half of its micro-batch, so the
 * plan is walked once beforehand. */
static void find_reductions(struct placement *p, const struct plan *plan)
{
    int end;
    for (int i = 0; i < plan->count; i++) {
        const struct action *a = &plan->actions[i];
        if (!action_computes(a))
            continue;
        count(p, a);
        if (!completes_bucket(p, a, &end) || !is_time_to_reduce(p, a, end))
            continue;
        reduced(p, a->group, end);
        for (int g = a->group; g < end; g++)
            p->reduces[g * p->micro_batches + (int)a->micro_batch] = true;
    }
    memset(p->passes, 0, (size_t)p->group_count * sizeof *p->passes);
}

/* Flags of a backward pass; a recomputation gets those of the backward pass after it. */
static int backward_flags(const struct placement *p, const struct action *a)
{
    const struct group_passes *passes = &p->passes[a->group];
    bool weights = a->op == ACTION_BACKWARD_WEIGHT;
    int done = weights ? passes->weight : passes->input;
    int flags = done == 0 ? ACTION_FIRST : 0;
    if (done + 1 == p->micro_batches)
        flags |= ACTION_LAST;
    bool left = p->rules->whole_gradients ? passes->left_weight || passes->left_input : weights ? passes->left_weight : passes->left_input;
    if (!left)
        flags |= ACTION_FRESH;
    if (p->reduces[a->group * p->micro_batches + (int)a->micro_batch])
        flags |= ACTION_REDUCES;
    return flags;
}

/* Call it before a pass that makes gradients of the part's first group: that group's own backward
 * then adds to them. */
static dt_status begin_first_gradients(struct placement *p, const struct action *pass, struct plan *out)
{
    int first = first_group_of(p, pass);
    struct action a = *pass;
    if (!reads_first(p, pass) || !makes_weight_gradients(pass))
        return DT_OK;
    a.op = ACTION_BACKWARD;
    a.group = (uint16_t)first;
    a.flags = (uint16_t)backward_flags(p, &a);
    a.op = ACTION_BEGIN_GRADIENTS;
    p->passes[first].left_input = p->passes[first].left_weight = true;
    return plan_append(out, a);
}

static int flags_of(const struct placement *p, const struct action *a)
{
    const struct group_passes *passes = &p->passes[a->group];
    if (a->op != ACTION_FORWARD)
        return backward_flags(p, a);
    int done = a->flags & ACTION_AGAIN ? passes->input : passes->forward;
    return done == 0 ? ACTION_FIRST : 0;
}

/* Append the action for groups [a->group, end) now, or after the sums over copies. */
static dt_status append_or_put_off(struct placement *p, enum action_op op, const struct action *pass, int end, struct plan *out)
{
    struct action a = *pass;
    a.op = (uint8_t)op;
    a.end = (uint16_t)end;
    if (!waits_for_copies(p, pass, end))
        return plan_append(out, a);
    p->put_off[p->put_off_count++] = a;
    return DT_OK;
}

static dt_status reduce_and_update(struct placement *p, const struct action *pass, struct plan *out)
{
    int end;
    if (completes_bucket(p, pass, &end) && is_time_to_reduce(p, pass, end)) {
        reduced(p, pass->group, end);
        DT_TRY(append_or_put_off(p, ACTION_REDUCE, pass, end, out));
    }
    if (p->rules->updates_at_once && makes_weight_gradients(pass) && (pass->flags & ACTION_LAST))
        DT_TRY(append_or_put_off(p, ACTION_UPDATE, pass, pass->group + 1, out));
    return DT_OK;
}

/* After all passes: the sums first, since two copies may be on one rank, then the actions that wait
 * for them. */
static dt_status end_copies(const struct placement *p, struct plan *plan)
{
    for (int i = 0; i < p->put_off_count; i++) {
        struct action a = p->put_off[i];
        a.op = ACTION_SUM_COPIES;
        for (int g = a.group; g < p->put_off[i].end; g++) {
            a.group = (uint16_t)g;
            if (group_of(p, &a)->has_copy)
                DT_TRY(plan_append(plan, a));
        }
    }
    for (int i = 0; i < p->put_off_count; i++)
        DT_TRY(plan_append(plan, p->put_off[i]));
    return DT_OK;
}

/* ---- the whole plan ---- */

static dt_status place_around(void *context, const struct plan *from, int at, struct plan *out)
{
    struct placement *p = context;
    struct action a = from->actions[at];
    if (p->rules->publishes && at == 0)
        DT_TRY(plan_append(out, (struct action){.op = ACTION_PUBLISH}));
    if (!action_computes(&a))
        return plan_append(out, a);
    const struct action *next = plan_next_computing(from, at);
    if (p->rules->gathers)
        DT_TRY(gather(p, &a, out));
    if (p->rules->gathers && !p->rules->gathers_in_turn)
        DT_TRY(gather_ahead(p, from, at, out));
    count_readers(p, &a, -1);
    DT_TRY(begin_first_gradients(p, &a, out));
    a.flags |= (uint16_t)flags_of(p, &a);
    count(p, &a);
    DT_TRY(plan_append(out, a));
    if (p->rules->gathers)
        DT_TRY(free_params(p, &a, next, out));
    return reduce_and_update(p, &a, out);
}

dt_status plan_place_parameters(struct plan *plan, const struct plan_part *parts, const struct plan_rules *rules)
{
    int groups = parts[plan->parts - 1].end_group;
    struct placement p = {.parts = parts,
                          .rules = rules,
                          .group_count = groups,
                          .micro_batches = plan->micro_batches,
                          .there = calloc((size_t)groups, sizeof *p.there),
                          .passes = calloc((size_t)groups, sizeof *p.passes),
                          .reduces = calloc((size_t)groups * (size_t)plan->micro_batches, sizeof *p.reduces),
                          .put_off = calloc(2 * (size_t)groups, sizeof *p.put_off)};
    dt_status status = dt_allocated(p.there && p.passes && p.reduces && p.put_off, "no host memory for a plan's %d groups", groups);
    if (status == DT_OK) {
        find_reductions(&p, plan);
        for (int i = 0; i < plan->count; i++)
            if (action_computes(&plan->actions[i]))
                count_readers(&p, &plan->actions[i], 1);
        status = plan_rewrite(plan, place_around, &p);
    }
    DT_THEN(status, end_copies(&p, plan));
    DT_THEN(status, plan_append(plan, (struct action){.op = ACTION_END_STEP}));
    free(p.put_off);
    free(p.reduces);
    free(p.passes);
    free(p.there);
    return status;
}

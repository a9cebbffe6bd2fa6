/* What a data-parallel mode does with parameters and gradients, placed around the passes that read and write them. */
#include "schedules/plan/passes.h"

#include <stdlib.h>

enum pass_kind { PASS_FORWARD, PASS_INPUT_GRADIENT, PASS_WEIGHT_GRADIENT, PASS_KINDS };

struct placement {
    const struct plan_part *parts;
    const struct plan_rules *rules;
    bool **there;               /* [parts] [group_count] parameters that are on the device, or on their way */
    int **readers;              /* [parts] [group_count] passes that will read them */
    int (**passes)[PASS_KINDS]; /* [parts] [group_count] so far */
    bool published;
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

static dt_status gather(struct placement *p, const struct action *user, struct plan *out)
{
    bool *there = &p->there[user->part][user->group];
    struct action a = *user;
    a.op = ACTION_GATHER;
    a.flags = 0;
    if (*there || !reads_params(p, user))
        return DT_OK;
    *there = true;
    return plan_append(out, a);
}

static dt_status free_params(struct placement *p, const struct action *user, const struct action *next, struct plan *out)
{
    bool *there = &p->there[user->part][user->group];
    bool used_next = next && next->part == user->part && next->group == user->group && !p->rules->gathers_in_turn;
    bool used_later = p->rules->gathers_once && p->readers[user->part][user->group] > 0;
    struct action a = *user;
    a.op = ACTION_FREE;
    a.flags = 0;
    if (!*there || used_next || used_later)
        return DT_OK;
    *there = false;
    return plan_append(out, a);
}

/* ---- gradients ---- */

static enum pass_kind kind_of(const struct action *a)
{
    if (a->op == ACTION_FORWARD)
        return PASS_FORWARD;
    return a->op == ACTION_BACKWARD_WEIGHT ? PASS_WEIGHT_GRADIENT : PASS_INPUT_GRADIENT;
}

/* A recomputation, or a forward once more, belongs to the backward that follows. */
static int flags_of(struct placement *p, const struct plan *from, const struct action *a)
{
    int(*passes)[PASS_KINDS] = &p->passes[a->part][a->group];
    bool ahead = a->op == ACTION_RECOMPUTE || (a->flags & ACTION_AGAIN);
    int done = (*passes)[ahead ? PASS_INPUT_GRADIENT : kind_of(a)] + 1;
    int flags = a->flags | (done == 1 ? ACTION_FIRST : 0);
    if (!ahead)
        (*passes)[kind_of(a)] = done;
    if (a->op == ACTION_FORWARD)
        return flags;
    if (done == from->micro_batches)
        flags |= ACTION_LAST;
    if (p->rules->reduce_every && (done == from->micro_batches || done % p->rules->reduce_every == 0))
        flags |= ACTION_REDUCES;
    return flags;
}

static bool completes_gradients(const struct action *a)
{
    return a->op == ACTION_BACKWARD || a->op == ACTION_BACKWARD_WEIGHT || a->op == ACTION_FORWARD_BACKWARD;
}

/* Backward goes from the last group to the first, which completes the bucket. */
static dt_status reduce_and_update(struct placement *p, const struct action *pass, struct plan *out)
{
    const struct plan_group *group = group_of(p, pass);
    bool last_of_bucket = pass->group == 0 || group[-1].bucket != group->bucket;
    struct action a = *pass;
    if ((pass->flags & ACTION_REDUCES) && last_of_bucket) {
        a.op = ACTION_REDUCE;
        DT_TRY(plan_append(out, a));
    }
    if (p->rules->updates_at_once && (pass->flags & ACTION_LAST)) {
        a.op = ACTION_UPDATE;
        DT_TRY(plan_append(out, a));
    }
    return DT_OK;
}

/* ---- all of it ---- */

static dt_status place_around(void *context, const struct plan *from, int at, struct plan *out)
{
    struct placement *p = context;
    struct action a = from->actions[at];
    if (!action_computes(&a))
        return plan_append(out, a);
    const struct action *next = plan_next_computing(from, at);
    if (p->rules->publishes && !p->published)
        DT_TRY(plan_append(out, (struct action){.op = ACTION_PUBLISH}));
    p->published = true;
    if (p->rules->gathers)
        DT_TRY(gather(p, &a, out));
    if (p->rules->gathers && !p->rules->gathers_in_turn && next)
        DT_TRY(gather(p, next, out));
    p->readers[a.part][a.group] -= reads_params(p, &a);
    a.flags = (uint16_t)flags_of(p, from, &a);
    DT_TRY(plan_append(out, a));
    if (p->rules->gathers)
        DT_TRY(free_params(p, &a, next, out));
    return completes_gradients(&a) ? reduce_and_update(p, &a, out) : DT_OK;
}

dt_status plan_place_parameters(struct plan *plan, const struct plan_part *parts, const struct plan_rules *rules)
{
    struct placement p = {.parts = parts,
                          .rules = rules,
                          .there = calloc((size_t)plan->parts, sizeof *p.there),
                          .passes = calloc((size_t)plan->parts, sizeof *p.passes)};
    p.readers = calloc((size_t)plan->parts, sizeof *p.readers);
    bool all = p.there && p.passes && p.readers;
    for (int i = 0; all && i < plan->parts; i++) {
        p.there[i] = calloc((size_t)parts[i].group_count, sizeof **p.there);
        p.passes[i] = calloc((size_t)parts[i].group_count, sizeof **p.passes);
        p.readers[i] = calloc((size_t)parts[i].group_count, sizeof **p.readers);
        all = p.there[i] && p.passes[i] && p.readers[i];
    }
    for (int i = 0; all && i < plan->count; i++)
        if (action_computes(&plan->actions[i]))
            p.readers[plan->actions[i].part][plan->actions[i].group] += reads_params(&p, &plan->actions[i]);
    dt_status status = all ? plan_rewrite(plan, place_around, &p) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a plan's groups");
    if (status == DT_OK)
        status = plan_append(plan, (struct action){.op = ACTION_END_STEP});
    for (int i = 0; p.there && p.passes && p.readers && i < plan->parts; i++) {
        free(p.there[i]);
        free(p.passes[i]);
        free(p.readers[i]);
    }
    free(p.there);
    free(p.passes);
    free(p.readers);
    return status;
}

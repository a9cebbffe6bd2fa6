/* Plans with fewer micro-batches, if the middle of a step repeats itself. */
#include "schedules/plan/plan.h"

#include <string.h>

/* Where a plan repeats itself: each of the actions [first, end) occurs again `length` actions
 * later, for the micro-batch with a number larger by `shift`. */
struct repetition {
    int first, end, length;
};

static bool comes_again(const struct plan *plan, int at, int length, int shift)
{
    const struct action *a = &plan->actions[at], *later = a + length;
    return later->op == a->op && later->part == a->part && later->micro_batch == a->micro_batch + (uint32_t)shift;
}

/* Extend from the plan's middle as far as possible. All micro-batches have equally many actions. */
static struct repetition find_repetition(const struct plan *plan, int shift)
{
    struct repetition r = {.first = plan->count / 2, .end = plan->count / 2, .length = shift * (plan->count / plan->micro_batches)};
    while (r.end + r.length < plan->count && comes_again(plan, r.end, r.length, shift))
        r.end++;
    while (r.first > 0 && r.first + r.length <= plan->count && comes_again(plan, r.first - 1, r.length, shift))
        r.first--;
    return r;
}

/* How many times the actions of `shift` micro-batches are repeated. */
static int times_of(const struct repetition *r)
{
    return r->end > r->first ? 1 + (r->end - r->first) / r->length : 0;
}

/* The fewest repetitions of all plans. */
static int repetitions(const struct plan *plans, int count, int shift)
{
    int fewest = plans[0].micro_batches;
    for (int i = 0; i < count; i++) {
        struct repetition r = find_repetition(&plans[i], shift);
        fewest = times_of(&r) < fewest ? times_of(&r) : fewest;
    }
    return fewest;
}

static void leave_out(struct plan *plan, int shift, int times)
{
    struct repetition r = find_repetition(plan, shift);
    struct action *to = &plan->actions[r.first], *from = to + times * r.length, *end = plan->actions + plan->count;
    memmove(to, from, (size_t)(end - from) * sizeof *from);
    plan->count -= times * r.length;
    plan->micro_batches -= times * shift;
    for (end = plan->actions + plan->count; to < end; to++)
        to->micro_batch -= (uint32_t)(times * shift);
}

/* ---- all forward passes, then all backward ones ---- */

static bool is_forward(const struct action *a)
{
    return a->op == ACTION_FORWARD || a->op == ACTION_RECV_INPUT || a->op == ACTION_SEND_OUTPUT || a->op == ACTION_TAKE_OVER;
}

static bool repeats(const struct plan *plan, int first, int end, int length, int shift)
{
    bool all = length > 0;
    for (int i = first; i + length < end && all; i++)
        all = comes_again(plan, i, length, shift);
    return all;
}

/* Whether each micro-batch's forward is like the one before it, and then each backward is like it,
 * from either end. */
static bool is_in_phases(const struct plan *plan)
{
    int turn = 0, micro_batches = plan->micro_batches;
    while (turn < plan->count && is_forward(&plan->actions[turn]))
        turn++;
    if (turn == plan->count || turn % micro_batches)
        return false;
    int way = plan->actions[turn].micro_batch == 0 ? 1 : -1;
    return repeats(plan, 0, turn, turn / micro_batches, 1) && repeats(plan, turn, plan->count, (plan->count - turn) / micro_batches, way);
}

static void leave_out_of_phases(struct plan *plan, int times)
{
    uint32_t first = (uint32_t)(plan->micro_batches - times) / 2, end = first + (uint32_t)times;
    int left = 0;
    for (int i = 0; i < plan->count; i++) {
        struct action a = plan->actions[i];
        if (a.micro_batch >= first && a.micro_batch < end)
            continue;
        a.micro_batch -= a.micro_batch >= end ? (uint32_t)times : 0;
        plan->actions[left++] = a;
    }
    plan->count = left;
    plan->micro_batches -= times;
}

/* A rank sees the beginning and end of the step at a distance of `stages` micro-batches at most. */
static int shorten_phases(struct plan *plans, int count, int step, int left)
{
    int times = plans[0].micro_batches - left * step - 2 * plans[0].stages;
    times -= times > 0 ? times % step : 0;
    if (times < plans[0].micro_batches / 2)
        return 0;
    for (int i = 0; i < count; i++)
        if (!is_in_phases(&plans[i]))
            return 0;
    for (int i = 0; i < count; i++)
        leave_out_of_phases(&plans[i], times);
    return times;
}

int plans_shorten(struct plan *plans, int count, int step, int left)
{
    int micro_batches = plans[0].micro_batches;
    for (int i = 0; i < count; i++)
        if (plans[i].micro_batches != micro_batches || plans[i].count % micro_batches)
            return 0;
    int of_phases = shorten_phases(plans, count, step, left);
    if (of_phases > 0)
        return of_phases;
    for (int shift = step; shift <= micro_batches / (left + 1); shift += step) {
        int times = repetitions(plans, count, shift) - left;
        if (times * shift < micro_batches / 2)
            continue;
        for (int i = 0; i < count; i++)
            leave_out(&plans[i], shift, times);
        return times * shift;
    }
    return 0;
}

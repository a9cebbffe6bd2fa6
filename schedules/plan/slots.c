/* Stash slots by liveness: the lowest free one, from the first action of a micro-batch in a part to its last. */
#include "schedules/plan/passes.h"

#include <stdlib.h>

struct life {
    int slot; /* -1 before the first action */
    int last; /* the action after which the slot is free again */
};

static int take_lowest(bool *used)
{
    int slot = 0;
    while (used[slot])
        slot++;
    used[slot] = true;
    return slot;
}

static void assign(struct plan *plan, struct life *lives, bool *used)
{
    size_t micro_batches = (size_t)plan->micro_batches;
    for (int i = 0; i < plan->count; i++)
        lives[plan->actions[i].part * micro_batches + plan->actions[i].micro_batch] = (struct life){.slot = -1, .last = i};
    for (int i = 0; i < plan->count; i++) {
        struct action *a = &plan->actions[i];
        struct life *life = &lives[a->part * micro_batches + a->micro_batch];
        bool *of_part = used + a->part * micro_batches;
        if (life->slot < 0)
            life->slot = take_lowest(of_part);
        a->slot = (uint16_t)life->slot;
        plan->slots = life->slot + 1 > plan->slots ? life->slot + 1 : plan->slots;
        of_part[life->slot] = i < life->last;
    }
}

/* Between two parts of a rank: the slot of the part before is known when this one's pass comes, and still its own. */
static void note_neighbours(struct plan *plan, const struct life *lives)
{
    for (int i = 0; i < plan->count; i++) {
        struct action *a = &plan->actions[i];
        if (a->op == ACTION_TAKE_OVER || a->op == ACTION_GIVE_BACK)
            a->segment = (uint16_t)lives[(a->part - 1) * (size_t)plan->micro_batches + a->micro_batch].slot;
    }
}

dt_status plan_assign_slots(struct plan *plan)
{
    size_t places = (size_t)plan->parts * (size_t)plan->micro_batches;
    struct life *lives = calloc(places, sizeof *lives);
    bool *used = calloc(places, sizeof *used);
    bool all = lives && used;
    plan->slots = 0;
    if (all) {
        assign(plan, lives, used);
        note_neighbours(plan, lives);
    }
    free(used);
    free(lives);
    return all ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the slots of %d micro-batches", plan->micro_batches);
}

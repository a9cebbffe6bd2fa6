#include "schedules/plan/plan.h"

#include <stdlib.h>

static dt_status append_message(struct plan *plan, const struct action *pass, enum action_op op, bool exists)
{
    struct action message = *pass;
    message.op = (uint8_t)op;
    return exists ? plan_append(plan, message) : DT_OK;
}

static dt_status add_around(void *context, const struct plan *from, int at, struct plan *out)
{
    const struct action *pass = &from->actions[at];
    int v = plan_virtual_stage(from, pass), end = from->stages * from->parts;
    bool previous = v > 0, next = v + 1 < end;
    bool previous_here = previous && plan_rank_of(from, v - 1) == from->stage, next_here = next && plan_rank_of(from, v + 1) == from->stage;
    bool forward = pass->op == ACTION_FORWARD, backward = pass->op == ACTION_BACKWARD || pass->op == ACTION_BACKWARD_INPUT;
    DT_TRY(append_message(out, pass, ACTION_TAKE_OVER, forward && previous_here));
    DT_TRY(append_message(out, pass, ACTION_RECV_INPUT, forward && previous && !previous_here));
    DT_TRY(append_message(out, pass, ACTION_RECV_GRADIENT, backward && next && !next_here));
    DT_TRY(plan_append(out, *pass));
    DT_TRY(append_message(out, pass, ACTION_SEND_OUTPUT, forward && next && !next_here));
    DT_TRY(append_message(out, pass, ACTION_SEND_GRADIENT, backward && previous && !previous_here));
    return append_message(out, pass, ACTION_GIVE_BACK, backward && previous_here);
}

dt_status plan_add_messages(struct plan *plan)
{
    return plan_rewrite(plan, add_around, NULL);
}

/* ---- slots ---- */

/* Stash slots by liveness: a micro-batch in a part gets the lowest free slot from its first action
 * to its last. */

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

dt_status plan_assign_slots(struct plan *plan)
{
    size_t places = (size_t)plan->parts * (size_t)plan->micro_batches;
    DT_FREED struct life *lives = calloc(places, sizeof *lives);
    DT_FREED bool *used = calloc(places, sizeof *used);
    bool all = lives && used;
    plan->slots = 0;
    if (all) {
        assign(plan, lives, used);
        /* Between two parts of a rank: when the later part's pass is placed, the earlier part's
         * slot is known and still in use. */
        for (int i = 0; i < plan->count; i++) {
            struct action *a = &plan->actions[i];
            if (a->op == ACTION_TAKE_OVER || a->op == ACTION_GIVE_BACK)
                a->segment = (uint16_t)lives[(a->part - 1) * (size_t)plan->micro_batches + a->micro_batch].slot;
        }
    }
    return dt_allocated(all, "no host memory for the slots of %d micro-batches", plan->micro_batches);
}

/* ---- receipts ---- */

/* Messages that the neighbour `from` sends up (or else down) go to this rank, and those that it
 * receives from that side come from this rank. A rank runs its plan in order, so its messages show
 * what it has received. */
static void add_neighbour(const struct plan *from, bool up, struct plan_receipts *out)
{
    int received[PLAN_CHANNELS] = {0};
    for (int i = 0; i < from->count; i++) {
        const struct action *a = &from->actions[i];
        enum plan_channel channel = plan_channel(from, a);
        if (action_receives(a) && plan_channel_goes_up(channel) != up)
            received[channel]++;
        if (!action_sends(a) || plan_channel_goes_up(channel) != up)
            continue;
        for (int c = 0; c < PLAN_CHANNELS; c++)
            out->received[channel][out->count[channel]][c] = received[c];
        out->count[channel]++;
    }
}

dt_status plan_receipts_find(int stage, const struct plan *previous, const struct plan *next, struct plan_receipts *out)
{
    size_t messages = (size_t)previous->parts * (size_t)previous->micro_batches;
    *out = (struct plan_receipts){0};
    for (int i = 0; i < PLAN_CHANNELS; i++) {
        out->received[i] = calloc(messages, sizeof *out->received[i]);
        DT_TRY(dt_allocated(out->received[i], "no host memory for the messages of stage %d", stage));
    }
    add_neighbour(previous, true, out);
    add_neighbour(next, false, out);
    return DT_OK;
}

void plan_receipts_finish(struct plan_receipts *receipts)
{
    for (int i = 0; i < PLAN_CHANNELS; i++)
        free(receipts->received[i]);
    *receipts = (struct plan_receipts){0};
}

void plan_receipts_most_kept(const struct plan_receipts *receipts, const struct plan *plan, int most[PLAN_CHANNELS])
{
    int sent[PLAN_CHANNELS] = {0}, known[PLAN_CHANNELS] = {0}, arrived[PLAN_CHANNELS] = {0};
    for (int c = 0; c < PLAN_CHANNELS; c++)
        most[c] = 0;
    for (int i = 0; i < plan->count; i++) {
        const struct action *a = &plan->actions[i];
        enum plan_channel channel = plan_channel(plan, a);
        if (action_sends(a)) {
            int kept = ++sent[channel] - known[channel];
            most[channel] = kept > most[channel] ? kept : most[channel];
        } else if (action_receives(a)) {
            const int *received = receipts->received[channel][arrived[channel]++];
            for (int c = 0; c < PLAN_CHANNELS; c++)
                known[c] = received[c] > known[c] ? received[c] : known[c];
        }
    }
}

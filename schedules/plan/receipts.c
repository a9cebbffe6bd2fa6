#include "schedules/plan/receipts.h"

#include <stdlib.h>

/* What the neighbour `from` sends up (or else down) goes to this rank, and what it receives from the other side has come from it: a rank's
 * own work runs in the order of its plan. */
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
        if (!out->received[i])
            return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the messages of stage %d", stage);
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

/* Receipts: a message that arrives proves that its sender had received certain messages of this rank before. What this rank sends is in memory
 * until that is known: nothing else tells it without waiting for the other rank. */
#ifndef SCHEDULES_PLAN_RECEIPTS_H
#define SCHEDULES_PLAN_RECEIPTS_H

#include "schedules/plan/plan.h"

struct plan_receipts {
    /* received[channel][n]: how many messages of this rank, in each channel that it sends in, were received before message n (from 0) of
     * `channel` was made for this rank. count[channel]: the messages that it gets there in a step. */
    int (*received[PLAN_CHANNELS])[PLAN_CHANNELS];
    int count[PLAN_CHANNELS];
};

/* Those of rank `stage`, from the plans (with messages) of its neighbours; the same plan twice where there are two stages. Owner of *out: the
 * caller, also after a failure. Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_receipts_find(int stage, const struct plan *previous, const struct plan *next, struct plan_receipts *out);
void plan_receipts_finish(struct plan_receipts *receipts); /* takes zeroed ones */

/* most [PLAN_CHANNELS]: how many messages of each channel this rank has to keep at a time, while it goes through its plan. */
void plan_receipts_most_kept(const struct plan_receipts *receipts, const struct plan *plan, int most[PLAN_CHANNELS]);

#endif

/* Clocks of ranks: how far dt_clock_ns of one is ahead of another's, from a few exchanges. */
#ifndef SCHEDULES_RUN_RANK_CLOCK_H
#define SCHEDULES_RUN_RANK_CLOCK_H

#include "lib/comm/comm.h"

enum { RANK_CLOCK_ROUNDS = 16 };

/* What a rank reads on its clock: plain data, to be sent to the others. */
struct rank_clock {
    char host[64];
    int64_t before_ns[RANK_CLOCK_ROUNDS], after_ns[RANK_CLOCK_ROUNDS]; /* each of a few exchanges of all ranks */
};

/* Collective. Errors: DT_ERR_COMM, DT_ERR_HOST_MEMORY. */
dt_status rank_clock_read(struct dt_comm *world, struct rank_clock *out);

/* How much more `other` shows than `first` at the same moment, right to *error_ns on either side: both have read their clocks around the same
 * exchanges, none of which is over on any rank before all have begun it. Ranks of one host show the same: 0, and no error.
 * Source  F. Cristian, "Probabilistic clock synchronization", Distributed Computing, 1989: the middle of what the quickest rounds allow. */
int64_t rank_clock_ahead_ns(const struct rank_clock *first, const struct rank_clock *other, int64_t *error_ns);

#endif

/* The processors of all ranks' machines over the timed steps: how many threads share them, and what else runs on them. */
#ifndef SCHEDULES_RUN_RANK_PROCESSORS_H
#define SCHEDULES_RUN_RANK_PROCESSORS_H

#include "lib/base/machine.h"
#include "lib/comm/comm.h"
#include "schedules/run/doubts.h"

struct rank_processors {
    struct dt_processors usable; /* by the ranks of this machine */
    struct processor_use use;    /* since the beginning */
};

/* Collective over `world`: the timed steps begin; this rank's kernels have `threads` threads.
 * Errors: DT_ERR_COMM, DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. */
dt_status rank_processors_begin(struct rank_processors *p, struct dt_comm *world, int threads);

/* Collective: they are over; what speaks against them is appended to `text`. Errors: as above. */
dt_status rank_processors_end(struct rank_processors *p, struct dt_comm *world, char *text, size_t bytes);

#endif

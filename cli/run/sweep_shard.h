/* One of several jobs that share a sweep: `--shard K/N`.
 *
 * Method  Experiments are ordered by the floating-point operations of a rank, most first (equals by their place in the sweep), and dealt to
 *         the shards back and forth: 1 2 3 3 2 1 1 2 3. Every experiment goes to exactly one shard, the numbers differ by at most one, and
 *         large experiments are spread. The same config gives the same shards everywhere, so a job that is started again finds its own. */
#ifndef CLI_RUN_SWEEP_SHARD_H
#define CLI_RUN_SWEEP_SHARD_H

#include "schedules/config/experiment_list.h"

struct sweep_shard {
    int number, count; /* number from 1 to count, as in an array job's --array=1-N */
};

/* Read "K/N". Errors: DT_ERR_INVALID. */
dt_status sweep_shard_parse(const char *text, struct sweep_shard *out);

/* elsewhere [experiments]: which of them are another shard's. Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_shard_select(struct sweep_shard shard, const struct experiment_list *experiments, bool *elsewhere);

#endif

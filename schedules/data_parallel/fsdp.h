/* What FSDP and HSDP share: all of it but the ranks that the shards lie on. */
#ifndef SCHEDULES_DATA_PARALLEL_FSDP_H
#define SCHEDULES_DATA_PARALLEL_FSDP_H

#include "schedules/data_parallel/shard.h"

/* Shards over ranks.within, copies of them over ranks.across. The communicators outlive the mode's state.
 * Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY; nothing is left then. */
dt_status fsdp_create_over(const struct dp_setup *setup, const struct dp_mode *mode, const struct shard_ranks *ranks,
                           struct data_parallel **out);
struct shard_ranks fsdp_ranks(const struct data_parallel *dp);

/* Hooks. */
enum dt_unit fsdp_unit(const struct experiment *experiment);
void fsdp_destroy(struct data_parallel *dp);
dt_status fsdp_before_forward(struct data_parallel *dp, struct dt_group *group, const struct dp_moment *moment);
dt_status fsdp_after_forward(struct data_parallel *dp, struct dt_group *group, const struct dp_moment *moment);
dt_status fsdp_before_backward(struct data_parallel *dp, struct dt_group *group, const struct dp_moment *moment);
dt_status fsdp_after_backward(struct data_parallel *dp, struct dt_group *group, const struct dp_moment *moment);
dt_status fsdp_end_step(struct data_parallel *dp, const struct dp_moment *moment);

#endif

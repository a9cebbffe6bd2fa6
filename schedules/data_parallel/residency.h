/* Which groups' parameters are on the device when they do not stay there: one group ahead of use, until after it.
 *
 * A mode says how a group is fetched: gathered from its shards, copied from host memory, or both. The group whose turn comes next is
 * fetched while the kernels work at this one, through forward and backward, from one into the other and into a recomputation; so at most
 * two groups are there at a time. */
#ifndef SCHEDULES_DATA_PARALLEL_RESIDENCY_H
#define SCHEDULES_DATA_PARALLEL_RESIDENCY_H

#include "schedules/data_parallel/mode.h"

struct resident {
    struct dt_buffer params; /* the whole group, or none while it is not there */
    struct dt_event *there;  /* params can be used */
};

struct residency {
    struct resident *groups; /* [group_count]; NULL where parameters stay on the device: the hooks then do nothing */
    /* Queue what brings group `g`: allocate to->params and record to->there behind it. Errors: DT_ERR_OOM, and those of queueing. */
    dt_status (*fetch)(struct data_parallel *dp, int g, struct resident *to);
};

/* Errors: DT_ERR_HOST_MEMORY, DT_ERR_DEVICE; finish it also then. */
dt_status residency_init(struct residency *residency, const struct dp_setup *setup,
                         dt_status (*fetch)(struct data_parallel *dp, int g, struct resident *to));
void residency_finish(struct residency *residency, const struct dp_setup *setup); /* takes a zeroed one */

/* Have the group's parameters there for the kernels, which wait for them, and the next group's on their way. Backward does not need the
 * embedding's: it only adds to their gradients. */
dt_status residency_before_forward(struct residency *residency, struct data_parallel *dp, struct dt_group *group,
                                   const struct dp_moment *moment);
dt_status residency_before_backward(struct residency *residency, struct data_parallel *dp, struct dt_group *group,
                                    const struct dp_moment *moment);
/* After forward and after backward: free the group, unless its turn comes again at once. */
void residency_after(struct residency *residency, struct data_parallel *dp, const struct dt_group *group, const struct dp_moment *moment);

#endif

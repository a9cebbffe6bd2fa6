/* Parameter servers whose updates may be late, by parameter_server.staleness steps at most.
 *
 * With staleness s a worker computes step t with the parameters that follow from the gradients of all steps before t - s, and of no other. It
 * goes on while its gradients are on their way and servers update, and waits where that version has not come. So no worker is more than s
 * steps ahead of the slowest one, and no two need be in the same step. The version of a step does not depend on who is fast: losses are the
 * same in every run and on any number of ranks, and others than without delay.
 * All that comes after a step's gradients is on the stream `network`; so updates are made by kernels with a step of their own.
 * Memory  beside what the mode has, on every rank: s copies more of the gradients, and s + 1 of the parameters as they come, as communication;
 *         on a server the newest parameters of its groups.
 * Source  Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014, section 3.4, bounded delay; Ho et al., "More
 *         Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013, section 2.
 * Differs a worker never takes a newer version than it must, where theirs take what is there; and a server adds the gradients of all workers
 *         before it updates, where others update for each worker as it comes. Both would make losses depend on the machine's moods. */
#ifndef SCHEDULES_DATA_PARALLEL_LATE_H
#define SCHEDULES_DATA_PARALLEL_LATE_H

#include "schedules/data_parallel/buckets.h"

struct late_updates;

/* Set b->late, once the buckets are there. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY; late_destroy may be called then, too. */
dt_status late_create(struct buckets *b);
void late_destroy(struct buckets *b); /* does nothing without b->late; streams are synchronized */

/* Where this step's gradients of the bucket are, until its servers have them. */
void *late_grads(const struct buckets *b, const struct bucket *bucket);

/* Have compute wait for the step's version. It comes after the gradients that it was made of, which have left their place by then. */
dt_status late_begin_step(struct buckets *b);
/* Queue the servers' updates and the sending of what they make. */
dt_status late_end_step(struct buckets *b);

#endif

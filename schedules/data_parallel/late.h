/* Parameter servers whose updates may be late, by parameter_server.staleness steps at most.
 *
 * With staleness s a worker computes step t with the parameters that result from the gradients of
 * all steps before t - s, and of no other step. It goes on while its gradients are being sent and
 * servers update, and waits if that version has not arrived. So no worker is more than s steps
 * ahead of the slowest one, and workers may be in different steps. The version of a step does not
 * depend on the workers' speed: losses are the same in every run and on any number of ranks, but
 * differ from those without delay. Everything after a step's gradients runs on the stream
 * `network`, so updates have kernels with their own step number.
 * Memory  in addition to the mode's: on every rank s more copies of the gradients, and s + 1 of the
 *         received parameters, as communication; on a server the newest parameters of its groups.
 * Source  Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014,
 *         section 3.4, bounded delay; Ho et al., "More Effective Distributed ML via a Stale
 *         Synchronous Parallel Parameter Server", NIPS 2013, section 2. Differs a worker never
 *         takes a newer version than it must, while theirs take the newest one
 *         available; and a server adds the gradients of all workers before it updates, while theirs
 *         update after each worker. Either would make losses depend on timing. */
#pragma once

#include "schedules/data_parallel/buckets.h"

struct late_updates;

/* Set b->late, after the buckets are made. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY; call
 * late_destroy also then. */
dt_status late_create(struct buckets *b);
void late_destroy(struct buckets *b); /* does nothing without b->late; streams are synchronized */

/* Where this step's gradients of the bucket are until its server has them. */
void *late_grads(const struct buckets *b, const struct bucket *bucket);

/* Have compute wait for the step's version. The gradients from which it was made have left their
 * buffer by then. */
dt_status late_begin_step(struct buckets *b);
/* Queue the servers' updates, and the sends of the updated parameters. */
dt_status late_end_step(struct buckets *b);

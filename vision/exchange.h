/* What ranks exchange whose samples a batch normalisation takes its statistics of together: collectives on a stream of their own, which the
 * stage's stream waits for at once, since nothing can go on without them. Inside vision only. */
#ifndef VISION_EXCHANGE_H
#define VISION_EXCHANGE_H

#include "lib/model/model.h"

struct vision_exchange {
    struct dt_comm *comm;          /* NULL: each rank's statistics are its own, and none of the functions below is called */
    struct dt_tensor_group group;  /* its stream, and how it is waited for */
    struct dt_event *ready, *done; /* the stage's stream has made what travels; the others' is there */
};

/* Arguments as for a stage. Call vision_exchange_finish also after a failure. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status vision_exchange_init(struct vision_exchange *x, const struct dt_stage_options *options, struct dt_device *device);
void vision_exchange_finish(struct vision_exchange *x); /* takes a zeroed one */

/* Number of ranks; 1 if each works by itself. */
size_t vision_exchange_ranks(const struct vision_exchange *x);
/* all [ranks, count] fp32 gets every rank's part, this one's being there. */
dt_status vision_exchange_gather(struct vision_exchange *x, float *all, size_t count, struct dt_stream *stream);
/* numbers [count] fp32 become their sums over the ranks. */
dt_status vision_exchange_sum(struct vision_exchange *x, float *numbers, size_t count, struct dt_stream *stream);
/* This rank's part of such an array. */
float *vision_exchange_own(const struct vision_exchange *x, float *all, size_t count);

#endif

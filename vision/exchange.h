/* Exchanges between ranks whose samples share the statistics of a batch normalisation: collectives
 * on a separate stream. The stage's stream waits for each immediately, because all later work needs
 * its result. Inside vision only. */
#pragma once

#include "lib/model/model.h"

struct vision_exchange {
    struct dt_comm *comm;         /* NULL: each rank has separate statistics, and none of the functions below is called */
    struct dt_tensor_group group; /* the collectives' stream, and how to wait for it */
    struct dt_event *done;        /* the data of the other ranks has arrived */
};

/* Arguments as for a stage. Call vision_exchange_finish also after a failure. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status vision_exchange_init(struct vision_exchange *x, const struct dt_stage_options *options, struct dt_device *device);
void vision_exchange_finish(struct vision_exchange *x); /* takes a zeroed one */

/* Number of ranks; 1 if each has separate statistics. */
size_t vision_exchange_ranks(const struct vision_exchange *x);
/* all [ranks, count] fp32 becomes the parts of all ranks; this rank's part must be in it. */
dt_status vision_exchange_gather(struct vision_exchange *x, float *all, size_t count, struct dt_stream *stream);
/* numbers [count] fp32 become their sums over the ranks. */
dt_status vision_exchange_sum(struct vision_exchange *x, float *numbers, size_t count, struct dt_stream *stream);
/* This rank's part of `all`. */
float *vision_exchange_own(const struct vision_exchange *x, float *all, size_t count);

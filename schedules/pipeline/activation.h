/* Activation policies: what is left of a micro-batch's forward when its backward comes.
 *
 * keep        Everything.
 * checkpoint  A stage's blocks are divided into segments, and forward leaves of each only its input, the residual stream. Backward makes
 *             the rest again, one segment at a time; dropout masks come again from their counters. The head is a segment too. Its logits
 *             would be the largest activation that is left, so its forward is not run twice but late: backward makes logits, loss and
 *             gradients together, for a piece of the rows at a time, and the logits are never whole.
 * offload     As checkpoint, but the inputs wait in host memory. They leave on a stream of their own while forward goes on and come back
 *             on another, one segment ahead of backward. At most two segments' inputs are on the device at any time; the two that backward
 *             needs first stay.
 *
 * Source  Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, section 3; Rajbhandari et al., "ZeRO: Memory Optimizations
 *         Toward Training Trillion Parameter Models", SC 2020, section 6.1 (checkpoints in host memory). */
#ifndef SCHEDULES_PIPELINE_ACTIVATION_H
#define SCHEDULES_PIPELINE_ACTIVATION_H

#include "lib/model/model.h"
#include "schedules/config/experiment.h"
#include "schedules/step/timeline.h"

/* Groups [first_group, end_group) of the stage, whose activations share one fate. */
struct activation_segment {
    int first_group, end_group;
    bool input_only; /* forward leaves the input alone */
    bool late;       /* forward is not run at all, backward does it; one group, the one with the head. Otherwise input_only segments are
                      * recomputed. */
};

struct activation_setup {
    const struct experiment *experiment;
    struct dt_stage *stage;
    struct dt_device *device;
    struct dt_stream *compute;
    struct timeline *timeline; /* of compute: waits for copies go through timeline_wait */
    int slots;                 /* micro-batches between their forward and their backward at the same time: each has a slot */
};

struct activation;

/* The setup's parts outlive it. Errors: DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
dt_status activation_create(const struct activation_setup *setup, struct activation **out);
void activation_destroy(struct activation *activation); /* compute is synchronized; takes NULL */

int activation_segment_count(const struct activation *activation);
const struct activation_segment *activation_segment(const struct activation *activation, int index);

/* Around the forward of segment `segment` of the micro-batch in `slot`, whose input is stash->x; between them there is none of a late
 * segment. backward_follows: the next thing this stage does after this micro-batch's forward is its backward. Queue on compute and on the
 * copies' stream. Errors: DT_ERR_OOM. */
dt_status activation_before_forward(struct activation *activation, int slot, int segment, const struct dt_stash *stash,
                                    bool backward_follows);
dt_status activation_after_forward(struct activation *activation, int slot, int segment, struct dt_stash *stash);

/* Before a segment's recomputation or late forward: its input is in stash->x again. next_slot: whose backward comes after this
 * micro-batch's; -1 where something else does. Errors: DT_ERR_OOM. */
dt_status activation_before_backward(struct activation *activation, int slot, int segment, struct dt_stash *stash, int next_slot);

/* Those of the copies, to be synchronized at the end of a step; NULL where nothing is copied. */
void activation_streams(const struct activation *activation, struct dt_stream *streams[2]);

/* Rows of logits that a late head makes at a time, of `rows`: together no larger than what a segment's recomputation takes. */
size_t activation_logit_rows(const struct activation *activation, size_t rows);

#endif

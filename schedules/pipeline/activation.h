/* Activation policies: what is left of a micro-batch's forward when its backward comes.
 *
 * keep        Everything.
 * selective   Everything but what attention makes of q, k and v: weights (or their row sums) and the heads' outputs, which backward computes
 *             again with one more pass of the attention kernel. The family's own business (lib/model/model.h, attention_again).
 * core_attention  As selective, but the heads' outputs stay, which the projection's weight gradient reads.
 * selective_op    Of a block's products, counted q k v, projection, gate, up, down, the second and the fourth are computed again, and with them all
 *             that follows in passes over memory: left are the block's input, q, k and v, what attention makes of them, and gate, or up where there
 *             is no gate. What a tensor group has summed up stays, as it would have to be sent again.
 * checkpoint  A stage's blocks are divided into segments, and forward leaves of each only its input, the residual stream. Backward computes
 *             the rest again, one segment at a time; dropout masks come again from their counters. The head is a segment too. Its logits
 *             would be the largest activation that is left, so its forward is not run twice but late: backward computes logits, loss and
 *             gradients together, for a piece of the rows at a time, and the logits are never whole. With activation_every n, of n segments the
 *             last one does so, and all is kept of the others.
 * offload     As checkpoint, but the inputs wait in host memory. They leave on a stream of their own while forward goes on and come back
 *             on another, one segment ahead of backward. At most two segments' inputs are on the device at any time; the two that backward
 *             needs first stay.
 *
 * The policy divides a stage into segments; schedules/plan/expand.c decides what happens when, and the plan's actions are run here.
 *
 * Source  Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, section 3; Rajbhandari et al., "ZeRO: Memory Optimizations
 *         Toward Training Trillion Parameter Models", SC 2020, section 6.1 (checkpoints in host memory); Korthikanti et al., "Reducing
 *         Activation Recomputation in Large Transformer Models", MLSys 2023, section 5 (core_attention; selective keeps less); torchtitan 0.2,
 *         models/llama3/infra/parallelize.py (selective_op: its list of operations, with every second product taken out of it; there q, k and v are
 *         three products, of which k's is computed again, and the last product's output is kept besides). */
#ifndef SCHEDULES_PIPELINE_ACTIVATION_H
#define SCHEDULES_PIPELINE_ACTIVATION_H

#include "lib/model/model.h"
#include "schedules/config/experiment.h"
#include "schedules/plan/plan.h"
#include "schedules/step/timeline.h"

/* What becomes of the head where activations are not kept, or its logits are many: it runs late; it is computed again, with whole logits, as
 * blocks are; it is kept. */
enum activation_head { ACTIVATION_HEAD_LATE, ACTIVATION_HEAD_AGAIN, ACTIVATION_HEAD_KEPT };

struct activation_rules {
    enum activation_head head;
    bool copies_in_turn; /* offload: copies are among the kernels of compute, not beside them */
};

struct activation_setup {
    const struct experiment *experiment;
    struct activation_rules rules;
    struct dt_stage *stage;
    struct dt_device *device;
    struct dt_stream *compute;
    struct timeline *timeline; /* of compute: waits for copies go through timeline_wait */
    int slots;                 /* of the plan */
};

struct activation;

/* The setup's parts outlive it. Errors: DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
dt_status activation_create(const struct activation_setup *setup, struct activation **out);
void activation_destroy(struct activation *activation); /* compute is synchronized; takes NULL */

/* Set the segments of part `part` of the stage, which live as long as `activation`, and whether their inputs are copied to host memory. */
void activation_describe(const struct activation *activation, int part, struct plan_part *out);

/* The plan's actions of these names (schedules/plan/plan.h), for the micro-batch whose stash is given. They queue on compute and on the
 * copies' streams. Errors: DT_ERR_OOM. */
void activation_keep_input(struct activation *activation, const struct action *action, struct dt_stash *stash);
dt_status activation_take_input(struct activation *activation, const struct action *action, struct dt_stash *stash);
dt_status activation_copy_out(struct activation *activation, const struct action *action, const struct dt_stash *stash);
dt_status activation_await_out(struct activation *activation, const struct action *action);
dt_status activation_copy_in(struct activation *activation, const struct action *action);

/* Those of the copies, to be synchronized at the end of a step; NULL where nothing is copied. */
void activation_streams(const struct activation *activation, struct dt_stream *streams[2]);

#endif

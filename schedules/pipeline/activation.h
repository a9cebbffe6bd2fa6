/* Activation policies: what forward keeps of a micro-batch for its backward.
 *
 * keep        Everything.
 * selective   Everything but what attention computes from q, k and v: weights (or their row sums)
 *             and the heads' outputs, which backward computes again with one more pass of the
 *             attention kernel. The family does this (lib/model/model.h, attention_again).
 * core_attention  As selective, but the heads' outputs stay, which the projection's weight gradient reads.
 * selective_op    A block's products are, in order: q k v, projection, gate, up, down. The second
 *             and the fourth are recomputed, with the elementwise operations after them. Kept are
 *             the block's input, q, k and v, attention's results, and gate (or up if there is no
 *             gate). Sums over a tensor group are kept, since recomputing them would need
 *             communication.
 * checkpoint  A stage's blocks are divided into segments, and forward keeps only the input of each,
 *             the residual stream. Backward recomputes the rest, one segment at a time; dropout
 *             masks are recomputed from their counters. The head is a segment, too. Its logits
 *             would be the largest kept activation, so its forward is not run twice but late:
 *             backward computes logits, loss and gradients together, for some of the rows at a
 *             time, and the whole logits never exist. With activation_every n only the last of
 *             every n segments is recomputed, and the others are kept.
 * offload     As checkpoint, but the inputs are in host memory. One stream copies them to the host
 *             while forward goes on, another one back to the device, one segment ahead of backward.
 *             At most two segments' inputs are on the device at any time; the two that backward
 *             needs first stay.
 *
 * The policy divides a stage into segments; schedules/plan/expand.c decides what happens when, and
 * the plan's actions are run here.
 *
 * Source  Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, section 3;
 *         Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 *         Models", SC 2020, section 6.1 (checkpoints in host memory); Korthikanti et al., "Reducing
 *         Activation Recomputation in Large Transformer Models", MLSys 2023, section 5
 *         (core_attention; selective keeps less); torchtitan 0.2,
 *         models/llama3/infra/parallelize.py (selective_op: its list of operations, without every
 *         second product; there q, k and v are three products, of which k's is recomputed, and the
 *         last product's output is also kept). */
#pragma once

#include "lib/model/model.h"
#include "schedules/config/experiment.h"
#include "schedules/plan/plan.h"
#include "schedules/step/timeline.h"

/* What is done with the head if activations are not kept, or there are many logits: it runs late;
 * it is recomputed as blocks are, with whole logits; it is kept. */
enum activation_head { ACTIVATION_HEAD_LATE, ACTIVATION_HEAD_AGAIN, ACTIVATION_HEAD_KEPT };

struct activation_rules {
    enum activation_head head;
    bool copies_in_turn; /* offload: copies run on compute, in turn with kernels */
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

/* What setup points to outlives the policy. Errors: DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
dt_status activation_create(const struct activation_setup *setup, struct activation **out);
void activation_destroy(struct activation *activation); /* compute is synchronized; takes NULL */
DT_DESTROYS(activation_destroy, struct activation)

/* Set the segments of part `part` of the stage, which live as long as `activation`, and whether
 * their inputs are copied to host memory. */
void activation_describe(const struct activation *activation, int part, struct plan_part *out);

/* Run the plan's actions of these names (schedules/plan/plan.h) for the micro-batch of the given
 * stash. They queue on compute and on the copies' streams. Errors: DT_ERR_OOM. */
void activation_keep_input(struct activation *activation, const struct action *action, struct dt_stash *stash);
dt_status activation_take_input(struct activation *activation, const struct action *action, struct dt_stash *stash);
dt_status activation_copy_out(struct activation *activation, const struct action *action, const struct dt_stash *stash);
dt_status activation_await_out(struct activation *activation, const struct action *action);
dt_status activation_copy_in(struct activation *activation, const struct action *action);

/* The streams of the copies, to be synchronized at the end of a step; NULL if nothing is copied. */
void activation_streams(const struct activation *activation, struct dt_stream *streams[2]);

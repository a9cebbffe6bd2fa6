/* Stages of a network: a range of its layers on one rank, forward and backward a layer at a time.
 * The functions are the entries of the same name in `struct dt_model_family` (lib/model/model.h),
 * where they are described. A group is always one layer.
 *
 * The stage does not own parameters: a data-parallel mode sets each group's params and grads before
 * they are used. The stage owns the state: the running statistics of its norms, which are not
 * trained, and on which no gradient depends. */
#pragma once

#include "lib/model/exchange.h"
#include "vision/kernels.h"

struct vision_stage {
    struct dt_stage base;
    struct vision_layer *layers; /* [base.group_count] */
    struct dt_exchange exchange; /* between the ranks whose samples share the statistics of a norm; group.comm NULL: each has its own */
    size_t *state_first;         /* [base.group_count + 1] the place of each layer's running statistics in the state */
    float *initial_state;        /* [base.state_elems] in host memory, copied once */
};

/* What the forward of a micro-batch keeps of a layer for its backward, by node. */
struct dt_layer_stash {
    struct dt_buffer values[VISION_MOST_NODES];    /* its output; a kept norm's output can be computed again */
    struct dt_buffer besides[VISION_MOST_NODES];   /* a norm's mean and rstd; a pooling's places */
    struct dt_buffer gradients[VISION_MOST_NODES]; /* gradient of its output */
};

dt_status vision_stage_begin(struct dt_stage *stage, const struct dt_stage_options *options, int layers, struct dt_stream *stream);
void vision_stage_end(struct dt_stage *stage);
size_t vision_boundary_elems(const struct dt_stage *stage, int part, bool output, size_t samples);
dt_status vision_begin_samples(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream);

/* tensors.c: parameters of a group, and running statistics, with their places in the whole
 * model. */
bool vision_tensor_of(const struct dt_stage *stage, const struct dt_group *group, int index, struct dt_model_tensor *out);
bool vision_state_tensor(const struct dt_stage *stage, int index, struct dt_model_tensor *out);

/* layer_run.c */
dt_status vision_forward(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_loss_scales scales, struct dt_stream *stream);
dt_status vision_backward(struct dt_stage *stage, int g, struct dt_stash *stash, enum dt_backward part, struct dt_stream *stream);
dt_status vision_recompute(struct dt_stage *stage, int g, struct dt_stash *stash, bool ends_here, struct dt_stream *stream);

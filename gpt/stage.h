/* GPT's stages: a run of the model's layers on one rank, forward and backward a group at a time.
 * The functions are the entries of the same name in `struct dt_model_family` (lib/model/model.h),
 * where they are described.
 *
 * The stage does not own parameters: a data-parallel mode sets each group's params and grads before
 * they are used. Only layers that a tensor or context group shares communicate (lib/model/exchange.h). */
#pragma once

#include "gpt/kernel_set.h"

dt_status gpt_stage_begin(struct dt_stage *stage, const struct dt_stage_options *options, int layers, struct dt_stream *stream);
void gpt_stage_end(struct dt_stage *stage);
void gpt_describe_group(struct dt_stage *stage, const struct dt_part *part, struct dt_group *group);
size_t gpt_boundary_elems(const struct dt_stage *stage, int part, bool output, size_t samples);
dt_status gpt_begin_samples(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream);

dt_status gpt_forward(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_loss_scales scales, struct dt_stream *stream);
dt_status gpt_backward(struct dt_stage *stage, int g, struct dt_stash *stash, enum dt_backward part, struct dt_stream *stream);
dt_status gpt_recompute(struct dt_stage *stage, int g, struct dt_stash *stash, bool ends_here, struct dt_stream *stream);
dt_status gpt_forward_backward(struct dt_stage *stage, int g, struct dt_stash *stash, int blocks, struct dt_loss_scales scales,
                               struct dt_stream *stream);

/* The tensor at `index` of the group's tensors, with its name in the whole model. */
bool gpt_tensor(const struct dt_stage *stage, const struct dt_group *group, int index, struct dt_model_tensor *out);

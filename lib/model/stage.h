/* Kernels, stages and stashes of any family are created and destroyed here. struct dt_model_family
 * gives the sizes of the family's parts, and the functions that create them. Work is queued on
 * `stream`; errors are those of lib/model/model.h. */
#pragma once

#include "lib/model/model.h"

/* Kernels on `device`; device and model must outlive them. own: those of the model's family. Owner
 * of *out: the caller. Errors: also DT_ERR_UNAVAILABLE. */
dt_status dt_kernels_create(const struct dt_own_kernels *own, const struct dt_model *model, struct dt_device *device,
                            struct dt_kernels **out);
void dt_kernels_destroy(struct dt_kernels *kernels); /* streams must be synchronized; takes NULL */
DT_DESTROYS(dt_kernels_destroy, struct dt_kernels)

/* The caller keeps kernels and model, which must outlive the stage. Owner of *out: the caller,
 * dt_stage_destroy. */
dt_status dt_stage_create(const struct dt_model *model, const struct dt_stage_options *options, struct dt_kernels *kernels,
                          struct dt_stream *stream, struct dt_stage **out);
void dt_stage_destroy(struct dt_stage *stage, struct dt_stream *stream); /* takes NULL */

/* Write elements [first, first + count) of the group's flat parameters, with their initial values,
 * to `to`. Whole replicas and shards are initialised by the rank that owns them. */
dt_status dt_init_params(const struct dt_stage *stage, const struct dt_group *group, size_t first, size_t count, void *to,
                         struct dt_stream *stream);

/* Owner: the caller, dt_stash_destroy, which frees all buffers of the stash, and accepts a zeroed
 * one. */
dt_status dt_stash_create(const struct dt_stage *stage, int part, struct dt_stash *out);
void dt_stash_destroy(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream);
/* Begin a micro-batch of `samples` samples, from number `first_sample` of the step on. */
dt_status dt_stash_begin(const struct dt_stage *stage, struct dt_stash *stash, size_t samples, uint32_t first_sample,
                         struct dt_stream *stream);
/* End a micro-batch after its backward: frees inputs and targets. */
void dt_stash_end(struct dt_stash *stash, struct dt_stream *stream);
/* Free what the forward of groups [first, end) kept for their backward; the input of the first of
 * them moves to *input. */
void dt_stash_forget(const struct dt_stage *stage, struct dt_stash *stash, int first, int end, struct dt_stream *stream,
                     struct dt_buffer *input);

/* A run of the model's layers on one rank: forward and backward, a group at a time.
 *
 * Nothing here communicates or owns parameters: a data-parallel mode sets each group's params and grads before its turn. */
#ifndef GPT_STAGE_H
#define GPT_STAGE_H

#include "gpt/kernels.h"
#include "gpt/layout.h"

#include <stdbool.h>

struct gpt_group {
    int index;                    /* in the stage */
    int first_layer, layer_count; /* in stage->layers */
    size_t param_elems;
    void *params;    /* [param_elems]: valid between before_* and after_* of the data-parallel mode */
    void *grads;     /* [param_elems]: written (or added to) by backward */
    bool accumulate; /* backward adds to grads instead of overwriting */
};

struct gpt_stage {
    const struct gpt_model *model;
    const struct gpt_kernel_table *table;
    struct gpt_kernels *kernels;
    struct gpt_layer *layers; /* [layer_count] */
    int layer_count;
    struct gpt_group *groups; /* [group_count] */
    int group_count;
    uint64_t param_elems;
    uint64_t seed;
    bool first, last;      /* has the embedding; has the head */
    bool sum_loss;         /* the study's plain sum of logits */
    struct dt_buffer loss; /* one fp64: sum over this step's rows, scaled; only when last */
};

/* What forward keeps for backward of one micro-batch, and what travels between stages. */
struct gpt_stash {
    size_t samples;
    uint32_t first_sample;            /* from the step's first one (begin_step) */
    struct dt_buffer tokens, targets; /* int32 [samples, T]; first and last stage */
    struct dt_buffer x;      /* [M, d] the residual stream: what the next layer's forward reads; at the stage's ends input and output */
    struct dt_buffer dx;     /* [M, d] its gradient: from the next stage before, for the previous stage after backward */
    struct dt_buffer dh;     /* [M, 4d] between mlp_down's and mlp_up's backward */
    struct dt_buffer output; /* last stage: what a simulated framework holds of the logits until this stash begins again; nobody reads it */
    int output_copies;       /* of that; 0 counts as 1 */
    struct gpt_layer_stash *layers; /* [layer_count], stage_layers.h */
};

/* Layers [first_layer, end_layer) of the model, grouped by `unit`. Queues on `stream`; kernels stay the caller's.
 * Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
dt_status gpt_stage_create(const struct gpt_model *model, int first_layer, int end_layer, enum gpt_unit unit, uint64_t seed, bool sum_loss,
                           const struct gpt_kernel_table *table, struct gpt_kernels *kernels, struct dt_stream *stream,
                           struct gpt_stage **out);
void gpt_stage_destroy(struct gpt_stage *stage, struct dt_stream *stream);

/* Write elements [first, first + count) of the group's flat parameters, freshly initialised, to `to`: whole replicas and shards alike are
 * made where they live. */
dt_status gpt_init_params(const struct gpt_stage *stage, const struct gpt_group *group, size_t first, size_t count, void *to,
                          struct dt_stream *stream);

dt_status gpt_stash_create(const struct gpt_stage *stage, struct gpt_stash *out);
void gpt_stash_destroy(const struct gpt_stage *stage, struct gpt_stash *stash, struct dt_stream *stream); /* frees what is left in it */

/* Begin a micro-batch of `samples` samples from number `first_sample` of the step: draws tokens where this stage needs them. */
dt_status gpt_stash_begin(const struct gpt_stage *stage, struct gpt_stash *stash, size_t samples, uint32_t first_sample,
                          struct dt_stream *stream);

/* End it, after its backward: frees the tokens. */
void gpt_stash_end(struct gpt_stash *stash, struct dt_stream *stream);

/* Forward of group `g`. The last group of a last stage computes loss and its gradient too: the logits are never stored beside their
 * gradient. loss_scale: what the sum over this micro-batch's rows is multiplied by (1 / rows of the whole replica's step);
 * gradient_scale: the same for gradients, times the loss scaling of fp16. */
dt_status gpt_forward(struct gpt_stage *stage, int g, struct gpt_stash *stash, float loss_scale, float gradient_scale,
                      struct dt_stream *stream);
/* Backward of group `g`; frees what forward kept for it. */
dt_status gpt_backward(struct gpt_stage *stage, int g, struct gpt_stash *stash, struct dt_stream *stream);

/* ---- keeping less than everything from forward to backward (schedules/pipeline/activation.h) ---- */

/* Free what the forward of groups [first, end) kept for their backward, on `stream`; what the first of them read moves to *input. */
void gpt_stash_forget(const struct gpt_stage *stage, struct gpt_stash *stash, int first, int end, struct dt_stream *stream,
                      struct dt_buffer *input);

/* Make what the backward of group `g` needs once more, from stash->x as it was before gpt_forward. ends_here: nobody reads the output of
 * this group, and a product that only makes it is left out; stash->x may then be none. Not for the group with the head. */
dt_status gpt_recompute(struct gpt_stage *stage, int g, struct gpt_stash *stash, bool ends_here, struct dt_stream *stream);

/* Forward, loss and backward of the last group of a last stage in one go, from stash->x. The logits exist for `piece_rows` of the M rows at
 * a time. The head's weight gradient is rounded to the model's dtype after every piece. */
dt_status gpt_forward_backward(struct gpt_stage *stage, int g, struct gpt_stash *stash, size_t piece_rows, float loss_scale,
                               float gradient_scale, struct dt_stream *stream);

#endif

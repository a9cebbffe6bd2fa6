/* One layer's forward and backward, and what it keeps in between: shared by the stage*.c.
 *
 * Everything is queued on the turn's stream. Errors: DT_ERR_OOM for memory, and what kernels and streams report; the stash then holds what
 * had been made, for gpt_stash_destroy. */
#ifndef GPT_STAGE_LAYERS_H
#define GPT_STAGE_LAYERS_H

#include "gpt/stage.h"

/* Each layer owns the buffer it read, so that the residual stream is kept once. M rows, the model's dtype unless said otherwise. */
struct gpt_layer_stash {
    struct dt_buffer input;      /* [M, d] read by the layer's norm (attention, mlp_up, final_norm) or product (head) */
    struct dt_buffer mean, rstd; /* [M] fp32 of that norm */
    struct dt_buffer qkv;        /* [M, 3d] attention */
    struct dt_buffer mixed;      /* [M, d] attention: the heads' outputs, before the projection */
    struct dt_buffer lse;        /* [samples, heads, T] fp32, fused attention */
    struct dt_buffer weights;    /* [samples, heads, T, T], unfused attention */
    struct dt_buffer hidden;     /* [M, 4d] mlp_up: before GELU */
    struct dt_buffer framework;  /* attention, mlp_up, head: what a simulated framework keeps beside all this; nobody reads it */
    struct dt_buffer logits;     /* [M, V] head: the loss has turned them into their gradient */
};

/* One layer's turn: what its forward and backward need, in short names. */
struct turn {
    struct gpt_stage *stage;
    const struct gpt_group *group;
    const struct gpt_layer *layer;
    struct gpt_layer_stash *kept;
    struct gpt_stash *stash;
    struct dt_stream *stream;
    const struct gpt_kernel_table *k;
    size_t rows, d; /* M = samples * T */
    size_t element_bytes;
    bool recompute;  /* forward for the second time, for backward */
    bool accumulate; /* add to the group's gradients */
    float loss_scale, gradient_scale;
};

/* ---- stage_turn.c: pieces that several layers share; weights and biases are named as in gpt/layout.h ---- */

void *turn_param(const struct turn *t, const char *name);
void *turn_grad(const struct turn *t, const char *name);
struct gpt_dropout turn_dropout(const struct turn *t);

/* [rows, columns] of the model's dtype. */
dt_status turn_allocate(const struct turn *t, enum dt_category category, size_t columns, struct dt_buffer *out);
/* Move a buffer: the stash's residual stream becomes what a layer keeps, and so on. */
void turn_take(struct dt_buffer *to, struct dt_buffer *from);
/* What a simulated framework keeps of this layer on top. Goes when the layer's own buffers go. */
dt_status turn_keep_framework(const struct turn *t);

/* The stash's x [M, d] becomes kept->input, with room for the norm's mean and rstd. */
dt_status turn_keep_norm_input(const struct turn *t);
void turn_free_norm_input(const struct turn *t);
/* normed [M, d] = norm(kept->input). Backward calls it again: the output of a norm is cheaper to make twice than to keep. */
dt_status turn_norm(const struct turn *t, void *normed);
/* dy [M, d] through the norm: added to dx [M, d], or instead of what is there. */
dt_status turn_norm_gradient(const struct turn *t, const void *dy, void *dx, bool overwrite);

/* y [M, out] = x [M, in] * weight [out, in] + bias [out], which may be NULL; and its gradients. */
dt_status turn_linear(const struct turn *t, void *y, const void *x, const char *weight, const char *bias, size_t out, size_t in);
dt_status turn_linear_gradients(const struct turn *t, const void *dy, const void *x, const char *weight, const char *bias, size_t out,
                                size_t in);
dt_status turn_linear_input_gradient(const struct turn *t, void *dx, const void *dy, const char *weight, size_t out, size_t in);

/* ---- stage_blocks.c: the residual stream is the stash's x and dx [M, d] ---- */

dt_status turn_embedding_forward(const struct turn *t);
dt_status turn_embedding_backward(const struct turn *t);
dt_status turn_attention_forward(const struct turn *t);
dt_status turn_attention_backward(const struct turn *t);
dt_status turn_mlp_up_forward(const struct turn *t);
dt_status turn_mlp_up_backward(const struct turn *t);
dt_status turn_mlp_down_forward(const struct turn *t);
dt_status turn_mlp_down_backward(const struct turn *t); /* leaves the gradient of mlp_up's output in the stash's dh */

/* ---- stage_head.c ---- */

dt_status turn_final_norm_forward(const struct turn *t);
dt_status turn_final_norm_backward(const struct turn *t);
dt_status turn_head_forward(const struct turn *t); /* the loss with it, which turns the logits into their gradient */
dt_status turn_head_backward(const struct turn *t);
/* All of the head's work on pieces of the rows: x [M, d] is its input, dx [M, d] gets that one's gradient. */
dt_status turn_head_in_pieces(const struct turn *t, const struct dt_buffer *x, const struct dt_buffer *dx, size_t piece_rows);

#endif

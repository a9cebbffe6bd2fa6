/* One layer's forward and backward, and what it keeps in between. Inside gpt only: stage.c runs groups of layers with it.
 *
 * Everything is queued on the run's stream. Errors: DT_ERR_OOM for memory, and what kernels and streams report; the stash then contains what
 * had been allocated, for stash_destroy. */
#ifndef GPT_LAYERS_H
#define GPT_LAYERS_H

#include "gpt/kernel_set.h"
#include "gpt/layout.h"

/* A run of the model's layers on one rank (gpt/stage.h). */
struct gpt_stage {
    struct dt_stage base;
    struct gpt_layer *layers; /* [layer_count] */
    int layer_count;
    uint64_t seed;
    bool sum_loss;        /* the study's plain sum of logits */
    bool attention_again; /* forward keeps q, k and v of attention alone, and backward computes the rest again */
};

/* Each layer owns the buffer it read, so that the residual stream is kept once. M rows, the model's dtype unless said otherwise. */
struct dt_layer_stash {
    struct dt_buffer input;      /* [M, d] read by the layer's norm (attention, mlp_up, final_norm) or product (head) */
    struct dt_buffer mean, rstd; /* [M] fp32 of that norm */
    struct dt_buffer qkv;        /* [M, 3d] attention */
    struct dt_buffer mixed;      /* [M, d] attention: the heads' outputs, before the projection */
    struct dt_buffer lse;        /* [samples, heads, T] fp32, fused attention */
    struct dt_buffer weights;    /* [samples, heads, T, T], unfused attention */
    struct dt_buffer hidden;     /* [M, 4d] mlp_up: before GELU */
    struct dt_buffer framework;  /* attention, mlp_up, head: what a simulated framework keeps beside all this; nobody reads it */
    struct dt_buffer logits;     /* [M, V] head: the loss has turned them into their gradient */

    /* Gradients between the two halves of backward; there for a moment where it is one. */
    struct dt_buffer dout;    /* [M, d] embedding: of its output */
    struct dt_buffer dbranch; /* [M, d] attention, mlp_down: of the branch's last product, behind its dropout */
    struct dt_buffer dqkv;    /* [M, 3d] attention */
    struct dt_buffer dhidden; /* [M, 4d] mlp_up: of hidden; mlp_down's backward computes it */
};

/* A layer in one pass: what its forward and backward need, in short names. */
struct layer_run {
    struct gpt_stage *stage;
    const struct dt_group *group;
    const struct gpt_layer *layer;
    struct dt_layer_stash *kept; /* mlp_up's lies one before mlp_down's: both are always in the same stage */
    struct dt_stash *stash;
    struct dt_stream *stream;
    const struct gpt_kernel_table *k;
    struct gpt_kernels *kernels;
    size_t rows, d; /* M = samples * T */
    size_t element_bytes;
    bool recompute;        /* forward for the second time, for backward */
    enum dt_backward part; /* backward: which half, or all of it */
    bool accumulate;       /* add to the group's gradients */
    struct dt_loss_scales scales;
};

/* By enum gpt_layer_kind. The residual stream is the stash's x and dx [M, d]. The head's forward computes the loss with it, which turns the
 * logits into their gradient. */
extern const struct layer_passes {
    dt_status (*forward)(const struct layer_run *r);
    dt_status (*backward)(const struct layer_run *r);
} layer_passes[];

/* All of the head's work on pieces of the rows: x [M, d] is its input, dx [M, d] gets that one's gradient. */
dt_status layer_head_in_pieces(const struct layer_run *r, const struct dt_buffer *x, const struct dt_buffer *dx, size_t piece_rows);

#endif

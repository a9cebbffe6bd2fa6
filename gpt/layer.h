/* Forward and backward of one layer, and the buffers that it keeps in between. Inside gpt only:
 * stage.c runs groups of layers with it.
 *
 * If the N ranks of a tensor group share the layers, each computes 1/N of attention and MLP. For
 * products of which every rank has some output features (q k v, mlp_up, head), each rank reads all
 * M rows. For products of which it has some input features (projection, mlp_down), each rank makes
 * a summand of all M rows. Between the two the residual stream is whole on every rank, and the
 * summands are all-reduced: once forward and once backward for attention, and the same for the MLP.
 * With sequence parallelism each rank has R = M / N rows of the residual stream: products read rows
 * gathered from all ranks, and sums are scattered to the ranks.
 * Source  Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation
 *         Recomputation in Large Transformer Models", 2022, section 4.2: gathered rows are gathered
 *         again for backward instead of kept.
 * Differs: rows are divided in their order in memory, sample after sample, so that no collective
 * moves rows. Megatron has the positions outermost, and divides these. Operations on rows here
 * treat each row alone.
 *
 * If a context group shares samples, M counts only this rank's positions; only attention reads
 * those of other ranks (attend.h).
 *
 * Everything is queued on the run's stream. Errors: DT_ERR_OOM for memory, and those of kernels and
 * streams. The stash then contains what has been allocated, for dt_stash_destroy. */
#pragma once

#include "gpt/kernel_set.h"
#include "gpt/layout.h"
#include "lib/model/exchange.h"

/* A range of the model's layers on one rank (gpt/stage.h). */
struct gpt_stage {
    struct dt_stage base;
    struct gpt_layer *layers;   /* [base.layer_count] */
    struct gpt_cut cut;         /* the part of each layer */
    struct gpt_positions where; /* this rank's positions of each sample: all, or a part if ranks share samples (struct dt_context_group) */
    bool sliced;                /* sequence parallelism: R = M / cut.size rows of the residual stream; else R = M */
    struct dt_exchange exchange;
};

/* Each layer owns the buffer that it read, so that the residual stream is kept once. The model's
 * dtype unless stated otherwise. e = d / N, if N ranks share a layer; H and V are this rank's heads
 * and rows of the vocabulary; c, u and f are this rank's columns of q, k and v together, of
 * mlp_up's output and of mlp_down's input. */
struct dt_layer_stash {
    struct dt_buffer input;      /* [R, d] read by the layer's norm (attention, mlp_up, final_norm) or product (head) */
    struct dt_buffer mean, rstd; /* [R] fp32 of that norm; only a layer norm has a mean */
    struct dt_buffer normed;     /* [R, d] output of that norm: with DT_KEEP_NORMS, and between the norm and the product that reads it */
    struct dt_buffer raw;        /* [M, c] attention with norms of q and k: their input */
    struct dt_buffer qkv;        /* [M, c] attention: its input, after norms and rope */
    struct dt_buffer mixed;      /* [M, e] attention: the heads' outputs, before the projection */
    struct dt_buffer attended;   /* [M, e] attention, if ranks exchange heads for positions: the outputs of some heads at all positions */
    struct dt_buffer lse;        /* [samples, H, T] fp32, fused attention */
    struct dt_buffer weights;    /* [samples, H, T, T], unfused attention */
    struct dt_buffer hidden;     /* [M, u] mlp_up: before GELU; gate | up; only gate [M, f] if products are recomputed */
    struct dt_buffer raised;     /* [M, f] mlp_up: up, if it is separate from gate */
    struct dt_buffer active;     /* [M, f] mlp_down: the input of its product; kept with DT_KEEP_MLP */
    struct dt_buffer besides;    /* kept by the kernels in addition (besides_bytes of their table); opaque */
    struct dt_buffer logits;     /* [M, V] head: the loss replaces them by their gradient */

    /* Gradients between the two halves of backward; short-lived if backward is whole. */
    struct dt_buffer dout;    /* [R, d] embedding: gradient of its output */
    struct dt_buffer dbranch; /* [M, d] attention, mlp_down: gradient of the branch's last product, after its dropout */
    struct dt_buffer dqkv;    /* [M, c] attention */
    struct dt_buffer dhidden; /* [M, u] mlp_up: gradient of hidden, which mlp_down's backward computes */
    struct dt_buffer
        dnorm; /* [2d], without bias [d]: the norm's gradients from this rank's rows; added to the sum at the end of the group */

    /* Flags come after all buffers (stash_buffers of the family). */
    bool rectified;   /* mlp_up: hidden is relu's output, computed by the product */
    bool bias_summed; /* mlp_up: mlp_down's backward has computed the gradient of its bias */
    bool sum_is_left; /* mlp_down: stash->x contains only its branch; the norm after it adds the residual */
    bool activated;   /* mlp_down: mlp_up's forward has computed `active` */
};

/* Variables that a layer's forward and backward use often. */
struct layer_run {
    struct gpt_stage *stage;
    const struct dt_group *group;
    const struct gpt_layer *layer;
    struct dt_layer_stash *kept; /* that of mlp_up is one before that of mlp_down: both are always in the same stage */
    struct dt_stash *stash;
    struct dt_stream *stream;
    const struct gpt_kernel_table *k;
    struct gpt_kernels *kernels;
    size_t rows, stream_rows; /* M = samples * positions, and R */
    size_t d, e;              /* e = d / N: this rank's part of d output or input features */
    size_t c, u, f;
    size_t element_bytes;
    bool recompute;        /* forward is repeated for backward */
    enum dt_backward part; /* backward: which half, or both */
    bool accumulate;       /* add to the group's gradients */
    struct dt_loss_scales scales;
};

/* ---- the kinds of layers: each in the file of its name; final_norm and loss are in head.c ----
 *
 * The residual stream is the stash's x and dx [R, d]. The head's forward computes the loss, too,
 * which replaces the logits by their gradient. */
dt_status layer_embedding_forward(const struct layer_run *r);
dt_status layer_embedding_backward(const struct layer_run *r);
dt_status layer_attention_forward(const struct layer_run *r);
dt_status layer_attention_backward(const struct layer_run *r);
dt_status layer_mlp_up_forward(const struct layer_run *r);
dt_status layer_mlp_up_backward(const struct layer_run *r);
dt_status layer_mlp_down_forward(const struct layer_run *r);
dt_status layer_mlp_down_backward(const struct layer_run *r);
dt_status layer_final_norm_forward(const struct layer_run *r);
dt_status layer_final_norm_backward(const struct layer_run *r);
dt_status layer_head_forward(const struct layer_run *r);
dt_status layer_head_backward(const struct layer_run *r);

/* The head's forward and backward, on pieces of the M rows, from the stash's x to its dx. */
dt_status layer_head_in_pieces(const struct layer_run *r, size_t piece_rows);

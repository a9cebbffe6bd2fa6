/* One layer's forward and backward, and what it keeps in between. Inside gpt only: stage.c runs groups of layers with it.
 *
 * Where a tensor group of N ranks shares the layers, each computes N-th parts of attention and MLP. A product of which every rank has some
 * output features (q k v, mlp_up, head) reads all M rows; of one of which it has some input features (projection, mlp_down) every rank has
 * a summand of all M rows. Between the two the residual stream is whole on every rank, and what is summed up is all-reduced: once forward
 * and once backward for attention, and for the MLP. With sequence parallelism each rank has R = M / N rows of the residual stream:
 * products read rows gathered from all ranks, and sums are scattered to them.
 * Source  Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
 *         Models", 2022, section 4.2: gathered rows are gathered again for backward instead of kept.
 * Differs rows are divided in the order in which they lie in memory, sample after sample, so that no collective moves rows around:
 *         Megatron has the positions outermost, and divides these. What is done to rows here looks at one alone.
 *
 * Where a context group shares samples, M is of this rank's positions; attention alone knows of the others (attend.h).
 *
 * Everything is queued on the run's stream. Errors: DT_ERR_OOM for memory, and what kernels and streams report; the stash then contains what
 * had been allocated, for dt_stash_destroy. */
#ifndef GPT_LAYER_H
#define GPT_LAYER_H

#include "gpt/exchange.h"
#include "gpt/kernel_set.h"
#include "gpt/layout.h"

/* A run of the model's layers on one rank (gpt/stage.h). */
struct gpt_stage {
    struct dt_stage base;
    struct gpt_layer *layers;   /* [base.layer_count] */
    struct gpt_cut cut;         /* the part of each layer */
    struct gpt_positions where; /* of each sample on this rank: all; where ranks share them (struct dt_context_group), its part of them */
    bool sliced;                /* sequence parallelism: R = M / cut.size rows of the residual stream; else R = M */
    struct gpt_exchange exchange;
};

/* Each layer owns the buffer it read, so that the residual stream is kept once. The model's dtype unless said otherwise; e = d / N, where N
 * ranks share a layer, and H and V are this rank's heads and rows of the vocabulary. c, u and f are this rank's columns of q, k and v
 * together, of mlp_up's product and of what mlp_down reads. */
struct dt_layer_stash {
    struct dt_buffer input;      /* [R, d] read by the layer's norm (attention, mlp_up, final_norm) or product (head) */
    struct dt_buffer mean, rstd; /* [R] fp32 of that norm; mean: of a layer norm */
    struct dt_buffer normed;     /* [R, d] that norm's output: with DT_KEEP_NORMS, and between the norm and the product that reads it */
    struct dt_buffer raw;        /* [M, c] attention with norms of q and k: what these read */
    struct dt_buffer qkv;        /* [M, c] attention, as it is attended to: normed and turned */
    struct dt_buffer mixed;      /* [M, e] attention: the heads' outputs, before the projection */
    struct dt_buffer attended;   /* [M, e] the same, of all positions and some heads, where ranks exchange the one for the other */
    struct dt_buffer lse;        /* [samples, H, T] fp32, fused attention */
    struct dt_buffer weights;    /* [samples, H, T, T], unfused attention */
    struct dt_buffer hidden;     /* [M, u] mlp_up: before GELU; gate | up; gate [M, f] alone where products are computed again */
    struct dt_buffer raised;     /* [M, f] mlp_up: up, if it is separate from gate */
    struct dt_buffer active;     /* [M, f] mlp_down: what its product reads; kept with DT_KEEP_MLP */
    struct dt_buffer besides;    /* what the kernels keep in addition (besides_bytes of their table); opaque */
    struct dt_buffer logits;     /* [M, V] head: the loss has turned them into their gradient */

    /* Gradients between the two halves of backward; there for a moment where it is one. */
    struct dt_buffer dout;    /* [R, d] embedding: of its output */
    struct dt_buffer dbranch; /* [M, d] attention, mlp_down: of the branch's last product, after its dropout */
    struct dt_buffer dqkv;    /* [M, c] attention */
    struct dt_buffer dhidden; /* [M, u] mlp_up: of hidden; mlp_down's backward computes it */
    struct dt_buffer
        dnorm; /* [2d], without bias [d]: this rank's rows' part of the norm's gradients, added to the sum when the group ends */

    /* Flags come after all buffers (stash_buffers of the family). */
    bool rectified;   /* mlp_up: hidden is relu's output, as the product has made it */
    bool bias_summed; /* mlp_up: mlp_down's backward has made the gradient of its bias */
    bool sum_is_left; /* mlp_down: stash->x is its branch alone, and the norm after it adds the residual */
    bool activated;   /* mlp_down: mlp_up's forward has made `active` */
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
    size_t rows, stream_rows; /* M = samples * positions, and R */
    size_t d, e;              /* e = d / N: what this rank has of d output or input features */
    size_t c, u, f;
    size_t element_bytes;
    bool recompute;        /* forward for the second time, for backward */
    enum dt_backward part; /* backward: which half, or all of it */
    bool accumulate;       /* add to the group's gradients */
    struct dt_loss_scales scales;
};

/* ---- each kind of layer: in the file of its name; final_norm and loss are in head.c ----
 *
 * The residual stream is the stash's x and dx [R, d]. The head's forward computes the loss with it, which turns the logits into their
 * gradient. */
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

/* All of the head's work on pieces of the M rows, from the stash's x to its dx. */
dt_status layer_head_in_pieces(const struct layer_run *r, size_t piece_rows);

#endif

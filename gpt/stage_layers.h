/* What one layer keeps from forward to backward: shared by stage.c (passes) and stage_setup.c. */
#ifndef GPT_STAGE_LAYERS_H
#define GPT_STAGE_LAYERS_H

#include "lib/device.h"

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

#endif

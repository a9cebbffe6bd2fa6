/* The kernels of gpt/kernels.h by name, for profiles and measurements. Behind each: what its passes and shapes count. */
#ifndef GPT_KERNEL_KIND_H
#define GPT_KERNEL_KIND_H

enum gpt_kernel_kind {
    GPT_KERNEL_EMBEDDING,              /* rows x d */
    GPT_KERNEL_EMBEDDING_GRADIENT,     /* rows x d; weight_passes: elements of both tables */
    GPT_KERNEL_LAYER_NORM,             /* rows x d */
    GPT_KERNEL_LAYER_NORM_GRADIENT,    /* rows x d */
    GPT_KERNEL_LINEAR,                 /* rows x out, beside the product itself */
    GPT_KERNEL_LINEAR_INPUT_GRADIENT,  /* rows x in, likewise */
    GPT_KERNEL_LINEAR_WEIGHT_GRADIENT, /* rows x out, likewise; weight_passes: out x in */
    GPT_KERNEL_GELU,                   /* rows x 4d */
    GPT_KERNEL_GELU_GRADIENT,          /* rows x 4d */
    GPT_KERNEL_ATTENTION,              /* rows x d; square_passes: samples x heads x T x T, unfused only */
    GPT_KERNEL_ATTENTION_GRADIENT,     /* the same */
    GPT_KERNEL_DROPOUT_RESIDUAL,       /* rows x d */
    GPT_KERNEL_DROPOUT_GRADIENT,       /* rows x d */
    GPT_KERNEL_LOSS,                   /* rows x V */
    GPT_KERNEL_SGD,                    /* parameters */
    GPT_KERNEL_ADAM,                   /* parameters; the fp32 state is counted by gpt/cost/cost.c */
    GPT_KERNEL_ADD,                    /* elements */
    GPT_KERNEL_COUNT
};

/* "layer_norm_gradient": the key under "kernels". */
const char *gpt_kernel_kind_name(enum gpt_kernel_kind kind);

#endif

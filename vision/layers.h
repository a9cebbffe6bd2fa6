/* A layer as a graph: what is computed from what, with which parameters.
 *
 * The layers are the pieces that partitions and groups are made of: the stem, each residual block with its skip connection, the head. A node
 * makes one tensor [samples, height, width, channels] from those of nodes before it. A layer's parameters are consecutive, without padding,
 * in the order of its nodes; a convolution's weights are [output channels, kernel, kernel, input channels].
 *
 * With an auxiliary head its class scores, which are few, are made in the last block of conv4_x and travel with what the later blocks
 * compute ("carried"): a boundary is the channels' tensor, and after it that of the carried scores. So the loss is the last layer's alone. */
#ifndef VISION_LAYERS_H
#define VISION_LAYERS_H

#include "vision/model.h"

enum vision_op {
    VISION_INPUT,     /* what the layer reads */
    VISION_CARRIED,   /* what travels with it */
    VISION_CONV,      /* of inputs[0]; `bias` */
    VISION_NORM,      /* batch normalisation of inputs[0], plus inputs[1] where there is one; then `relu` */
    VISION_MAX_POOL,  /* of inputs[0] */
    VISION_MEAN_POOL, /* of all positions */
    VISION_RESIZE,    /* bilinear, to this node's height and width */
    VISION_JOIN,      /* the channels of all inputs, one after the other */
    VISION_DROPOUT,   /* with `probability` */
    VISION_PASS,      /* inputs[0] leaves the layer with its output, as what is carried */
    VISION_LOSS,      /* cross-entropy of inputs[0] times `weight`; makes nothing but its gradient, in place */
};

struct vision_shape {
    int channels, height, width;
};

/* A window that moves over an image: of a convolution, or a pooling. */
struct vision_window {
    int kernel, stride, padding, dilation;
};

enum { VISION_MOST_INPUTS = 5, VISION_MOST_NODES = 32, VISION_MOST_TENSORS = 32 };

struct vision_node {
    enum vision_op op;
    int inputs[VISION_MOST_INPUTS], input_count; /* nodes of the layer */
    struct vision_shape shape;                   /* of what it makes */
    struct vision_window window;
    bool bias, relu;
    float probability, weight;
    int number;        /* of a dropout in the model */
    size_t first_elem; /* of its parameters in the layer: weight and bias, or gain and bias */
    size_t state_elem; /* of a norm's running mean and variance in the layer's state */
};

enum vision_init { VISION_INIT_NORMAL, VISION_INIT_UNIFORM, VISION_INIT_ZERO, VISION_INIT_ONE };

struct vision_tensor {
    size_t first_elem, count; /* in the layer */
    enum vision_init init;
    float scale; /* standard deviation, or the bound of [-scale, scale) */
    uint32_t id; /* the random stream of its elements: the layer's index * VISION_MOST_TENSORS + its place in the layer */
};

struct vision_layer {
    int index; /* in the whole model, 0 for the stem */
    int block; /* -1: stem or head */
    struct vision_node nodes[VISION_MOST_NODES];
    int node_count;
    int output;                                  /* the node that leaves it; -1: none does, it has the loss */
    struct vision_shape carried_in, carried_out; /* what travels with its input, and with its output; no channels: nothing */
    struct vision_tensor tensors[VISION_MOST_TENSORS];
    int tensor_count;
    size_t param_elems, state_elems;
};

static inline size_t vision_shape_elems(struct vision_shape s)
{
    return (size_t)s.channels * (size_t)s.height * (size_t)s.width;
}

/* 1 + blocks + 1 */
int vision_layer_count(const struct dt_model *model);
/* The stem; and the layer after `layer`, which reads what that one makes. Whoever wants the last walks past all. */
void vision_first_layer(const struct dt_model *model, struct vision_layer *out);
void vision_next_layer(const struct dt_model *model, struct vision_layer *layer);
/* Elements of a sample where a layer begins, and ends, with what is carried; 0 at the end of the last one. */
size_t vision_input_elems(const struct vision_layer *layer);
size_t vision_output_elems(const struct vision_layer *layer);
/* Elements of a convolution's weight. */
size_t vision_weight_elems(const struct vision_layer *layer, const struct vision_node *node);
/* Forward, of a sample: multiply-adds counted as 2, of the convolutions and the linear layer (a convolution of one position). */
int64_t vision_layer_flops(const struct vision_layer *layer);

#endif

/* A layer as a graph: its nodes, what they read, and their parameters.
 *
 * Partitions and groups consist of whole layers: the stem, each residual block with its skip
 * connection, the head. A node makes one tensor [samples, height, width, channels] from the tensors
 * of nodes before it. A layer's parameters are consecutive, without padding, in the order of its
 * nodes; a convolution's weights are [output channels, kernel, kernel, input channels].
 *
 * An auxiliary head makes its class scores, which are small, in the last block of conv4_x. The
 * later blocks carry them to the last layer, which has the whole loss: the tensor at a boundary is
 * the layer's output, followed by the carried scores. */
#pragma once

#include "vision/model.h"

enum vision_op {
    VISION_INPUT,     /* the layer's input */
    VISION_CARRIED,   /* the carried tensor */
    VISION_CONV,      /* convolution of inputs[0]; with `bias` */
    VISION_NORM,      /* batch normalisation of inputs[0], plus inputs[1] if there is one; then ReLU if `relu` */
    VISION_MAX_POOL,  /* of inputs[0] */
    VISION_MEAN_POOL, /* mean over all positions */
    VISION_RESIZE,    /* bilinear, to this node's height and width */
    VISION_JOIN,      /* the channels of all inputs, concatenated */
    VISION_DROPOUT,   /* with `probability` */
    VISION_PASS,      /* inputs[0] leaves the layer as the carried tensor */
    VISION_LOSS,      /* cross-entropy of inputs[0] times `weight`; its only output is the gradient, in place */
};

struct vision_shape {
    int channels, height, width;
};

/* A sliding window of a convolution or of pooling. */
struct vision_window {
    int kernel, stride, padding, dilation;
};

enum { VISION_MOST_INPUTS = 5, VISION_MOST_NODES = 32, VISION_MOST_TENSORS = 32 };

struct vision_node {
    enum vision_op op;
    int inputs[VISION_MOST_INPUTS], input_count; /* nodes of the layer */
    struct vision_shape shape;                   /* of the node's output */
    struct vision_window window;
    bool bias, relu;
    float probability, weight;
    int number;        /* number of a dropout within the model */
    size_t first_elem; /* place of its parameters in the layer: weight and bias, or gain and bias */
    size_t state_elem; /* place of a norm's running mean and variance in the layer's state */
};

struct vision_tensor {
    size_t first_elem, count; /* in the layer */
    enum dt_init init;        /* as in struct dt_initial */
    float scale;
    uint32_t id; /* selects the random numbers of its elements: the layer's index * VISION_MOST_TENSORS + its place in the layer */
};

struct vision_layer {
    int index; /* in the whole model, 0 for the stem */
    int block; /* -1: this is the stem or the head */
    struct vision_node nodes[VISION_MOST_NODES];
    int node_count;
    int output;                                  /* the node whose tensor leaves the layer; -1: none, this layer has the loss */
    struct vision_shape carried_in, carried_out; /* the carried tensor with its input, and with its output; no channels: none */
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
/* Layer `index` of the model; 0 is the stem. */
void vision_describe_layer(const struct dt_model *model, int index, struct vision_layer *out);
/* Elements of a sample at the beginning and at the end of a layer, with the carried tensor; 0 at
 * the end of the last layer. */
size_t vision_input_elems(const struct vision_layer *layer);
size_t vision_output_elems(const struct vision_layer *layer);
/* Elements of a convolution's weight. */
size_t vision_weight_elems(const struct vision_layer *layer, const struct vision_node *node);
/* Operations of forward for a sample: multiply-adds counted as 2, of the convolutions and of the
 * linear layer (a convolution of one position). */
int64_t vision_layer_flops(const struct vision_layer *layer);

#include "vision/layers.h"

#include <math.h>

/* ---- describing a layer ---- */

struct builder {
    const struct dt_model *model;
    struct vision_layer *layer;
    uint32_t dropouts; /* number of dropouts so far */
};

static struct vision_shape shape_of(const struct builder *b, int node)
{
    return b->layer->nodes[node].shape;
}

static int add(struct builder *b, struct vision_node node)
{
    b->layer->nodes[b->layer->node_count] = node;
    return b->layer->node_count++;
}

static void add_tensor(struct builder *b, size_t count, enum dt_init init, double scale)
{
    struct vision_layer *l = b->layer;
    l->tensors[l->tensor_count] = (struct vision_tensor){.first_elem = l->param_elems,
                                                         .count = count,
                                                         .init = init,
                                                         .scale = (float)scale,
                                                         .id = (uint32_t)(l->index * VISION_MOST_TENSORS + l->tensor_count)};
    l->tensor_count++;
    l->param_elems += count;
}

static int places(int size, struct vision_window w)
{
    return (size + 2 * w.padding - w.dilation * (w.kernel - 1) - 1) / w.stride + 1;
}

/* A square window that keeps the image's size if its stride is 1. */
static struct vision_window window_of(int kernel, int stride, int dilation)
{
    return (struct vision_window){kernel, stride, dilation * (kernel - 1) / 2, dilation};
}

/* Initial weights: in the backbone by He et al.'s rule over the outputs ("fan out"), in other
 * layers PyTorch's default, uniform up to the inverse square root of the number of inputs.
 * torchvision's modules do the same. */
static int conv(struct builder *b, int input, int channels, struct vision_window w, bool backbone, bool bias)
{
    struct vision_shape in = shape_of(b, input);
    size_t inputs = (size_t)(w.kernel * w.kernel * in.channels), outputs = (size_t)(w.kernel * w.kernel * channels);
    int node = add(b, (struct vision_node){.op = VISION_CONV,
                                           .inputs = {input},
                                           .input_count = 1,
                                           .shape = {channels, places(in.height, w), places(in.width, w)},
                                           .window = w,
                                           .bias = bias,
                                           .first_elem = b->layer->param_elems});
    if (backbone)
        add_tensor(b, (size_t)channels * inputs, DT_INIT_NORMAL, sqrt(2.0 / (double)outputs));
    else
        add_tensor(b, (size_t)channels * inputs, DT_INIT_UNIFORM, 1 / sqrt((double)inputs));
    if (bias)
        add_tensor(b, (size_t)channels, DT_INIT_UNIFORM, 1 / sqrt((double)inputs));
    return node;
}

/* residual: added before the ReLU; -1: none. */
static int norm(struct builder *b, int input, int residual, bool relu)
{
    size_t channels = (size_t)shape_of(b, input).channels;
    int node = add(b, (struct vision_node){.op = VISION_NORM,
                                           .inputs = {input, residual},
                                           .input_count = residual >= 0 ? 2 : 1,
                                           .shape = shape_of(b, input),
                                           .relu = relu,
                                           .first_elem = b->layer->param_elems,
                                           .state_elem = b->layer->state_elems});
    add_tensor(b, channels, DT_INIT_ONE, 0);
    add_tensor(b, channels, DT_INIT_ZERO, 0);
    b->layer->state_elems += 2 * channels;
    return node;
}

static int conv_norm_relu(struct builder *b, int input, int channels, struct vision_window w, bool backbone)
{
    return norm(b, conv(b, input, channels, w, backbone, false), -1, true);
}

static int resize(struct builder *b, int input, int height, int width)
{
    return add(b, (struct vision_node){
                      .op = VISION_RESIZE, .inputs = {input}, .input_count = 1, .shape = {shape_of(b, input).channels, height, width}});
}

static int mean_pool(struct builder *b, int input)
{
    return add(
        b, (struct vision_node){.op = VISION_MEAN_POOL, .inputs = {input}, .input_count = 1, .shape = {shape_of(b, input).channels, 1, 1}});
}

static int dropout(struct builder *b, int input, float probability)
{
    if (!vision_of(b->model)->head_dropout)
        return input;
    int number = b->layer->index * VISION_MOST_TENSORS + (int)b->dropouts++;
    return add(b, (struct vision_node){.op = VISION_DROPOUT,
                                       .inputs = {input},
                                       .input_count = 1,
                                       .shape = shape_of(b, input),
                                       .probability = probability,
                                       .number = number});
}

static void pass(struct builder *b, int input)
{
    add(b, (struct vision_node){.op = VISION_PASS, .inputs = {input}, .input_count = 1, .shape = shape_of(b, input)});
}

static void loss(struct builder *b, int input, double weight)
{
    add(b,
        (struct vision_node){.op = VISION_LOSS, .inputs = {input}, .input_count = 1, .shape = shape_of(b, input), .weight = (float)weight});
}

/* ---- the network's layers ---- */

static int input_node(struct builder *b, struct vision_shape shape)
{
    return add(b, (struct vision_node){.op = VISION_INPUT, .shape = shape});
}

/* The node of the carried tensor; -1: there is none. */
static int carried_node(struct builder *b)
{
    struct vision_shape shape = b->layer->carried_in;
    return shape.channels > 0 ? add(b, (struct vision_node){.op = VISION_CARRIED, .shape = shape}) : -1;
}

static void describe_stem(struct builder *b)
{
    int size = vision_of(b->model)->image_size;
    int image = input_node(b, (struct vision_shape){3, size, size});
    int first = conv_norm_relu(b, image, vision_of(b->model)->width, window_of(7, 2, 1), true);
    struct vision_window w = window_of(3, 2, 1);
    struct vision_shape in = shape_of(b, first);
    b->layer->output = add(b, (struct vision_node){.op = VISION_MAX_POOL,
                                                   .inputs = {first},
                                                   .input_count = 1,
                                                   .shape = {in.channels, places(in.height, w), places(in.width, w)},
                                                   .window = w});
}

/* The place of a block, and its effect on the image's size: its output has `size` rows and columns.
 * Of the stem (block -1) only the size is known. */
struct place {
    int stage, block_of_stage;
    int stride, dilation, size;
};

/* A stage whose stride would exceed the output stride keeps the size instead, and dilates its
 * windows twice as much as the stage before. Its first block is dilated as much as that stage. */
static struct place place_of(const struct dt_model *model, int block)
{
    const struct vision_model *m = vision_of(model);
    struct place p = {.block_of_stage = block, .stride = 1, .dilation = 1, .size = m->image_size};
    int total = 4, dilation = 1; /* after the stem */
    p.size = places(places(p.size, window_of(7, 2, 1)), window_of(3, 2, 1));
    for (p.stage = 0; block >= 0 && p.stage < VISION_STAGES; p.stage++) {
        int before = dilation, stride = p.stage > 0 ? 2 : 1;
        if (total * stride > m->output_stride) {
            dilation *= stride;
            stride = 1;
        }
        total *= stride;
        p.size = places(p.size, window_of(3, stride, 1));
        if (p.block_of_stage < m->blocks[p.stage]) {
            p.stride = p.block_of_stage == 0 ? stride : 1;
            p.dilation = p.block_of_stage == 0 ? before : dilation;
            return p;
        }
        p.block_of_stage -= m->blocks[p.stage];
    }
    return p;
}

/* The block's output. */
static struct vision_shape shape_after(const struct dt_model *model, int block)
{
    struct place p = place_of(model, block);
    int channels = vision_of(model)->width;
    return (struct vision_shape){block < 0 ? channels : (channels << p.stage) * vision_expansion(model), p.size, p.size};
}

/* The carried tensor: class scores, from the last block of conv4_x on. */
static struct vision_shape carried_after(const struct dt_model *model, int block)
{
    const struct vision_model *m = vision_of(model);
    int first = m->blocks[0] + m->blocks[1] + m->blocks[2] - 1, size = place_of(model, first).size;
    return m->auxiliary > 0 && block >= first ? (struct vision_shape){m->classes, size, size} : (struct vision_shape){0};
}

static int describe_branch(struct builder *b, int x, struct place p, int width, int channels)
{
    struct vision_window wide = window_of(3, p.stride, p.dilation);
    if (vision_of(b->model)->block == VISION_BASIC)
        return conv(b, conv_norm_relu(b, x, width, wide, true), width, window_of(3, 1, p.dilation), true, false);
    int narrow = conv_norm_relu(b, x, width, window_of(1, 1, 1), true);
    return conv(b, conv_norm_relu(b, narrow, width, wide, true), channels, window_of(1, 1, 1), true, false);
}

/* Class scores at the size of their input: a 3x3 convolution to a quarter of the channels, then
 * 1x1. */
static int describe_auxiliary(struct builder *b, int x)
{
    int narrow = conv_norm_relu(b, x, shape_of(b, x).channels / 4, window_of(3, 1, 1), false);
    return conv(b, dropout(b, narrow, 0.1f), vision_of(b->model)->classes, window_of(1, 1, 1), false, true);
}

static void describe_block(struct builder *b, struct vision_shape in)
{
    struct place p = place_of(b->model, b->layer->block);
    int width = vision_of(b->model)->width << p.stage, channels = width * vision_expansion(b->model);
    int x = input_node(b, in);
    int from_before = carried_node(b);
    int branch = describe_branch(b, x, p, width, channels), skip = x;
    if (in.channels != channels || p.stride > 1)
        skip = norm(b, conv(b, x, channels, window_of(1, p.stride, 1), true, false), -1, false);
    b->layer->output = norm(b, branch, skip, true);
    if (from_before >= 0)
        pass(b, from_before);
    else if (b->layer->carried_out.channels > 0)
        pass(b, describe_auxiliary(b, b->layer->output));
}

/* Atrous spatial pyramid pooling, and the convolutions that make scores of it. */
static int describe_pyramid(struct builder *b, int x)
{
    static const int dilations[] = {12, 24, 36}; /* for an output stride of 8, as in torchvision */
    struct vision_shape in = shape_of(b, x);
    int channels = vision_of(b->model)->head_channels;
    struct vision_node join = {.op = VISION_JOIN, .input_count = VISION_MOST_INPUTS, .shape = {5 * channels, in.height, in.width}};
    join.inputs[0] = conv_norm_relu(b, x, channels, window_of(1, 1, 1), false);
    for (int i = 0; i < 3; i++)
        join.inputs[1 + i] = conv_norm_relu(b, x, channels, window_of(3, 1, dilations[i]), false);
    join.inputs[4] = resize(b, conv_norm_relu(b, mean_pool(b, x), channels, window_of(1, 1, 1), false), in.height, in.width);
    int joined = dropout(b, conv_norm_relu(b, add(b, join), channels, window_of(1, 1, 1), false), 0.5f);
    int last = conv_norm_relu(b, joined, channels, window_of(3, 1, 1), false);
    return conv(b, last, vision_of(b->model)->classes, window_of(1, 1, 1), false, true);
}

static void describe_head(struct builder *b, struct vision_shape in)
{
    const struct vision_model *m = vision_of(b->model);
    int x = input_node(b, in);
    int scores = carried_node(b);
    b->layer->output = -1;
    if (m->head == VISION_CLASSIFIER) {
        loss(b, conv(b, mean_pool(b, x), m->classes, window_of(1, 1, 1), false, true), 1);
        return;
    }
    loss(b, resize(b, describe_pyramid(b, x), m->image_size, m->image_size), 1);
    if (scores >= 0)
        loss(b, resize(b, scores, m->image_size, m->image_size), m->auxiliary);
}

int vision_layer_count(const struct dt_model *model)
{
    return vision_block_count(model) + 2;
}

void vision_describe_layer(const struct dt_model *model, int index, struct vision_layer *out)
{
    bool head = index == vision_layer_count(model) - 1;
    int before = index - 2; /* the block before it; -1: the stem */
    struct builder b = {.model = model, .layer = out};
    *out = (struct vision_layer){.index = index, .block = head ? -1 : index - 1};
    if (index == 0) {
        describe_stem(&b);
        return;
    }
    out->carried_in = carried_after(model, before);
    if (head) {
        describe_head(&b, shape_after(model, before));
        return;
    }
    out->carried_out = carried_after(model, out->block);
    describe_block(&b, shape_after(model, before));
}

/* ---- sizes ---- */

size_t vision_input_elems(const struct vision_layer *layer)
{
    return vision_shape_elems(layer->nodes[0].shape) + vision_shape_elems(layer->carried_in);
}

size_t vision_output_elems(const struct vision_layer *layer)
{
    return layer->output < 0 ? 0 : vision_shape_elems(layer->nodes[layer->output].shape) + vision_shape_elems(layer->carried_out);
}

size_t vision_weight_elems(const struct vision_layer *layer, const struct vision_node *node)
{
    int inputs = layer->nodes[node->inputs[0]].shape.channels;
    return (size_t)node->shape.channels * (size_t)(node->window.kernel * node->window.kernel) * (size_t)inputs;
}

int64_t vision_layer_flops(const struct vision_layer *layer)
{
    int64_t flops = 0;
    for (const struct vision_node *n = layer->nodes; n < layer->nodes + layer->node_count; n++)
        if (n->op == VISION_CONV)
            flops += 2 * (int64_t)vision_weight_elems(layer, n) * n->shape.height * n->shape.width;
    return flops;
}

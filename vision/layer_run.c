/* One layer of one micro-batch: forward runs its nodes in order, backward in reverse.
 *
 * Forward keeps for backward what convolutions and norms read. Of a norm's output it keeps only the
 * input, from which backward computes it again in one pass over memory, unless DT_KEEP_NORMS is
 * set. The same applies to the outputs of layers, which end with a norm: the next layer's backward
 * computes every second one again, from what that layer and the one before it keep. All else is
 * freed after its last use. */
#include "vision/stage.h"

struct run {
    const struct vision_stage *stage;
    const struct vision_layer *layer;
    const struct dt_group *group;
    struct dt_stash *stash;
    struct dt_layer_stash *kept;
    struct vision_kernels *k;
    struct dt_exchange *exchange;
    struct dt_stream *stream;
    struct dt_loss_scales scales;
    enum dt_backward part;
    bool again; /* forward is repeated for backward */
};

static struct run run_of(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_stream *stream)
{
    struct vision_stage *s = (struct vision_stage *)stage;
    return (struct run){.stage = s,
                        .layer = &s->layers[g],
                        .group = &stage->groups[g],
                        .stash = stash,
                        .kept = &stash->layers[g],
                        .k = (struct vision_kernels *)stage->kernels,
                        .exchange = &s->exchange,
                        .stream = stream,
                        .part = DT_BACKWARD_WHOLE};
}

/* ---- nodes and their tensors ---- */

static const struct vision_node *node_of(const struct run *r, int n)
{
    return &r->layer->nodes[n];
}

static size_t node_elems(const struct run *r, int n)
{
    return r->stash->samples * vision_shape_elems(node_of(r, n)->shape);
}

static size_t element_bytes(const struct run *r)
{
    return dt_dtype_bytes(r->k->base.dtype);
}

/* Bytes of the node's buffer. At the beginning and the end of a layer it has room for the carried
 * tensor, after the node's own. */
static size_t node_bytes(const struct run *r, int n)
{
    size_t elems = node_elems(r, n);
    if (n == 0)
        elems = r->stash->samples * vision_input_elems(r->layer);
    else if (n == r->layer->output)
        elems = r->stash->samples * vision_output_elems(r->layer);
    return elems * element_bytes(r);
}

/* The carried tensor in the buffer of node n. */
static void *carried_in(const struct run *r, const struct dt_buffer *buffer, int n)
{
    return (char *)buffer->data + node_elems(r, n) * element_bytes(r);
}

static void *value(const struct run *r, int n)
{
    return node_of(r, n)->op == VISION_CARRIED ? carried_in(r, &r->kept->values[0], 0) : r->kept->values[n].data;
}

static void *param(const struct run *r, size_t elem)
{
    return (char *)r->group->params + elem * element_bytes(r);
}

static void *grad(const struct run *r, size_t elem)
{
    return (char *)r->group->grads + elem * element_bytes(r);
}

static struct vision_sliding sliding_of(const struct run *r, const struct vision_node *node)
{
    return (struct vision_sliding){r->stash->samples, node_of(r, node->inputs[0])->shape, node->shape, node->window};
}

static size_t positions_of(const struct vision_node *node)
{
    return (size_t)node->shape.height * (size_t)node->shape.width;
}

/* ---- tensors kept for backward ---- */

static bool reads(const struct vision_node *node, int n)
{
    bool found = false;
    for (int i = 0; i < node->input_count; i++)
        found |= node->inputs[i] == n;
    return found;
}

/* The last node that reads the output of node n, or the carried tensor in its buffer; n if there is
 * none. */
static int last_reader(const struct run *r, int n)
{
    int last = n;
    for (int i = n + 1; i < r->layer->node_count; i++) {
        bool carried = n == 0 && node_of(r, i)->op == VISION_CARRIED;
        int reader = carried ? last_reader(r, i) : reads(node_of(r, i), n) ? i : n;
        last = reader > last ? reader : last;
    }
    return last;
}

/* Whether group g's backward recomputes its input: then the layer before it keeps the input of its
 * last norm. That norm adds the input of its own layer, which is then kept, or another norm's
 * output. */
static bool input_is_made_again(const struct vision_stage *s, int g)
{
    if (g == 0 || !s->base.groups[g - 1].goes_on || s->base.keep & DT_KEEP_NORMS)
        return false;
    const struct vision_layer *before = &s->layers[g - 1];
    const struct vision_node *output = &before->nodes[before->output];
    return output->op == VISION_NORM && !(reads(output, 0) && input_is_made_again(s, g - 1));
}

/* A norm's residual is read again if the ReLU after it needs its sign. */
static bool is_kept(const struct run *r, int n)
{
    if (n == 0)
        return !input_is_made_again(r->stage, r->group->index);
    bool read = false;
    for (int i = n + 1; i < r->layer->node_count; i++) {
        const struct vision_node *node = node_of(r, i);
        read |= (node->op == VISION_CONV || node->op == VISION_NORM) && reads(node, n);
    }
    return read && (node_of(r, n)->op != VISION_NORM || r->stage->base.keep & DT_KEEP_NORMS);
}

static bool conv_reads(const struct run *r, int n)
{
    bool found = false;
    for (int i = n + 1; i < r->layer->node_count; i++)
        found |= node_of(r, i)->op == VISION_CONV && reads(node_of(r, i), n);
    return found;
}

/* ---- forward ---- */

static size_t group_samples(const struct run *r)
{
    int group = vision_of(r->stage->base.model)->norm_group;
    return group > 0 && (size_t)group < r->stash->samples ? (size_t)group : r->stash->samples;
}

static size_t statistics_elems(const struct run *r, const struct vision_node *node)
{
    size_t groups = (r->stash->samples + group_samples(r) - 1) / group_samples(r);
    return groups * (size_t)node->shape.channels;
}

/* A norm's running mean and variance; NULL if forward is repeated. */
static float *running_of(const struct run *r, const struct vision_node *node)
{
    float *all = r->stage->base.state.data;
    return r->again ? NULL : all + r->stage->state_first[r->group->index] + node->state_elem;
}

/* Whether the next group's backward computes the output of norm n again, or the residual that is
 * added to it. This group's parameters may not be in memory then, so the stash has a copy of the
 * norm's. */
static bool is_made_by_next(const struct run *r, int n)
{
    int output = r->layer->output, next = r->group->index + 1;
    return output >= 0 && (n == output || reads(node_of(r, output), n)) && next < r->stage->base.group_count &&
           input_is_made_again(r->stage, next);
}

/* mean and rstd [groups, channels] fp32; after them gain and bias [channels], if the stash has a
 * copy. */
static size_t statistics_bytes(const struct run *r, const struct vision_node *node)
{
    return 2 * statistics_elems(r, node) * sizeof(float);
}

static struct vision_norm_of norm_of(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    float *statistics = r->kept->besides[n].data;
    const char *gain = is_made_by_next(r, n) ? (const char *)statistics + statistics_bytes(r, node) : param(r, node->first_elem);
    return (struct vision_norm_of){.x = value(r, node->inputs[0]),
                                   .gain = gain,
                                   .bias = gain + (size_t)node->shape.channels * element_bytes(r),
                                   .residual = node->input_count > 1 ? value(r, node->inputs[1]) : NULL,
                                   .mean = statistics,
                                   .rstd = statistics + statistics_elems(r, node),
                                   .samples = r->stash->samples,
                                   .group = group_samples(r),
                                   .positions = positions_of(node),
                                   .channels = (size_t)node->shape.channels,
                                   .relu = node->relu};
}

/* Statistics over the samples of all ranks of a group: each rank computes those of its own samples,
 * all ranks gather them, and each combines them. */
static dt_status join_statistics(const struct run *r, const struct vision_norm_of *of, float *running)
{
    struct dt_comm *comm = r->exchange->group.comm;
    size_t ranks = (size_t)dt_comm_size(comm), rows = of->samples * of->positions, numbers = 2 * of->channels;
    struct dt_buffer all;
    DT_TRY(dt_alloc(r->stream, DT_COMMUNICATION, ranks * numbers * sizeof(float), &all));
    struct vision_moments own = {of->x, (float *)all.data + (size_t)dt_comm_rank(comm) * numbers, rows, of->channels};
    struct vision_join_moments join = {all.data, of->mean, of->rstd, running, ranks, rows, of->channels};
    DT_TRY(r->k->table->moments(r->k, r->stream, &own));
    DT_TRY(dt_all_gather_begin(r->exchange, comm, DT_EXCHANGE_SUM, r->stream, own.moments, all.data, numbers, DT_FP32));
    DT_TRY(dt_exchange_wait(r->exchange, DT_EXCHANGE_SUM));
    DT_TRY(r->k->table->join_moments(r->k, r->stream, &join));
    dt_free(r->stream, &all);
    return DT_OK;
}

static dt_status norm_forward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    size_t bytes = statistics_bytes(r, node), copied = is_made_by_next(r, n) ? 2 * (size_t)node->shape.channels * element_bytes(r) : 0;
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, bytes + copied, &r->kept->besides[n]));
    if (copied)
        DT_TRY(dt_copy(r->stream, (char *)r->kept->besides[n].data + bytes, param(r, node->first_elem), copied));
    struct vision_norm a = {.of = norm_of(r, n), .y = r->kept->values[n].data, .running = running_of(r, node)};
    if (r->exchange->group.comm) {
        a.part = VISION_NORM_APPLY;
        DT_TRY(join_statistics(r, &a.of, a.running));
    }
    return r->k->table->norm(r->k, r->stream, &a);
}

static dt_status conv_forward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    struct vision_convolution a = {.x = value(r, node->inputs[0]),
                                   .w = param(r, node->first_elem),
                                   .b = node->bias ? param(r, node->first_elem + vision_weight_elems(r->layer, node)) : NULL,
                                   .y = r->kept->values[n].data,
                                   .over = sliding_of(r, node)};
    return r->k->table->convolution(r->k, r->stream, &a);
}

static dt_status max_pool_forward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, node_elems(r, n), &r->kept->besides[n]));
    struct vision_max_pool a = {
        .x = value(r, node->inputs[0]), .y = r->kept->values[n].data, .places = r->kept->besides[n].data, .over = sliding_of(r, node)};
    return r->k->table->max_pool(r->k, r->stream, &a);
}

static struct vision_mean_pool mean_pool_of(const struct run *r, const struct vision_node *node, const void *from, void *to)
{
    const struct vision_node *in = node_of(r, node->inputs[0]);
    return (struct vision_mean_pool){from, to, r->stash->samples, positions_of(in), (size_t)in->shape.channels};
}

static struct vision_resize resize_of(const struct run *r, const struct vision_node *node, const void *from, void *to)
{
    return (struct vision_resize){from, to, r->stash->samples, node_of(r, node->inputs[0])->shape, node->shape};
}

static dt_status dropout(const struct run *r, const struct vision_node *node, const void *from, void *to)
{
    struct vision_dropout a = {.from = from,
                               .to = to,
                               .samples = r->stash->samples,
                               .positions = positions_of(node),
                               .channels = (size_t)node->shape.channels,
                               .seed = r->stage->base.seed,
                               .number = (uint32_t)node->number,
                               .first_sample = r->stash->first_sample,
                               .probability = node->probability};
    return r->k->table->dropout(r->k, r->stream, &a);
}

/* Copy the columns of input i of a join: from `part` to `whole`, or back. */
static dt_status copy_columns(const struct run *r, const struct vision_node *join, int i, void *whole, void *part, bool back)
{
    size_t before = 0, own = (size_t)node_of(r, join->inputs[i])->shape.channels, all = (size_t)join->shape.channels;
    for (int j = 0; j < i; j++)
        before += (size_t)node_of(r, join->inputs[j])->shape.channels;
    char *there = (char *)whole + before * element_bytes(r);
    struct vision_copy_columns a = {.from = back ? there : part,
                                    .to = back ? part : there,
                                    .rows = r->stash->samples * positions_of(join),
                                    .columns = own,
                                    .from_stride = back ? all : own,
                                    .to_stride = back ? own : all};
    return r->k->table->copy_columns(r->k, r->stream, &a);
}

static dt_status join_forward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    for (int i = 0; i < node->input_count; i++)
        DT_TRY(copy_columns(r, node, i, r->kept->values[n].data, value(r, node->inputs[i]), false));
    return DT_OK;
}

static dt_status pass_forward(const struct run *r, int n)
{
    int from = node_of(r, n)->inputs[0], output = r->layer->output;
    return dt_copy(r->stream, carried_in(r, &r->kept->values[output], output), value(r, from), node_elems(r, n) * element_bytes(r));
}

/* Compute the loss; scores become their gradient. */
static dt_status loss_forward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    struct vision_loss a = {.scores = value(r, node->inputs[0]),
                            .labels = r->stash->targets.data,
                            .loss = r->stage->base.loss.data,
                            .rows = r->stash->samples * positions_of(node),
                            .classes = (size_t)node->shape.channels,
                            .loss_scale = r->scales.loss * node->weight,
                            .gradient_scale = r->scales.gradient * node->weight,
                            .sum = r->stage->base.sum_loss};
    DT_TRY(r->k->table->loss(r->k, r->stream, &a));
    dt_buffer_move(&r->kept->gradients[node->inputs[0]], &r->kept->values[node->inputs[0]]);
    return DT_OK;
}

static dt_status node_forward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    const struct vision_kernel_table *table = r->k->table;
    if (node->op == VISION_INPUT || node->op == VISION_CARRIED)
        return DT_OK;
    if (node->op == VISION_PASS)
        return pass_forward(r, n);
    if (node->op == VISION_LOSS)
        return loss_forward(r, n);
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, node_bytes(r, n), &r->kept->values[n]));
    void *from = value(r, node->inputs[0]), *to = r->kept->values[n].data;
    struct vision_mean_pool mean = mean_pool_of(r, node, from, to);
    struct vision_resize resize = resize_of(r, node, from, to);
    switch (node->op) {
    case VISION_CONV: return conv_forward(r, n);
    case VISION_NORM: return norm_forward(r, n);
    case VISION_MAX_POOL: return max_pool_forward(r, n);
    case VISION_MEAN_POOL: return table->mean_pool(r->k, r->stream, &mean);
    case VISION_RESIZE: return table->resize(r->k, r->stream, &resize);
    case VISION_JOIN: return join_forward(r, n);
    case VISION_DROPOUT: return dropout(r, node, from, to);
    case VISION_INPUT:
    case VISION_CARRIED:
    case VISION_PASS:
    case VISION_LOSS: break;
    }
    return DT_OK;
}

static dt_status layer_forward(const struct run *r)
{
    int output = r->layer->output;
    dt_buffer_move(&r->kept->values[0], &r->stash->x);
    for (int n = 0; n < r->layer->node_count; n++) {
        DT_TRY(node_forward(r, n));
        for (int i = 0; i < n; i++)
            if (i != output && last_reader(r, i) == n && !is_kept(r, i))
                dt_free(r->stream, &r->kept->values[i]);
    }
    if (output >= 0)
        dt_buffer_move(&r->stash->x, &r->kept->values[output]);
    return DT_OK;
}

dt_status vision_forward(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_loss_scales scales, struct dt_stream *stream)
{
    struct run r = run_of(stage, g, stash, stream);
    r.scales = scales;
    return layer_forward(&r);
}

dt_status vision_recompute(struct dt_stage *stage, int g, struct dt_stash *stash, bool ends_here, struct dt_stream *stream)
{
    struct run r = run_of(stage, g, stash, stream);
    r.again = true;
    DT_TRY(layer_forward(&r));
    if (ends_here)
        dt_free(stream, &stash->x);
    return DT_OK;
}

/* ---- backward ---- */

static dt_status need(const struct run *r, int n);

/* Make the layer's input, which is the output of the layer before it, without the carried
 * tensor. */
static dt_status need_input(const struct run *r)
{
    struct run before = *r;
    before.layer--;
    before.group--;
    before.kept--;
    DT_TRY(need(&before, before.layer->output));
    dt_buffer_move(&r->kept->values[0], &before.kept->values[before.layer->output]);
    return DT_OK;
}

/* Compute the output of node n again, unless it exists. */
static dt_status need(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    if (r->kept->values[n].data)
        return DT_OK;
    if (n == 0 && input_is_made_again(r->stage, r->group->index))
        return need_input(r);
    if (node->op != VISION_NORM)
        return DT_OK;
    if (node->input_count > 1)
        DT_TRY(need(r, node->inputs[1]));
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, node_elems(r, n) * element_bytes(r), &r->kept->values[n]));
    struct vision_norm a = {.of = norm_of(r, n), .y = r->kept->values[n].data, .part = VISION_NORM_AGAIN};
    return r->k->table->norm(r->k, r->stream, &a);
}

/* The buffer becomes the gradient of node n's output, or is added to it. */
static dt_status give(const struct run *r, int n, struct dt_buffer *gradient)
{
    if (!r->kept->gradients[n].data) {
        dt_buffer_move(&r->kept->gradients[n], gradient);
        return DT_OK;
    }
    DT_TRY(dt_kernels_add(&r->k->base, r->stream, false, r->kept->gradients[n].data, gradient->data, node_elems(r, n)));
    dt_free(r->stream, gradient);
    return DT_OK;
}

/* The gradient of a group depends on the samples of all of its ranks: sum their sums. */
static dt_status join_gradient_sums(const struct run *r, struct vision_norm_gradient *a)
{
    struct dt_buffer sums;
    DT_TRY(dt_alloc(r->stream, DT_COMMUNICATION, 2 * a->of.channels * sizeof(float), &sums));
    a->sums = sums.data;
    a->ranks = (size_t)dt_comm_size(r->exchange->group.comm);
    DT_TRY(r->k->table->norm_gradient_sums(r->k, r->stream, a));
    DT_TRY(dt_all_reduce_begin(r->exchange, r->exchange->group.comm, DT_EXCHANGE_SUM, r->stream, a->sums, 2 * a->of.channels, DT_FP32));
    DT_TRY(dt_exchange_wait(r->exchange, DT_EXCHANGE_SUM));
    DT_TRY(r->k->table->norm_gradient(r->k, r->stream, a));
    dt_free(r->stream, &sums);
    return DT_OK;
}

static dt_status norm_backward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    struct dt_buffer dy, dx = {0};
    if (node->input_count > 1)
        DT_TRY(need(r, node->inputs[1]));
    if (node->input_count > 1)
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, node_elems(r, n) * element_bytes(r), &dx));
    dt_buffer_move(&dy, &r->kept->gradients[n]);
    struct vision_norm_gradient a = {.of = norm_of(r, n),
                                     .dy = dy.data,
                                     .dx = dx.data ? dx.data : dy.data,
                                     .dgain = grad(r, node->first_elem),
                                     .dbias = grad(r, node->first_elem + (size_t)node->shape.channels),
                                     .accumulate = r->group->accumulate};
    if (r->exchange->group.comm)
        DT_TRY(join_gradient_sums(r, &a));
    else
        DT_TRY(r->k->table->norm_gradient(r->k, r->stream, &a));
    DT_TRY(give(r, node->inputs[0], node->input_count > 1 ? &dx : &dy));
    return node->input_count > 1 ? give(r, node->inputs[1], &dy) : DT_OK;
}

static dt_status weight_gradient(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    struct vision_convolution_weight_gradient a = {
        .dy = r->kept->gradients[n].data,
        .x = value(r, node->inputs[0]),
        .dw = grad(r, node->first_elem),
        .db = node->bias ? grad(r, node->first_elem + vision_weight_elems(r->layer, node)) : NULL,
        .over = sliding_of(r, node),
        .accumulate = r->group->accumulate,
    };
    DT_TRY(r->k->table->convolution_weight_gradient(r->k, r->stream, &a));
    dt_free(r->stream, &r->kept->gradients[n]);
    return DT_OK;
}

/* Compute the input's gradient first if the weights' gradient is not part of this pass; the tensors
 * that this one reads are kept. */
static dt_status conv_backward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    struct dt_buffer dx;
    DT_TRY(need(r, node->inputs[0]));
    if (node->inputs[0] > 0 || r->layer->index > 0) { /* images have none */
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, node_bytes(r, node->inputs[0]), &dx));
        struct vision_convolution_input_gradient a = {
            .dy = r->kept->gradients[n].data, .w = param(r, node->first_elem), .dx = dx.data, .over = sliding_of(r, node)};
        DT_TRY(r->k->table->convolution_input_gradient(r->k, r->stream, &a));
        DT_TRY(give(r, node->inputs[0], &dx));
    }
    return r->part & DT_BACKWARD_WEIGHTS ? weight_gradient(r, n) : DT_OK;
}

/* Backward of a node that only moves, selects or scales: a kernel computes the gradient of its one
 * input from that of its output. */
static dt_status moved_backward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    struct dt_buffer dx;
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, node_bytes(r, node->inputs[0]), &dx));
    const void *dy = r->kept->gradients[n].data;
    struct vision_max_pool_gradient pool = {dy, r->kept->besides[n].data, dx.data, sliding_of(r, node)};
    struct vision_mean_pool mean = mean_pool_of(r, node, dy, dx.data);
    struct vision_resize resize = resize_of(r, node, dy, dx.data);
    dt_status status = DT_OK;
    if (node->op == VISION_MAX_POOL)
        status = r->k->table->max_pool_gradient(r->k, r->stream, &pool);
    else if (node->op == VISION_MEAN_POOL)
        status = r->k->table->mean_pool_gradient(r->k, r->stream, &mean);
    else if (node->op == VISION_RESIZE)
        status = r->k->table->resize_gradient(r->k, r->stream, &resize);
    else
        status = dropout(r, node, dy, dx.data);
    DT_TRY(status);
    dt_free(r->stream, &r->kept->gradients[n]);
    return give(r, node->inputs[0], &dx);
}

static dt_status join_backward(const struct run *r, int n)
{
    const struct vision_node *node = node_of(r, n);
    for (int i = 0; i < node->input_count; i++) {
        struct dt_buffer dx;
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, node_bytes(r, node->inputs[i]), &dx));
        DT_TRY(copy_columns(r, node, i, r->kept->gradients[n].data, dx.data, true));
        DT_TRY(give(r, node->inputs[i], &dx));
    }
    dt_free(r->stream, &r->kept->gradients[n]);
    return DT_OK;
}

static dt_status pass_backward(const struct run *r, int n)
{
    struct dt_buffer dx;
    int output = r->layer->output;
    size_t bytes = node_elems(r, n) * element_bytes(r);
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, bytes, &dx));
    DT_TRY(dt_copy(r->stream, dx.data, carried_in(r, &r->kept->gradients[output], output), bytes));
    return give(r, node_of(r, n)->inputs[0], &dx);
}

static dt_status node_backward(const struct run *r, int n)
{
    switch (node_of(r, n)->op) {
    case VISION_CONV: return conv_backward(r, n);
    case VISION_NORM: return norm_backward(r, n);
    case VISION_MAX_POOL:
    case VISION_MEAN_POOL:
    case VISION_RESIZE:
    case VISION_DROPOUT: return moved_backward(r, n);
    case VISION_JOIN: return join_backward(r, n);
    case VISION_PASS: return pass_backward(r, n);
    case VISION_INPUT:
    case VISION_CARRIED:
    case VISION_LOSS: break;
    }
    return DT_OK;
}

/* Copy the gradient of the carried tensor to its place after the other gradient. */
static dt_status join_carried(const struct run *r)
{
    for (int n = 1; n < r->layer->node_count; n++) {
        if (node_of(r, n)->op != VISION_CARRIED)
            continue;
        DT_TRY(
            dt_copy(r->stream, carried_in(r, &r->kept->gradients[0], 0), r->kept->gradients[n].data, node_elems(r, n) * element_bytes(r)));
        dt_free(r->stream, &r->kept->gradients[n]);
    }
    return DT_OK;
}

static dt_status inputs_backward(const struct run *r)
{
    bool weights_later = !(r->part & DT_BACKWARD_WEIGHTS);
    if (r->layer->output >= 0)
        dt_buffer_move(&r->kept->gradients[r->layer->output], &r->stash->dx);
    for (int n = r->layer->node_count - 1; n > 0; n--) {
        DT_TRY(node_backward(r, n));
        if (!weights_later || !conv_reads(r, n))
            dt_free(r->stream, &r->kept->values[n]);
        dt_free(r->stream, &r->kept->besides[n]);
    }
    DT_TRY(join_carried(r));
    if (!weights_later)
        dt_free(r->stream, &r->kept->values[0]);
    dt_buffer_move(&r->stash->dx, &r->kept->gradients[0]);
    return DT_OK;
}

static dt_status weights_backward(const struct run *r)
{
    for (int n = r->layer->node_count - 1; n > 0; n--)
        if (node_of(r, n)->op == VISION_CONV)
            DT_TRY(weight_gradient(r, n));
    for (int n = 0; n < r->layer->node_count; n++)
        dt_free(r->stream, &r->kept->values[n]);
    return DT_OK;
}

dt_status vision_backward(struct dt_stage *stage, int g, struct dt_stash *stash, enum dt_backward part, struct dt_stream *stream)
{
    struct run r = run_of(stage, g, stash, stream);
    r.part = part;
    return part & DT_BACKWARD_INPUT ? inputs_backward(&r) : weights_backward(&r);
}

#include "gpt/stage.h"
#include "gpt/stage_layers.h"

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

static size_t tensor_bytes(const struct turn *t, const char *name)
{
    size_t offset_elems = gpt_tensor_offset(t->layer, name);
    for (const struct gpt_layer *l = &t->stage->layers[t->group->first_layer]; l != t->layer; l++)
        offset_elems += l->param_elems;
    return offset_elems * t->element_bytes;
}

static void *param(const struct turn *t, const char *name)
{
    return (char *)t->group->params + tensor_bytes(t, name);
}

static void *grad(const struct turn *t, const char *name)
{
    return (char *)t->group->grads + tensor_bytes(t, name);
}

static struct gpt_dropout dropout(const struct turn *t)
{
    return (struct gpt_dropout){
        .seed = t->stage->seed,
        .layer = (uint32_t)t->layer->index,
        .first_sample = t->stash->first_sample,
        .probability = t->stage->model->dropout,
    };
}

static dt_status allocate(const struct turn *t, enum dt_category category, size_t columns, struct dt_buffer *out)
{
    return dt_alloc(t->stream, category, t->rows * columns * t->element_bytes, out);
}

/* Move a buffer: the stash's residual stream becomes what a layer keeps, and so on. */
static void take(struct dt_buffer *to, struct dt_buffer *from)
{
    *to = *from;
    *from = (struct dt_buffer){0};
}

/* What a simulated framework keeps of this layer on top. Goes when the layer's own buffers go. */
static dt_status keep_framework(const struct turn *t)
{
    size_t bytes = t->k->kept_bytes(t->stage->kernels, t->layer->kind, t->stash->samples);
    return dt_alloc(t->stream, DT_ACTIVATIONS, bytes, &t->kept->framework);
}

/* ---- pieces that several layers share ---- */

/* normed [M, d] = norm(kept->input). Backward calls it again: the output of a norm is cheaper to make twice than to keep. */
static dt_status norm(const struct turn *t, void *normed)
{
    struct gpt_layer_norm a = {
        .x = t->kept->input.data,
        .gain = param(t, "norm.gain"),
        .bias = param(t, "norm.bias"),
        .y = normed,
        .mean = t->kept->mean.data,
        .rstd = t->kept->rstd.data,
        .rows = t->rows,
        .d = t->d,
    };
    return t->k->layer_norm(t->stage->kernels, t->stream, &a);
}

static dt_status keep_norm_input(const struct turn *t)
{
    take(&t->kept->input, &t->stash->x);
    DT_TRY(dt_alloc(t->stream, DT_ACTIVATIONS, t->rows * sizeof(float), &t->kept->mean));
    return dt_alloc(t->stream, DT_ACTIVATIONS, t->rows * sizeof(float), &t->kept->rstd);
}

static void free_norm_input(const struct turn *t)
{
    dt_free(t->stream, &t->kept->input);
    dt_free(t->stream, &t->kept->mean);
    dt_free(t->stream, &t->kept->rstd);
}

static dt_status norm_gradient(const struct turn *t, const void *dy, void *dx, bool overwrite)
{
    struct gpt_layer_norm_gradient a = {
        .dy = dy,
        .x = t->kept->input.data,
        .gain = param(t, "norm.gain"),
        .mean = t->kept->mean.data,
        .rstd = t->kept->rstd.data,
        .dx = dx,
        .dgain = grad(t, "norm.gain"),
        .dbias = grad(t, "norm.bias"),
        .rows = t->rows,
        .d = t->d,
        .overwrite = overwrite,
        .accumulate = t->accumulate,
    };
    return t->k->layer_norm_gradient(t->stage->kernels, t->stream, &a);
}

static dt_status linear(const struct turn *t, void *y, const void *x, const char *weight, const char *bias, size_t out, size_t in)
{
    struct gpt_linear a = {.x = x, .w = param(t, weight), .b = bias ? param(t, bias) : NULL, .y = y, .rows = t->rows, .in = in, .out = out};
    return t->k->linear(t->stage->kernels, t->stream, &a);
}

static dt_status linear_gradients(const struct turn *t, const void *dy, const void *x, const char *weight, const char *bias, size_t out,
                                  size_t in)
{
    struct gpt_linear_weight_gradient a = {
        .dy = dy,
        .x = x,
        .dw = grad(t, weight),
        .db = bias ? grad(t, bias) : NULL,
        .rows = t->rows,
        .in = in,
        .out = out,
        .accumulate = t->accumulate,
    };
    return t->k->linear_weight_gradient(t->stage->kernels, t->stream, &a);
}

static dt_status linear_input_gradient(const struct turn *t, void *dx, const void *dy, const char *weight, size_t out, size_t in)
{
    struct gpt_linear_input_gradient a = {.dy = dy, .w = param(t, weight), .dx = dx, .rows = t->rows, .in = in, .out = out};
    return t->k->linear_input_gradient(t->stage->kernels, t->stream, &a);
}

/* stash->x [M, d] = residual + dropout(branch), where a product has just written the branch to stash->x itself. */
static dt_status add_residual(const struct turn *t, const void *residual)
{
    struct gpt_dropout_residual a = {
        .residual = residual, .branch = t->stash->x.data, .out = t->stash->x.data, .samples = t->stash->samples, .dropout = dropout(t)};
    return t->k->dropout_residual(t->stage->kernels, t->stream, &a);
}

/* dbranch [M, d], workspace: the residual stream's gradient through the branch's dropout. */
static dt_status branch_gradient(const struct turn *t, struct dt_buffer *dbranch)
{
    DT_TRY(allocate(t, DT_WORKSPACE, t->d, dbranch));
    struct gpt_dropout_gradient a = {
        .dout = t->stash->dx.data, .dbranch = dbranch->data, .samples = t->stash->samples, .dropout = dropout(t)};
    return t->k->dropout_gradient(t->stage->kernels, t->stream, &a);
}

/* The end of attention's and mlp_up's backward: dy [M, out] is the gradient of product(norm(input)). Weight gradients with the norm's
 * output made again, then through product and norm into stash->dx. Frees dy. */
static dt_status backward_through_norm(const struct turn *t, struct dt_buffer *dy, const char *weight, const char *bias, size_t out)
{
    struct dt_buffer normed;
    DT_TRY(allocate(t, DT_WORKSPACE, t->d, &normed));
    DT_TRY(norm(t, normed.data));
    DT_TRY(linear_gradients(t, dy->data, normed.data, weight, bias, out, t->d));
    /* the norm's output is used up: its place takes its gradient */
    DT_TRY(linear_input_gradient(t, normed.data, dy->data, weight, out, t->d));
    dt_free(t->stream, dy);
    DT_TRY(norm_gradient(t, normed.data, t->stash->dx.data, false));
    dt_free(t->stream, &normed);
    free_norm_input(t);
    return DT_OK;
}

/* ---- embedding ---- */

static dt_status embedding_forward(const struct turn *t)
{
    DT_TRY(allocate(t, DT_ACTIVATIONS, t->d, &t->stash->x));
    struct gpt_embedding a = {
        .tokens = t->stash->tokens.data,
        .token_table = param(t, "token.weight"),
        .position_table = param(t, "position.weight"),
        .out = t->stash->x.data,
        .samples = t->stash->samples,
        .dropout = dropout(t),
    };
    return t->k->embedding(t->stage->kernels, t->stream, &a);
}

static dt_status embedding_backward(const struct turn *t)
{
    struct gpt_embedding_gradient a = {
        .tokens = t->stash->tokens.data,
        .dout = t->stash->dx.data,
        .dtoken_table = grad(t, "token.weight"),
        .dposition_table = grad(t, "position.weight"),
        .samples = t->stash->samples,
        .accumulate = t->accumulate,
        .dropout = dropout(t),
    };
    DT_TRY(t->k->embedding_gradient(t->stage->kernels, t->stream, &a));
    dt_free(t->stream, &t->stash->dx);
    return DT_OK;
}

/* ---- attention: x + dropout(projection(attention(norm(x)))) ---- */

static dt_status attention_forward(const struct turn *t)
{
    const struct gpt_model *model = t->stage->model;
    size_t heads = (size_t)model->heads, T = (size_t)model->block_size, samples = t->stash->samples;
    struct dt_buffer normed;

    DT_TRY(keep_norm_input(t));
    DT_TRY(allocate(t, DT_WORKSPACE, t->d, &normed));
    DT_TRY(norm(t, normed.data));
    DT_TRY(allocate(t, DT_ACTIVATIONS, 3 * t->d, &t->kept->qkv));
    DT_TRY(linear(t, t->kept->qkv.data, normed.data, "q.weight", "q.bias", 3 * t->d, t->d)); /* k and v lie behind q */
    dt_free(t->stream, &normed);

    if (model->attention == GPT_ATTENTION_FUSED)
        DT_TRY(dt_alloc(t->stream, DT_ACTIVATIONS, samples * heads * T * sizeof(float), &t->kept->lse));
    else
        DT_TRY(dt_alloc(t->stream, DT_ACTIVATIONS, samples * heads * T * T * t->element_bytes, &t->kept->weights));
    DT_TRY(allocate(t, DT_ACTIVATIONS, t->d, &t->kept->mixed));
    DT_TRY(keep_framework(t));
    struct gpt_attention_forward a = {
        .qkv = t->kept->qkv.data,
        .out = t->kept->mixed.data,
        .lse = t->kept->lse.data,
        .weights = t->kept->weights.data,
        .samples = samples,
        .dropout = dropout(t),
    };
    DT_TRY(t->k->attention(t->stage->kernels, t->stream, &a));

    DT_TRY(allocate(t, DT_ACTIVATIONS, t->d, &t->stash->x));
    DT_TRY(linear(t, t->stash->x.data, t->kept->mixed.data, "projection.weight", "projection.bias", t->d, t->d));
    return add_residual(t, t->kept->input.data);
}

static dt_status attention_backward(const struct turn *t)
{
    struct dt_buffer dbranch, dmixed, dqkv;

    DT_TRY(branch_gradient(t, &dbranch));
    DT_TRY(linear_gradients(t, dbranch.data, t->kept->mixed.data, "projection.weight", "projection.bias", t->d, t->d));
    DT_TRY(allocate(t, DT_WORKSPACE, t->d, &dmixed));
    DT_TRY(linear_input_gradient(t, dmixed.data, dbranch.data, "projection.weight", t->d, t->d));
    dt_free(t->stream, &dbranch);

    DT_TRY(allocate(t, DT_WORKSPACE, 3 * t->d, &dqkv));
    struct gpt_attention_backward a = {
        .dout = dmixed.data,
        .out = t->kept->mixed.data,
        .qkv = t->kept->qkv.data,
        .lse = t->kept->lse.data,
        .weights = t->kept->weights.data,
        .dqkv = dqkv.data,
        .samples = t->stash->samples,
        .dropout = dropout(t),
    };
    DT_TRY(t->k->attention_gradient(t->stage->kernels, t->stream, &a));
    dt_free(t->stream, &dmixed);
    dt_free(t->stream, &t->kept->mixed);
    dt_free(t->stream, &t->kept->qkv);
    dt_free(t->stream, &t->kept->lse);
    dt_free(t->stream, &t->kept->weights);
    dt_free(t->stream, &t->kept->framework);

    return backward_through_norm(t, &dqkv, "q.weight", "q.bias", 3 * t->d);
}

/* ---- MLP: x + dropout(down(gelu(up(norm(x))))), in two layers so that each can be gathered alone ---- */

static dt_status mlp_up_forward(const struct turn *t)
{
    struct dt_buffer normed;
    DT_TRY(keep_norm_input(t));
    DT_TRY(allocate(t, DT_WORKSPACE, t->d, &normed));
    DT_TRY(norm(t, normed.data));
    DT_TRY(allocate(t, DT_ACTIVATIONS, 4 * t->d, &t->kept->hidden));
    DT_TRY(keep_framework(t));
    DT_TRY(linear(t, t->kept->hidden.data, normed.data, "weight", "bias", 4 * t->d, t->d));
    dt_free(t->stream, &normed);
    return DT_OK;
}

static dt_status mlp_down_forward(const struct turn *t)
{
    const struct gpt_layer_stash *up = t->kept - 1; /* mlp_up of the same block is always in the same stage */
    struct dt_buffer active;
    DT_TRY(allocate(t, DT_WORKSPACE, 4 * t->d, &active));
    DT_TRY(t->k->gelu(t->stage->kernels, t->stream, active.data, up->hidden.data, t->rows * 4 * t->d));
    DT_TRY(allocate(t, DT_ACTIVATIONS, t->d, &t->stash->x));
    DT_TRY(linear(t, t->stash->x.data, active.data, "weight", "bias", t->d, 4 * t->d));
    dt_free(t->stream, &active);
    return add_residual(t, up->input.data);
}

/* Leaves the gradient of mlp_up's output in stash->dh. */
static dt_status mlp_down_backward(const struct turn *t)
{
    struct gpt_layer_stash *up = t->kept - 1;
    struct dt_buffer dbranch;
    DT_TRY(branch_gradient(t, &dbranch));
    DT_TRY(allocate(t, DT_WORKSPACE, 4 * t->d, &t->stash->dh));
    DT_TRY(t->k->gelu(t->stage->kernels, t->stream, t->stash->dh.data, up->hidden.data, t->rows * 4 * t->d));
    DT_TRY(linear_gradients(t, dbranch.data, t->stash->dh.data, "weight", "bias", t->d, 4 * t->d));
    /* gelu(hidden) is used up: its place takes its gradient */
    DT_TRY(linear_input_gradient(t, t->stash->dh.data, dbranch.data, "weight", t->d, 4 * t->d));
    dt_free(t->stream, &dbranch);
    DT_TRY(t->k->gelu_gradient(t->stage->kernels, t->stream, t->stash->dh.data, up->hidden.data, t->rows * 4 * t->d));
    dt_free(t->stream, &up->hidden);
    dt_free(t->stream, &up->framework);
    return DT_OK;
}

static dt_status mlp_up_backward(const struct turn *t)
{
    return backward_through_norm(t, &t->stash->dh, "weight", "bias", 4 * t->d);
}

/* ---- final norm, head and loss ---- */

static dt_status final_norm_forward(const struct turn *t)
{
    DT_TRY(keep_norm_input(t));
    DT_TRY(allocate(t, DT_ACTIVATIONS, t->d, &t->stash->x));
    return norm(t, t->stash->x.data);
}

static dt_status final_norm_backward(const struct turn *t)
{
    struct dt_buffer dnormed;
    take(&dnormed, &t->stash->dx);
    DT_TRY(allocate(t, DT_ACTIVATIONS, t->d, &t->stash->dx));
    DT_TRY(norm_gradient(t, dnormed.data, t->stash->dx.data, true));
    dt_free(t->stream, &dnormed);
    free_norm_input(t);
    return DT_OK;
}

/* logits [rows, V] of the rows from `first_row` on become their gradient. */
static dt_status loss(const struct turn *t, void *logits, size_t first_row)
{
    struct gpt_loss a = {
        .logits = logits,
        .targets = (const int32_t *)t->stash->targets.data + first_row,
        .loss = t->stage->loss.data,
        .rows = t->rows,
        .gradient_scale = t->gradient_scale,
        .loss_scale = t->loss_scale,
        .sum = t->stage->sum_loss,
    };
    return t->k->loss(t->stage->kernels, t->stream, &a);
}

/* A simulated framework holds the model's output while backward runs, and so has the logits twice where they are made again. */
static dt_status hold_output(const struct turn *t)
{
    size_t copies = t->stash->output_copies > 1 ? (size_t)t->stash->output_copies : 1;
    if (t->recompute || t->stash->output.data)
        return t->recompute ? keep_framework(t) : DT_OK;
    return dt_alloc(t->stream, DT_ACTIVATIONS, copies * t->k->output_bytes(t->stage->kernels, t->stash->samples), &t->stash->output);
}

static dt_status head_forward(const struct turn *t)
{
    size_t V = (size_t)t->stage->model->vocab_size;
    take(&t->kept->input, &t->stash->x);
    DT_TRY(allocate(t, DT_ACTIVATIONS, V, &t->kept->logits));
    DT_TRY(hold_output(t));
    DT_TRY(linear(t, t->kept->logits.data, t->kept->input.data, "weight", NULL, V, t->d));
    return loss(t, t->kept->logits.data, 0);
}

static dt_status head_backward(const struct turn *t)
{
    size_t V = (size_t)t->stage->model->vocab_size;
    DT_TRY(linear_gradients(t, t->kept->logits.data, t->kept->input.data, "weight", NULL, V, t->d));
    DT_TRY(allocate(t, DT_ACTIVATIONS, t->d, &t->stash->dx));
    DT_TRY(linear_input_gradient(t, t->stash->dx.data, t->kept->logits.data, "weight", V, t->d));
    dt_free(t->stream, &t->kept->logits);
    dt_free(t->stream, &t->kept->framework);
    dt_free(t->stream, &t->kept->input);
    return DT_OK;
}

/* All of the head's work on pieces of the rows: x [M, d] is its input, dx [M, d] gets that one's gradient. */
static dt_status head_in_pieces(const struct turn *t, const struct dt_buffer *x, const struct dt_buffer *dx, size_t piece_rows)
{
    size_t V = (size_t)t->stage->model->vocab_size, row_bytes = t->d * t->element_bytes;
    struct turn piece = *t;
    struct dt_buffer logits;
    DT_TRY(dt_alloc(t->stream, DT_ACTIVATIONS, piece_rows * V * t->element_bytes, &logits));
    for (size_t row = 0; row < t->rows; row += piece_rows) {
        const char *input = (const char *)x->data + row * row_bytes;
        piece.rows = t->rows - row < piece_rows ? t->rows - row : piece_rows;
        piece.accumulate = t->accumulate || row > 0;
        DT_TRY(linear(&piece, logits.data, input, "weight", NULL, V, t->d));
        DT_TRY(loss(&piece, logits.data, row));
        DT_TRY(linear_gradients(&piece, logits.data, input, "weight", NULL, V, t->d));
        DT_TRY(linear_input_gradient(&piece, (char *)dx->data + row * row_bytes, logits.data, "weight", V, t->d));
    }
    dt_free(t->stream, &logits);
    return DT_OK;
}

static const struct {
    dt_status (*forward)(const struct turn *t);
    dt_status (*backward)(const struct turn *t);
} passes[] = {
    [GPT_EMBEDDING] = {embedding_forward, embedding_backward},
    [GPT_ATTENTION] = {attention_forward, attention_backward},
    [GPT_MLP_UP] = {mlp_up_forward, mlp_up_backward},
    [GPT_MLP_DOWN] = {mlp_down_forward, mlp_down_backward},
    [GPT_FINAL_NORM] = {final_norm_forward, final_norm_backward},
    [GPT_HEAD] = {head_forward, head_backward},
};

static struct turn turn_of(struct gpt_stage *stage, int g, struct gpt_stash *stash, struct dt_stream *stream)
{
    return (struct turn){
        .stage = stage,
        .group = &stage->groups[g],
        .accumulate = stage->groups[g].accumulate,
        .stash = stash,
        .stream = stream,
        .k = stage->table,
        .rows = stash->samples * (size_t)stage->model->block_size,
        .d = (size_t)stage->model->hidden,
        .element_bytes = dt_dtype_bytes(stage->model->dtype),
    };
}

dt_status gpt_forward(struct gpt_stage *stage, int g, struct gpt_stash *stash, float loss_scale, float gradient_scale,
                      struct dt_stream *stream)
{
    struct turn t = turn_of(stage, g, stash, stream);
    t.loss_scale = loss_scale;
    t.gradient_scale = gradient_scale;
    for (int i = t.group->first_layer; i < t.group->first_layer + t.group->layer_count; i++) {
        t.layer = &stage->layers[i];
        t.kept = &stash->layers[i];
        DT_TRY(passes[t.layer->kind].forward(&t));
    }
    return DT_OK;
}

dt_status gpt_backward(struct gpt_stage *stage, int g, struct gpt_stash *stash, struct dt_stream *stream)
{
    struct turn t = turn_of(stage, g, stash, stream);
    for (int i = t.group->first_layer + t.group->layer_count - 1; i >= t.group->first_layer; i--) {
        t.layer = &stage->layers[i];
        t.kept = &stash->layers[i];
        DT_TRY(passes[t.layer->kind].backward(&t));
    }
    return DT_OK;
}

dt_status gpt_recompute(struct gpt_stage *stage, int g, struct gpt_stash *stash, bool ends_here, struct dt_stream *stream)
{
    struct turn t = turn_of(stage, g, stash, stream);
    t.recompute = true;
    int end = t.group->first_layer + t.group->layer_count;
    for (int i = t.group->first_layer; i < end; i++) {
        t.layer = &stage->layers[i];
        t.kept = &stash->layers[i];
        if (t.layer->kind == GPT_MLP_DOWN && ends_here && i == end - 1)
            return DT_OK; /* it keeps nothing for its backward */
        DT_TRY(passes[t.layer->kind].forward(&t));
    }
    return DT_OK;
}

dt_status gpt_forward_backward(struct gpt_stage *stage, int g, struct gpt_stash *stash, size_t piece_rows, float loss_scale,
                               float gradient_scale, struct dt_stream *stream)
{
    struct turn t = turn_of(stage, g, stash, stream), head = t;
    bool with_norm = t.group->layer_count > 1;
    t.layer = &stage->layers[t.group->first_layer];
    t.kept = &stash->layers[t.group->first_layer];
    if (with_norm)
        DT_TRY(final_norm_forward(&t));

    head.layer = &stage->layers[stage->layer_count - 1];
    head.loss_scale = loss_scale;
    head.gradient_scale = gradient_scale;
    DT_TRY(allocate(&head, DT_ACTIVATIONS, t.d, &stash->dx));
    DT_TRY(head_in_pieces(&head, &stash->x, &stash->dx, piece_rows));
    dt_free(stream, &stash->x);
    return with_norm ? final_norm_backward(&t) : DT_OK;
}

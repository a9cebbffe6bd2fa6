/* Forward and backward of each kind of layer, and the pieces that several of them share. */
#include "gpt/layers.h"

/* ---- the halves of backward ---- */

static bool inputs_now(const struct layer_run *r)
{
    return r->part & DT_BACKWARD_INPUT;
}

static bool weights_now(const struct layer_run *r)
{
    return r->part & DT_BACKWARD_WEIGHTS;
}

/* Of gradients that both halves read: in a whole backward they live for a moment, otherwise until the second half. */
static enum dt_category gradient_category(const struct layer_run *r)
{
    return r->part == DT_BACKWARD_WHOLE ? DT_WORKSPACE : DT_ACTIVATIONS;
}

/* ---- the group's parameters, memory, dropout ---- */

static size_t tensor_bytes(const struct layer_run *r, const char *name)
{
    size_t offset_elems = gpt_tensor_offset(r->layer, name);
    for (const struct gpt_layer *l = &r->stage->layers[r->group->first_layer]; l != r->layer; l++)
        offset_elems += l->param_elems;
    return offset_elems * r->element_bytes;
}

static void *param(const struct layer_run *r, const char *name)
{
    return (char *)r->group->params + tensor_bytes(r, name);
}

static void *grad(const struct layer_run *r, const char *name)
{
    return (char *)r->group->grads + tensor_bytes(r, name);
}

static struct gpt_dropout dropout(const struct layer_run *r)
{
    return (struct gpt_dropout){
        .seed = r->stage->seed,
        .layer = (uint32_t)r->layer->index,
        .first_sample = r->stash->first_sample,
        .probability = r->stage->base.model->dropout,
    };
}

static dt_status allocate(const struct layer_run *r, enum dt_category category, size_t columns, struct dt_buffer *out)
{
    return dt_alloc(r->stream, category, r->rows * columns * r->element_bytes, out);
}

static void take(struct dt_buffer *to, struct dt_buffer *from)
{
    *to = *from;
    *from = (struct dt_buffer){0};
}

/* What a simulated framework keeps of a layer of this kind. */
static dt_status keep_framework(const struct layer_run *r, enum gpt_layer_kind kind)
{
    size_t bytes = r->k->kept_bytes(r->kernels, kind, r->stash->samples);
    return dt_alloc(r->stream, DT_ACTIVATIONS, bytes, &r->kept->framework);
}

static dt_status norm(const struct layer_run *r, void *normed)
{
    struct gpt_layer_norm a = {
        .x = r->kept->input.data,
        .gain = param(r, "norm.gain"),
        .bias = param(r, "norm.bias"),
        .y = normed,
        .mean = r->kept->mean.data,
        .rstd = r->kept->rstd.data,
        .rows = r->rows,
        .d = r->d,
    };
    return r->k->layer_norm(r->kernels, r->stream, &a);
}

static dt_status keep_norm_input(const struct layer_run *r)
{
    take(&r->kept->input, &r->stash->x);
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, r->rows * sizeof(float), &r->kept->mean));
    return dt_alloc(r->stream, DT_ACTIVATIONS, r->rows * sizeof(float), &r->kept->rstd);
}

static void free_norm_input(const struct layer_run *r)
{
    dt_free(r->stream, &r->kept->input);
    dt_free(r->stream, &r->kept->mean);
    dt_free(r->stream, &r->kept->rstd);
}

static dt_status norm_gradient(const struct layer_run *r, const void *dy, void *dx, bool overwrite)
{
    struct gpt_layer_norm_gradient a = {
        .dy = dy,
        .x = r->kept->input.data,
        .gain = param(r, "norm.gain"),
        .mean = r->kept->mean.data,
        .rstd = r->kept->rstd.data,
        .dx = dx,
        .dgain = grad(r, "norm.gain"),
        .dbias = grad(r, "norm.bias"),
        .rows = r->rows,
        .d = r->d,
        .overwrite = overwrite,
        .accumulate = r->accumulate,
    };
    return r->k->layer_norm_gradient(r->kernels, r->stream, &a);
}

static dt_status linear(const struct layer_run *r, void *y, const void *x, const char *weight, const char *bias, size_t out, size_t in)
{
    struct gpt_linear a = {.x = x, .w = param(r, weight), .b = bias ? param(r, bias) : NULL, .y = y, .rows = r->rows, .in = in, .out = out};
    return r->k->linear(r->kernels, r->stream, &a);
}

static dt_status linear_gradients(const struct layer_run *r, const void *dy, const void *x, const char *weight, const char *bias,
                                  size_t out, size_t in)
{
    struct gpt_linear_weight_gradient a = {
        .dy = dy,
        .x = x,
        .dw = grad(r, weight),
        .db = bias ? grad(r, bias) : NULL,
        .rows = r->rows,
        .in = in,
        .out = out,
        .accumulate = r->accumulate,
    };
    return r->k->linear_weight_gradient(r->kernels, r->stream, &a);
}

static dt_status linear_input_gradient(const struct layer_run *r, void *dx, const void *dy, const char *weight, size_t out, size_t in)
{
    struct gpt_linear_input_gradient a = {.dy = dy, .w = param(r, weight), .dx = dx, .rows = r->rows, .in = in, .out = out};
    return r->k->linear_input_gradient(r->kernels, r->stream, &a);
}

/* ---- pieces that attention and MLP share ---- */

/* stash->x [M, d] = residual + dropout(branch), where a product has just written the branch to stash->x itself. */
static dt_status add_residual(const struct layer_run *r, const void *residual)
{
    struct gpt_dropout_residual a = {
        .residual = residual,
        .branch = r->stash->x.data,
        .out = r->stash->x.data,
        .samples = r->stash->samples,
        .dropout = dropout(r),
    };
    return r->k->dropout_residual(r->kernels, r->stream, &a);
}

/* dbranch [M, d]: the residual stream's gradient through the branch's dropout. */
static dt_status branch_gradient(const struct layer_run *r, struct dt_buffer *dbranch)
{
    DT_TRY(allocate(r, gradient_category(r), r->d, dbranch));
    struct gpt_dropout_gradient a = {
        .dout = r->stash->dx.data, .dbranch = dbranch->data, .samples = r->stash->samples, .dropout = dropout(r)};
    return r->k->dropout_gradient(r->kernels, r->stream, &a);
}

/* The end of attention's and mlp_up's backward: dy [M, out] is the gradient of product(norm(input)). Weight gradients with the norm's
 * output computed again; then through product and norm into stash->dx. Frees dy behind the weight gradients. */
static dt_status backward_through_norm(const struct layer_run *r, struct dt_buffer *dy, const char *weight, const char *bias, size_t out)
{
    struct dt_buffer normed;
    DT_TRY(allocate(r, DT_WORKSPACE, r->d, &normed));
    if (weights_now(r)) {
        DT_TRY(norm(r, normed.data));
        DT_TRY(linear_gradients(r, dy->data, normed.data, weight, bias, out, r->d));
    }
    if (inputs_now(r)) /* nobody reads the norm's output any more: its memory takes its gradient */
        DT_TRY(linear_input_gradient(r, normed.data, dy->data, weight, out, r->d));
    if (weights_now(r))
        dt_free(r->stream, dy);
    if (inputs_now(r))
        DT_TRY(norm_gradient(r, normed.data, r->stash->dx.data, false));
    dt_free(r->stream, &normed);
    if (weights_now(r))
        free_norm_input(r);
    return DT_OK;
}

/* ---- embedding ---- */

static dt_status embedding_forward(const struct layer_run *r)
{
    DT_TRY(allocate(r, DT_ACTIVATIONS, r->d, &r->stash->x));
    struct gpt_embedding a = {
        .tokens = r->stash->tokens.data,
        .token_table = param(r, "token.weight"),
        .position_table = param(r, "position.weight"),
        .out = r->stash->x.data,
        .samples = r->stash->samples,
        .dropout = dropout(r),
    };
    return r->k->embedding(r->kernels, r->stream, &a);
}

static dt_status embedding_backward(const struct layer_run *r)
{
    if (inputs_now(r))
        take(&r->kept->dout, &r->stash->dx);
    if (!weights_now(r))
        return DT_OK;
    struct gpt_embedding_gradient a = {
        .tokens = r->stash->tokens.data,
        .dout = r->kept->dout.data,
        .dtoken_table = grad(r, "token.weight"),
        .dposition_table = grad(r, "position.weight"),
        .samples = r->stash->samples,
        .accumulate = r->accumulate,
        .dropout = dropout(r),
    };
    DT_TRY(r->k->embedding_gradient(r->kernels, r->stream, &a));
    dt_free(r->stream, &r->kept->dout);
    return DT_OK;
}

/* ---- attention: x + dropout(projection(attention(norm(x)))) ---- */

/* The heads' outputs from kept->qkv, and what the backward of that reads. */
static dt_status attend(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    size_t heads = (size_t)model->heads, T = (size_t)model->block_size, samples = r->stash->samples;

    if (model->attention == DT_ATTENTION_FUSED)
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, samples * heads * T * sizeof(float), &r->kept->lse));
    else
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, samples * heads * T * T * r->element_bytes, &r->kept->weights));
    DT_TRY(allocate(r, DT_ACTIVATIONS, r->d, &r->kept->mixed));
    DT_TRY(keep_framework(r, r->layer->kind));
    struct gpt_attention_forward a = {
        .qkv = r->kept->qkv.data,
        .out = r->kept->mixed.data,
        .lse = r->kept->lse.data,
        .weights = r->kept->weights.data,
        .samples = samples,
        .dropout = dropout(r),
    };
    return r->k->attention(r->kernels, r->stream, &a);
}

/* What is computed again from q, k and v is forgotten. Without the weights a simulated framework keeps as much of attention as of mlp_up. */
static dt_status forget_attention(const struct layer_run *r)
{
    dt_free(r->stream, &r->kept->mixed);
    dt_free(r->stream, &r->kept->lse);
    dt_free(r->stream, &r->kept->weights);
    dt_free(r->stream, &r->kept->framework);
    return keep_framework(r, GPT_MLP_UP);
}

static dt_status attend_again(const struct layer_run *r)
{
    dt_free(r->stream, &r->kept->framework);
    return attend(r);
}

static dt_status attention_forward(const struct layer_run *r)
{
    struct dt_buffer normed;
    DT_TRY(keep_norm_input(r));
    DT_TRY(allocate(r, DT_WORKSPACE, r->d, &normed));
    DT_TRY(norm(r, normed.data));
    DT_TRY(allocate(r, DT_ACTIVATIONS, 3 * r->d, &r->kept->qkv));
    DT_TRY(linear(r, r->kept->qkv.data, normed.data, "q.weight", "q.bias", 3 * r->d, r->d)); /* k and v lie behind q */
    dt_free(r->stream, &normed);

    DT_TRY(attend(r));
    DT_TRY(allocate(r, DT_ACTIVATIONS, r->d, &r->stash->x));
    DT_TRY(linear(r, r->stash->x.data, r->kept->mixed.data, "projection.weight", "projection.bias", r->d, r->d));
    if (r->stage->attention_again)
        DT_TRY(forget_attention(r));
    return add_residual(r, r->kept->input.data);
}

/* From dmixed [M, d], which it frees, to kept->dqkv. */
static dt_status through_attention(const struct layer_run *r, struct dt_buffer *dmixed)
{
    DT_TRY(allocate(r, gradient_category(r), 3 * r->d, &r->kept->dqkv));
    struct gpt_attention_backward a = {
        .dout = dmixed->data,
        .out = r->kept->mixed.data,
        .qkv = r->kept->qkv.data,
        .lse = r->kept->lse.data,
        .weights = r->kept->weights.data,
        .dqkv = r->kept->dqkv.data,
        .samples = r->stash->samples,
        .dropout = dropout(r),
    };
    DT_TRY(r->k->attention_gradient(r->kernels, r->stream, &a));
    dt_free(r->stream, dmixed);
    dt_free(r->stream, &r->kept->qkv);
    dt_free(r->stream, &r->kept->lse);
    dt_free(r->stream, &r->kept->weights);
    dt_free(r->stream, &r->kept->framework);
    return DT_OK;
}

static dt_status attention_backward(const struct layer_run *r)
{
    struct dt_layer_stash *kept = r->kept;
    struct dt_buffer dmixed;

    if (r->stage->attention_again && inputs_now(r))
        DT_TRY(attend_again(r));
    if (inputs_now(r))
        DT_TRY(branch_gradient(r, &kept->dbranch));
    if (weights_now(r))
        DT_TRY(linear_gradients(r, kept->dbranch.data, kept->mixed.data, "projection.weight", "projection.bias", r->d, r->d));
    if (inputs_now(r)) {
        DT_TRY(allocate(r, DT_WORKSPACE, r->d, &dmixed));
        DT_TRY(linear_input_gradient(r, dmixed.data, kept->dbranch.data, "projection.weight", r->d, r->d));
    }
    if (weights_now(r))
        dt_free(r->stream, &kept->dbranch);
    if (inputs_now(r))
        DT_TRY(through_attention(r, &dmixed));
    if (weights_now(r))
        dt_free(r->stream, &kept->mixed);
    return backward_through_norm(r, &kept->dqkv, "q.weight", "q.bias", 3 * r->d);
}

/* ---- MLP: x + dropout(down(gelu(up(norm(x))))), in two layers so that each can be gathered alone ---- */

static dt_status mlp_up_forward(const struct layer_run *r)
{
    struct dt_buffer normed;
    DT_TRY(keep_norm_input(r));
    DT_TRY(allocate(r, DT_WORKSPACE, r->d, &normed));
    DT_TRY(norm(r, normed.data));
    DT_TRY(allocate(r, DT_ACTIVATIONS, 4 * r->d, &r->kept->hidden));
    DT_TRY(keep_framework(r, r->layer->kind));
    DT_TRY(linear(r, r->kept->hidden.data, normed.data, "weight", "bias", 4 * r->d, r->d));
    dt_free(r->stream, &normed);
    return DT_OK;
}

static dt_status mlp_down_forward(const struct layer_run *r)
{
    const struct dt_layer_stash *up = r->kept - 1; /* mlp_up of the same block is always in the same stage */
    struct dt_buffer active;
    DT_TRY(allocate(r, DT_WORKSPACE, 4 * r->d, &active));
    DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active.data, up->hidden.data, r->rows * 4 * r->d}));
    DT_TRY(allocate(r, DT_ACTIVATIONS, r->d, &r->stash->x));
    DT_TRY(linear(r, r->stash->x.data, active.data, "weight", "bias", r->d, 4 * r->d));
    dt_free(r->stream, &active);
    return add_residual(r, up->input.data);
}

/* dw, db from dbranch and gelu(hidden), which is computed again to active [M, 4d]. */
static dt_status mlp_down_weight_gradients(const struct layer_run *r, const struct dt_layer_stash *up, void *active)
{
    DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active, up->hidden.data, r->rows * 4 * r->d}));
    return linear_gradients(r, r->kept->dbranch.data, active, "weight", "bias", r->d, 4 * r->d);
}

/* The gradient of mlp_up's output, up->dhidden, through product and GELU. */
static dt_status mlp_down_input_gradient(const struct layer_run *r, const struct dt_layer_stash *up)
{
    struct gpt_linear_gelu_input_gradient a = {
        .dy = r->kept->dbranch.data,
        .w = param(r, "weight"),
        .hidden = up->hidden.data,
        .dx = up->dhidden.data,
        .rows = r->rows,
        .in = 4 * r->d,
        .out = r->d,
    };
    return r->k->linear_gelu_input_gradient(r->kernels, r->stream, &a);
}

static dt_status mlp_down_backward(const struct layer_run *r)
{
    struct dt_layer_stash *up = r->kept - 1;
    struct dt_buffer active;

    if (inputs_now(r)) {
        DT_TRY(branch_gradient(r, &r->kept->dbranch));
        DT_TRY(allocate(r, gradient_category(r), 4 * r->d, &up->dhidden));
        if (weights_now(r)) /* gelu(hidden) is read before its memory takes the gradient of hidden */
            DT_TRY(mlp_down_weight_gradients(r, up, up->dhidden.data));
        DT_TRY(mlp_down_input_gradient(r, up));
    } else {
        DT_TRY(allocate(r, DT_WORKSPACE, 4 * r->d, &active));
        DT_TRY(mlp_down_weight_gradients(r, up, active.data));
        dt_free(r->stream, &active);
    }
    if (weights_now(r)) {
        dt_free(r->stream, &r->kept->dbranch);
        dt_free(r->stream, &up->hidden);
        dt_free(r->stream, &up->framework);
    }
    return DT_OK;
}

static dt_status mlp_up_backward(const struct layer_run *r)
{
    return backward_through_norm(r, &r->kept->dhidden, "weight", "bias", 4 * r->d);
}

/* ---- final norm, head and loss ---- */

static dt_status final_norm_forward(const struct layer_run *r)
{
    DT_TRY(keep_norm_input(r));
    DT_TRY(allocate(r, DT_ACTIVATIONS, r->d, &r->stash->x));
    return norm(r, r->stash->x.data);
}

static dt_status final_norm_backward(const struct layer_run *r)
{
    struct dt_buffer dnormed;
    if (!inputs_now(r))
        return DT_OK; /* a norm's gradients all belong to the first half */
    take(&dnormed, &r->stash->dx);
    DT_TRY(allocate(r, DT_ACTIVATIONS, r->d, &r->stash->dx));
    DT_TRY(norm_gradient(r, dnormed.data, r->stash->dx.data, true));
    dt_free(r->stream, &dnormed);
    free_norm_input(r);
    return DT_OK;
}

/* logits [rows, V] of the rows from `first_row` on become their gradient. */
static dt_status loss(const struct layer_run *r, void *logits, size_t first_row)
{
    struct gpt_loss a = {
        .logits = logits,
        .targets = (const int32_t *)r->stash->targets.data + first_row,
        .loss = r->stage->base.loss.data,
        .rows = r->rows,
        .gradient_scale = r->scales.gradient,
        .loss_scale = r->scales.loss,
        .sum = r->stage->sum_loss,
    };
    return r->k->loss(r->kernels, r->stream, &a);
}

static dt_status head_forward(const struct layer_run *r)
{
    size_t V = (size_t)r->stage->base.model->vocab_size;
    take(&r->kept->input, &r->stash->x);
    DT_TRY(allocate(r, DT_ACTIVATIONS, V, &r->kept->logits));
    if (r->recompute) /* a simulated framework holds the model's output besides */
        DT_TRY(keep_framework(r, r->layer->kind));
    DT_TRY(linear(r, r->kept->logits.data, r->kept->input.data, "weight", NULL, V, r->d));
    return loss(r, r->kept->logits.data, 0);
}

static dt_status head_backward(const struct layer_run *r)
{
    size_t V = (size_t)r->stage->base.model->vocab_size;
    if (r->kept->logits.bytes == 0)
        return DT_OK; /* computed in pieces, all of it */
    if (weights_now(r))
        DT_TRY(linear_gradients(r, r->kept->logits.data, r->kept->input.data, "weight", NULL, V, r->d));
    if (inputs_now(r)) {
        DT_TRY(allocate(r, DT_ACTIVATIONS, r->d, &r->stash->dx));
        DT_TRY(linear_input_gradient(r, r->stash->dx.data, r->kept->logits.data, "weight", V, r->d));
    }
    if (weights_now(r)) {
        dt_free(r->stream, &r->kept->logits);
        dt_free(r->stream, &r->kept->framework);
        dt_free(r->stream, &r->kept->input);
    }
    return DT_OK;
}

dt_status layer_head_in_pieces(const struct layer_run *r, const struct dt_buffer *x, const struct dt_buffer *dx, size_t piece_rows)
{
    size_t V = (size_t)r->stage->base.model->vocab_size, row_bytes = r->d * r->element_bytes;
    struct layer_run piece = *r;
    struct dt_buffer logits;
    DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, piece_rows * V * r->element_bytes, &logits));
    for (size_t row = 0; row < r->rows; row += piece_rows) {
        const char *input = (const char *)x->data + row * row_bytes;
        piece.rows = r->rows - row < piece_rows ? r->rows - row : piece_rows;
        piece.accumulate = r->accumulate || row > 0;
        DT_TRY(linear(&piece, logits.data, input, "weight", NULL, V, r->d));
        DT_TRY(loss(&piece, logits.data, row));
        DT_TRY(linear_gradients(&piece, logits.data, input, "weight", NULL, V, r->d));
        DT_TRY(linear_input_gradient(&piece, (char *)dx->data + row * row_bytes, logits.data, "weight", V, r->d));
    }
    dt_free(r->stream, &logits);
    return DT_OK;
}

const struct layer_passes layer_passes[] = {
    [GPT_EMBEDDING] = {embedding_forward, embedding_backward},
    [GPT_ATTENTION] = {attention_forward, attention_backward},
    [GPT_MLP_UP] = {mlp_up_forward, mlp_up_backward},
    [GPT_MLP_DOWN] = {mlp_down_forward, mlp_down_backward},
    [GPT_FINAL_NORM] = {final_norm_forward, final_norm_backward},
    [GPT_HEAD] = {head_forward, head_backward},
};

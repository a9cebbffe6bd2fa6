/* The embedding and a block's layers. */
#include "gpt/stage_layers.h"

/* ---- pieces that attention and MLP share ---- */

/* stash->x [M, d] = residual + dropout(branch), where a product has just written the branch to stash->x itself. */
static dt_status add_residual(const struct turn *t, const void *residual)
{
    struct gpt_dropout_residual a = {
        .residual = residual,
        .branch = t->stash->x.data,
        .out = t->stash->x.data,
        .samples = t->stash->samples,
        .dropout = turn_dropout(t),
    };
    return t->k->dropout_residual(t->stage->kernels, t->stream, &a);
}

/* dbranch [M, d], workspace: the residual stream's gradient through the branch's dropout. */
static dt_status branch_gradient(const struct turn *t, struct dt_buffer *dbranch)
{
    DT_TRY(turn_allocate(t, DT_WORKSPACE, t->d, dbranch));
    struct gpt_dropout_gradient a = {
        .dout = t->stash->dx.data, .dbranch = dbranch->data, .samples = t->stash->samples, .dropout = turn_dropout(t)};
    return t->k->dropout_gradient(t->stage->kernels, t->stream, &a);
}

/* The end of attention's and mlp_up's backward: dy [M, out] is the gradient of product(norm(input)). Weight gradients with the norm's
 * output made again, then through product and norm into stash->dx. Frees dy. */
static dt_status backward_through_norm(const struct turn *t, struct dt_buffer *dy, const char *weight, const char *bias, size_t out)
{
    struct dt_buffer normed;
    DT_TRY(turn_allocate(t, DT_WORKSPACE, t->d, &normed));
    DT_TRY(turn_norm(t, normed.data));
    DT_TRY(turn_linear_gradients(t, dy->data, normed.data, weight, bias, out, t->d));
    /* the norm's output is used up: its place takes its gradient */
    DT_TRY(turn_linear_input_gradient(t, normed.data, dy->data, weight, out, t->d));
    dt_free(t->stream, dy);
    DT_TRY(turn_norm_gradient(t, normed.data, t->stash->dx.data, false));
    dt_free(t->stream, &normed);
    turn_free_norm_input(t);
    return DT_OK;
}

/* ---- embedding ---- */

dt_status turn_embedding_forward(const struct turn *t)
{
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, t->d, &t->stash->x));
    struct gpt_embedding a = {
        .tokens = t->stash->tokens.data,
        .token_table = turn_param(t, "token.weight"),
        .position_table = turn_param(t, "position.weight"),
        .out = t->stash->x.data,
        .samples = t->stash->samples,
        .dropout = turn_dropout(t),
    };
    return t->k->embedding(t->stage->kernels, t->stream, &a);
}

dt_status turn_embedding_backward(const struct turn *t)
{
    struct gpt_embedding_gradient a = {
        .tokens = t->stash->tokens.data,
        .dout = t->stash->dx.data,
        .dtoken_table = turn_grad(t, "token.weight"),
        .dposition_table = turn_grad(t, "position.weight"),
        .samples = t->stash->samples,
        .accumulate = t->accumulate,
        .dropout = turn_dropout(t),
    };
    DT_TRY(t->k->embedding_gradient(t->stage->kernels, t->stream, &a));
    dt_free(t->stream, &t->stash->dx);
    return DT_OK;
}

/* ---- attention: x + dropout(projection(attention(norm(x)))) ---- */

dt_status turn_attention_forward(const struct turn *t)
{
    const struct gpt_model *model = t->stage->model;
    size_t heads = (size_t)model->heads, T = (size_t)model->block_size, samples = t->stash->samples;
    struct dt_buffer normed;

    DT_TRY(turn_keep_norm_input(t));
    DT_TRY(turn_allocate(t, DT_WORKSPACE, t->d, &normed));
    DT_TRY(turn_norm(t, normed.data));
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, 3 * t->d, &t->kept->qkv));
    DT_TRY(turn_linear(t, t->kept->qkv.data, normed.data, "q.weight", "q.bias", 3 * t->d, t->d)); /* k and v lie behind q */
    dt_free(t->stream, &normed);

    if (model->attention == GPT_ATTENTION_FUSED)
        DT_TRY(dt_alloc(t->stream, DT_ACTIVATIONS, samples * heads * T * sizeof(float), &t->kept->lse));
    else
        DT_TRY(dt_alloc(t->stream, DT_ACTIVATIONS, samples * heads * T * T * t->element_bytes, &t->kept->weights));
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, t->d, &t->kept->mixed));
    DT_TRY(turn_keep_framework(t));
    struct gpt_attention_forward a = {
        .qkv = t->kept->qkv.data,
        .out = t->kept->mixed.data,
        .lse = t->kept->lse.data,
        .weights = t->kept->weights.data,
        .samples = samples,
        .dropout = turn_dropout(t),
    };
    DT_TRY(t->k->attention(t->stage->kernels, t->stream, &a));

    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, t->d, &t->stash->x));
    DT_TRY(turn_linear(t, t->stash->x.data, t->kept->mixed.data, "projection.weight", "projection.bias", t->d, t->d));
    return add_residual(t, t->kept->input.data);
}

dt_status turn_attention_backward(const struct turn *t)
{
    struct dt_buffer dbranch, dmixed, dqkv;

    DT_TRY(branch_gradient(t, &dbranch));
    DT_TRY(turn_linear_gradients(t, dbranch.data, t->kept->mixed.data, "projection.weight", "projection.bias", t->d, t->d));
    DT_TRY(turn_allocate(t, DT_WORKSPACE, t->d, &dmixed));
    DT_TRY(turn_linear_input_gradient(t, dmixed.data, dbranch.data, "projection.weight", t->d, t->d));
    dt_free(t->stream, &dbranch);

    DT_TRY(turn_allocate(t, DT_WORKSPACE, 3 * t->d, &dqkv));
    struct gpt_attention_backward a = {
        .dout = dmixed.data,
        .out = t->kept->mixed.data,
        .qkv = t->kept->qkv.data,
        .lse = t->kept->lse.data,
        .weights = t->kept->weights.data,
        .dqkv = dqkv.data,
        .samples = t->stash->samples,
        .dropout = turn_dropout(t),
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

dt_status turn_mlp_up_forward(const struct turn *t)
{
    struct dt_buffer normed;
    DT_TRY(turn_keep_norm_input(t));
    DT_TRY(turn_allocate(t, DT_WORKSPACE, t->d, &normed));
    DT_TRY(turn_norm(t, normed.data));
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, 4 * t->d, &t->kept->hidden));
    DT_TRY(turn_keep_framework(t));
    DT_TRY(turn_linear(t, t->kept->hidden.data, normed.data, "weight", "bias", 4 * t->d, t->d));
    dt_free(t->stream, &normed);
    return DT_OK;
}

dt_status turn_mlp_down_forward(const struct turn *t)
{
    const struct gpt_layer_stash *up = t->kept - 1; /* mlp_up of the same block is always in the same stage */
    struct dt_buffer active;
    DT_TRY(turn_allocate(t, DT_WORKSPACE, 4 * t->d, &active));
    DT_TRY(t->k->gelu(t->stage->kernels, t->stream, &(struct gpt_gelu){active.data, up->hidden.data, t->rows * 4 * t->d}));
    DT_TRY(turn_allocate(t, DT_ACTIVATIONS, t->d, &t->stash->x));
    DT_TRY(turn_linear(t, t->stash->x.data, active.data, "weight", "bias", t->d, 4 * t->d));
    dt_free(t->stream, &active);
    return add_residual(t, up->input.data);
}

dt_status turn_mlp_down_backward(const struct turn *t)
{
    struct gpt_layer_stash *up = t->kept - 1;
    struct dt_buffer dbranch;
    DT_TRY(branch_gradient(t, &dbranch));
    DT_TRY(turn_allocate(t, DT_WORKSPACE, 4 * t->d, &t->stash->dh));
    DT_TRY(t->k->gelu(t->stage->kernels, t->stream, &(struct gpt_gelu){t->stash->dh.data, up->hidden.data, t->rows * 4 * t->d}));
    DT_TRY(turn_linear_gradients(t, dbranch.data, t->stash->dh.data, "weight", "bias", t->d, 4 * t->d));
    /* gelu(hidden) is used up: its place takes the gradient of hidden */
    struct gpt_linear_gelu_input_gradient a = {
        .dy = dbranch.data,
        .w = turn_param(t, "weight"),
        .hidden = up->hidden.data,
        .dx = t->stash->dh.data,
        .rows = t->rows,
        .in = 4 * t->d,
        .out = t->d,
    };
    DT_TRY(t->k->linear_gelu_input_gradient(t->stage->kernels, t->stream, &a));
    dt_free(t->stream, &dbranch);
    dt_free(t->stream, &up->hidden);
    dt_free(t->stream, &up->framework);
    return DT_OK;
}

dt_status turn_mlp_up_backward(const struct turn *t)
{
    return backward_through_norm(t, &t->stash->dh, "weight", "bias", 4 * t->d);
}

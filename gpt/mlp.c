/* MLP: x + dropout(down(act(up(norm(x))))). It is two layers, so that each can be gathered alone.
 * up makes u columns of `hidden`, the activation makes f columns of them, which down reads. Each
 * activation is a row of `mlps`. */
#include "gpt/layer_branch.h"

struct mlp {
    enum gpt_tensor_name up_weight, up_bias; /* the first of the tensors that one product reads */
    /* Compute stash->x from hidden [M, u]. active: memory [M, f] for the product's input, if that
     * is kept */
    dt_status (*forward)(const struct layer_run *r, const struct dt_layer_stash *up, void *active);
    /* Compute mlp_down's gradients that are part of the pass: up->dhidden [M, u], and its own
     * weights' gradients. This is the last read of hidden if the weights' gradients are part of the
     * pass, or their input is kept. */
    dt_status (*backward)(const struct layer_run *r, struct dt_layer_stash *up);
    /* Compute only the weights' gradients, from an input that is not kept; active: memory [M,
     * f]. */
    dt_status (*weights)(const struct layer_run *r, const struct dt_layer_stash *up, void *active);
};

static dt_status project(const struct layer_run *r, const void *x, void *active, const void *residual)
{
    return layer_project_to_stream(r, x, active, GPT_WEIGHT, GPT_BIAS, r->f, residual);
}

static dt_status weight_gradients(const struct layer_run *r, const void *active)
{
    return layer_weight_gradients(r, layer_dbranch(r), active, GPT_WEIGHT, GPT_BIAS, r->d, r->f);
}

/* Whether the product's input is kept for backward. */
static bool has_active(const struct layer_run *r)
{
    return r->kept->active.bytes > 0;
}

static dt_status allocate_active(const struct layer_run *r)
{
    return layer_allocate(r, keeps(r, DT_KEEP_MLP) ? DT_ACTIVATIONS : DT_WORKSPACE, r->f, &r->kept->active);
}

/* ---- down(gelu(up(x))): GELU is fused with the product after it, or with the one before it
 * ---- */

/* Whether up's product applies relu, so that `hidden` is relu's output, which mlp_down reads. */
static bool rectifies(const struct layer_run *r)
{
    return gpt_of(r->stage->base.model)->mlp == GPT_MLP_RELU && !keeps(r, DT_KEEP_MLP) && fused(r) && fused(r)->linear_gelu;
}

/* mlp_up's product, and the input of mlp_down's product if the activation is relu or GELU's tanh
 * form, which libraries can fuse with products. */
static dt_status gelu_raise(const struct layer_run *r, const struct gpt_linear *product)
{
    struct layer_run down;
    r->kept->rectified = rectifies(r);
    if (r->kept->rectified)
        return r->k->linear_gelu(r->kernels, r->stream, &(struct gpt_linear_gelu){*product, product->y});
    if (gpt_of(r->stage->base.model)->mlp != GPT_MLP_GELU_NEW || r->recompute || !layer_after(r, &down))
        return r->k->linear(r->kernels, r->stream, product);
    DT_TRY(allocate_active(&down));
    down.kept->activated = fused(r) && fused(r)->linear_gelu;
    if (!down.kept->activated)
        return r->k->linear(r->kernels, r->stream, product);
    return r->k->linear_gelu(r->kernels, r->stream, &(struct gpt_linear_gelu){*product, down.kept->active.data});
}

static dt_status gelu_forward(const struct layer_run *r, const struct dt_layer_stash *up, void *active)
{
    bool activated = r->kept->activated;
    r->kept->activated = false;
    if (up->rectified)
        return project(r, up->hidden.data, NULL, up->input.data);
    if (!activated && !keeps(r, DT_KEEP_MLP))
        return project(r, up->hidden.data, active, up->input.data);
    if (!activated)
        DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active, up->hidden.data, r->rows * r->f}));
    return project(r, active, NULL, up->input.data);
}

static dt_status gelu_weights(const struct layer_run *r, const struct dt_layer_stash *up, void *active)
{
    struct gpt_linear_gelu_weight_gradient a = {
        layer_weight_gradient_of(r, layer_dbranch(r), up->hidden.data, GPT_WEIGHT, GPT_BIAS, r->d, r->f), active};
    return r->k->linear_gelu_weight_gradient(r->kernels, r->stream, &a);
}

/* Whether the kernel that makes the gradient of `hidden` also sums it up to the gradient of
 * mlp_up's bias: in a whole backward of both layers. */
static bool sums_bias(const struct layer_run *r, struct layer_run *up)
{
    return layer_before(r, up) && r->part == DT_BACKWARD_WHOLE && gpt_has_tensor(up->layer, GPT_BIAS) && fused(r) &&
           fused(r)->gelu_gradient_sums;
}

/* Whether the kernel of GELU's gradient also recomputes gelu(hidden), in the memory of hidden. The
 * weights' gradients then come last. */
static bool gradient_makes_active(const struct layer_run *r, const struct dt_layer_stash *up)
{
    return !up->rectified && weights_now(r) && r->part == DT_BACKWARD_WHOLE && !has_active(r) && fused(r) && fused(r)->gelu_gradient_sums;
}

static dt_status gelu_backward(const struct layer_run *r, struct dt_layer_stash *up)
{
    bool makes_active = gradient_makes_active(r, up);
    DT_TRY(layer_allocate(r, gradient_category(r), r->u, &up->dhidden));
    if (weights_now(r) && (has_active(r) || up->rectified))
        DT_TRY(weight_gradients(r, up->rectified ? up->hidden.data : r->kept->active.data));
    else if (weights_now(r) && !makes_active) /* gelu(hidden) is read before the gradient of hidden overwrites it */
        DT_TRY(gelu_weights(r, up, up->dhidden.data));
    struct layer_run before;
    struct gpt_gelu_gradient_sums a = {
        .product = {.linear = layer_input_gradient_of(r, up->dhidden.data, layer_dbranch(r), GPT_WEIGHT, r->d, r->f),
                    .hidden = up->hidden.data},
        .active = makes_active ? up->hidden.data : NULL,
        .accumulate = r->accumulate,
    };
    up->bias_summed = sums_bias(r, &before);
    if (!up->bias_summed && !makes_active)
        return r->k->linear_gelu_input_gradient(r->kernels, r->stream, &a.product);
    if (up->bias_summed)
        a.db = layer_grad(&before, GPT_BIAS);
    DT_TRY(r->k->gelu_gradient_sums(r->kernels, r->stream, &a));
    return makes_active ? weight_gradients(r, a.active) : DT_OK;
}

/* ---- down(silu(gate(x)) * up(x)) ---- */

static dt_status swiglu(const struct layer_run *r, const struct dt_layer_stash *up, void *active)
{
    return r->k->swiglu(r->kernels, r->stream, &(struct gpt_swiglu){active, up->hidden.data, r->rows, r->f, up->raised.data});
}

static dt_status swiglu_forward(const struct layer_run *r, const struct dt_layer_stash *up, void *active)
{
    DT_TRY(swiglu(r, up, active));
    return project(r, active, NULL, up->input.data);
}

static dt_status swiglu_weights(const struct layer_run *r, const struct dt_layer_stash *up, void *active)
{
    DT_TRY(swiglu(r, up, active));
    return weight_gradients(r, active);
}

/* dhidden overwrites hidden, which is not read afterwards. If the input of mlp_down is not kept, it
 * is recomputed in the memory of its gradient. */
static dt_status swiglu_backward(const struct layer_run *r, struct dt_layer_stash *up)
{
    struct dt_buffer dactive;
    bool again = weights_now(r) && !has_active(r);
    DT_TRY(layer_allocate(r, DT_WORKSPACE, r->f, &dactive));
    DT_TRY(layer_input_gradient(r, dactive.data, layer_dbranch(r), GPT_WEIGHT, r->d, r->f));
    const void *hidden = up->hidden.data;
    if (weights_now(r) && up->raised.bytes == 0)
        dt_buffer_move(&up->dhidden, &up->hidden);
    else
        DT_TRY(layer_allocate(r, gradient_category(r), r->u, &up->dhidden));
    struct gpt_swiglu_gradient a = {
        .dy = dactive.data,
        .hidden = hidden,
        .dhidden = up->dhidden.data,
        .y = again ? dactive.data : NULL,
        .rows = r->rows,
        .f = r->f,
        .up = up->raised.data,
    };
    DT_TRY(r->k->swiglu_gradient(r->kernels, r->stream, &a));
    if (weights_now(r))
        DT_TRY(weight_gradients(r, again ? dactive.data : r->kept->active.data));
    dt_free(r->stream, &dactive);
    return DT_OK;
}

static const struct mlp mlps[] = {
    [GPT_MLP_GELU] = {GPT_WEIGHT, GPT_BIAS, gelu_forward, gelu_backward, gelu_weights},
    [GPT_MLP_GELU_NEW] = {GPT_WEIGHT, GPT_BIAS, gelu_forward, gelu_backward, gelu_weights},
    [GPT_MLP_RELU] = {GPT_WEIGHT, GPT_BIAS, gelu_forward, gelu_backward, gelu_weights},
    [GPT_MLP_SWIGLU] = {GPT_GATE_WEIGHT, GPT_GATE_BIAS, swiglu_forward, swiglu_backward, swiglu_weights},
};

static const struct mlp *mlp_of(const struct layer_run *r)
{
    return &mlps[gpt_of(r->stage->base.model)->mlp];
}

/* ---- every second product recomputed: the projection, and up if it is separate from gate ---- */

static bool parts_product(const struct layer_run *r)
{
    return makes_again(r, DT_AGAIN_PRODUCTS) && mlp_of(r)->up_weight == GPT_GATE_WEIGHT;
}

/* Computes mlp_up's kept->raised. */
static dt_status raise(const struct layer_run *r, const void *normed)
{
    DT_TRY(layer_allocate(r, DT_ACTIVATIONS, r->f, &r->kept->raised));
    return layer_linear(r, r->kept->raised.data, normed, GPT_WEIGHT, GPT_BIAS, r->f, r->d);
}

/* At the end of mlp_down's forward: free these products. A product that was summed over ranks is
 * kept. */
static void forget_products(const struct layer_run *r)
{
    struct layer_run up = layer_one_before(r);
    dt_free(r->stream, &up.kept->raised);
    if (!shared(r))
        layer_free_norm_input(&up);
}

/* mlp_up's input: recomputed by the projection, or from the stash if it is the input or output of
 * the stage. */
static dt_status project_again(const struct layer_run *up)
{
    struct layer_run attention = layer_one_before(up);
    struct dt_buffer x;
    dt_buffer_move(&x, &up->stash->x);
    dt_status status = layer_project_to_stream(&attention, attention.kept->mixed.data, NULL, GPT_PROJECTION_WEIGHT, GPT_PROJECTION_BIAS,
                                               up->e, attention.kept->input.data);
    DT_THEN(status, layer_keep_norm_input(up));
    dt_free(up->stream, &up->stash->x); /* from a failed attempt */
    dt_buffer_move(&up->stash->x, &x);
    return status;
}

static dt_status make_products(const struct layer_run *r)
{
    struct layer_run up = layer_one_before(r);
    struct dt_buffer normed;
    if (shared(r) && !parts_product(r))
        return DT_OK;
    if (!shared(r))
        DT_TRY(project_again(&up));
    DT_TRY(layer_normed_rows(&up, &normed)); /* also recomputes the norm's mean and rstd */
    if (parts_product(r))
        DT_TRY(raise(&up, normed.data));
    if (!r->stage->sliced)
        dt_buffer_move(&up.kept->normed, &normed);
    dt_free(r->stream, &normed);
    return DT_OK;
}

/* ---- the two layers ---- */

dt_status layer_mlp_up_forward(const struct layer_run *r)
{
    const struct mlp *mlp = mlp_of(r);
    struct dt_buffer normed;
    DT_TRY(layer_keep_norm_input(r));
    DT_TRY(layer_normed_rows(r, &normed));
    size_t out = parts_product(r) ? r->f : r->u;
    DT_TRY(layer_allocate(r, DT_ACTIVATIONS, out, &r->kept->hidden));
    struct gpt_linear product = layer_linear_of(r, r->kept->hidden.data, normed.data, mlp->up_weight, mlp->up_bias, out, r->d);
    DT_TRY(dt_exchange_product_begin(&r->stage->exchange, r->stream));
    DT_TRY(gelu_raise(r, &product));
    DT_TRY(dt_exchange_product_end(&r->stage->exchange));
    if (parts_product(r))
        DT_TRY(raise(r, normed.data));
    layer_normed_read(r, &normed);
    return DT_OK;
}

dt_status layer_mlp_down_forward(const struct layer_run *r)
{
    const struct dt_layer_stash *up = r->kept - 1; /* mlp_up of the same block is always in the same stage */
    if (r->kept->active.bytes == 0)
        DT_TRY(allocate_active(r));
    DT_TRY(mlp_of(r)->forward(r, up, r->kept->active.data));
    if (!keeps(r, DT_KEEP_MLP))
        dt_free(r->stream, &r->kept->active);
    if (makes_again(r, DT_AGAIN_PRODUCTS))
        forget_products(r);
    return DT_OK;
}

/* The second half of a backward: the input of down's product is kept, or recomputed. */
static dt_status late_weight_gradients(const struct layer_run *r, const struct dt_layer_stash *up)
{
    struct dt_buffer active;
    if (has_active(r))
        return weight_gradients(r, r->kept->active.data);
    DT_TRY(layer_allocate(r, DT_WORKSPACE, r->f, &active));
    DT_TRY(mlp_of(r)->weights(r, up, active.data));
    dt_free(r->stream, &active);
    return DT_OK;
}

dt_status layer_mlp_down_backward(const struct layer_run *r)
{
    struct dt_layer_stash *up = r->kept - 1;

    if (inputs_now(r)) {
        if (makes_again(r, DT_AGAIN_PRODUCTS))
            DT_TRY(make_products(r));
        DT_TRY(layer_branch_gradient(r));
        DT_TRY(mlp_of(r)->backward(r, up));
    } else {
        DT_TRY(late_weight_gradients(r, up));
    }
    if (weights_now(r) || has_active(r))
        dt_free(r->stream, &up->hidden);
    if (weights_now(r))
        dt_free(r->stream, &up->raised);
    if (weights_now(r)) {
        dt_free(r->stream, &r->kept->dbranch);
        dt_free(r->stream, &r->kept->active);
        dt_free(r->stream, &r->kept->besides);
        dt_free(r->stream, &up->besides);
    }
    return DT_OK;
}

dt_status layer_mlp_up_backward(const struct layer_run *r)
{
    const struct mlp *mlp = mlp_of(r);
    bool summed = r->kept->bias_summed;
    r->kept->bias_summed = false;
    return layer_backward_through_norm(r, &r->kept->dhidden, mlp->up_weight, summed ? GPT_NO_TENSOR : mlp->up_bias, r->u);
}

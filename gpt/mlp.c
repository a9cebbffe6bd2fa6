/* MLP: x + dropout(down(gelu(up(norm(x))))), in two layers so that each can be gathered alone. */
#include "gpt/layer_parts.h"

dt_status layer_mlp_up_forward(const struct layer_run *r)
{
    struct dt_buffer normed;
    DT_TRY(layer_keep_norm_input(r));
    DT_TRY(layer_normed_rows(r, &normed));
    DT_TRY(layer_allocate(r, DT_ACTIVATIONS, 4 * r->e, &r->kept->hidden));
    DT_TRY(layer_keep_framework(r, r->layer->kind));
    DT_TRY(layer_linear(r, r->kept->hidden.data, normed.data, "weight", "bias", 4 * r->e, r->d));
    dt_free(r->stream, &normed);
    return DT_OK;
}

dt_status layer_mlp_down_forward(const struct layer_run *r)
{
    const struct dt_layer_stash *up = r->kept - 1; /* mlp_up of the same block is always in the same stage */
    struct dt_buffer active;
    DT_TRY(layer_allocate(r, DT_WORKSPACE, 4 * r->e, &active));
    DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active.data, up->hidden.data, r->rows * 4 * r->e}));
    DT_TRY(layer_project_to_stream(r, active.data, "weight", "bias", 4 * r->e, up->input.data));
    dt_free(r->stream, &active);
    return DT_OK;
}

/* dw, db from dbranch and gelu(hidden), which is computed again to active [M, 4e]. */
static dt_status mlp_down_weight_gradients(const struct layer_run *r, const struct dt_layer_stash *up, void *active)
{
    DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active, up->hidden.data, r->rows * 4 * r->e}));
    return layer_weight_gradients(r, r->kept->dbranch.data, active, "weight", "bias", r->d, 4 * r->e);
}

/* The gradient of mlp_up's output, up->dhidden, through product and GELU. */
static dt_status mlp_down_input_gradient(const struct layer_run *r, const struct dt_layer_stash *up)
{
    struct gpt_linear_gelu_input_gradient a = {
        .dy = r->kept->dbranch.data,
        .w = layer_param(r, "weight"),
        .hidden = up->hidden.data,
        .dx = up->dhidden.data,
        .rows = r->rows,
        .in = 4 * r->e,
        .out = r->d,
    };
    return r->k->linear_gelu_input_gradient(r->kernels, r->stream, &a);
}

dt_status layer_mlp_down_backward(const struct layer_run *r)
{
    struct dt_layer_stash *up = r->kept - 1;
    struct dt_buffer active;

    if (inputs_now(r)) {
        DT_TRY(layer_branch_gradient(r, &r->kept->dbranch));
        DT_TRY(layer_allocate(r, gradient_category(r), 4 * r->e, &up->dhidden));
        if (weights_now(r)) /* gelu(hidden) is read before its memory takes the gradient of hidden */
            DT_TRY(mlp_down_weight_gradients(r, up, up->dhidden.data));
        DT_TRY(mlp_down_input_gradient(r, up));
    } else {
        DT_TRY(layer_allocate(r, DT_WORKSPACE, 4 * r->e, &active));
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

dt_status layer_mlp_up_backward(const struct layer_run *r)
{
    return layer_backward_through_norm(r, &r->kept->dhidden, "weight", "bias", 4 * r->e);
}

/* The branches of a block: between the residual stream and the products of attention and MLP. */
#include "gpt/layer_branch.h"

#include "gpt/layer_shared.h"

/* ---- forward ---- */

static enum dt_category normed_category(const struct layer_run *r)
{
    return keeps(r, DT_KEEP_NORMS) || r->part == DT_BACKWARD_INPUT ? DT_ACTIVATIONS : DT_WORKSPACE;
}

/* One rank adds the bias of a product whose summands are summed over the ranks. */
static enum gpt_tensor_name bias_of_sum(const struct layer_run *r, enum gpt_tensor_name bias)
{
    return r->stage->cut.rank == 0 ? bias : GPT_NO_TENSOR;
}

/* Whether the norm of the next layer can run together with the residual sum: not if the next layer
 * is in another group. Nor after recomputed attention, which frees its weights after the sum; the
 * norm's output is allocated after that. */
static bool has_norm_after(const struct layer_run *r, struct layer_run *after)
{
    return layer_after(r, after) && has_norm(after->layer) && !attends_again(r);
}

static dt_status allocate_norm(const struct layer_run *r)
{
    DT_TRY(layer_allocate_norm_numbers(r));
    return layer_allocate_stream(r, normed_category(r), &r->kept->normed);
}

/* x [R, d] = residual + layer_dropout(branch), where the branch is in x. */
static struct gpt_dropout_residual residual_sum(const struct layer_run *r, void *x, const void *residual)
{
    return (struct gpt_dropout_residual){
        .residual = residual,
        .branch = x,
        .out = x,
        .rows = r->stream_rows,
        .dropout = layer_stream_dropout(r),
    };
}

static dt_status add_residual(const struct layer_run *r, const void *residual)
{
    struct gpt_dropout_residual a = residual_sum(r, r->stash->x.data, residual);
    return r->k->dropout_residual(r->kernels, r->stream, &a);
}

static dt_status add_residual_and_normalize(const struct layer_run *r, void *x, const void *residual, const struct layer_run *after)
{
    struct gpt_residual_norm a = {
        .sum = residual_sum(r, x, residual),
        .norm = layer_norm_of(after, x, after->kept->normed.data),
    };
    return r->k->residual_norm(r->kernels, r->stream, &a);
}

/* Product and residual sum in one kernel, for a rank that has the whole layer. */
static dt_status project_alone(const struct layer_run *r, const void *x, void *active, enum gpt_tensor_name weight,
                               enum gpt_tensor_name bias, size_t in, const void *residual)
{
    struct gpt_linear_residual a = {
        .linear = layer_linear_of(r, r->stash->x.data, x, weight, bias, r->d, in),
        .residual = residual,
        .active = active,
        .dropout = layer_stream_dropout(r),
    };
    return r->k->linear_residual(r->kernels, r->stream, &a);
}

/* stash->x [M, d] = the product. */
static dt_status project(const struct layer_run *r, const void *x, void *active, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                         size_t in)
{
    if (active)
        DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active, x, r->rows * in}));
    return layer_linear(r, r->stash->x.data, active ? active : x, weight, bias, r->d, in);
}

/* Whether the norm of the next block adds an MLP's residual: one kernel over the border of two
 * groups, if the norm reads the sum from the stash. */
static bool leaves_sum(const struct layer_run *r)
{
    return r->layer->kind == GPT_MLP_DOWN && r->group->goes_on && r->layer[1].kind == GPT_ATTENTION && !r->recompute &&
           !makes_again(r, DT_AGAIN_PRODUCTS);
}

/* Without dropout the residual sum is part of the product, and the norm reads only the sum. */
static bool adds_in_product(const struct layer_run *r)
{
    return !shared(r) && gpt_of(model_of(r))->dropout == 0;
}

dt_status layer_project_to_stream(const struct layer_run *r, const void *x, void *active, enum gpt_tensor_name weight,
                                  enum gpt_tensor_name bias, size_t in, const void *residual)
{
    struct layer_run after;
    bool normalizes = has_norm_after(r, &after), joins = fused(r) && fused(r)->residual_norm && !adds_in_product(r);
    bool at_once = joins && normalizes, later = joins && !normalizes && leaves_sum(r);
    DT_TRY(layer_allocate_summand(r, DT_ACTIVATIONS, &r->stash->x));
    if (shared(r) || at_once || later)
        DT_TRY(project(r, x, active, weight, shared(r) ? bias_of_sum(r, bias) : bias, in));
    DT_TRY(layer_sum_up(r, DT_ACTIVATIONS, &r->stash->x));
    r->kept->sum_is_left = later;
    if (later)
        return DT_OK;
    if (normalizes)
        DT_TRY(allocate_norm(&after));
    if (at_once)
        return add_residual_and_normalize(r, r->stash->x.data, residual, &after);
    DT_TRY(shared(r) ? add_residual(r, residual) : project_alone(r, x, active, weight, bias, in, residual));
    return normalizes ? layer_normalize(&after, r->stash->x.data, after.kept->normed.data) : DT_OK;
}

/* ---- backward ---- */

/* Without dropout the branch's gradient equals that of the residual stream. It is not copied if
 * nothing changes it before it is read and the fused kernel exists. Memory for the copy is
 * allocated on every device. */
static bool branch_is_stream(const struct layer_run *r)
{
    return fused(r) && fused(r)->norm_branch_gradient && r->part == DT_BACKWARD_WHOLE && !r->stage->sliced &&
           gpt_of(model_of(r))->dropout == 0;
}

const void *layer_dbranch(const struct layer_run *r)
{
    return branch_is_stream(r) ? r->stash->dx.data : r->kept->dbranch.data;
}

/* Memory for this rank's rows of the branch's gradient. */
static dt_status allocate_branch_gradient(const struct layer_run *r)
{
    return layer_allocate_stream(r, r->stage->sliced ? DT_WORKSPACE : gradient_category(r), &r->kept->dbranch);
}

static dt_status branch_gradient(const struct layer_run *r)
{
    if (branch_is_stream(r))
        return DT_OK;
    struct gpt_dropout_gradient a = {
        .dout = r->stash->dx.data, .dbranch = r->kept->dbranch.data, .rows = r->stream_rows, .dropout = layer_stream_dropout(r)};
    return r->k->dropout_gradient(r->kernels, r->stream, &a);
}

dt_status layer_branch_gradient(const struct layer_run *r)
{
    if (r->kept->dbranch.bytes == 0) {
        DT_TRY(allocate_branch_gradient(r));
        DT_TRY(branch_gradient(r));
    }
    return layer_gather(r, gradient_category(r), &r->kept->dbranch);
}

/* Make this rank's rows of the norm's output, unless they exist. */
static dt_status own_normed_rows(const struct layer_run *r)
{
    if (r->kept->normed.bytes > 0)
        return DT_OK;
    DT_TRY(layer_allocate_stream(r, normed_category(r), &r->kept->normed));
    if (r->layer->kind != GPT_ATTENTION || r->layer == r->stage->layers || !r->kept[-1].sum_is_left)
        return layer_normalize(r, r->kept->input.data, r->kept->normed.data);
    struct layer_run before = layer_one_before(r);
    before.kept->sum_is_left = false;
    return add_residual_and_normalize(&before, r->kept->input.data, before.kept[-1].input.data, r);
}

dt_status layer_normed_rows(const struct layer_run *r, struct dt_buffer *normed)
{
    DT_TRY(own_normed_rows(r));
    if (!r->stage->sliced) {
        dt_buffer_move(normed, &r->kept->normed);
        return DT_OK;
    }
    DT_TRY(layer_gather_begin(r, &r->kept->normed, DT_WORKSPACE, normed));
    DT_TRY(layer_gather_end(r));
    if (!keeps(r, DT_KEEP_NORMS))
        dt_free(r->stream, &r->kept->normed);
    return DT_OK;
}

void layer_normed_read(const struct layer_run *r, struct dt_buffer *normed)
{
    if (keeps(r, DT_KEEP_NORMS) && !r->stage->sliced)
        dt_buffer_move(&r->kept->normed, normed);
    else
        dt_free(r->stream, normed);
}

/* Whether the layer before this block's norm is an MLP in the group before, whose backward is next.
 * Memory for the gradient of its branch does not raise the peak: when that backward runs, it is
 * there in addition to at least as much memory as this norm still uses now. */
static bool follows_mlp(const struct layer_run *r, struct layer_run *before)
{
    if (r->layer->kind != GPT_ATTENTION || r->layer != &r->stage->layers[r->group->first_layer] || r->group->index == 0 ||
        !r->group[-1].goes_on || r->layer[-1].kind != GPT_MLP_DOWN || r->part != DT_BACKWARD_WHOLE || r->f < 2 * r->d)
        return false;
    *before = layer_one_before(r);
    return fused(r) && fused(r)->norm_branch_gradient;
}

/* Backward through the norm into stash->dx, which is then complete. Then through the dropout of the
 * branch before the norm, if its layer is in the group or its backward is next; not if that is
 * recomputed attention, which needs the memory for its weights first. normed: NULL, or dnormed,
 * which then becomes the norm's output. */
static dt_status through_norm(const struct layer_run *r, const void *dnormed, void *normed)
{
    struct layer_run before;
    bool to_branch =
        follows_mlp(r, &before) || (layer_before(r, &before) && before.layer->kind == GPT_ATTENTION && !attends_again(&before));
    if (to_branch)
        DT_TRY(allocate_branch_gradient(&before));
    if (fused(r) && fused(r)->norm_branch_gradient)
        return layer_normalize_backward(r, dnormed, r->stash->dx.data, false,
                                        &(struct layer_beside_norm){to_branch && !branch_is_stream(r) ? &before : NULL, normed});
    DT_TRY(layer_normalize_backward(r, dnormed, r->stash->dx.data, false, NULL));
    if (to_branch)
        DT_TRY(branch_gradient(&before));
    return normed ? layer_normalize(r, r->kept->input.data, normed) : DT_OK;
}

/* The input half of layer_backward_through_norm if ranks share the layer. The gradient of the
 * product's input is summed over ranks while the weight gradients are computed, if these are part
 * of this half; the rows that they read are gathered while the first product runs. The norm's
 * output cannot come from its gradient (backward_making_normed), which would need the sum first.
 * Frees dy after the weight gradients. */
static dt_status backward_shared(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                                 size_t out)
{
    struct dt_buffer *normed = &r->kept->normed, all = {0}, dnormed, sum;
    if (weights_now(r)) {
        DT_TRY(own_normed_rows(r));
        if (r->stage->sliced)
            DT_TRY(layer_gather_begin(r, normed, DT_WORKSPACE, &all));
    }
    DT_TRY(layer_allocate(r, DT_WORKSPACE, r->d, &dnormed));
    DT_TRY(layer_input_gradient(r, dnormed.data, dy->data, weight, out, r->d));
    DT_TRY(layer_sum_begin(r, DT_WORKSPACE, &dnormed, &sum));
    DT_TRY(layer_sum_in_turn(r, &dnormed, weight == GPT_GATE_WEIGHT ? 2 : 1));
    if (weights_now(r)) {
        if (r->stage->sliced)
            DT_TRY(dt_exchange_wait(&r->stage->exchange, DT_EXCHANGE_INPUT));
        DT_TRY(layer_shared_weight_gradients(r, dy->data, r->stage->sliced ? all.data : normed->data, weight, bias, out));
        dt_free(r->stream, dy);
        dt_free(r->stream, normed);
    }
    dt_free(r->stream, &all);
    DT_TRY(layer_sum_end(r, &dnormed, &sum));
    DT_TRY(through_norm(r, dnormed.data, NULL));
    dt_free(r->stream, &dnormed);
    return DT_OK;
}

/* The whole backward if a rank has whole layers and the norm's output is not kept: the gradient of
 * the norm's output comes first, and its memory then gets the norm's output. */
static dt_status backward_making_normed(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight,
                                        enum gpt_tensor_name bias, size_t out)
{
    struct dt_buffer normed;
    DT_TRY(layer_allocate(r, DT_WORKSPACE, r->d, &normed));
    DT_TRY(layer_input_gradient(r, normed.data, dy->data, weight, out, r->d));
    DT_TRY(through_norm(r, normed.data, normed.data));
    DT_TRY(layer_weight_gradients(r, dy->data, normed.data, weight, bias, out, r->d));
    dt_free(r->stream, dy);
    dt_free(r->stream, &normed);
    return DT_OK;
}

/* Backward if a rank has whole layers and the norm's output is kept; also each half alone. */
static dt_status backward_alone(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                                size_t out)
{
    struct dt_buffer normed;
    DT_TRY(weights_now(r) ? layer_normed_rows(r, &normed) : layer_allocate(r, DT_WORKSPACE, r->d, &normed));
    if (weights_now(r))
        DT_TRY(layer_weight_gradients(r, dy->data, normed.data, weight, bias, out, r->d));
    if (inputs_now(r)) /* the norm's output is not read again: its gradient uses the memory */
        DT_TRY(layer_input_gradient(r, normed.data, dy->data, weight, out, r->d));
    if (weights_now(r))
        dt_free(r->stream, dy);
    if (inputs_now(r))
        DT_TRY(through_norm(r, normed.data, NULL));
    dt_free(r->stream, &normed);
    return DT_OK;
}

/* Free what the second half of a backward does not read: it reads the norm's output, or the input
 * from which it computes that again. */
static void free_after_norm(const struct layer_run *r)
{
    if (weights_now(r))
        dt_free(r->stream, &r->kept->normed);
    if (weights_now(r) || r->kept->normed.bytes > 0)
        layer_free_norm_input(r);
}

static dt_status weights_after_norm(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                                    size_t out)
{
    struct dt_buffer normed;
    DT_TRY(layer_normed_rows(r, &normed));
    DT_TRY(layer_shared_weight_gradients(r, dy->data, normed.data, weight, bias, out));
    dt_free(r->stream, dy);
    dt_free(r->stream, &normed);
    return DT_OK;
}

dt_status layer_backward_through_norm(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight,
                                      enum gpt_tensor_name bias, size_t out)
{
    if (!shared(r) && r->part == DT_BACKWARD_WHOLE && r->kept->normed.bytes == 0)
        DT_TRY(backward_making_normed(r, dy, weight, bias, out));
    else if (!shared(r))
        DT_TRY(backward_alone(r, dy, weight, bias, out));
    else if (inputs_now(r))
        DT_TRY(backward_shared(r, dy, weight, bias, out));
    else
        DT_TRY(weights_after_norm(r, dy, weight, bias, out));
    free_after_norm(r);
    return DT_OK;
}

#include "gpt/layer_parts.h"

#include <string.h>

/* ---- the group's parameters, memory, dropout ---- */

static size_t tensor_bytes(const struct layer_run *r, enum gpt_tensor_name name)
{
    size_t offset_elems = gpt_tensor_offset(r->layer, name);
    for (const struct gpt_layer *l = &r->stage->layers[r->group->first_layer]; l != r->layer; l++)
        offset_elems += l->param_elems;
    return offset_elems * r->element_bytes;
}

void *layer_param(const struct layer_run *r, enum gpt_tensor_name name)
{
    return (char *)r->group->params + tensor_bytes(r, name);
}

void *layer_grad(const struct layer_run *r, enum gpt_tensor_name name)
{
    return (char *)r->group->grads + tensor_bytes(r, name);
}

struct gpt_dropout layer_dropout(const struct layer_run *r)
{
    return (struct gpt_dropout){
        .seed = r->stage->base.seed,
        .layer = (uint32_t)r->layer->index,
        .first_sample = r->stash->first_sample,
        .first_row = 0,
        .positions = r->stage->where,
        .probability = gpt_of(r->stage->base.model)->dropout,
    };
}

struct gpt_dropout layer_stream_dropout(const struct layer_run *r)
{
    struct gpt_dropout all = layer_dropout(r);
    all.first_row = r->stage->sliced ? (uint32_t)((size_t)r->stage->cut.rank * r->stream_rows) : 0;
    return all;
}

dt_status layer_allocate(const struct layer_run *r, enum dt_category category, size_t columns, struct dt_buffer *out)
{
    return dt_alloc(r->stream, category, r->rows * columns * r->element_bytes, out);
}

dt_status layer_allocate_stream(const struct layer_run *r, enum dt_category category, struct dt_buffer *out)
{
    return dt_alloc(r->stream, category, r->stream_rows * r->d * r->element_bytes, out);
}

bool layer_before(const struct layer_run *r, struct layer_run *before)
{
    *before = *r;
    if (r->layer == &r->stage->layers[r->group->first_layer])
        return false;
    before->layer--;
    before->kept--;
    return true;
}

struct layer_run layer_one_before(const struct layer_run *r)
{
    struct layer_run before = *r;
    if (r->layer == &r->stage->layers[r->group->first_layer])
        before.group--;
    before.layer--;
    before.kept--;
    return before;
}

bool layer_after(const struct layer_run *r, struct layer_run *after)
{
    *after = *r;
    if (r->layer == &r->stage->layers[r->group->first_layer + r->group->layer_count - 1])
        return false;
    after->layer++;
    after->kept++;
    return true;
}

static enum dt_dtype dtype_of(const struct layer_run *r)
{
    return r->stage->base.model->dtype;
}

static const struct dt_model *model_of(const struct layer_run *r)
{
    return r->stage->base.model;
}

static bool norm_is_rms(const struct layer_run *r)
{
    return gpt_of(model_of(r))->norm == GPT_NORM_RMS;
}

/* An RMS norm has no bias, and its layers keep no means. */
static dt_status normalize(const struct layer_run *r, const void *x, void *normed)
{
    struct gpt_norm a = {
        .x = x,
        .gain = layer_param(r, GPT_NORM_GAIN),
        .bias = gpt_norm_has_bias(model_of(r)) ? layer_param(r, GPT_NORM_BIAS) : NULL,
        .y = normed,
        .mean = r->kept->mean.data,
        .rstd = r->kept->rstd.data,
        .rows = r->stream_rows,
        .d = r->d,
        .epsilon = (float)gpt_norm_epsilon(model_of(r)),
    };
    return norm_is_rms(r) ? r->k->rms_norm(r->kernels, r->stream, &a) : r->k->layer_norm(r->kernels, r->stream, &a);
}

dt_status layer_normalize(const struct layer_run *r, void *normed)
{
    return normalize(r, r->kept->input.data, normed);
}

static dt_status allocate_norm_numbers(const struct layer_run *r)
{
    if (!norm_is_rms(r))
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, r->stream_rows * sizeof(float), &r->kept->mean));
    return dt_alloc(r->stream, DT_ACTIVATIONS, r->stream_rows * sizeof(float), &r->kept->rstd);
}

dt_status layer_keep_norm_input(const struct layer_run *r)
{
    take(&r->kept->input, &r->stash->x);
    return r->kept->rstd.bytes > 0 ? DT_OK : allocate_norm_numbers(r);
}

void layer_free_norm_input(const struct layer_run *r)
{
    dt_free(r->stream, &r->kept->input);
    dt_free(r->stream, &r->kept->mean);
    dt_free(r->stream, &r->kept->rstd);
}

/* What the second half of a backward reads: the norm's output, or all that makes it again. */
static void free_after_norm(const struct layer_run *r)
{
    if (weights_now(r))
        dt_free(r->stream, &r->kept->normed);
    if (weights_now(r) || r->kept->normed.bytes > 0)
        layer_free_norm_input(r);
}

/* dgain, and dbias after it. */
static dt_status norm_backward(const struct layer_run *r, const void *dy, void *dx, void *sums, bool overwrite, bool accumulate)
{
    struct gpt_norm_gradient a = {
        .dy = dy,
        .x = r->kept->input.data,
        .gain = layer_param(r, GPT_NORM_GAIN),
        .mean = r->kept->mean.data,
        .rstd = r->kept->rstd.data,
        .dx = dx,
        .dgain = sums,
        .dbias = gpt_norm_has_bias(model_of(r)) ? (char *)sums + r->d * r->element_bytes : NULL,
        .rows = r->stream_rows,
        .d = r->d,
        .overwrite = overwrite,
        .accumulate = accumulate,
    };
    return norm_is_rms(r) ? r->k->rms_norm_gradient(r->kernels, r->stream, &a) : r->k->layer_norm_gradient(r->kernels, r->stream, &a);
}

/* What one kernel makes together with a norm's gradient; NULL: nothing. */
struct beside_norm {
    const struct layer_run *branch; /* of the layer whose dbranch is made from the finished dx */
    void *normed;                   /* the norm's output; may be dy */
};

static dt_status norm_branch_backward(const struct layer_run *r, const void *dy, void *dx, void *sums, bool accumulate,
                                      const struct beside_norm *beside)
{
    const struct layer_run *branch = beside->branch;
    bool bias = gpt_norm_has_bias(model_of(r));
    struct gpt_norm_branch_gradient a = {
        .dy = dy,
        .x = r->kept->input.data,
        .gain = layer_param(r, GPT_NORM_GAIN),
        .bias = bias ? layer_param(r, GPT_NORM_BIAS) : NULL,
        .mean = r->kept->mean.data,
        .rstd = r->kept->rstd.data,
        .dx = dx,
        .dgain = sums,
        .dbias = bias ? (char *)sums + r->d * r->element_bytes : NULL,
        .dbranch = branch ? branch->kept->dbranch.data : NULL,
        .y = beside->normed,
        .epsilon = (float)gpt_norm_epsilon(model_of(r)),
        .rows = r->stream_rows,
        .d = r->d,
        .accumulate = accumulate,
        .dropout = branch ? layer_stream_dropout(branch) : (struct gpt_dropout){0},
    };
    return r->k->norm_branch_gradient(r->kernels, r->stream, &a);
}

/* beside NULL: only the norm's gradient. */
static dt_status normalize_backward(const struct layer_run *r, const void *dy, void *dx, bool overwrite, const struct beside_norm *beside)
{
    size_t count = gpt_norm_elems(model_of(r));
    void *sums = layer_grad(r, GPT_NORM_GAIN);
    bool apart = r->stage->sliced && r->accumulate; /* the sum over the ranks must count the existing gradients once */
    if (apart) {
        DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, count * r->element_bytes, &r->kept->dnorm));
        sums = r->kept->dnorm.data;
    }
    bool accumulate = r->accumulate && !apart;
    DT_TRY(beside ? norm_branch_backward(r, dy, dx, sums, accumulate, beside) : norm_backward(r, dy, dx, sums, overwrite, accumulate));
    if (!r->stage->sliced)
        return DT_OK;
    return gpt_all_reduce_begin(&r->stage->exchange, r->stage->exchange.group.comm, GPT_EXCHANGE_GRADIENTS, r->stream, sums, count,
                                dtype_of(r));
}

dt_status layer_normalize_backward(const struct layer_run *r, const void *dy, void *dx, bool overwrite)
{
    return normalize_backward(r, dy, dx, overwrite, NULL);
}

static bool has_norm(const struct gpt_layer *layer)
{
    return layer->kind == GPT_ATTENTION || layer->kind == GPT_MLP_UP || layer->kind == GPT_FINAL_NORM;
}

dt_status layer_sum_head_gains_begin(const struct layer_run *r)
{
    size_t gains = 2 * (size_t)gpt_head_width(model_of(r)); /* k's lies after q's */
    if (!shared(r))
        return DT_OK;
    return gpt_all_reduce_begin(&r->stage->exchange, r->stage->exchange.group.comm, GPT_EXCHANGE_GRADIENTS, r->stream,
                                layer_grad(r, GPT_Q_NORM_GAIN), gains, dtype_of(r));
}

/* ---- copies of k and v ---- */

/* Ranks that have the same heads of k and v as this one, itself included. */
static int copies_of_kv(const struct layer_run *r)
{
    return r->layer->kind == GPT_ATTENTION ? gpt_cut_copies(model_of(r), r->stage->cut.size) : 1;
}

/* k's and v's elements after q's: v lies after k. */
static size_t kv_elems(const struct layer_run *r, enum gpt_tensor_name of_q)
{
    size_t features = 2 * gpt_cut_kv_heads(r->stage->cut, model_of(r)).count * (size_t)gpt_head_width(model_of(r));
    return of_q == GPT_Q_WEIGHT ? features * r->d : features;
}

/* Zero the gradients that this rank's copy is not to add to; q's are its own. */
static dt_status begin_kv_gradients(const struct layer_run *r)
{
    int copies = copies_of_kv(r);
    if (copies == 1 || !r->accumulate || layer_adds_to_copy(r, r->stage->cut.rank % copies))
        return DT_OK;
    DT_TRY(dt_zero(r->stream, layer_grad(r, GPT_K_WEIGHT), kv_elems(r, GPT_Q_WEIGHT) * r->element_bytes));
    return gpt_has_tensor(r->layer, GPT_K_BIAS) ? dt_zero(r->stream, layer_grad(r, GPT_K_BIAS), kv_elems(r, GPT_Q_BIAS) * r->element_bytes)
                                                : DT_OK;
}

static dt_status sum_kv_gradients_begin(const struct layer_run *r)
{
    struct gpt_exchange *x = &r->stage->exchange;
    if (copies_of_kv(r) == 1)
        return DT_OK;
    DT_TRY(gpt_all_reduce_begin(x, x->group.copies, GPT_EXCHANGE_GRADIENTS, r->stream, layer_grad(r, GPT_K_WEIGHT),
                                kv_elems(r, GPT_Q_WEIGHT), dtype_of(r)));
    return gpt_has_tensor(r->layer, GPT_K_BIAS) ? gpt_all_reduce_begin(x, x->group.copies, GPT_EXCHANGE_GRADIENTS, r->stream,
                                                                       layer_grad(r, GPT_K_BIAS), kv_elems(r, GPT_Q_BIAS), dtype_of(r))
                                                : DT_OK;
}

/* ---- the end of a group ---- */

/* Whether the pass has begun to sum up gradients of the layer over the ranks. */
static bool sums_gradients(const struct layer_run *r)
{
    bool of_norm = r->stage->sliced && inputs_now(r) && has_norm(r->layer);
    bool of_gains = shared(r) && inputs_now(r) && gpt_has_tensor(r->layer, GPT_Q_NORM_GAIN);
    return of_norm || of_gains || (weights_now(r) && copies_of_kv(r) > 1);
}

dt_status layer_finish_gradients(const struct layer_run *r)
{
    struct layer_run at = *r;
    bool waited = false;
    for (int i = r->group->first_layer; shared(r) && i < r->group->first_layer + r->group->layer_count; i++) {
        at.layer = &r->stage->layers[i];
        at.kept = &r->stash->layers[i];
        if (!waited && sums_gradients(&at)) {
            DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_GRADIENTS)); /* for the last one, and with it for all */
            waited = true;
        }
        if (at.kept->dnorm.bytes == 0)
            continue;
        DT_TRY(dt_kernels_add(r->stage->base.kernels, r->stream, false, layer_grad(&at, GPT_NORM_GAIN), at.kept->dnorm.data,
                              gpt_norm_elems(model_of(r))));
        dt_free(r->stream, &at.kept->dnorm);
    }
    return DT_OK;
}

/* A head that is tied runs as the embedding. */
static bool of_block(const struct layer_run *r)
{
    return r->layer->kind == GPT_ATTENTION || r->layer->kind == GPT_MLP_UP || r->layer->kind == GPT_MLP_DOWN;
}

/* The weights of k and v follow those of q, and up follows gate, if that is in the same product. */
static int joined(const struct layer_run *r, enum gpt_tensor_name weight, size_t out)
{
    if (!of_block(r))
        return 0;
    if (weight == GPT_Q_WEIGHT)
        return 3;
    return weight == GPT_GATE_WEIGHT && out == r->u ? 2 : 1;
}

/* Not every model has the bias. */
static bool has_bias(const struct layer_run *r, enum gpt_tensor_name bias)
{
    return bias != GPT_NO_TENSOR && gpt_has_tensor(r->layer, bias);
}

struct gpt_linear layer_linear_of(const struct layer_run *r, void *y, const void *x, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                                  size_t out, size_t in)
{
    return (struct gpt_linear){.x = x,
                               .w = layer_param(r, weight),
                               .b = has_bias(r, bias) ? layer_param(r, bias) : NULL,
                               .y = y,
                               .rows = r->rows,
                               .in = in,
                               .out = out,
                               .joined = joined(r, weight, out)};
}

dt_status layer_linear(const struct layer_run *r, void *y, const void *x, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                       size_t out, size_t in)
{
    struct gpt_linear a = layer_linear_of(r, y, x, weight, bias, out, in);
    return r->k->linear(r->kernels, r->stream, &a);
}

dt_status layer_weight_gradients(const struct layer_run *r, const void *dy, const void *x, enum gpt_tensor_name weight,
                                 enum gpt_tensor_name bias, size_t out, size_t in)
{
    struct gpt_linear_weight_gradient a = {
        .dy = dy,
        .x = x,
        .dw = layer_grad(r, weight),
        .db = has_bias(r, bias) ? layer_grad(r, bias) : NULL,
        .rows = r->rows,
        .in = in,
        .out = out,
        .joined = joined(r, weight, out),
        .accumulate = r->accumulate,
    };
    return r->k->linear_weight_gradient(r->kernels, r->stream, &a);
}

dt_status layer_input_gradient(const struct layer_run *r, void *dx, const void *dy, enum gpt_tensor_name weight, size_t out, size_t in)
{
    struct gpt_linear_input_gradient a = {
        .dy = dy, .w = layer_param(r, weight), .dx = dx, .rows = r->rows, .in = in, .out = out, .joined = joined(r, weight, out)};
    return r->k->linear_input_gradient(r->kernels, r->stream, &a);
}

/* ---- between the residual stream and the products of a layer ---- */

/* The scale of a tensor whose rows are divided is of its largest number on any rank. */
static dt_status share_amax(const struct layer_run *r)
{
    struct dt_buffer amax;
    if (!of_block(r) || !dt_fp8_recipe(r->stage->base.model->fp8)->shares_parts)
        return DT_OK;
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, sizeof(float), &amax));
    DT_TRY(gpt_all_reduce_begin(&r->stage->exchange, r->stage->exchange.group.comm, GPT_EXCHANGE_INPUT, r->stream, amax.data, 1, DT_FP32));
    DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_INPUT));
    dt_free(r->stream, &amax);
    return DT_OK;
}

dt_status layer_gather_begin(const struct layer_run *r, const struct dt_buffer *own, enum dt_category category, struct dt_buffer *all)
{
    /* what the products of a block read in FP8 is cast before it is sent: two numbers in the place of one */
    size_t columns = of_block(r) && r->stage->base.model->fp8 ? (r->d + 1) / 2 : r->d;
    DT_TRY(share_amax(r));
    DT_TRY(layer_allocate(r, category, columns, all));
    return gpt_all_gather_begin(&r->stage->exchange, r->stage->exchange.group.comm, GPT_EXCHANGE_INPUT, r->stream, own->data, all->data,
                                r->stream_rows * columns, dtype_of(r));
}

dt_status layer_gather(const struct layer_run *r, enum dt_category category, struct dt_buffer *rows)
{
    struct dt_buffer all;
    if (!r->stage->sliced)
        return DT_OK;
    DT_TRY(layer_gather_begin(r, rows, category, &all));
    DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_INPUT));
    dt_free(r->stream, rows);
    *rows = all;
    return DT_OK;
}

dt_status layer_allocate_summand(const struct layer_run *r, enum dt_category category, struct dt_buffer *out)
{
    return layer_allocate(r, r->stage->sliced ? DT_WORKSPACE : category, r->d, out);
}

dt_status layer_sum_begin(const struct layer_run *r, enum dt_category category, const struct dt_buffer *summand, struct dt_buffer *sum)
{
    struct gpt_exchange *x = &r->stage->exchange;
    *sum = (struct dt_buffer){0};
    if (!shared(r))
        return DT_OK;
    if (!r->stage->sliced)
        return gpt_all_reduce_begin(x, x->group.comm, GPT_EXCHANGE_SUM, r->stream, summand->data, r->rows * r->d, dtype_of(r));
    DT_TRY(layer_allocate_stream(r, category, sum));
    return gpt_reduce_scatter_begin(x, x->group.comm, GPT_EXCHANGE_SUM, r->stream, summand->data, sum->data, r->stream_rows * r->d,
                                    dtype_of(r));
}

dt_status layer_sum_in_turn(const struct layer_run *r, const struct dt_buffer *summand, int products)
{
    struct gpt_exchange *x = &r->stage->exchange;
    if (x->group.sums_in_turn == 0)
        return DT_OK;
    for (int i = 1; x->group.sums_in_turn > 1 && !r->stage->sliced && i < products; i++)
        DT_TRY(gpt_all_reduce_begin(x, x->group.comm, GPT_EXCHANGE_SUM, r->stream, summand->data, r->rows * r->d, dtype_of(r)));
    return gpt_exchange_wait(x, GPT_EXCHANGE_SUM);
}

dt_status layer_sum_end(const struct layer_run *r, struct dt_buffer *summand, const struct dt_buffer *sum)
{
    if (!shared(r))
        return DT_OK;
    DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_SUM));
    if (r->stage->sliced) {
        dt_free(r->stream, summand);
        *summand = *sum;
    }
    return DT_OK;
}

dt_status layer_sum_up(const struct layer_run *r, enum dt_category category, struct dt_buffer *summand)
{
    struct dt_buffer sum;
    DT_TRY(layer_sum_begin(r, category, summand, &sum));
    return layer_sum_end(r, summand, &sum);
}

static enum dt_category normed_category(const struct layer_run *r)
{
    return keeps(r, DT_KEEP_NORMS) || r->part == DT_BACKWARD_INPUT ? DT_ACTIVATIONS : DT_WORKSPACE;
}

/* A bias after a sum over the ranks is added by one of them. */
static enum gpt_tensor_name bias_of_sum(const struct layer_run *r, enum gpt_tensor_name bias)
{
    return r->stage->cut.rank == 0 ? bias : GPT_NO_TENSOR;
}

/* ---- pieces that attention and MLP share ---- */

/* The norm after the sum, with its output's memory: none where the layer after is in another group.
 * Recomputed attention frees its weights after the sum, so the norm's output is allocated after
 * that. */
static bool has_norm_after(const struct layer_run *r, struct layer_run *after)
{
    return layer_after(r, after) && has_norm(after->layer) && !attends_again(r);
}

static dt_status allocate_norm(const struct layer_run *r)
{
    DT_TRY(allocate_norm_numbers(r));
    return layer_allocate_stream(r, normed_category(r), &r->kept->normed);
}

/* x [R, d] = residual + layer_dropout(branch), where the branch is x itself. */
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
        .gain = layer_param(after, GPT_NORM_GAIN),
        .bias = gpt_norm_has_bias(model_of(r)) ? layer_param(after, GPT_NORM_BIAS) : NULL,
        .y = after->kept->normed.data,
        .mean = after->kept->mean.data,
        .rstd = after->kept->rstd.data,
        .d = r->d,
        .epsilon = (float)gpt_norm_epsilon(model_of(r)),
    };
    return r->k->residual_norm(r->kernels, r->stream, &a);
}

/* Where the rank has the whole layer there is nothing between product and residual. */
static dt_status project_alone(const struct layer_run *r, const void *x, void *active, enum gpt_tensor_name weight,
                               enum gpt_tensor_name bias, size_t in, const void *residual)
{
    struct gpt_linear_residual a = {
        .x = x,
        .w = layer_param(r, weight),
        .b = has_bias(r, bias) ? layer_param(r, bias) : NULL,
        .residual = residual,
        .active = active,
        .y = r->stash->x.data,
        .rows = r->rows,
        .in = in,
        .out = r->d,
        .gelu = active != NULL,
        .dropout = layer_stream_dropout(r),
    };
    return r->k->linear_residual(r->kernels, r->stream, &a);
}

/* stash->x [M, d], as the product makes it. */
static dt_status project(const struct layer_run *r, const void *x, void *active, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                         size_t in)
{
    if (active)
        DT_TRY(r->k->gelu(r->kernels, r->stream, &(struct gpt_gelu){active, x, r->rows * in}));
    return layer_linear(r, r->stash->x.data, active ? active : x, weight, bias, r->d, in);
}

/* An MLP's sum is left to the norm of the block after it, where that reads it from the stash: one kernel over the border of two groups. */
static bool leaves_sum(const struct layer_run *r)
{
    return r->layer->kind == GPT_MLP_DOWN && r->group->goes_on && r->layer[1].kind == GPT_ATTENTION && !r->recompute &&
           !makes_again(r, DT_AGAIN_PRODUCTS);
}

/* Without dropout the sum is part of the product, and the norm reads it alone. */
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
    return normalizes ? normalize(&after, r->stash->x.data, after.kept->normed.data) : DT_OK;
}

/* Without dropout the residual stream's gradient is that of the branch: it is not copied where nothing changes it before it is read, and
 * where kernels do the work of several. The copy's memory is there on every device. */
static bool branch_is_stream(const struct layer_run *r)
{
    return fused(r) && fused(r)->norm_branch_gradient && r->part == DT_BACKWARD_WHOLE && !r->stage->sliced &&
           gpt_of(model_of(r))->dropout == 0;
}

const void *layer_dbranch(const struct layer_run *r)
{
    return branch_is_stream(r) ? r->stash->dx.data : r->kept->dbranch.data;
}

/* This rank's rows of it. */
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

/* This rank's rows of the norm's output: there already, or made now. */
static dt_status own_normed_rows(const struct layer_run *r)
{
    if (r->kept->normed.bytes > 0)
        return DT_OK;
    DT_TRY(layer_allocate_stream(r, normed_category(r), &r->kept->normed));
    struct layer_run before = *r;
    if (r->layer->kind != GPT_ATTENTION || r->layer == r->stage->layers || !r->kept[-1].sum_is_left)
        return layer_normalize(r, r->kept->normed.data);
    before.layer--;
    before.kept--;
    before.kept->sum_is_left = false;
    return add_residual_and_normalize(&before, r->kept->input.data, before.kept[-1].input.data, r);
}

dt_status layer_normed_rows(const struct layer_run *r, struct dt_buffer *normed)
{
    DT_TRY(own_normed_rows(r));
    if (!r->stage->sliced) {
        take(normed, &r->kept->normed);
        return DT_OK;
    }
    DT_TRY(layer_gather_begin(r, &r->kept->normed, DT_WORKSPACE, normed));
    DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_INPUT));
    if (!keeps(r, DT_KEEP_NORMS))
        dt_free(r->stream, &r->kept->normed);
    return DT_OK;
}

void layer_normed_read(const struct layer_run *r, struct dt_buffer *normed)
{
    if (keeps(r, DT_KEEP_NORMS) && !r->stage->sliced)
        take(&r->kept->normed, normed);
    else
        dt_free(r->stream, normed);
}

/* The MLP that ended before the norm of this block, in the group before this one, whose backward comes next. Memory for the gradient of its
 * branch does not raise a peak here: that backward has it beside what is at least as much as this one's norm still holds. */
static bool follows_mlp(const struct layer_run *r, struct layer_run *before)
{
    *before = *r;
    if (r->layer->kind != GPT_ATTENTION || r->layer != &r->stage->layers[r->group->first_layer] || r->group->index == 0 ||
        !r->group[-1].goes_on || r->layer[-1].kind != GPT_MLP_DOWN || r->part != DT_BACKWARD_WHOLE || r->f < 2 * r->d)
        return false;
    before->group--;
    before->layer--;
    before->kept--;
    return fused(r) && fused(r)->norm_branch_gradient;
}

/* Through the norm into stash->dx, which is then complete, and through the dropout of the branch that ended before the norm, if its layer is in
 * the group, or its turn is next. Attention that is computed again makes room for its weights first. normed: dnormed, which then becomes the
 * norm's output; or NULL. */
static dt_status through_norm(const struct layer_run *r, const void *dnormed, void *normed)
{
    struct layer_run before;
    bool to_branch =
        follows_mlp(r, &before) || (layer_before(r, &before) && before.layer->kind == GPT_ATTENTION && !attends_again(&before));
    if (to_branch)
        DT_TRY(allocate_branch_gradient(&before));
    if (fused(r) && fused(r)->norm_branch_gradient)
        return normalize_backward(r, dnormed, r->stash->dx.data, false,
                                  &(struct beside_norm){to_branch && !branch_is_stream(r) ? &before : NULL, normed});
    DT_TRY(layer_normalize_backward(r, dnormed, r->stash->dx.data, false));
    if (to_branch)
        DT_TRY(branch_gradient(&before));
    return normed ? layer_normalize(r, normed) : DT_OK;
}

/* Weight gradients of a product that ranks share. */
static dt_status shared_weight_gradients(const struct layer_run *r, const void *dy, const void *x, enum gpt_tensor_name weight,
                                         enum gpt_tensor_name bias, size_t out)
{
    DT_TRY(begin_kv_gradients(r));
    DT_TRY(layer_weight_gradients(r, dy, x, weight, bias, out, r->d));
    return sum_kv_gradients_begin(r);
}

/* The input half of backward_through_norm where ranks share the layer: the gradient of the product's input is summed up while the weight
 * gradients, if they come now, are computed; and what these read is gathered while the first product is. So the norm's output cannot come from its
 * gradient (backward_making_normed), which needs the sum. Weight gradients free dy. */
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
            DT_TRY(gpt_exchange_wait(&r->stage->exchange, GPT_EXCHANGE_INPUT));
        DT_TRY(shared_weight_gradients(r, dy->data, r->stage->sliced ? all.data : normed->data, weight, bias, out));
        dt_free(r->stream, dy);
        dt_free(r->stream, normed);
    }
    dt_free(r->stream, &all);
    DT_TRY(layer_sum_end(r, &dnormed, &sum));
    DT_TRY(through_norm(r, dnormed.data, NULL));
    dt_free(r->stream, &dnormed);
    return DT_OK;
}

/* All of it where a rank has whole layers and nobody has kept the norm's output: its gradient comes first, and turns into it. */
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

/* The same where it is kept, and each half alone. */
static dt_status backward_alone(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                                size_t out)
{
    struct dt_buffer normed;
    DT_TRY(weights_now(r) ? layer_normed_rows(r, &normed) : layer_allocate(r, DT_WORKSPACE, r->d, &normed));
    if (weights_now(r))
        DT_TRY(layer_weight_gradients(r, dy->data, normed.data, weight, bias, out, r->d));
    if (inputs_now(r)) /* the norm's output is no longer read: its gradient reuses the memory */
        DT_TRY(layer_input_gradient(r, normed.data, dy->data, weight, out, r->d));
    if (weights_now(r))
        dt_free(r->stream, dy);
    if (inputs_now(r))
        DT_TRY(through_norm(r, normed.data, NULL));
    dt_free(r->stream, &normed);
    return DT_OK;
}

static dt_status weights_after_norm(const struct layer_run *r, struct dt_buffer *dy, enum gpt_tensor_name weight, enum gpt_tensor_name bias,
                                    size_t out)
{
    struct dt_buffer normed;
    DT_TRY(layer_normed_rows(r, &normed));
    DT_TRY(shared_weight_gradients(r, dy->data, normed.data, weight, bias, out));
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

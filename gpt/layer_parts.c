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

static bool norm_is_rms(const struct layer_run *r)
{
    return gpt_of(model_of(r))->norm == GPT_NORM_RMS;
}

/* An RMS norm has no bias, and its layers keep no mean. */
struct gpt_norm layer_norm_of(const struct layer_run *r, const void *x, void *normed)
{
    return (struct gpt_norm){
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
}

dt_status layer_normalize(const struct layer_run *r, const void *x, void *normed)
{
    struct gpt_norm a = layer_norm_of(r, x, normed);
    return norm_is_rms(r) ? r->k->rms_norm(r->kernels, r->stream, &a) : r->k->layer_norm(r->kernels, r->stream, &a);
}

dt_status layer_allocate_norm_numbers(const struct layer_run *r)
{
    if (!norm_is_rms(r))
        DT_TRY(dt_alloc(r->stream, DT_ACTIVATIONS, r->stream_rows * sizeof(float), &r->kept->mean));
    return dt_alloc(r->stream, DT_ACTIVATIONS, r->stream_rows * sizeof(float), &r->kept->rstd);
}

dt_status layer_keep_norm_input(const struct layer_run *r)
{
    dt_buffer_move(&r->kept->input, &r->stash->x);
    return r->kept->rstd.bytes > 0 ? DT_OK : layer_allocate_norm_numbers(r);
}

void layer_free_norm_input(const struct layer_run *r)
{
    dt_free(r->stream, &r->kept->input);
    dt_free(r->stream, &r->kept->mean);
    dt_free(r->stream, &r->kept->rstd);
}

/* sums: dgain, and dbias after it. */
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

static dt_status norm_branch_backward(const struct layer_run *r, const void *dy, void *dx, void *sums, bool accumulate,
                                      const struct layer_beside_norm *beside)
{
    const struct layer_run *branch = beside->branch;
    struct gpt_norm_branch_gradient a = {
        .norm = layer_norm_of(r, r->kept->input.data, beside->normed),
        .dy = dy,
        .dx = dx,
        .dgain = sums,
        .dbias = gpt_norm_has_bias(model_of(r)) ? (char *)sums + r->d * r->element_bytes : NULL,
        .dbranch = branch ? branch->kept->dbranch.data : NULL,
        .accumulate = accumulate,
        .dropout = branch ? layer_stream_dropout(branch) : (struct gpt_dropout){0},
    };
    return r->k->norm_branch_gradient(r->kernels, r->stream, &a);
}

dt_status layer_normalize_backward(const struct layer_run *r, const void *dy, void *dx, bool overwrite,
                                   const struct layer_beside_norm *beside)
{
    size_t count = gpt_norm_elems(model_of(r));
    void *sums = layer_grad(r, GPT_NORM_GAIN);
    bool apart = r->stage->sliced && r->accumulate; /* the sum over the ranks must count the old gradients once */
    if (apart) {
        DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, count * r->element_bytes, &r->kept->dnorm));
        sums = r->kept->dnorm.data;
    }
    bool accumulate = r->accumulate && !apart;
    DT_TRY(beside ? norm_branch_backward(r, dy, dx, sums, accumulate, beside) : norm_backward(r, dy, dx, sums, overwrite, accumulate));
    if (!r->stage->sliced)
        return DT_OK;
    return dt_all_reduce_begin(&r->stage->exchange, r->stage->exchange.group.comm, DT_EXCHANGE_GRADIENTS, r->stream, sums, count,
                               model_of(r)->dtype);
}

/* The number of weights in one product: k and v follow q; up follows gate, if it is in the same
 * product. */
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
    DT_TRY(dt_exchange_product_begin(&r->stage->exchange, r->stream));
    DT_TRY(r->k->linear(r->kernels, r->stream, &a));
    return dt_exchange_product_end(&r->stage->exchange);
}

struct gpt_linear_weight_gradient layer_weight_gradient_of(const struct layer_run *r, const void *dy, const void *x,
                                                           enum gpt_tensor_name weight, enum gpt_tensor_name bias, size_t out, size_t in)
{
    return (struct gpt_linear_weight_gradient){
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
}

dt_status layer_weight_gradients(const struct layer_run *r, const void *dy, const void *x, enum gpt_tensor_name weight,
                                 enum gpt_tensor_name bias, size_t out, size_t in)
{
    struct gpt_linear_weight_gradient a = layer_weight_gradient_of(r, dy, x, weight, bias, out, in);
    return r->k->linear_weight_gradient(r->kernels, r->stream, &a);
}

struct gpt_linear_input_gradient layer_input_gradient_of(const struct layer_run *r, void *dx, const void *dy, enum gpt_tensor_name weight,
                                                         size_t out, size_t in)
{
    return (struct gpt_linear_input_gradient){
        .dy = dy, .w = layer_param(r, weight), .dx = dx, .rows = r->rows, .in = in, .out = out, .joined = joined(r, weight, out)};
}

dt_status layer_input_gradient(const struct layer_run *r, void *dx, const void *dy, enum gpt_tensor_name weight, size_t out, size_t in)
{
    struct gpt_linear_input_gradient a = layer_input_gradient_of(r, dx, dy, weight, out, in);
    DT_TRY(dt_exchange_product_begin(&r->stage->exchange, r->stream));
    DT_TRY(r->k->linear_input_gradient(r->kernels, r->stream, &a));
    return dt_exchange_product_end(&r->stage->exchange);
}

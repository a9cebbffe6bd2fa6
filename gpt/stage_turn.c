/* What the forward and backward of several layers are made of. */
#include "gpt/stage_layers.h"

static size_t tensor_bytes(const struct turn *t, const char *name)
{
    size_t offset_elems = gpt_tensor_offset(t->layer, name);
    for (const struct gpt_layer *l = &t->stage->layers[t->group->first_layer]; l != t->layer; l++)
        offset_elems += l->param_elems;
    return offset_elems * t->element_bytes;
}

void *turn_param(const struct turn *t, const char *name)
{
    return (char *)t->group->params + tensor_bytes(t, name);
}

void *turn_grad(const struct turn *t, const char *name)
{
    return (char *)t->group->grads + tensor_bytes(t, name);
}

struct gpt_dropout turn_dropout(const struct turn *t)
{
    return (struct gpt_dropout){
        .seed = t->stage->seed,
        .layer = (uint32_t)t->layer->index,
        .first_sample = t->stash->first_sample,
        .probability = t->stage->model->dropout,
    };
}

dt_status turn_allocate(const struct turn *t, enum dt_category category, size_t columns, struct dt_buffer *out)
{
    return dt_alloc(t->stream, category, t->rows * columns * t->element_bytes, out);
}

void turn_take(struct dt_buffer *to, struct dt_buffer *from)
{
    *to = *from;
    *from = (struct dt_buffer){0};
}

dt_status turn_keep_framework(const struct turn *t)
{
    size_t bytes = t->k->kept_bytes(t->stage->kernels, t->layer->kind, t->stash->samples);
    return dt_alloc(t->stream, DT_ACTIVATIONS, bytes, &t->kept->framework);
}

dt_status turn_norm(const struct turn *t, void *normed)
{
    struct gpt_layer_norm a = {
        .x = t->kept->input.data,
        .gain = turn_param(t, "norm.gain"),
        .bias = turn_param(t, "norm.bias"),
        .y = normed,
        .mean = t->kept->mean.data,
        .rstd = t->kept->rstd.data,
        .rows = t->rows,
        .d = t->d,
    };
    return t->k->layer_norm(t->stage->kernels, t->stream, &a);
}

dt_status turn_keep_norm_input(const struct turn *t)
{
    turn_take(&t->kept->input, &t->stash->x);
    DT_TRY(dt_alloc(t->stream, DT_ACTIVATIONS, t->rows * sizeof(float), &t->kept->mean));
    return dt_alloc(t->stream, DT_ACTIVATIONS, t->rows * sizeof(float), &t->kept->rstd);
}

void turn_free_norm_input(const struct turn *t)
{
    dt_free(t->stream, &t->kept->input);
    dt_free(t->stream, &t->kept->mean);
    dt_free(t->stream, &t->kept->rstd);
}

dt_status turn_norm_gradient(const struct turn *t, const void *dy, void *dx, bool overwrite)
{
    struct gpt_layer_norm_gradient a = {
        .dy = dy,
        .x = t->kept->input.data,
        .gain = turn_param(t, "norm.gain"),
        .mean = t->kept->mean.data,
        .rstd = t->kept->rstd.data,
        .dx = dx,
        .dgain = turn_grad(t, "norm.gain"),
        .dbias = turn_grad(t, "norm.bias"),
        .rows = t->rows,
        .d = t->d,
        .overwrite = overwrite,
        .accumulate = t->accumulate,
    };
    return t->k->layer_norm_gradient(t->stage->kernels, t->stream, &a);
}

dt_status turn_linear(const struct turn *t, void *y, const void *x, const char *weight, const char *bias, size_t out, size_t in)
{
    struct gpt_linear a = {
        .x = x, .w = turn_param(t, weight), .b = bias ? turn_param(t, bias) : NULL, .y = y, .rows = t->rows, .in = in, .out = out};
    return t->k->linear(t->stage->kernels, t->stream, &a);
}

dt_status turn_linear_gradients(const struct turn *t, const void *dy, const void *x, const char *weight, const char *bias, size_t out,
                                size_t in)
{
    struct gpt_linear_weight_gradient a = {
        .dy = dy,
        .x = x,
        .dw = turn_grad(t, weight),
        .db = bias ? turn_grad(t, bias) : NULL,
        .rows = t->rows,
        .in = in,
        .out = out,
        .accumulate = t->accumulate,
    };
    return t->k->linear_weight_gradient(t->stage->kernels, t->stream, &a);
}

dt_status turn_linear_input_gradient(const struct turn *t, void *dx, const void *dy, const char *weight, size_t out, size_t in)
{
    struct gpt_linear_input_gradient a = {.dy = dy, .w = turn_param(t, weight), .dx = dx, .rows = t->rows, .in = in, .out = out};
    return t->k->linear_input_gradient(t->stage->kernels, t->stream, &a);
}

/* Kernels of the sim device: they accept everything and compute nothing. Memory is what the callers allocate around them. */
#include "gpt/kernels.h"

#include <stdlib.h>

struct gpt_kernels {
    const struct gpt_model *model;
};

static dt_status cost_create(struct dt_device *device, const struct gpt_model *model, struct gpt_kernels **out)
{
    *out = malloc(sizeof **out);
    if (!*out)
        return dt_fail(DT_ERR_HOST_MEMORY, "kernels of the sim device: no memory");
    (*out)->model = model;
    return DT_OK;
}

static void cost_destroy(struct gpt_kernels *kernels)
{
    free(kernels);
}

static dt_status cost_init_normal(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, uint64_t seed,
                                  uint32_t tensor_id, uint64_t first_element, float standard_deviation)
{
    return DT_OK;
}

static dt_status cost_fill(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    return DT_OK;
}

static dt_status cost_tokens(struct gpt_kernels *k, struct dt_stream *stream, int32_t *inputs, int32_t *targets, size_t samples,
                             uint64_t seed, uint32_t first_sample)
{
    return DT_OK;
}

static dt_status cost_embedding(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding *a)
{
    return DT_OK;
}

static dt_status cost_embedding_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding_gradient *a)
{
    return DT_OK;
}

static dt_status cost_layer_norm(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm *a)
{
    return DT_OK;
}

static dt_status cost_layer_norm_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm_gradient *a)
{
    return DT_OK;
}

static dt_status cost_linear(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear *a)
{
    return DT_OK;
}

static dt_status cost_linear_input_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_input_gradient *a)
{
    return DT_OK;
}

static dt_status cost_linear_weight_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_weight_gradient *a)
{
    return DT_OK;
}

static dt_status cost_gelu(struct gpt_kernels *k, struct dt_stream *stream, void *y, const void *x, size_t count)
{
    return DT_OK;
}

static dt_status cost_gelu_gradient(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x, size_t count)
{
    return DT_OK;
}

static dt_status cost_attention(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_forward *a)
{
    return DT_OK;
}

static dt_status cost_attention_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_backward *a)
{
    return DT_OK;
}

static dt_status cost_dropout_residual(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_residual *a)
{
    return DT_OK;
}

static dt_status cost_dropout_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_gradient *a)
{
    return DT_OK;
}

static dt_status cost_loss(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_loss *a)
{
    return DT_OK;
}

static dt_status cost_sgd(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a)
{
    return DT_OK;
}

static dt_status cost_adam(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a)
{
    return DT_OK;
}

static dt_status cost_add(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count)
{
    return DT_OK;
}

static dt_status cost_sgd_host(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a)
{
    return DT_OK;
}

static dt_status cost_adam_host(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a)
{
    return DT_OK;
}

static dt_status cost_add_host(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count)
{
    return DT_OK;
}

const struct gpt_kernel_table gpt_kernels_cost = {
    .name = "cost",
    .create = cost_create,
    .destroy = cost_destroy,
    .init_normal = cost_init_normal,
    .fill = cost_fill,
    .tokens = cost_tokens,
    .embedding = cost_embedding,
    .embedding_gradient = cost_embedding_gradient,
    .layer_norm = cost_layer_norm,
    .layer_norm_gradient = cost_layer_norm_gradient,
    .linear = cost_linear,
    .linear_input_gradient = cost_linear_input_gradient,
    .linear_weight_gradient = cost_linear_weight_gradient,
    .gelu = cost_gelu,
    .gelu_gradient = cost_gelu_gradient,
    .attention = cost_attention,
    .attention_gradient = cost_attention_gradient,
    .dropout_residual = cost_dropout_residual,
    .dropout_gradient = cost_dropout_gradient,
    .loss = cost_loss,
    .sgd = cost_sgd,
    .adam = cost_adam,
    .add = cost_add,
    .sgd_host = cost_sgd_host,
    .adam_host = cost_adam_host,
    .add_host = cost_add_host,
};

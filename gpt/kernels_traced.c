#include "gpt/kernels_traced.h"
#include "lib/device/span.h"

#include <stdlib.h>

struct gpt_kernels {
    const struct gpt_kernel_table *table;
    struct gpt_kernels *inner;
};

dt_status gpt_kernels_traced_create(const struct gpt_kernel_table *table, struct gpt_kernels *inner, struct gpt_kernels **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for traced kernels");
    **out = (struct gpt_kernels){table, inner};
    return DT_OK;
}

static dt_status traced_create(struct dt_device *device, const struct gpt_model *model, struct gpt_kernels **out)
{
    *out = NULL;
    return dt_fail(DT_ERR_INVALID, "traced kernels are made of others");
}

static void traced_destroy(struct gpt_kernels *k)
{
    free(k);
}

/* The work of an entry, between the marks. */
#define SPAN(stream, name, call)                                                                                                           \
    do {                                                                                                                                   \
        DT_TRY(dt_span_begin(stream, name, DT_SPAN_COMPUTE, 0, NULL));                                                                     \
        DT_TRY(call);                                                                                                                      \
        return dt_span_end(stream);                                                                                                        \
    } while (0)

/* Entries whose arguments are one structure. */
#define TRACED(entry, arguments)                                                                                                           \
    static dt_status traced_##entry(struct gpt_kernels *k, struct dt_stream *stream, const struct arguments *a)                            \
    {                                                                                                                                      \
        SPAN(stream, #entry, k->table->entry(k->inner, stream, a));                                                                        \
    }

TRACED(embedding, gpt_embedding)
TRACED(embedding_gradient, gpt_embedding_gradient)
TRACED(layer_norm, gpt_layer_norm)
TRACED(layer_norm_gradient, gpt_layer_norm_gradient)
TRACED(linear, gpt_linear)
TRACED(linear_input_gradient, gpt_linear_input_gradient)
TRACED(linear_gelu_input_gradient, gpt_linear_gelu_input_gradient)
TRACED(linear_weight_gradient, gpt_linear_weight_gradient)
TRACED(attention, gpt_attention_forward)
TRACED(attention_gradient, gpt_attention_backward)
TRACED(dropout_residual, gpt_dropout_residual)
TRACED(dropout_gradient, gpt_dropout_gradient)
TRACED(loss, gpt_loss)
TRACED(sgd, gpt_sgd)
TRACED(adam, gpt_adam)
TRACED(sgd_host, gpt_sgd)
TRACED(adam_host, gpt_adam)

static dt_status traced_init_normal(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, uint64_t seed,
                                    uint32_t tensor_id, uint64_t first_element, float standard_deviation)
{
    SPAN(stream, "init_normal", k->table->init_normal(k->inner, stream, to, count, seed, tensor_id, first_element, standard_deviation));
}

static dt_status traced_begin_step(struct gpt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int number)
{
    SPAN(stream, "begin_step", k->table->begin_step(k->inner, stream, first_sample, number));
}

static dt_status traced_step_overflows(struct gpt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    return k->table->step_overflows(k->inner, stream, to); /* a copy, which is a span itself */
}

static dt_status traced_fill(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    SPAN(stream, "fill", k->table->fill(k->inner, stream, to, count, value));
}

static dt_status traced_tokens(struct gpt_kernels *k, struct dt_stream *stream, int32_t *inputs, int32_t *targets, size_t samples,
                               uint64_t seed, uint32_t first_sample)
{
    SPAN(stream, "tokens", k->table->tokens(k->inner, stream, inputs, targets, samples, seed, first_sample));
}

static dt_status traced_gelu(struct gpt_kernels *k, struct dt_stream *stream, void *y, const void *x, size_t count)
{
    SPAN(stream, "gelu", k->table->gelu(k->inner, stream, y, x, count));
}

static dt_status traced_gelu_gradient(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x, size_t count)
{
    SPAN(stream, "gelu_gradient", k->table->gelu_gradient(k->inner, stream, dy_to_dx, x, count));
}

static dt_status traced_add(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count)
{
    SPAN(stream, "add", k->table->add(k->inner, stream, to, from, count));
}

static dt_status traced_add_host(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count)
{
    SPAN(stream, "add_host", k->table->add_host(k->inner, stream, to, from, count));
}

static size_t traced_kept_bytes(const struct gpt_kernels *k, enum gpt_layer_kind layer, size_t samples)
{
    return k->table->kept_bytes(k->inner, layer, samples);
}

static size_t traced_output_bytes(const struct gpt_kernels *k, size_t samples)
{
    return k->table->output_bytes(k->inner, samples);
}

const struct gpt_kernel_table gpt_kernels_traced = {
    .name = "traced",
    .create = traced_create,
    .destroy = traced_destroy,
    .begin_step = traced_begin_step,
    .step_overflows = traced_step_overflows,
    .init_normal = traced_init_normal,
    .fill = traced_fill,
    .tokens = traced_tokens,
    .embedding = traced_embedding,
    .embedding_gradient = traced_embedding_gradient,
    .layer_norm = traced_layer_norm,
    .layer_norm_gradient = traced_layer_norm_gradient,
    .linear = traced_linear,
    .linear_input_gradient = traced_linear_input_gradient,
    .linear_gelu_input_gradient = traced_linear_gelu_input_gradient,
    .linear_weight_gradient = traced_linear_weight_gradient,
    .gelu = traced_gelu,
    .gelu_gradient = traced_gelu_gradient,
    .attention = traced_attention,
    .attention_gradient = traced_attention_gradient,
    .dropout_residual = traced_dropout_residual,
    .dropout_gradient = traced_dropout_gradient,
    .loss = traced_loss,
    .sgd = traced_sgd,
    .adam = traced_adam,
    .add = traced_add,
    .kept_bytes = traced_kept_bytes,
    .output_bytes = traced_output_bytes,
    .sgd_host = traced_sgd_host,
    .adam_host = traced_adam_host,
    .add_host = traced_add_host,
};

/* Kernels of the sim device: they accept everything and compute nothing. Memory is what the callers allocate around them. Where the device
 * has costs (lib/device/sim.h), each adds the work that it would be to the program that is recorded. */
#include "gpt/kernels.h"
#include "gpt/cost/cost.h"
#include "lib/device/sim.h"

#include <stdlib.h>

struct gpt_kernels {
    const struct gpt_model *model;
    const struct gpt_costs *costs; /* NULL: nothing costs anything */
    double element_bytes;
};

static dt_status cost_create(struct dt_device *device, const struct gpt_model *model, struct gpt_kernels **out)
{
    const struct dt_sim_device *described = dt_sim_device_of(device);
    *out = malloc(sizeof **out);
    if (!*out)
        return dt_fail(DT_ERR_HOST_MEMORY, "kernels of the sim device: no memory");
    **out = (struct gpt_kernels){model, described ? described->costs : NULL, (double)dt_dtype_bytes(model->dtype)};
    return DT_OK;
}

static void cost_destroy(struct gpt_kernels *kernels)
{
    free(kernels);
}

/* ---- what a kernel adds to the program ---- */

/* Forward and the optimizer are issued by the framework's interpreter, operation for operation; backward by its compiled engine. */
static bool by_interpreter(enum gpt_kernel_kind kind)
{
    switch (kind) {
    case GPT_KERNEL_EMBEDDING_GRADIENT:
    case GPT_KERNEL_LAYER_NORM_GRADIENT:
    case GPT_KERNEL_LINEAR_INPUT_GRADIENT:
    case GPT_KERNEL_LINEAR_WEIGHT_GRADIENT:
    case GPT_KERNEL_GELU_GRADIENT:
    case GPT_KERNEL_ATTENTION_GRADIENT:
    case GPT_KERNEL_DROPOUT_GRADIENT: return false;
    default: return true;
    }
}

/* `launches` kernels that take `seconds` together. */
static dt_status work(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, double launches, double seconds)
{
    const struct gpt_cost_profile *p = &k->costs->profile;
    double launch_s = by_interpreter(kind) ? p->host.interpreter_launch_s * k->costs->interpreter_sharers : p->host.launch_s;
    return dt_sim_work(stream, launches, launches * launch_s, seconds, gpt_kernel_kind_name(kind));
}

/* A kernel whose time the profile has measured; false where it has not. */
static bool measured(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, enum gpt_kernel_variant variant,
                     double rows, double columns, double inner, dt_status *out)
{
    double seconds, load;
    const struct gpt_costs *c = k->costs;
    *out = DT_OK;
    if (!c || !c->profile.measured.count)
        return false;
    const struct gpt_measured what = {kind, variant, k->model->dtype, c->measured_ranks, c->measured_threads, {rows, columns, inner}, 0, 0};
    if (!gpt_measured_find(&c->profile.measured, &what, &seconds, &load))
        return false;
    *out = dt_sim_shared_work(stream, seconds, load, gpt_kernel_kind_name(kind));
    return true;
}

static enum gpt_kernel_variant dropped(const struct gpt_dropout *dropout)
{
    return dropout->probability > 0 ? GPT_VARIANT_DROPOUT : GPT_VARIANT_PLAIN;
}

/* A kernel that only moves memory: its passes over elems, and its other passes over other_elems. */
static dt_status pass(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, double elems, double other_elems)
{
    if (!k->costs)
        return DT_OK;
    const struct gpt_kernel_cost *cost = &k->costs->profile.kernels[kind];
    double bytes = (cost->passes * elems + cost->other_passes * other_elems) * k->element_bytes;
    return work(k, stream, kind, cost->launches, gpt_cost_memory_s(k->costs, cost->launches, bytes));
}

/* Elements of the residual stream of `samples` samples. */
static double stream_elems(const struct gpt_kernels *k, size_t samples)
{
    return (double)samples * k->model->block_size * k->model->hidden;
}

static double product_s(const struct gpt_kernels *k, double batch, size_t m, size_t n, size_t inner, size_t left_elems, size_t right_elems)
{
    return gpt_cost_product_s(k->costs, batch, (double)m, (double)n, (double)inner, left_elems, right_elems, (size_t)k->element_bytes);
}

/* One of the three products around a weight [out, in]: the seconds of one of `parts` equal pieces, and what the profile adds around it. */
static dt_status product(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, size_t out, size_t in, double piece_s,
                         int parts, double elems)
{
    const struct gpt_kernel_cost *cost = &k->costs->profile.kernels[kind];
    double bytes = (cost->passes * elems + cost->other_passes * (double)out * (double)in) * k->element_bytes;
    double beside_s = bytes > 0 ? gpt_cost_memory_s(k->costs, 0, bytes) : 0;
    return work(k, stream, kind, cost->launches * parts, piece_s * parts + beside_s);
}

/* In how many products the stack makes one of dtbench's: q, k and v may be three. */
static int parts_of(const struct gpt_kernels *k, size_t out, size_t in)
{
    return in == (size_t)k->model->hidden && out == 3 * in ? k->costs->profile.gemm.qkv_products : 1;
}

/* ---- the kernels ---- */

static dt_status cost_begin_step(struct gpt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int number)
{
    return DT_OK;
}

static dt_status cost_step_overflows(struct gpt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    *to = 0;
    return DT_OK;
}

static dt_status cost_init_normal(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, uint64_t seed,
                                  uint32_t tensor_id, uint64_t first_element, float standard_deviation)
{
    return DT_OK; /* before the first step: nobody asks how long it takes */
}

static dt_status cost_fill(struct gpt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    return DT_OK;
}

static dt_status cost_tokens(struct gpt_kernels *k, struct dt_stream *stream, int32_t *inputs, int32_t *targets, size_t samples,
                             uint64_t seed, uint32_t first_sample)
{
    return DT_OK; /* small, and a trainer has them ready */
}

static dt_status cost_embedding(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_EMBEDDING, dropped(&a->dropout), (double)a->samples * k->model->block_size, k->model->hidden,
                 (double)k->model->vocab_size + k->model->block_size, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_EMBEDDING, stream_elems(k, a->samples), 0);
}

static dt_status cost_embedding_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_embedding_gradient *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_EMBEDDING_GRADIENT, dropped(&a->dropout), (double)a->samples * k->model->block_size,
                 k->model->hidden, (double)k->model->vocab_size + k->model->block_size, &status))
        return status;
    double tables = ((double)k->model->vocab_size + k->model->block_size) * k->model->hidden;
    return pass(k, stream, GPT_KERNEL_EMBEDDING_GRADIENT, stream_elems(k, a->samples), tables);
}

static dt_status cost_layer_norm(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_LAYER_NORM, GPT_VARIANT_PLAIN, (double)a->rows, (double)a->d, 1, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_LAYER_NORM, (double)a->rows * (double)a->d, 0);
}

static dt_status cost_layer_norm_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_layer_norm_gradient *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_LAYER_NORM_GRADIENT, GPT_VARIANT_PLAIN, (double)a->rows, (double)a->d, 1, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_LAYER_NORM_GRADIENT, (double)a->rows * (double)a->d, 0);
}

static dt_status cost_linear(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_LINEAR, GPT_VARIANT_PLAIN, (double)a->rows, (double)a->out, (double)a->in, &status))
        return status;
    if (!k->costs)
        return DT_OK;
    int parts = parts_of(k, a->out, a->in);
    size_t out = a->out / (size_t)parts;
    return product(k, stream, GPT_KERNEL_LINEAR, a->out, a->in, product_s(k, 1, a->rows, out, a->in, a->in, out), parts,
                   (double)a->rows * (double)a->out);
}

static dt_status cost_linear_input_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_input_gradient *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_LINEAR_INPUT_GRADIENT, GPT_VARIANT_PLAIN, (double)a->rows, (double)a->out, (double)a->in, &status))
        return status;
    if (!k->costs)
        return DT_OK;
    int parts = parts_of(k, a->out, a->in);
    size_t out = a->out / (size_t)parts;
    return product(k, stream, GPT_KERNEL_LINEAR_INPUT_GRADIENT, a->out, a->in, product_s(k, 1, a->rows, a->in, out, out, a->in), parts,
                   (double)a->rows * (double)a->in);
}

static dt_status cost_linear_weight_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_weight_gradient *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_LINEAR_WEIGHT_GRADIENT, a->accumulate ? GPT_VARIANT_ACCUMULATE : GPT_VARIANT_PLAIN, (double)a->rows,
                 (double)a->out, (double)a->in, &status))
        return status;
    if (!k->costs)
        return DT_OK;
    int parts = parts_of(k, a->out, a->in);
    size_t out = a->out / (size_t)parts;
    /* a framework may make a weight's gradient by itself before it adds it to what is there */
    struct dt_buffer apart;
    double apart_bytes = k->costs->profile.memory.gradient_copies * k->element_bytes * (double)out * (double)a->in;
    DT_TRY(dt_alloc(stream, DT_WORKSPACE, (size_t)apart_bytes, &apart));
    dt_free(stream, &apart);
    return product(k, stream, GPT_KERNEL_LINEAR_WEIGHT_GRADIENT, a->out, a->in, product_s(k, 1, out, a->in, a->rows, out, a->in), parts,
                   (double)a->rows * (double)a->out);
}

static dt_status cost_gelu(struct gpt_kernels *k, struct dt_stream *stream, void *y, const void *x, size_t count)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_GELU, GPT_VARIANT_PLAIN, (double)count, 1, 1, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_GELU, (double)count, 0);
}

static dt_status cost_gelu_gradient(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x, size_t count)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_GELU_GRADIENT, GPT_VARIANT_PLAIN, (double)count, 1, 1, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_GELU_GRADIENT, (double)count, 0);
}

/* The frameworks that profiles describe make it in two kernels. */
static dt_status cost_linear_gelu_input_gradient(struct gpt_kernels *k, struct dt_stream *stream,
                                                 const struct gpt_linear_gelu_input_gradient *a)
{
    struct gpt_linear_input_gradient product = {.dy = a->dy, .w = a->w, .dx = a->dx, .rows = a->rows, .in = a->in, .out = a->out};
    DT_TRY(cost_linear_input_gradient(k, stream, &product));
    return cost_gelu_gradient(k, stream, a->dx, a->hidden, a->rows * a->in);
}

/* Of each head `squares` products that make or read [T, T], and the profile's passes. Fused attention stores none of the squares and leaves
 * out what the causal mask hides. */
static dt_status attention(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, size_t samples,
                           const struct gpt_dropout *dropout, int to_square, int from_square)
{
    dt_status status;
    enum gpt_kernel_variant variant = k->model->attention == GPT_ATTENTION_UNFUSED ? GPT_VARIANT_UNFUSED : dropped(dropout);
    if (measured(k, stream, kind, variant, (double)samples * k->model->heads, k->model->block_size,
                 (double)k->model->hidden / k->model->heads, &status))
        return status;
    if (!k->costs)
        return DT_OK;
    const struct gpt_kernel_cost *cost = &k->costs->profile.kernels[kind];
    const struct gpt_model *model = k->model;
    size_t T = (size_t)model->block_size, width = (size_t)(model->hidden / model->heads);
    double batch = (double)samples * model->heads, square = batch * (double)T * (double)T;
    bool fused = model->attention == GPT_ATTENTION_FUSED;
    double products_s =
        to_square * product_s(k, batch, T, T, width, width, width) + from_square * product_s(k, batch, T, width, T, T, width);
    double bytes = (cost->passes * stream_elems(k, samples) + (fused ? 0 : cost->other_passes * square)) * k->element_bytes;
    double launches = fused ? 1 : cost->launches;
    return work(k, stream, kind, launches,
                products_s * (fused ? k->costs->profile.gemm.fused_attention : 1) + gpt_cost_memory_s(k->costs, launches, bytes));
}

static dt_status cost_attention(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_forward *a)
{
    return attention(k, stream, GPT_KERNEL_ATTENTION, a->samples, &a->dropout, 1, 1);
}

/* dV and dQ, dK read a square each; dP makes one, and without stored weights the scores are made again. */
static dt_status cost_attention_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_backward *a)
{
    bool fused = k->model->attention == GPT_ATTENTION_FUSED;
    return attention(k, stream, GPT_KERNEL_ATTENTION_GRADIENT, a->samples, &a->dropout, fused ? 2 : 1, 3);
}

static dt_status cost_dropout_residual(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_residual *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_DROPOUT_RESIDUAL, dropped(&a->dropout), (double)a->samples * k->model->block_size, k->model->hidden,
                 1, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_DROPOUT_RESIDUAL, stream_elems(k, a->samples), 0);
}

static dt_status cost_dropout_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_dropout_gradient *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_DROPOUT_GRADIENT, dropped(&a->dropout), (double)a->samples * k->model->block_size, k->model->hidden,
                 1, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_DROPOUT_GRADIENT, stream_elems(k, a->samples), 0);
}

static dt_status cost_loss(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_loss *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_LOSS, GPT_VARIANT_PLAIN, (double)a->rows, k->model->vocab_size, 1, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_LOSS, (double)a->rows * k->model->vocab_size, 0);
}

/* other_bytes: state that has not the model's dtype. */
static dt_status update(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, size_t count, double other_bytes)
{
    if (!k->costs)
        return DT_OK;
    const struct gpt_kernel_cost *cost = &k->costs->profile.kernels[kind];
    double tensors = k->costs->profile.optimizer_fused ? 1 : gpt_cost_tensors(k->model, (double)count);
    double bytes = (cost->passes * k->element_bytes + other_bytes) * (double)count;
    return work(k, stream, kind, cost->launches * tensors, gpt_cost_memory_s(k->costs, cost->launches * tensors, bytes));
}

static dt_status cost_sgd(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_SGD, GPT_VARIANT_PLAIN, (double)a->count, 1, 1, &status))
        return status;
    return update(k, stream, GPT_KERNEL_SGD, a->count, 0);
}

static dt_status cost_adam(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_ADAM, GPT_VARIANT_PLAIN, (double)a->count, 1, 1, &status))
        return status;
    return update(k, stream, GPT_KERNEL_ADAM, a->count, 3 * 2 * sizeof(float)); /* moments and master, read and written */
}

static dt_status cost_add(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count)
{
    dt_status status;
    if (measured(k, stream, GPT_KERNEL_ADD, GPT_VARIANT_PLAIN, (double)count, 1, 1, &status))
        return status;
    return pass(k, stream, GPT_KERNEL_ADD, (double)count, 0);
}

static size_t cost_kept_bytes(const struct gpt_kernels *k, enum gpt_layer_kind layer, size_t samples)
{
    return k->costs ? gpt_cost_kept_bytes(&k->costs->profile, k->model, layer, samples) : 0;
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

static size_t cost_output_bytes(const struct gpt_kernels *k, size_t samples)
{
    double tokens = (double)samples * k->model->block_size;
    return k->costs ? (size_t)(k->costs->profile.memory.output_elems * k->element_bytes * tokens * k->model->vocab_size) : 0;
}

const struct gpt_kernel_table gpt_kernels_cost = {
    .name = "cost",
    .available = gpt_kernels_need_nothing,
    .create = cost_create,
    .destroy = cost_destroy,
    .begin_step = cost_begin_step,
    .step_overflows = cost_step_overflows,
    .init_normal = cost_init_normal,
    .fill = cost_fill,
    .tokens = cost_tokens,
    .embedding = cost_embedding,
    .embedding_gradient = cost_embedding_gradient,
    .layer_norm = cost_layer_norm,
    .layer_norm_gradient = cost_layer_norm_gradient,
    .linear = cost_linear,
    .linear_input_gradient = cost_linear_input_gradient,
    .linear_gelu_input_gradient = cost_linear_gelu_input_gradient,
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
    .kept_bytes = cost_kept_bytes,
    .sgd_host = cost_sgd_host,
    .adam_host = cost_adam_host,
    .add_host = cost_add_host,
    .output_bytes = cost_output_bytes,
};

#include "gpt/cost/probe.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, TOKENS_PER_SAMPLE = 64, DROPOUT_WIDTH = 256 };

/* Memory that is handed out in turn, and begun again when it is used up. */
struct region {
    struct dt_buffer buffer;
    size_t used;
};

struct gpt_probe {
    struct dt_device *device;
    struct dt_stream *stream;
    const struct gpt_kernel_table *table;
    struct gpt_kernels *kernels; /* of the model below; NULL before the first kernel */
    struct dt_model model;
    struct gpt_measured what;
    struct region inputs, weights, outputs;
};

dt_status gpt_probe_create(struct dt_device *device, size_t region_bytes, struct gpt_probe **out)
{
    struct gpt_probe *p = *out = calloc(1, sizeof *p);
    struct dt_device_info info;
    if (!p)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a probe");
    dt_device_info(device, &info);
    p->device = device;
    p->table = gpt_kernels_for(info.kind);
    dt_status status = p->table ? dt_stream_create(device, "compute", &p->stream) : DT_ERR_UNAVAILABLE;
    struct region *const regions[] = {&p->inputs, &p->weights, &p->outputs};
    for (int i = 0; i < 3 && status == DT_OK; i++)
        status = dt_alloc(p->stream, DT_WORKSPACE, region_bytes, &regions[i]->buffer);
    if (status < 0) {
        gpt_probe_destroy(p);
        *out = NULL;
    }
    return status;
}

void gpt_probe_destroy(struct gpt_probe *p)
{
    if (!p)
        return;
    if (p->kernels)
        p->table->destroy(p->kernels);
    struct region *const regions[] = {&p->inputs, &p->weights, &p->outputs};
    for (int i = 0; i < 3 && p->stream; i++)
        dt_free(p->stream, &regions[i]->buffer);
    dt_stream_destroy(p->stream);
    free(p);
}

/* No region gets more bytes than this in one call. */
static double most_bytes(const struct gpt_measured *what)
{
    double a = what->shape[0], b = what->shape[1], c = what->shape[2], slack = 1 << 16;
    switch (what->kernel) {
    case GPT_KERNEL_LINEAR:
    case GPT_KERNEL_LINEAR_INPUT_GRADIENT:
    case GPT_KERNEL_LINEAR_WEIGHT_GRADIENT: return 4 * (a * b + a * c + b * c + b) + slack;
    case GPT_KERNEL_ATTENTION:
    case GPT_KERNEL_ATTENTION_GRADIENT: return 4 * (5 * a * b * c + a * b * b) + slack;
    case GPT_KERNEL_EMBEDDING:
    case GPT_KERNEL_EMBEDDING_GRADIENT: return 4 * (a + c) * b + 8 * a + slack;
    case GPT_KERNEL_ADAM: return 16 * a + slack;
    default: return 4 * a * b + 8 * a / (b > 1 ? 1 : 8) + slack; /* mean and rstd, or tokens */
    }
}

/* ---- memory ---- */

static void *take(struct region *r, double bytes)
{
    size_t rounded = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *at = (char *)r->buffer.data + r->used;
    r->used += rounded;
    return at;
}

/* Begin again where a whole call might not fit any more. */
static void turn(struct gpt_probe *p, struct region *r)
{
    if ((double)r->used + most_bytes(&p->what) > (double)r->buffer.bytes)
        r->used = 0;
}

static void *elements(struct gpt_probe *p, struct region *r, double count)
{
    return take(r, count * (double)dt_dtype_bytes(p->model.dtype));
}

/* ---- one call of each kernel ---- */

static dt_status run_product(struct gpt_probe *p)
{
    double rows = p->what.shape[0], out = p->what.shape[1], in = p->what.shape[2];
    size_t m = (size_t)rows, n = (size_t)out, k = (size_t)in;
    if (p->what.kernel == GPT_KERNEL_LINEAR) {
        struct gpt_linear a = {elements(p, &p->inputs, rows * in),
                               elements(p, &p->weights, out * in),
                               elements(p, &p->weights, out),
                               elements(p, &p->outputs, rows * out),
                               m,
                               k,
                               n};
        return p->table->linear(p->kernels, p->stream, &a);
    }
    if (p->what.kernel == GPT_KERNEL_LINEAR_INPUT_GRADIENT) {
        struct gpt_linear_input_gradient a = {
            elements(p, &p->inputs, rows * out), elements(p, &p->weights, out * in), elements(p, &p->outputs, rows * in), m, k, n};
        return p->table->linear_input_gradient(p->kernels, p->stream, &a);
    }
    struct gpt_linear_weight_gradient a = {.dy = elements(p, &p->inputs, rows * out),
                                           .x = elements(p, &p->weights, rows * in), /* from forward, long ago */
                                           .dw = elements(p, &p->outputs, out * in),
                                           .db = elements(p, &p->outputs, out),
                                           .rows = m,
                                           .in = k,
                                           .out = n,
                                           .accumulate = p->what.variant == GPT_VARIANT_ACCUMULATE};
    return p->table->linear_weight_gradient(p->kernels, p->stream, &a);
}

static dt_status run_attention(struct gpt_probe *p, const struct gpt_dropout *dropout)
{
    double heads = p->what.shape[0], T = p->what.shape[1], stream = heads * T * p->what.shape[2];
    size_t samples = (size_t)heads / (size_t)p->model.heads;
    bool unfused = p->what.variant == GPT_VARIANT_UNFUSED;
    void *qkv = elements(p, &p->inputs, 3 * stream), *weights = unfused ? elements(p, &p->weights, heads * T * T) : NULL;
    float *lse = unfused ? NULL : take(&p->weights, heads * T * sizeof(float));
    if (p->what.kernel == GPT_KERNEL_ATTENTION) {
        struct gpt_attention_forward a = {qkv, elements(p, &p->outputs, stream), lse, weights, samples, *dropout};
        return p->table->attention(p->kernels, p->stream, &a);
    }
    struct gpt_attention_backward a = {.dout = elements(p, &p->inputs, stream),
                                       .out = elements(p, &p->inputs, stream),
                                       .qkv = qkv,
                                       .lse = lse,
                                       .weights = weights,
                                       .dqkv = elements(p, &p->outputs, 3 * stream),
                                       .samples = samples,
                                       .dropout = *dropout};
    return p->table->attention_gradient(p->kernels, p->stream, &a);
}

static dt_status run_norm(struct gpt_probe *p)
{
    double rows = p->what.shape[0], d = p->what.shape[1];
    void *gain = elements(p, &p->weights, d), *bias = elements(p, &p->weights, d);
    float *mean = take(&p->outputs, rows * sizeof(float)), *rstd = take(&p->outputs, rows * sizeof(float));
    if (p->what.kernel == GPT_KERNEL_LAYER_NORM) {
        struct gpt_layer_norm a = {
            elements(p, &p->inputs, rows * d), gain, bias, elements(p, &p->outputs, rows * d), mean, rstd, (size_t)rows, (size_t)d};
        return p->table->layer_norm(p->kernels, p->stream, &a);
    }
    struct gpt_layer_norm_gradient a = {.dy = elements(p, &p->inputs, rows * d),
                                        .x = elements(p, &p->weights, rows * d),
                                        .gain = gain,
                                        .mean = mean,
                                        .rstd = rstd,
                                        .dx = elements(p, &p->outputs, rows * d),
                                        .dgain = elements(p, &p->outputs, d),
                                        .dbias = elements(p, &p->outputs, d),
                                        .rows = (size_t)rows,
                                        .d = (size_t)d};
    return p->table->layer_norm_gradient(p->kernels, p->stream, &a);
}

/* The tokens are the first that the inputs hold: gpt_probe_set has put them there. */
static dt_status run_embedding(struct gpt_probe *p, const struct gpt_dropout *dropout)
{
    double rows = p->what.shape[0], d = p->what.shape[1];
    double V = p->model.vocab_size, T = p->model.block_size;
    size_t samples = (size_t)rows / (size_t)p->model.block_size;
    p->inputs.used = 0;
    int32_t *tokens = take(&p->inputs, rows * sizeof(int32_t));
    take(&p->inputs, rows * sizeof(int32_t)); /* targets */
    if (p->what.kernel == GPT_KERNEL_EMBEDDING) {
        struct gpt_embedding a = {
            tokens,  elements(p, &p->weights, V * d), elements(p, &p->weights, T * d), elements(p, &p->outputs, rows * d), samples,
            *dropout};
        return p->table->embedding(p->kernels, p->stream, &a);
    }
    struct gpt_embedding_gradient a = {
        tokens,  elements(p, &p->inputs, rows * d), elements(p, &p->outputs, V * d), elements(p, &p->outputs, T * d), samples, false,
        *dropout};
    return p->table->embedding_gradient(p->kernels, p->stream, &a);
}

static dt_status run_loss(struct gpt_probe *p)
{
    double rows = p->what.shape[0];
    p->inputs.used = 0;
    take(&p->inputs, rows * sizeof(int32_t));
    struct gpt_loss a = {.targets = take(&p->inputs, rows * sizeof(int32_t)),
                         .loss = take(&p->inputs, sizeof(double)),
                         .logits = elements(p, &p->outputs, rows * p->what.shape[1]),
                         .rows = (size_t)rows,
                         .gradient_scale = 1e-3f,
                         .loss_scale = 1};
    return p->table->loss(p->kernels, p->stream, &a);
}

static dt_status run_dropout(struct gpt_probe *p, const struct gpt_dropout *dropout)
{
    double count = p->what.shape[0] * p->what.shape[1];
    size_t samples = (size_t)p->what.shape[0] / TOKENS_PER_SAMPLE;
    if (p->what.kernel == GPT_KERNEL_DROPOUT_RESIDUAL) {
        struct gpt_dropout_residual a = {elements(p, &p->weights, count), elements(p, &p->inputs, count), elements(p, &p->outputs, count),
                                         samples, *dropout};
        return p->table->dropout_residual(p->kernels, p->stream, &a);
    }
    struct gpt_dropout_gradient a = {elements(p, &p->inputs, count), elements(p, &p->outputs, count), samples, *dropout};
    return p->table->dropout_gradient(p->kernels, p->stream, &a);
}

static dt_status run_update(struct gpt_probe *p)
{
    double count = p->what.shape[0];
    void *params = elements(p, &p->outputs, count), *grads = elements(p, &p->weights, count);
    if (p->what.kernel == GPT_KERNEL_SGD) {
        struct gpt_sgd a = {params, grads, (size_t)count, 1e-6f, 1};
        return p->table->sgd(p->kernels, p->stream, &a);
    }
    float *state[3];
    for (int i = 0; i < 3; i++)
        state[i] = take(&p->outputs, count * sizeof(float));
    struct gpt_adam a = {params, grads, state[0], state[1], state[2], (size_t)count, 1e-6f, 0.9f, 0.999f, 1e-8f, 1};
    return p->table->adam(p->kernels, p->stream, &a);
}

static dt_status run_once(struct gpt_probe *p)
{
    struct gpt_dropout dropout = {.seed = 1, .layer = 1, .probability = p->what.variant == GPT_VARIANT_DROPOUT ? 0.1f : 0};
    double count = p->what.shape[0];
    p->inputs.used = 0;
    turn(p, &p->weights);
    turn(p, &p->outputs);
    switch (p->what.kernel) {
    case GPT_KERNEL_EMBEDDING:
    case GPT_KERNEL_EMBEDDING_GRADIENT: return run_embedding(p, &dropout);
    case GPT_KERNEL_LAYER_NORM:
    case GPT_KERNEL_LAYER_NORM_GRADIENT: return run_norm(p);
    case GPT_KERNEL_LINEAR:
    case GPT_KERNEL_LINEAR_INPUT_GRADIENT:
    case GPT_KERNEL_LINEAR_WEIGHT_GRADIENT: return run_product(p);
    case GPT_KERNEL_GELU:
        return p->table->gelu(p->kernels, p->stream,
                              &(struct gpt_gelu){elements(p, &p->outputs, count), elements(p, &p->inputs, count), (size_t)count});
    case GPT_KERNEL_GELU_GRADIENT:
        return p->table->gelu_gradient(
            p->kernels, p->stream,
            &(struct gpt_gelu_gradient){elements(p, &p->outputs, count), elements(p, &p->weights, count), (size_t)count});
    case GPT_KERNEL_ATTENTION:
    case GPT_KERNEL_ATTENTION_GRADIENT: return run_attention(p, &dropout);
    case GPT_KERNEL_DROPOUT_RESIDUAL:
    case GPT_KERNEL_DROPOUT_GRADIENT: return run_dropout(p, &dropout);
    case GPT_KERNEL_LOSS: return run_loss(p);
    case GPT_KERNEL_SGD:
    case GPT_KERNEL_ADAM: return run_update(p);
    case GPT_KERNEL_ADD:
        return p->table->add(p->kernels, p->stream,
                             &(struct gpt_add){elements(p, &p->outputs, count), elements(p, &p->weights, count), (size_t)count});
    case GPT_KERNEL_COUNT: return dt_copy(p->stream, take(&p->outputs, count), take(&p->weights, count), (size_t)count);
    }
    return dt_fail(DT_ERR_INVALID, "probe: no such kernel");
}

/* ---- choosing ---- */

/* A model that has a kernel of this shape. */
static struct dt_model model_for(const struct gpt_measured *what)
{
    struct dt_model m = {
        .layers = 1, .heads = 1, .hidden = DROPOUT_WIDTH, .vocab_size = 64, .block_size = TOKENS_PER_SAMPLE, .dtype = what->dtype};
    m.attention = what->variant == GPT_VARIANT_UNFUSED ? DT_ATTENTION_UNFUSED : DT_ATTENTION_FUSED;
    m.dropout = what->variant == GPT_VARIANT_DROPOUT ? 0.1f : 0;
    switch (what->kernel) {
    case GPT_KERNEL_ATTENTION:
    case GPT_KERNEL_ATTENTION_GRADIENT:
        m.heads = (int)what->shape[0] % 4 == 0 ? 4 : 1;
        m.hidden = m.heads * (int)what->shape[2];
        m.block_size = (int)what->shape[1];
        break;
    case GPT_KERNEL_EMBEDDING:
    case GPT_KERNEL_EMBEDDING_GRADIENT:
        m.hidden = (int)what->shape[1];
        m.vocab_size = (int)what->shape[2] - TOKENS_PER_SAMPLE;
        break;
    case GPT_KERNEL_DROPOUT_RESIDUAL:
    case GPT_KERNEL_DROPOUT_GRADIENT: m.hidden = (int)what->shape[1]; break;
    case GPT_KERNEL_LOSS: m.vocab_size = (int)what->shape[1]; break;
    default: break;
    }
    return m;
}

/* Small numbers of all signs everywhere, and tokens where some kernels look for them. */
static dt_status fill(struct gpt_probe *p)
{
    const struct region *const regions[] = {&p->inputs, &p->weights, &p->outputs};
    size_t width = dt_dtype_bytes(p->model.dtype);
    for (int i = 0; i < 3; i++)
        DT_TRY(p->table->init_normal(p->kernels, p->stream,
                                     &(struct gpt_init_normal){regions[i]->buffer.data, regions[i]->buffer.bytes / width, 1, 0, 1, 0.5f}));
    return DT_OK;
}

static dt_status place_tokens(struct gpt_probe *p)
{
    bool wanted =
        p->what.kernel == GPT_KERNEL_EMBEDDING || p->what.kernel == GPT_KERNEL_EMBEDDING_GRADIENT || p->what.kernel == GPT_KERNEL_LOSS;
    if (!wanted)
        return DT_OK;
    size_t rows = (size_t)p->what.shape[0];
    p->inputs.used = 0;
    int32_t *tokens = take(&p->inputs, (double)(rows * sizeof(int32_t))), *targets = take(&p->inputs, (double)(rows * sizeof(int32_t)));
    return p->table->tokens(p->kernels, p->stream, &(struct gpt_tokens){tokens, targets, rows / TOKENS_PER_SAMPLE, 1, 0});
}

dt_status gpt_probe_set(struct gpt_probe *p, const struct gpt_measured *what)
{
    if (most_bytes(what) > (double)p->outputs.buffer.bytes || !(gpt_measured_work(what->kernel, what->shape) >= 1))
        return dt_fail(DT_ERR_INVALID, "probe: a kernel on %g x %g x %g does not fit", what->shape[0], what->shape[1], what->shape[2]);
    bool refill = !p->kernels || p->model.dtype != what->dtype;
    p->what = *what;
    if (p->kernels)
        p->table->destroy(p->kernels);
    p->kernels = NULL;
    p->model = model_for(what);
    DT_TRY(p->table->create(p->device, &p->model, &p->kernels));
    DT_TRY(p->table->begin_step(p->kernels, p->stream, 0, 2)); /* the first one does not read Adam's state */
    if (refill)
        DT_TRY(fill(p));
    DT_TRY(place_tokens(p));
    return dt_stream_synchronize(p->stream);
}

dt_status gpt_probe_run(struct gpt_probe *p, int times)
{
    for (int i = 0; i < times; i++)
        DT_TRY(run_once(p));
    return dt_stream_synchronize(p->stream);
}

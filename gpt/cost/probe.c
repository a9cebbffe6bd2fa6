/* One kernel at a time, to be timed: sets up memory and arguments for a kernel of a shape (lib/cost/measured.h), and queues it as often as
 * the caller likes. The kernels are those of the device, as training uses them.
 *
 * What a layer has just computed is in the processor's caches when the next one reads it, if it fits; weights and fresh outputs are not. So
 * inputs stay where they are from one call to the next, and weights and outputs go on through memory that is larger than the caches. */
#include "gpt/cost/probe_shapes.h"
#include "gpt/kernels.h"
#include "lib/cost/measured.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, TOKENS_PER_SAMPLE = 64, DROPOUT_WIDTH = 256, HEAD_WIDTH = 64 };

static const float EPSILON = 1e-5f;

/* Memory that is handed out in turn, and begun again when it is used up. */
struct region {
    struct dt_buffer buffer;
    size_t used;
};

struct dt_probe {
    struct dt_device *device;
    struct dt_stream *stream;
    const struct gpt_kernel_table *table;
    struct dt_kernels base;      /* both of the model below */
    struct gpt_kernels *kernels; /* NULL before the first kernel */
    struct dt_model model;
    struct dt_measured what;
    struct region inputs, weights, outputs;
};

static enum dt_shape shape_of(int kernel)
{
    return kernel < DT_PRICED_SHARED ? dt_shared_pricing.kernels[kernel].shape : gpt_pricing.kernels[kernel - DT_PRICED_SHARED].shape;
}

static void destroy_kernels(struct dt_probe *p)
{
    if (p->kernels)
        p->table->destroy(p->kernels);
    p->kernels = NULL;
    dt_kernels_finish(&p->base);
}

static void destroy_probe(struct dt_probe *p)
{
    if (!p)
        return;
    destroy_kernels(p);
    struct region *const regions[] = {&p->inputs, &p->weights, &p->outputs};
    for (int i = 0; i < 3 && p->stream; i++)
        dt_free(p->stream, &regions[i]->buffer);
    dt_stream_destroy(p->stream);
    free(p);
}

static dt_status create_probe(struct dt_device *device, size_t region_bytes, struct dt_probe **out)
{
    dt_status status = DT_ERR_UNAVAILABLE;
    struct dt_device_info info;
    *out = NULL;
    struct dt_probe *p = calloc(1, sizeof *p);
    DT_TRY(dt_allocated(p, "no host memory for a probe"));
    dt_device_info(device, &info);
    p->device = device;
    p->table = gpt_kernels_for(info.kind->name);
    if (!p->table)
        goto fail;
    DT_TRY_ELSE(fail, status, dt_stream_create(device, "compute", &p->stream));
    struct region *const regions[] = {&p->inputs, &p->weights, &p->outputs};
    for (int i = 0; i < 3; i++) {
        DT_TRY_ELSE(fail, status, dt_alloc(p->stream, DT_WORKSPACE, region_bytes, &regions[i]->buffer));
    }
    *out = p;
    return DT_OK;
fail:
    destroy_probe(p);
    return status;
}

/* Arrays of its shape that a kernel over rows has in one region at most: swiglu's gradient writes that of gate and up, and y. */
static double most_arrays(int kernel)
{
    return kernel == GPT_KERNEL_SWIGLU || kernel == GPT_KERNEL_SWIGLU_GRADIENT ? 3 : 1;
}

/* No region gets more bytes than this in one call. */
static double most_bytes(const struct dt_measured *what)
{
    double a = what->shape[0], b = what->shape[1], c = what->shape[2], slack = 1 << 16;
    switch (shape_of(what->kernel)) {
    case DT_SHAPE_PRODUCT: return 4 * (a * b + a * c + b * c + b) + slack;
    case DT_SHAPE_HEADS: return 4 * (5 * a * b * c + a * b * b) + slack;
    case DT_SHAPE_LOOKUP:
    case DT_SHAPE_LOOKUP_GRADIENT: return 4 * (a + c) * b + 8 * a + slack;
    case DT_SHAPE_ROWS: return 4 * most_arrays(what->kernel) * a * b + 8 * a + slack; /* mean and rstd, or tokens */
    case DT_SHAPE_FLAT: break;
    }
    return (what->kernel == DT_PRICED_ADAM ? 16 : 5) * a + slack; /* Adam's state */
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
static void turn(struct dt_probe *p, struct region *r)
{
    if ((double)r->used + most_bytes(&p->what) > (double)r->buffer.bytes)
        r->used = 0;
}

static void *elements(struct dt_probe *p, struct region *r, double count)
{
    return take(r, count * (double)dt_dtype_bytes(p->model.dtype));
}

/* ---- one call of each kernel: probe_<entry> ---- */

static struct gpt_dropout dropout_of(const struct dt_probe *p)
{
    return (struct gpt_dropout){.seed = 1, .layer = 1, .probability = p->what.variant == DT_VARIANT_DROPOUT ? 0.1f : 0};
}

static dt_status probe_linear(struct dt_probe *p)
{
    double rows = p->what.shape[0], out = p->what.shape[1], in = p->what.shape[2];
    struct gpt_linear a = {.x = elements(p, &p->inputs, rows * in),
                           .w = elements(p, &p->weights, out * in),
                           .b = elements(p, &p->weights, out),
                           .y = elements(p, &p->outputs, rows * out),
                           .rows = (size_t)rows,
                           .in = (size_t)in,
                           .out = (size_t)out};
    return p->table->linear(p->kernels, p->stream, &a);
}

static dt_status probe_linear_input_gradient(struct dt_probe *p)
{
    double rows = p->what.shape[0], out = p->what.shape[1], in = p->what.shape[2];
    struct gpt_linear_input_gradient a = {.dy = elements(p, &p->inputs, rows * out),
                                          .w = elements(p, &p->weights, out * in),
                                          .dx = elements(p, &p->outputs, rows * in),
                                          .rows = (size_t)rows,
                                          .in = (size_t)in,
                                          .out = (size_t)out};
    return p->table->linear_input_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_linear_weight_gradient(struct dt_probe *p)
{
    double rows = p->what.shape[0], out = p->what.shape[1], in = p->what.shape[2];
    struct gpt_linear_weight_gradient a = {.dy = elements(p, &p->inputs, rows * out),
                                           .x = elements(p, &p->weights, rows * in), /* from forward, long ago */
                                           .dw = elements(p, &p->outputs, out * in),
                                           .db = elements(p, &p->outputs, out),
                                           .rows = (size_t)rows,
                                           .in = (size_t)in,
                                           .out = (size_t)out,
                                           .accumulate = p->what.variant == DT_VARIANT_ACCUMULATE};
    return p->table->linear_weight_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_attention(struct dt_probe *p)
{
    double heads = p->what.shape[0], T = p->what.shape[1], stream = heads * T * p->what.shape[2];
    bool unfused = p->what.variant == DT_VARIANT_UNFUSED;
    struct gpt_attention_forward a = {.qkv = elements(p, &p->inputs, 3 * stream),
                                      .out = elements(p, &p->outputs, stream),
                                      .lse = unfused ? NULL : take(&p->weights, heads * T * sizeof(float)),
                                      .weights = unfused ? elements(p, &p->weights, heads * T * T) : NULL,
                                      .samples = (size_t)heads / (size_t)gpt_of(&p->model)->heads,
                                      .heads = {0, (size_t)gpt_of(&p->model)->heads},
                                      .kv_heads = {0, (size_t)gpt_of(&p->model)->heads},
                                      .dropout = dropout_of(p)};
    return p->table->attention(p->kernels, p->stream, &a);
}

static dt_status probe_attention_gradient(struct dt_probe *p)
{
    double heads = p->what.shape[0], T = p->what.shape[1], stream = heads * T * p->what.shape[2];
    bool unfused = p->what.variant == DT_VARIANT_UNFUSED;
    struct gpt_attention_backward a = {.qkv = elements(p, &p->inputs, 3 * stream),
                                       .dout = elements(p, &p->inputs, stream),
                                       .out = elements(p, &p->inputs, stream),
                                       .lse = unfused ? NULL : take(&p->weights, heads * T * sizeof(float)),
                                       .weights = unfused ? elements(p, &p->weights, heads * T * T) : NULL,
                                       .dqkv = elements(p, &p->outputs, 3 * stream),
                                       .samples = (size_t)heads / (size_t)gpt_of(&p->model)->heads,
                                       .heads = {0, (size_t)gpt_of(&p->model)->heads},
                                       .kv_heads = {0, (size_t)gpt_of(&p->model)->heads},
                                       .dropout = dropout_of(p)};
    return p->table->attention_gradient(p->kernels, p->stream, &a);
}

static struct gpt_norm norm_of(struct dt_probe *p, bool rms)
{
    double rows = p->what.shape[0], d = p->what.shape[1];
    return (struct gpt_norm){.x = elements(p, &p->inputs, rows * d),
                             .gain = elements(p, &p->weights, d),
                             .bias = rms ? NULL : elements(p, &p->weights, d),
                             .y = elements(p, &p->outputs, rows * d),
                             .mean = rms ? NULL : take(&p->outputs, rows * sizeof(float)),
                             .rstd = take(&p->outputs, rows * sizeof(float)),
                             .rows = (size_t)rows,
                             .d = (size_t)d,
                             .epsilon = EPSILON};
}

static dt_status probe_layer_norm(struct dt_probe *p)
{
    struct gpt_norm a = norm_of(p, false);
    return p->table->layer_norm(p->kernels, p->stream, &a);
}

static dt_status probe_rms_norm(struct dt_probe *p)
{
    struct gpt_norm a = norm_of(p, true);
    return p->table->rms_norm(p->kernels, p->stream, &a);
}

static struct gpt_norm_gradient norm_gradient_of(struct dt_probe *p, bool rms)
{
    double rows = p->what.shape[0], d = p->what.shape[1];
    return (struct gpt_norm_gradient){.dy = elements(p, &p->inputs, rows * d),
                                      .x = elements(p, &p->weights, rows * d),
                                      .gain = elements(p, &p->weights, d),
                                      .mean = rms ? NULL : take(&p->outputs, rows * sizeof(float)),
                                      .rstd = take(&p->outputs, rows * sizeof(float)),
                                      .dx = elements(p, &p->outputs, rows * d),
                                      .dgain = elements(p, &p->outputs, d),
                                      .dbias = rms ? NULL : elements(p, &p->outputs, d),
                                      .rows = (size_t)rows,
                                      .d = (size_t)d};
}

static dt_status probe_layer_norm_gradient(struct dt_probe *p)
{
    struct gpt_norm_gradient a = norm_gradient_of(p, false);
    return p->table->layer_norm_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_rms_norm_gradient(struct dt_probe *p)
{
    struct gpt_norm_gradient a = norm_gradient_of(p, true);
    return p->table->rms_norm_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_head_norm(struct dt_probe *p)
{
    double count = p->what.shape[0] * gpt_qkv_features(&p->model);
    struct gpt_head_norm a = {.qkv = elements(p, &p->inputs, count),
                              .q_gain = elements(p, &p->weights, gpt_head_width(&p->model)),
                              .k_gain = elements(p, &p->weights, gpt_head_width(&p->model)),
                              .out = elements(p, &p->outputs, count),
                              .rows = (size_t)p->what.shape[0],
                              .heads = (size_t)gpt_of(&p->model)->heads,
                              .kv_heads = (size_t)gpt_kv_heads(&p->model),
                              .epsilon = EPSILON};
    return p->table->head_norm(p->kernels, p->stream, &a);
}

static dt_status probe_head_norm_gradient(struct dt_probe *p)
{
    double count = p->what.shape[0] * gpt_qkv_features(&p->model);
    struct gpt_head_norm_gradient a = {.qkv = elements(p, &p->weights, count),
                                       .q_gain = elements(p, &p->weights, gpt_head_width(&p->model)),
                                       .k_gain = elements(p, &p->weights, gpt_head_width(&p->model)),
                                       .dqkv = elements(p, &p->outputs, count),
                                       .dq_gain = elements(p, &p->outputs, gpt_head_width(&p->model)),
                                       .dk_gain = elements(p, &p->outputs, gpt_head_width(&p->model)),
                                       .rows = (size_t)p->what.shape[0],
                                       .heads = (size_t)gpt_of(&p->model)->heads,
                                       .kv_heads = (size_t)gpt_kv_heads(&p->model),
                                       .epsilon = EPSILON};
    return p->table->head_norm_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_swiglu(struct dt_probe *p)
{
    double count = p->what.shape[0] * p->what.shape[1];
    struct gpt_swiglu a = {.y = elements(p, &p->outputs, count),
                           .hidden = elements(p, &p->inputs, 2 * count),
                           .rows = (size_t)p->what.shape[0],
                           .f = (size_t)p->what.shape[1]};
    return p->table->swiglu(p->kernels, p->stream, &a);
}

static dt_status probe_swiglu_gradient(struct dt_probe *p)
{
    double count = p->what.shape[0] * p->what.shape[1];
    struct gpt_swiglu_gradient a = {.dy = elements(p, &p->inputs, count),
                                    .hidden = elements(p, &p->weights, 2 * count),
                                    .dhidden = elements(p, &p->outputs, 2 * count),
                                    .y = elements(p, &p->outputs, count),
                                    .rows = (size_t)p->what.shape[0],
                                    .f = (size_t)p->what.shape[1]};
    return p->table->swiglu_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_rope(struct dt_probe *p)
{
    double rows = p->what.shape[0], columns = p->what.shape[1];
    struct gpt_rope a = {
        elements(p, &p->inputs, rows * columns), (size_t)rows, (size_t)gpt_of(&p->model)->heads, (size_t)columns, false, {0}};
    return p->table->rope(p->kernels, p->stream, &a);
}

/* The first `rows` tokens of the inputs, as gpt_probe_set has placed them; the targets are after them. */
static int32_t *tokens_of(struct dt_probe *p, double rows, int32_t **out_targets)
{
    p->inputs.used = 0;
    int32_t *tokens = take(&p->inputs, rows * sizeof(int32_t));
    *out_targets = take(&p->inputs, rows * sizeof(int32_t));
    return tokens;
}

static dt_status probe_embedding(struct dt_probe *p)
{
    double rows = p->what.shape[0], d = p->what.shape[1];
    int32_t *targets;
    struct gpt_embedding a = {.tokens = tokens_of(p, rows, &targets),
                              .token_table = elements(p, &p->weights, gpt_of(&p->model)->vocab_size * d),
                              .position_table = elements(p, &p->weights, gpt_of(&p->model)->block_size * d),
                              .out = elements(p, &p->outputs, rows * d),
                              .samples = (size_t)rows / (size_t)gpt_of(&p->model)->block_size,
                              .vocab = {0, (size_t)gpt_of(&p->model)->vocab_size},
                              .positions = {0, (size_t)gpt_of(&p->model)->block_size},
                              .dropout = dropout_of(p)};
    return p->table->embedding(p->kernels, p->stream, &a);
}

static dt_status probe_embedding_gradient(struct dt_probe *p)
{
    double rows = p->what.shape[0], d = p->what.shape[1];
    int32_t *targets, *tokens = tokens_of(p, rows, &targets);
    struct gpt_embedding_gradient a = {.tokens = tokens,
                                       .dout = elements(p, &p->inputs, rows * d),
                                       .dtoken_table = elements(p, &p->outputs, gpt_of(&p->model)->vocab_size * d),
                                       .dposition_table = elements(p, &p->outputs, gpt_of(&p->model)->block_size * d),
                                       .samples = (size_t)rows / (size_t)gpt_of(&p->model)->block_size,
                                       .vocab = {0, (size_t)gpt_of(&p->model)->vocab_size},
                                       .positions = {0, (size_t)gpt_of(&p->model)->block_size},
                                       .dropout = dropout_of(p)};
    return p->table->embedding_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_loss(struct dt_probe *p)
{
    double rows = p->what.shape[0];
    int32_t *targets;
    tokens_of(p, rows, &targets);
    struct gpt_loss a = {.targets = targets,
                         .loss = take(&p->inputs, sizeof(double)),
                         .logits = elements(p, &p->outputs, rows * p->what.shape[1]),
                         .rows = (size_t)rows,
                         .gradient_scale = 1e-3f,
                         .loss_scale = 1};
    return p->table->loss(p->kernels, p->stream, &a);
}

static dt_status probe_dropout_residual(struct dt_probe *p)
{
    double count = p->what.shape[0] * p->what.shape[1];
    struct gpt_dropout_residual a = {.residual = elements(p, &p->weights, count),
                                     .branch = elements(p, &p->inputs, count),
                                     .out = elements(p, &p->outputs, count),
                                     .rows = (size_t)p->what.shape[0] / TOKENS_PER_SAMPLE * TOKENS_PER_SAMPLE,
                                     .dropout = dropout_of(p)};
    return p->table->dropout_residual(p->kernels, p->stream, &a);
}

static dt_status probe_dropout_gradient(struct dt_probe *p)
{
    double count = p->what.shape[0] * p->what.shape[1];
    struct gpt_dropout_gradient a = {.dout = elements(p, &p->inputs, count),
                                     .dbranch = elements(p, &p->outputs, count),
                                     .rows = (size_t)p->what.shape[0] / TOKENS_PER_SAMPLE * TOKENS_PER_SAMPLE,
                                     .dropout = dropout_of(p)};
    return p->table->dropout_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_gelu(struct dt_probe *p)
{
    double count = p->what.shape[0];
    struct gpt_gelu a = {elements(p, &p->outputs, count), elements(p, &p->inputs, count), (size_t)count};
    return p->table->gelu(p->kernels, p->stream, &a);
}

static dt_status probe_gelu_gradient(struct dt_probe *p)
{
    double count = p->what.shape[0];
    struct gpt_gelu_gradient a = {elements(p, &p->outputs, count), elements(p, &p->weights, count), (size_t)count};
    return p->table->gelu_gradient(p->kernels, p->stream, &a);
}

static dt_status probe_sgd(struct dt_probe *p)
{
    double count = p->what.shape[0];
    struct dt_update u = {.params = elements(p, &p->outputs, count),
                          .grads = elements(p, &p->weights, count),
                          .count = (size_t)count,
                          .learning_rate = 1e-6f,
                          .gradient_scale = 1};
    return dt_kernels_update(&p->base, p->stream, &u);
}

static dt_status probe_adam(struct dt_probe *p)
{
    double count = p->what.shape[0];
    struct dt_update u = {.params = elements(p, &p->outputs, count),
                          .grads = elements(p, &p->weights, count),
                          .count = (size_t)count,
                          .learning_rate = 1e-6f,
                          .gradient_scale = 1,
                          .adam = true,
                          .first_moment = take(&p->outputs, count * sizeof(float)),
                          .second_moment = take(&p->outputs, count * sizeof(float)),
                          .master = take(&p->outputs, count * sizeof(float)),
                          .beta1 = 0.9f,
                          .beta2 = 0.999f,
                          .epsilon = 1e-8f};
    return dt_kernels_update(&p->base, p->stream, &u);
}

static dt_status probe_add(struct dt_probe *p)
{
    double count = p->what.shape[0];
    void *to = elements(p, &p->outputs, count);
    return dt_kernels_add(&p->base, p->stream, false, to, elements(p, &p->weights, count), (size_t)count);
}

static dt_status probe_squares(struct dt_probe *p)
{
    double count = p->what.shape[0];
    return dt_kernels_add_squares(&p->base, p->stream, false, p->base.dtype, elements(p, &p->weights, count), (size_t)count);
}

static dt_status probe_copy(struct dt_probe *p)
{
    double bytes = p->what.shape[0];
    return dt_copy(p->stream, take(&p->outputs, bytes), take(&p->weights, bytes), (size_t)bytes);
}

static dt_status run_once(struct dt_probe *p)
{
#define PROBE(entry, arguments, kind, ...) [GPT_KERNEL_##kind] = probe_##entry,
    static dt_status (*const probes[])(struct dt_probe *p) = {
        [DT_PRICED_SGD] = probe_sgd,         [DT_PRICED_ADAM] = probe_adam, [DT_PRICED_ADD] = probe_add,
        [DT_PRICED_SQUARES] = probe_squares, [DT_PRICED_COPY] = probe_copy, GPT_KERNELS(PROBE, GPT_NO_KERNEL_ROW, GPT_NO_KERNEL_ROW)};
#undef PROBE
    p->inputs.used = 0;
    turn(p, &p->weights);
    turn(p, &p->outputs);
    return probes[p->what.kernel](p);
}

/* ---- choosing ---- */

/* Heads that `columns` are of: of HEAD_WIDTH where that divides them; with_keys: half of them q's, and a quarter each k's and v's. */
static void set_heads(struct gpt_model *m, int columns, bool with_keys)
{
    int parts = with_keys ? 4 : 1, width = columns % (parts * HEAD_WIDTH) == 0 ? HEAD_WIDTH : columns / parts / 2 * 2;
    m->position = GPT_POSITION_ROPE;
    m->kv_heads = width ? columns / width / parts : 1;
    m->heads = with_keys ? 2 * m->kv_heads : m->kv_heads;
    m->hidden = m->heads * (width ? width : 2);
}

/* A model that has a kernel of this shape. */
static struct dt_model model_for(const struct dt_measured *what)
{
    struct gpt_model m = {.layers = 1, .heads = 1, .hidden = DROPOUT_WIDTH, .vocab_size = 64, .block_size = TOKENS_PER_SAMPLE};
    m.attention = what->variant == DT_VARIANT_UNFUSED ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
    m.dropout = what->variant == DT_VARIANT_DROPOUT ? 0.1f : 0;
    switch (shape_of(what->kernel)) {
    case DT_SHAPE_HEADS:
        m.heads = (int)what->shape[0] % 4 == 0 ? 4 : 1;
        m.hidden = m.heads * (int)what->shape[2];
        m.block_size = (int)what->shape[1];
        break;
    case DT_SHAPE_LOOKUP:
    case DT_SHAPE_LOOKUP_GRADIENT:
        m.hidden = (int)what->shape[1];
        m.vocab_size = (int)what->shape[2] - TOKENS_PER_SAMPLE;
        break;
    case DT_SHAPE_ROWS:
        if (what->kernel == GPT_KERNEL_LOSS)
            m.vocab_size = (int)what->shape[1];
        else
            m.hidden = (int)what->shape[1];
        if (what->kernel == GPT_KERNEL_ROPE)
            set_heads(&m, m.hidden, false);
        if (what->kernel == GPT_KERNEL_HEAD_NORM || what->kernel == GPT_KERNEL_HEAD_NORM_GRADIENT)
            set_heads(&m, m.hidden, true);
        break;
    case DT_SHAPE_PRODUCT:
    case DT_SHAPE_FLAT: break;
    }
    return gpt_model_of(what->dtype, &m);
}

/* Small numbers of both signs in all memory. */
static dt_status fill(struct dt_probe *p)
{
    const struct region *const regions[] = {&p->inputs, &p->weights, &p->outputs};
    size_t width = dt_dtype_bytes(p->model.dtype);
    struct dt_normal a = {.seed = 1, .tensor_id = 1, .standard_deviation = 0.5f};
    for (int i = 0; i < 3; i++) {
        a.to = regions[i]->buffer.data;
        a.count = regions[i]->buffer.bytes / width;
        DT_TRY(dt_kernels_normal(&p->base, p->stream, &a));
    }
    return DT_OK;
}

/* Tokens at the start of the inputs, for the kernels that read them. */
static dt_status place_tokens(struct dt_probe *p)
{
    bool has_tokens =
        p->what.kernel == GPT_KERNEL_EMBEDDING || p->what.kernel == GPT_KERNEL_EMBEDDING_GRADIENT || p->what.kernel == GPT_KERNEL_LOSS;
    if (!has_tokens)
        return DT_OK;
    int32_t *targets, *tokens = tokens_of(p, p->what.shape[0], &targets);
    size_t samples = (size_t)p->what.shape[0] / TOKENS_PER_SAMPLE;
    return p->table->tokens(p->kernels, p->stream,
                            &(struct gpt_tokens){.inputs = tokens, .targets = targets, .samples = samples, .seed = 1});
}

static dt_status set_probe(struct dt_probe *p, const struct dt_measured *what)
{
    if (most_bytes(what) > (double)p->outputs.buffer.bytes || !(dt_measured_work(shape_of(what->kernel), what->shape) >= 1))
        return dt_fail(DT_ERR_INVALID, "probe: a kernel on %g x %g x %g does not fit", what->shape[0], what->shape[1], what->shape[2]);
    bool refill = !p->kernels || p->model.dtype != what->dtype;
    p->what = *what;
    destroy_kernels(p);
    p->model = model_for(what);
    DT_TRY(dt_kernels_init(&p->base, p->device, p->model.dtype));
    DT_TRY(p->table->create(&p->base, &p->model, &p->kernels));
    DT_TRY(dt_kernels_begin_step(&p->base, p->stream, 0, 2)); /* the first one does not read Adam's state */
    if (refill)
        DT_TRY(fill(p));
    DT_TRY(place_tokens(p));
    return dt_stream_synchronize(p->stream);
}

static dt_status run_probe(struct dt_probe *p, int times)
{
    for (int i = 0; i < times; i++)
        DT_TRY(run_once(p));
    return dt_stream_synchronize(p->stream);
}

const struct dt_prober gpt_prober = {
    .full = gpt_probe_full, .quick = gpt_probe_quick, .create = create_probe, .destroy = destroy_probe, .set = set_probe, .run = run_probe};

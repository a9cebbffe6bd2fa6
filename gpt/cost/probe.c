/* One kernel at a time, for calibration: allocates memory, makes arguments for a kernel of a given
 * shape (lib/cost/measured.h), and queues it as often as the caller asks. The kernels are those
 * that training uses on the device.
 *
 * In training, the output of one layer is in the processor's caches when the next layer reads it,
 * if it fits; weights and new outputs are not. So all calls read the same inputs, and each call has
 * its weights and outputs at the next place of a region that is larger than the caches. */
#include "lib/model/probe.h"
#include "gpt/cost/probe_shapes.h"
#include "gpt/kernel_set.h"

enum { ALIGNMENT = 64, TOKENS_PER_SAMPLE = 64, DROPOUT_WIDTH = 256, HEAD_WIDTH = 64 };

static const float EPSILON = 1e-5f;

static enum dt_shape shape_of(int kernel)
{
    return kernel < DT_PRICED_SHARED ? dt_shared_pricing.kernels[kernel].shape : gpt_pricing.kernels[kernel - DT_PRICED_SHARED].shape;
}

/* The most arrays of its shape that a kernel over rows has in one region. swiglu's gradient has the
 * most: gate's and up's gradients, and y. */
static double most_arrays(int kernel)
{
    return kernel == GPT_KERNEL_SWIGLU || kernel == GPT_KERNEL_SWIGLU_GRADIENT ? 3 : 1;
}

/* The most bytes of any region that one call uses. */
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

static size_t round_up(double bytes)
{
    return ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void *take(struct dt_probe *p, enum dt_probe_region region, double bytes)
{
    void *at = (char *)p->regions[region].data + p->used_bytes[region];
    p->used_bytes[region] += round_up(bytes);
    return at;
}

/* Begin again at the start if the rest of the region may be too small for a whole call. */
static void turn(struct dt_probe *p, enum dt_probe_region region)
{
    if ((double)p->used_bytes[region] + most_bytes(&p->what) > (double)p->regions[region].bytes)
        p->used_bytes[region] = 0;
}

/* Elements of the model's dtype: outputs of the layer before (input), weights and values kept in
 * forward, and results. */
static void *input(struct dt_probe *p, double count)
{
    return take(p, DT_PROBE_INPUTS, count * (double)dt_dtype_bytes(p->model.dtype));
}

static void *weight(struct dt_probe *p, double count)
{
    return take(p, DT_PROBE_WEIGHTS, count * (double)dt_dtype_bytes(p->model.dtype));
}

static void *output(struct dt_probe *p, double count)
{
    return take(p, DT_PROBE_OUTPUTS, count * (double)dt_dtype_bytes(p->model.dtype));
}

/* Bytes at the start of the inputs for tokens and as many targets, one of each for a row; 0 for
 * kernels that do not read them. */
static size_t token_bytes(const struct dt_probe *p)
{
    bool has_tokens =
        p->what.kernel == GPT_KERNEL_EMBEDDING || p->what.kernel == GPT_KERNEL_EMBEDDING_GRADIENT || p->what.kernel == GPT_KERNEL_LOSS;
    return has_tokens ? 2 * round_up(p->what.shape[0] * sizeof(int32_t)) : 0;
}

static int32_t *targets_of(const struct dt_probe *p)
{
    return (int32_t *)((char *)p->regions[DT_PROBE_INPUTS].data + token_bytes(p) / 2);
}

/* ---- one call of each kernel: probe_<entry> ---- */

/* Kernel `entry` with a struct gpt_<type> of the members that follow. These may use the shape a x b
 * x c, its products, and the model m. */
#define PROBE(entry, type, ...)                                                                                                            \
    static dt_status probe_##entry(struct dt_probe *p)                                                                                     \
    {                                                                                                                                      \
        const double a = p->what.shape[0], b = p->what.shape[1], c = p->what.shape[2], ab = a * b, ac = a * c, bc = b * c, abc = ab * c;   \
        const struct gpt_model *m = gpt_of(&p->model);                                                                                     \
        struct gpt_##type arguments = {__VA_ARGS__};                                                                                       \
        (void)abc, (void)ac, (void)bc, (void)m;                                                                                            \
        const struct gpt_kernel_set *set = gpt_kernel_set(p->kernels);                                                                     \
        return set->table->entry(set->state, p->stream, &arguments);                                                                       \
    }

static struct gpt_dropout dropout_of(const struct dt_probe *p)
{
    return (struct gpt_dropout){.seed = 1, .layer = 1, .probability = p->what.variant == DT_VARIANT_DROPOUT ? 0.1f : 0};
}

#define PRODUCT .rows = (size_t)a, .in = (size_t)c, .out = (size_t)b
PROBE(linear, linear, PRODUCT, .x = input(p, ac), .w = weight(p, bc), .b = weight(p, b), .y = output(p, ab))
PROBE(linear_input_gradient, linear_input_gradient, PRODUCT, .dy = input(p, ab), .w = weight(p, bc), .dx = output(p, ac))
PROBE(linear_weight_gradient, linear_weight_gradient, PRODUCT, .dy = input(p, ab), .x = weight(p, ac), .dw = output(p, bc),
      .db = output(p, b), .accumulate = p->what.variant == DT_VARIANT_ACCUMULATE)

/* What backward reads: of fused attention one number for each row, of unfused attention all
 * weights. */
static float *row_sums(struct dt_probe *p, double rows)
{
    return p->what.variant == DT_VARIANT_UNFUSED ? NULL : take(p, DT_PROBE_WEIGHTS, rows * sizeof(float));
}

static void *attention_weights(struct dt_probe *p, double count)
{
    return p->what.variant == DT_VARIANT_UNFUSED ? weight(p, count) : NULL;
}

#define HEADS                                                                                                                              \
    .lse = row_sums(p, a * b), .weights = attention_weights(p, a * b * b), .samples = (size_t)a / (size_t)m->heads,                        \
    .heads = {0, (size_t)m->heads}, .kv_heads = {0, (size_t)m->heads}, .dropout = dropout_of(p)
PROBE(attention, attention_forward, HEADS, .qkv = input(p, 3 * abc), .out = output(p, abc))
PROBE(attention_gradient, attention_backward, HEADS, .qkv = input(p, 3 * abc), .dout = input(p, abc), .out = input(p, abc),
      .dqkv = output(p, 3 * abc))

#define NORM .rows = (size_t)a, .d = (size_t)b, .gain = weight(p, b), .rstd = take(p, DT_PROBE_OUTPUTS, a * sizeof(float))
#define NORM_MEAN .mean = take(p, DT_PROBE_OUTPUTS, a * sizeof(float))
PROBE(rms_norm, norm, NORM, .x = input(p, ab), .y = output(p, ab), .epsilon = EPSILON)
PROBE(layer_norm, norm, NORM, NORM_MEAN, .x = input(p, ab), .bias = weight(p, b), .y = output(p, ab), .epsilon = EPSILON)
PROBE(rms_norm_gradient, norm_gradient, NORM, .dy = input(p, ab), .x = weight(p, ab), .dx = output(p, ab), .dgain = output(p, b))
PROBE(layer_norm_gradient, norm_gradient, NORM, NORM_MEAN, .dy = input(p, ab), .x = weight(p, ab), .dx = output(p, ab),
      .dgain = output(p, b), .dbias = output(p, b))

#define HEAD_NORM                                                                                                                          \
    .rows = (size_t)a, .heads = (size_t)m->heads, .kv_heads = (size_t)gpt_kv_heads(&p->model), .epsilon = EPSILON,                         \
    .q_gain = weight(p, gpt_head_width(&p->model)), .k_gain = weight(p, gpt_head_width(&p->model))
PROBE(head_norm, head_norm, HEAD_NORM, .qkv = input(p, gpt_qkv_features(&p->model) * a), .out = output(p, gpt_qkv_features(&p->model) * a))
PROBE(head_norm_gradient, head_norm_gradient, HEAD_NORM, .qkv = weight(p, gpt_qkv_features(&p->model) * a),
      .dqkv = output(p, gpt_qkv_features(&p->model) * a), .dq_gain = output(p, gpt_head_width(&p->model)),
      .dk_gain = output(p, gpt_head_width(&p->model)))

PROBE(swiglu, swiglu, .rows = (size_t)a, .f = (size_t)b, .y = output(p, ab), .hidden = input(p, 2 * ab))
PROBE(swiglu_gradient, swiglu_gradient, .rows = (size_t)a, .f = (size_t)b, .dy = input(p, ab), .hidden = weight(p, 2 * ab),
      .dhidden = output(p, 2 * ab), .y = output(p, ab))
PROBE(rope, rope, input(p, ab), (size_t)a, (size_t)m->heads, (size_t)b, false, {0})
PROBE(gelu, gelu, output(p, a), input(p, a), (size_t)a)
PROBE(gelu_gradient, gelu_gradient, output(p, a), weight(p, a), (size_t)a)

/* Rows of whole samples. */
#define DROPPED .rows = (size_t)a / TOKENS_PER_SAMPLE * TOKENS_PER_SAMPLE, .dropout = dropout_of(p)
PROBE(dropout_residual, dropout_residual, DROPPED, .residual = weight(p, ab), .branch = input(p, ab), .out = output(p, ab))
PROBE(dropout_gradient, dropout_gradient, DROPPED, .dout = input(p, ab), .dbranch = output(p, ab))

static double elements(int rows, double width)
{
    return rows * width;
}

#define TABLES                                                                                                                             \
    .tokens = p->regions[DT_PROBE_INPUTS].data, .samples = (size_t)a / (size_t)m->block_size, .vocab = {0, (size_t)m->vocab_size},         \
    .positions = {0, (size_t)m->block_size}, .dropout = dropout_of(p)
PROBE(embedding, embedding, TABLES, .token_table = weight(p, elements(m->vocab_size, b)),
      .position_table = weight(p, elements(m->block_size, b)), .out = output(p, ab))
PROBE(embedding_gradient, embedding_gradient, TABLES, .dout = input(p, ab), .dtoken_table = output(p, elements(m->vocab_size, b)),
      .dposition_table = output(p, elements(m->block_size, b)))
PROBE(loss, loss, .rows = (size_t)a, .targets = targets_of(p), .loss = take(p, DT_PROBE_INPUTS, sizeof(double)), .logits = output(p, ab),
      .gradient_scale = 1e-3f, .loss_scale = 1)

static dt_status update(struct dt_probe *p, struct dt_update u)
{
    u.count = (size_t)p->what.shape[0];
    u.params = output(p, p->what.shape[0]);
    u.grads = weight(p, p->what.shape[0]);
    u.learning_rate = 1e-6f;
    u.gradient_scale = 1;
    return dt_kernels_update(p->kernels, p->stream, &u);
}

static dt_status probe_sgd(struct dt_probe *p)
{
    return update(p, (struct dt_update){.adam = false});
}

static dt_status probe_adam(struct dt_probe *p)
{
    double bytes = p->what.shape[0] * sizeof(float);
    return update(p, (struct dt_update){.adam = true,
                                        .first_moment = take(p, DT_PROBE_OUTPUTS, bytes),
                                        .second_moment = take(p, DT_PROBE_OUTPUTS, bytes),
                                        .master = take(p, DT_PROBE_OUTPUTS, bytes),
                                        .beta1 = 0.9f,
                                        .beta2 = 0.999f,
                                        .epsilon = 1e-8f});
}

static dt_status probe_add(struct dt_probe *p)
{
    double count = p->what.shape[0];
    void *to = output(p, count);
    return dt_kernels_add(p->kernels, p->stream, false, to, weight(p, count), (size_t)count);
}

static dt_status probe_squares(struct dt_probe *p)
{
    double count = p->what.shape[0];
    return dt_kernels_add_squares(p->kernels, p->stream, false, p->kernels->dtype, weight(p, count), (size_t)count);
}

static dt_status probe_copy(struct dt_probe *p)
{
    double bytes = p->what.shape[0];
    return dt_copy(p->stream, take(p, DT_PROBE_OUTPUTS, bytes), take(p, DT_PROBE_WEIGHTS, bytes), (size_t)bytes);
}

static dt_status run_once(struct dt_probe *p)
{
#define ROW(entry, arguments, kind, ...) [GPT_KERNEL_##kind] = probe_##entry,
    static dt_status (*const probes[])(struct dt_probe *p) = {
        [DT_PRICED_SGD] = probe_sgd,         [DT_PRICED_ADAM] = probe_adam, [DT_PRICED_ADD] = probe_add,
        [DT_PRICED_SQUARES] = probe_squares, [DT_PRICED_COPY] = probe_copy, GPT_KERNELS(ROW, GPT_NO_KERNEL_ROW, GPT_NO_KERNEL_ROW)};
#undef ROW
    p->used_bytes[DT_PROBE_INPUTS] = token_bytes(p);
    turn(p, DT_PROBE_WEIGHTS);
    turn(p, DT_PROBE_OUTPUTS);
    return probes[p->what.kernel](p);
}

/* ---- choosing ---- */

/* Sets the heads that make `columns` columns: of width HEAD_WIDTH if that divides them. with_keys:
 * half of the columns are q's, a quarter each k's and v's. */
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

static dt_status prepare(struct dt_probe *p)
{
    const struct gpt_kernel_set *set = gpt_kernel_set(p->kernels);
    struct gpt_tokens a = {.inputs = p->regions[DT_PROBE_INPUTS].data,
                           .targets = targets_of(p),
                           .samples = (size_t)p->what.shape[0] / TOKENS_PER_SAMPLE,
                           .seed = 1};
    DT_TRY(dt_kernels_begin_step(p->kernels, p->stream, 0, 2)); /* the first step does not read Adam's state */
    return token_bytes(p) > 0 ? set->table->tokens(set->state, p->stream, &a) : DT_OK;
}

const struct dt_prober gpt_prober = {.full = gpt_probe_full,
                                     .quick = gpt_probe_quick,
                                     .most_bytes = most_bytes,
                                     .model_for = model_for,
                                     .prepare = prepare,
                                     .queue = run_once};

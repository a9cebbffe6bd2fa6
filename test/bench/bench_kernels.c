/* How fast each kernel is: its time, and how far that is from the device's own limits, measured in
 * the same run.
 *
 * Usage: bench_kernels [DEVICE [MODEL [BATCH [DTYPE [THREADS]]]]]: the shapes of a preset at T =
 * 256 and V = 50,000; by default cpu, GPTSmall, batch 8, bf16, 2 threads (of the cpu). Not a test.
 * For each kernel: microseconds (the best of several), then the floating-point rate of its products
 * as a share of what one large product reaches, or the rate of the memory that it must read and
 * write as a share of what copying reaches. Small arrays may stay in a cache and so pass 100 %.
 * Last, how often a training step runs it, and what a step of these takes. */
#include "gpt/family.h"
#include "gpt/kernels.h"
#include "gpt/model.h"
#include "lib/kernels/cpu/team.h"
#include "lib/model/stage.h"
#include "test/gpt/preset.h"
#include "vision/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 50000, BLOCK = 256, LONG = 2048, REPEATS = 7, MOST_ARRAYS = 16 };

struct bench {
    struct dt_device *device;
    struct dt_stream *stream;
    struct dt_kernels base;
    struct gpt_kernels *k;
    const struct gpt_kernel_table *table;
    struct vision_kernels *vision;
    struct dt_model model;
    size_t samples, rows, element_bytes;
    int threads;
    bool on_cpu;
    int launches; /* launches that are timed together: a GPU's clock is too coarse for one short kernel */
    struct dt_event *start, *end;
    struct dt_buffer arrays[MOST_ARRAYS]; /* of the group of kernels that is measured */
    int array_count;
    double copy_bytes_per_s, product_flops_per_s;
    double step_s; /* the sum of all shown kernels, each as often as a training step runs it */
};

static void must(dt_status status)
{
    if (status < 0) {
        fprintf(stderr, "bench_kernels: %s\n", dt_error_message());
        exit(1);
    }
}

static void *room(struct bench *b, size_t bytes)
{
    if (b->array_count == MOST_ARRAYS) {
        fprintf(stderr, "bench_kernels: more than %d arrays\n", MOST_ARRAYS);
        exit(1);
    }
    must(dt_alloc(b->stream, DT_WORKSPACE, bytes, &b->arrays[b->array_count]));
    return b->arrays[b->array_count++].data;
}

/* Small numbers of all signs, in the model's dtype. */
static void *array(struct bench *b, size_t count)
{
    void *memory = room(b, count * b->element_bytes);
    must(dt_kernels_initialise(&b->base, b->stream,
                               &(struct dt_initial){.to = memory, .count = count, .seed = 1, .tensor_id = 1, .scale = 0.5f}));
    return memory;
}

/* fp32 zeros, for Adam's state and a norm's, whose values do not change the time. */
static float *floats(struct bench *b, size_t count)
{
    float *memory = room(b, count * sizeof *memory);
    must(dt_zero(b->stream, memory, count * sizeof *memory));
    return memory;
}

static void free_arrays(struct bench *b)
{
    must(dt_stream_synchronize(b->stream));
    while (b->array_count > 0)
        dt_free(b->stream, &b->arrays[--b->array_count]);
}

/* One kernel with all its arguments. */
typedef dt_status (*launch)(struct bench *b, const void *arguments);

static double best_of(struct bench *b, launch run, const void *arguments)
{
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        int64_t ns;
        must(dt_event_record(b->start, b->stream));
        for (int j = 0; j < b->launches; j++)
            must(run(b, arguments));
        must(dt_event_record(b->end, b->stream));
        must(dt_stream_synchronize(b->stream));
        must(dt_event_elapsed_ns(b->start, b->end, &ns));
        double took = (double)ns * 1e-9 / b->launches;
        if (i > 0 && took < best) /* the first makes primitives, tries algorithms and touches memory */
            best = took;
    }
    return best;
}

static void show(struct bench *b, const char *name, int per_step, double s, double rate, const char *unit, double most)
{
    b->step_s += per_step * s;
    printf("%-34s %12.1f us %10.1f %-8s %5.0f %%   x %3d\n", name, s * 1e6, rate * 1e-9, unit, 100 * rate / most, per_step);
}

static void show_memory(struct bench *b, const char *name, int per_step, double bytes, launch run, const void *arguments)
{
    double s = best_of(b, run, arguments);
    show(b, name, per_step, s, bytes / s, "GB/s", b->copy_bytes_per_s);
}

static void show_products(struct bench *b, const char *name, int per_step, double flops, launch run, const void *arguments)
{
    double s = best_of(b, run, arguments);
    show(b, name, per_step, s, flops / s, "GFLOP/s", b->product_flops_per_s);
}

struct copy {
    char *to;
    const char *from;
    size_t bytes;
};

static void copy_part(void *argument, int thread, int threads)
{
    const struct copy *c = argument;
    struct dt_cpu_share share = dt_cpu_share(c->bytes, 4096, thread, threads);
    memcpy(c->to + share.first, c->from + share.first, share.end - share.first);
}

static dt_status launch_copy(struct bench *b, const void *arguments)
{
    const struct copy *c = arguments;
    if (!b->on_cpu)
        return dt_copy(b->stream, c->to, c->from, c->bytes);
    struct copy own = *c; /* a copy of the device's is one thread's */
    dt_cpu_parallel(b->threads, copy_part, &own);
    return DT_OK;
}

static dt_status launch_linear(struct bench *b, const void *arguments);

/* One large copy and one large product. */
static void measure_limits(struct bench *b)
{
    size_t bytes = b->on_cpu ? (size_t)256 << 20 : (size_t)1 << 30, side = b->on_cpu ? 2048 : 8192;
    struct copy c = {room(b, bytes), room(b, bytes), bytes};
    must(dt_zero(b->stream, (void *)c.from, bytes));
    must(dt_stream_synchronize(b->stream));
    double copying_s = best_of(b, launch_copy, &c);
    b->copy_bytes_per_s = 2.0 * (double)bytes / copying_s;
    free_arrays(b);
    struct gpt_linear product = {array(b, side * side), array(b, side * side), NULL, array(b, side * side), side, side, side, 1};
    double flops = 2.0 * (double)side * (double)side * (double)side, product_s = best_of(b, launch_linear, &product);
    b->product_flops_per_s = flops / product_s;
    free_arrays(b);
    printf("limits: a copy of %zu MiB %.1f GB/s (read and written), a product of %zu^3 %.1f TFLOP/s\n", bytes >> 20,
           b->copy_bytes_per_s * 1e-9, side, b->product_flops_per_s * 1e-12);
}

/* ---- one launch per entry ---- */

/* a function for every kernel in the list, also for kernels that are not timed */
#define LAUNCH(entry, type, ...)                                                                                                           \
    __attribute__((unused)) static dt_status launch_##entry(struct bench *b, const void *arguments)                                        \
    {                                                                                                                                      \
        return b->table->entry(b->k, b->stream, (const struct type *)arguments);                                                           \
    }
GPT_KERNELS(LAUNCH, GPT_NO_KERNEL_ROW, LAUNCH)
GPT_FUSED_KERNELS(LAUNCH)

static dt_status launch_update(struct bench *b, const void *update)
{
    return dt_kernels_update(&b->base, b->stream, update);
}

/* The parameters and gradients of an update. */
static dt_status launch_add(struct bench *b, const void *update)
{
    const struct dt_update *u = update;
    return dt_kernels_add(&b->base, b->stream, false, u->params, u->grads, u->count);
}

static dt_status launch_fill(struct bench *b, const void *update)
{
    const struct dt_update *u = update;
    return dt_kernels_fill(&b->base, b->stream, u->params, u->count, 0);
}

static dt_status launch_normal(struct bench *b, const void *normal)
{
    return dt_kernels_initialise(&b->base, b->stream, normal);
}

/* ---- groups of kernels ---- */

/* with_gelu: a step has the input gradient together with that of the GELU before it. */
static void bench_linear(struct bench *b, const char *name, int per_step, size_t in, size_t out, bool bias, bool with_gelu)
{
    char label[64];
    double flops = 2.0 * (double)b->rows * (double)in * (double)out;
    void *x = array(b, b->rows * in), *w = array(b, in * out), *v = array(b, out), *y = array(b, b->rows * out);
    void *dw = array(b, in * out), *dv = array(b, out), *hidden = with_gelu ? array(b, b->rows * in) : NULL;
    struct gpt_linear forward = {x, w, bias ? v : NULL, y, b->rows, in, out, 1};
    struct gpt_linear_input_gradient for_x = {y, w, x, b->rows, in, out, 1};
    struct gpt_linear_gelu_input_gradient for_hidden = {for_x, hidden};
    struct gpt_linear_weight_gradient for_w = {y, x, dw, bias ? dv : NULL, b->rows, in, out, 1, false};
    snprintf(label, sizeof label, "%s %zu -> %zu", name, in, out);
    show_products(b, label, per_step, flops, launch_linear, &forward);
    snprintf(label, sizeof label, "%s input gradient", name);
    show_products(b, label, with_gelu ? 0 : per_step, flops, launch_linear_input_gradient, &for_x);
    if (with_gelu) {
        snprintf(label, sizeof label, "%s input gradient + GELU", name);
        show_products(b, label, per_step, flops, launch_linear_gelu_input_gradient, &for_hidden);
    }
    snprintf(label, sizeof label, "%s weight gradient%s", name, bias ? " + bias" : "");
    show_products(b, label, per_step, flops, launch_linear_weight_gradient, &for_w);
    free_arrays(b);
}

/* The MLP's products with their activation, where kernels have them. They are not part of the shown
 * step. */
static void bench_activation(struct bench *b, enum gpt_mlp_kind mlp, const char *name)
{
    char label[64];
    struct dt_model model = b->model;
    struct gpt_kernels *gpt = b->k;
    if (!b->table->linear_gelu)
        return;
    gpt_change(&model)->mlp = mlp;
    must(b->table->create(&b->base, &model, &b->k));
    size_t d = (size_t)gpt_of(&model)->hidden, f = 4 * d;
    double flops = 2.0 * (double)b->rows * (double)d * (double)f;
    void *x = array(b, b->rows * d), *w = array(b, f * d), *bias = array(b, f), *db = array(b, f);
    void *hidden = array(b, b->rows * f), *active = array(b, b->rows * f), *dhidden = array(b, b->rows * f);
    struct gpt_linear_gelu up = {{x, w, bias, hidden, b->rows, d, f, 1}, mlp == GPT_MLP_RELU ? hidden : active};
    struct gpt_gelu_gradient_sums down = {{{x, w, dhidden, b->rows, f, d, 1}, hidden}, db, mlp == GPT_MLP_GELU ? active : NULL, false};
    snprintf(label, sizeof label, "mlp up + %s", name);
    show_products(b, label, 0, flops, launch_linear_gelu, &up);
    snprintf(label, sizeof label, "input gradient + %s, sums", name);
    show_products(b, label, 0, flops, launch_gelu_gradient_sums, &down);
    free_arrays(b);
    b->table->destroy(b->k);
    b->k = gpt;
}

/* Attention over the batch's rows, in samples of T tokens. name: a prefix; per_step: as in show. */
static void bench_attention(struct bench *b, const char *name, int per_step, int T, const struct gpt_dropout *dropout)
{
    char label[64];
    struct gpt_kernels *whole = b->k;
    struct dt_model model = b->model;
    size_t samples = b->rows / (size_t)T > 0 ? b->rows / (size_t)T : 1, rows = samples * (size_t)T;
    gpt_change(&model)->block_size = T;
    must(b->table->create(&b->base, &model, &b->k));
    size_t d = (size_t)gpt_of(&b->model)->hidden;
    double flops = 4.0 * (double)rows * T * (double)d; /* the whole square, as model.h counts */
    void *qkv = array(b, rows * 3 * d), *out = array(b, rows * d), *dqkv = array(b, rows * 3 * d);
    float *lse = floats(b, rows * (size_t)gpt_of(&b->model)->heads);
    struct gpt_part heads = {0, (size_t)gpt_of(&b->model)->heads};
    struct gpt_attention_forward forward = {qkv, out, lse, NULL, samples, heads, heads, *dropout, {0}};
    struct gpt_attention_backward backward = {out, out, qkv, lse, NULL, dqkv, samples, heads, heads, *dropout, {0}, NULL};
    snprintf(label, sizeof label, "%sattention, T %d", name, T);
    show_products(b, label, per_step, flops, launch_attention, &forward);
    snprintf(label, sizeof label, "%sattention gradient, T %d", name, T);
    show_products(b, label, per_step, 2 * flops, launch_attention_gradient, &backward);
    free_arrays(b);
    b->table->destroy(b->k);
    b->k = whole;
}

static void bench_rows(struct bench *b, const struct gpt_dropout *dropout)
{
    int L = gpt_of(&b->model)->layers;
    size_t d = (size_t)gpt_of(&b->model)->hidden, count = b->rows * d, wide = 4 * count;
    double narrow_bytes = (double)(count * b->element_bytes), wide_bytes = (double)(wide * b->element_bytes);
    void *x = array(b, count), *y = array(b, count), *z = array(b, count), *gain = array(b, d), *bias = array(b, d);
    void *dgain = array(b, d), *dbias = array(b, d), *up = array(b, wide), *down = array(b, wide);
    float *mean = floats(b, b->rows), *rstd = floats(b, b->rows);
    struct gpt_norm norm = {x, gain, bias, y, mean, rstd, b->rows, d, 1e-5f};
    struct gpt_norm_gradient dnorm = {y, x, gain, mean, rstd, z, dgain, dbias, b->rows, d, false, false};
    struct gpt_dropout_residual residual = {x, y, z, b->rows, *dropout};
    struct gpt_dropout_gradient gradient = {x, y, b->rows, *dropout};
    struct gpt_gelu gelu = {up, down, wide};
    struct gpt_gelu_gradient gelu_gradient = {up, down, wide};
    show_memory(b, "layer norm (forward, and again)", 4 * L + 1, 2 * narrow_bytes, launch_layer_norm, &norm);
    show_memory(b, "layer norm gradient", 2 * L + 1, 4 * narrow_bytes, launch_layer_norm_gradient, &dnorm);
    show_memory(b, "dropout and residual", 2 * L, 3 * narrow_bytes, launch_dropout_residual, &residual);
    show_memory(b, "dropout gradient", 2 * L, 2 * narrow_bytes, launch_dropout_gradient, &gradient);
    show_memory(b, "gelu (forward, and again)", 2 * L, 2 * wide_bytes, launch_gelu, &gelu);
    show_memory(b, "gelu gradient", 0, 3 * wide_bytes, launch_gelu_gradient, &gelu_gradient);
    free_arrays(b);
}

/* Kernels of today's decoders, which are not part of the shown step. k and v have a third of q's
 * heads where that divides them. */
static void bench_decoder(struct bench *b)
{
    struct dt_model model = b->model;
    struct gpt_kernels *gpt = b->k;
    gpt_change(&model)->position = GPT_POSITION_ROPE;
    gpt_change(&model)->kv_heads = gpt_of(&model)->heads % 3 ? gpt_of(&model)->heads : gpt_of(&model)->heads / 3;
    must(b->table->create(&b->base, &model, &b->k));
    size_t d = (size_t)gpt_of(&model)->hidden, f = 4 * d, count = b->rows * d, wide = b->rows * f,
           columns = (size_t)gpt_qkv_features(&model);
    size_t heads = (size_t)gpt_of(&model)->heads, kv_heads = (size_t)gpt_of(&model)->kv_heads, w = (size_t)gpt_head_width(&model);
    double row_bytes = (double)(b->rows * b->element_bytes);
    void *x = array(b, count), *y = array(b, count), *z = array(b, count), *gain = array(b, d), *dgain = array(b, d), *dk = array(b, d);
    void *hidden = array(b, 2 * wide), *dhidden = array(b, 2 * wide), *active = array(b, wide), *dactive = array(b, wide);
    void *qkv = array(b, b->rows * columns), *dqkv = array(b, b->rows * columns);
    float *rstd = floats(b, b->rows), *lse = floats(b, b->rows * heads);
    struct gpt_part all = {0, heads}, shared = {0, kv_heads};
    struct gpt_norm norm = {x, gain, NULL, y, NULL, rstd, b->rows, d, 1e-5f};
    struct gpt_norm_gradient dnorm = {y, x, gain, NULL, rstd, z, dgain, NULL, b->rows, d, false, false};
    struct gpt_swiglu swiglu = {active, hidden, b->rows, f, NULL};
    struct gpt_swiglu_gradient dswiglu = {dactive, hidden, dhidden, active, b->rows, f, NULL};
    struct gpt_rope rope = {qkv, b->rows, heads + kv_heads, columns, false, {0}};
    struct gpt_head_norm head_norm = {qkv, gain, gain, dqkv, b->rows, heads, kv_heads, 1e-5f};
    struct gpt_head_norm_gradient dhead_norm = {qkv, gain, gain, dqkv, dgain, dk, b->rows, heads, kv_heads, 1e-5f, false};
    struct gpt_attention_forward forward = {qkv, x, lse, NULL, b->samples, all, shared, {0}, {0}};
    struct gpt_attention_backward backward = {y, x, qkv, lse, NULL, dqkv, b->samples, all, shared, {0}, {0}, NULL};
    double flops = 4.0 * (double)b->rows * BLOCK * (double)d;
    show_memory(b, "rms norm", 0, 2 * row_bytes * (double)d, launch_rms_norm, &norm);
    show_memory(b, "rms norm gradient", 0, 4 * row_bytes * (double)d, launch_rms_norm_gradient, &dnorm);
    show_memory(b, "swiglu", 0, 3 * row_bytes * (double)f, launch_swiglu, &swiglu);
    show_memory(b, "swiglu gradient, output again", 0, 6 * row_bytes * (double)f, launch_swiglu_gradient, &dswiglu);
    show_memory(b, "rope", 0, 2 * row_bytes * (double)((heads + kv_heads) * w), launch_rope, &rope);
    show_memory(b, "head norm", 0, 2 * row_bytes * (double)columns, launch_head_norm, &head_norm);
    show_memory(b, "head norm gradient", 0, 3 * row_bytes * (double)columns, launch_head_norm_gradient, &dhead_norm);
    show_products(b, "attention, grouped queries", 0, flops, launch_attention, &forward);
    show_products(b, "attention gradient, grouped", 0, 2 * flops, launch_attention_gradient, &backward);
    if (b->table->attention_rope_gradient)
        show_products(b, "the same, and rope back", 0, 2 * flops, launch_attention_rope_gradient, &backward);
    free_arrays(b);
    b->table->destroy(b->k);
    b->k = gpt;
}

static void bench_vocabulary(struct bench *b, const struct gpt_dropout *dropout)
{
    size_t d = (size_t)gpt_of(&b->model)->hidden;
    void *table = array(b, VOCAB * d), *positions = array(b, BLOCK * d), *out = array(b, b->rows * d), *logits = array(b, b->rows * VOCAB);
    int32_t *inputs = room(b, b->rows * sizeof *inputs), *targets = room(b, b->rows * sizeof *targets);
    double *loss = (double *)(void *)floats(b, 2), row_bytes = (double)(b->rows * d * b->element_bytes),
           table_bytes = (double)(VOCAB * d * b->element_bytes);
    must(b->table->tokens(b->k, b->stream, &(struct gpt_tokens){inputs, targets, b->samples, {0}, 1, 0}));
    struct gpt_part vocab = {0, (size_t)gpt_of(&b->model)->vocab_size}, all_positions = {0, (size_t)gpt_of(&b->model)->block_size};
    struct gpt_embedding embedding = {inputs, table, positions, out, b->samples, vocab, all_positions, *dropout};
    struct gpt_embedding_gradient gradient = {inputs, out, table, positions, b->samples, vocab, all_positions, false, *dropout};
    struct gpt_loss cross_entropy = {logits, targets, loss, b->rows, 1e-3f, 1, false};
    show_memory(b, "embedding", 1, 2 * row_bytes, launch_embedding, &embedding);
    show_memory(b, "embedding gradient", 1, table_bytes + 2 * row_bytes, launch_embedding_gradient, &gradient);
    show_memory(b, "loss", 1, 2.0 * (double)(b->rows * VOCAB * b->element_bytes), launch_loss, &cross_entropy);
    free_arrays(b);
}

static void bench_parameters(struct bench *b)
{
    size_t count = dt_model_parameter_count(&b->model), few = count / 4; /* Adam's state of a quarter of the model is large enough */
    double bytes = (double)(count * b->element_bytes);
    void *params = array(b, count), *grads = array(b, count);
    float *state[3] = {floats(b, few), floats(b, few), floats(b, few)};
    struct dt_update sgd = {.params = params, .grads = grads, .count = count, .learning_rate = 0.01f, .gradient_scale = 1}, adam = sgd;
    adam.count = few;
    adam.adam = true;
    adam.first_moment = state[0];
    adam.second_moment = state[1];
    adam.master = state[2];
    adam.beta1 = 0.9f;
    adam.beta2 = 0.999f;
    adam.epsilon = 1e-8f;
    struct dt_initial normal = {.to = params, .count = count, .seed = 1, .first_element = 3, .tensor_id = 2, .scale = 0.02f};
    show_memory(b, "sgd, all weights", 1, 3 * bytes, launch_update, &sgd);
    show_memory(b, "adam, a quarter of them", 0, (double)few * (24.0 + 3.0 * (double)b->element_bytes), launch_update, &adam);
    show_memory(b, "add, all weights", 0, 3 * bytes, launch_add, &sgd);
    show_memory(b, "fill, all weights", 0, bytes, launch_fill, &sgd);
    show_memory(b, "initial weights", 0, bytes, launch_normal, &normal);
    free_arrays(b);
}

/* ---- convolutional networks: of no step here ---- */

#define VISION_LAUNCH(entry, type)                                                                                                         \
    __attribute__((unused)) static dt_status vision_##entry(struct bench *b, const void *arguments)                                        \
    {                                                                                                                                      \
        return b->vision->table->entry(b->vision, b->stream, (const struct type *)arguments);                                              \
    }
VISION_KERNELS(VISION_LAUNCH)

static size_t elems(const struct vision_sliding *o, struct vision_shape s)
{
    return o->samples * (size_t)s.height * (size_t)s.width * (size_t)s.channels;
}

static void bench_convolution(struct bench *b, int in, int out, int side, struct vision_window w)
{
    int to = (side + w.stride - 1) / w.stride;
    struct vision_sliding over = {b->samples, {in, side, side}, {out, to, to}, w};
    size_t weights = (size_t)in * (size_t)out * (size_t)w.kernel * (size_t)w.kernel;
    double flops = 2.0 * (double)b->samples * to * to * (double)weights;
    char label[64];
    void *x = array(b, elems(&over, over.in)), *y = array(b, elems(&over, over.out)), *v = array(b, weights);
    struct vision_convolution forward = {.x = x, .w = v, .y = y, .over = over};
    struct vision_convolution_input_gradient for_x = {.dy = y, .w = v, .dx = x, .over = over};
    struct vision_convolution_weight_gradient for_w = {.dy = y, .x = x, .dw = v, .over = over};
    snprintf(label, sizeof label, "%dx%d, %d -> %d, side %d", w.kernel, w.kernel, in, out, to);
    show_products(b, label, 0, flops, vision_convolution, &forward);
    if (in > 3)
        show_products(b, "its input gradient", 0, flops, vision_convolution_input_gradient, &for_x);
    show_products(b, "its weight gradient", 0, flops, vision_convolution_weight_gradient, &for_w);
    free_arrays(b);
}

/* Bytes that are read and written where nothing stays in a cache: statistics are a separate
 * pass. */
static void bench_images(struct bench *b)
{
    enum { SIDE = 56, CHANNELS = 256, WIDE = 2 * SIDE };
    struct vision_shape small = {CHANNELS / 4, SIDE, SIDE}, large = {CHANNELS / 4, WIDE, WIDE};
    struct vision_sliding over = {b->samples, large, small, {3, 2, 1, 1}};
    size_t count = elems(&over, large), quarter = count / 4, positions = (size_t)SIDE * SIDE;
    double bytes = (double)(count * b->element_bytes);
    void *x = array(b, count), *y = array(b, count), *z = array(b, count), *parameters[4];
    for (int i = 0; i < 4; i++)
        parameters[i] = array(b, CHANNELS);
    uint8_t *places = room(b, quarter);
    struct vision_norm_of of = {.x = x,
                                .gain = parameters[0],
                                .bias = parameters[1],
                                .residual = z,
                                .samples = b->samples,
                                .group = b->samples,
                                .positions = positions,
                                .channels = CHANNELS,
                                .relu = true};
    of.mean = floats(b, CHANNELS);
    of.rstd = floats(b, CHANNELS);
    struct vision_norm norm = {.of = of, .y = y}, again = {.of = of, .y = y, .part = VISION_NORM_AGAIN};
    struct vision_norm_gradient dnorm = {.of = of, .dy = y, .dx = z, .dgain = parameters[2], .dbias = parameters[3]};
    struct vision_max_pool pool = {x, y, places, over};
    struct vision_max_pool_gradient dpool = {y, places, z, over};
    struct vision_resize resize = {x, y, b->samples, small, large}, dresize = {y, z, b->samples, small, large};
    show_memory(b, "batch norm, residual, ReLU", 0, 4 * bytes, vision_norm, &norm);
    show_memory(b, "the same again", 0, 3 * bytes, vision_norm, &again);
    show_memory(b, "its gradient", 0, 7 * bytes, vision_norm_gradient, &dnorm);
    show_memory(b, "max pool", 0, 1.25 * bytes + (double)quarter, vision_max_pool, &pool);
    show_memory(b, "max pool gradient", 0, 1.25 * bytes + (double)quarter, vision_max_pool_gradient, &dpool);
    show_memory(b, "resize", 0, 1.25 * bytes, vision_resize, &resize);
    show_memory(b, "resize gradient", 0, 1.25 * bytes, vision_resize_gradient, &dresize);
    free_arrays(b);
}

/* Shapes of a ResNet-50. */
static void bench_vision(struct bench *b)
{
    struct dt_kernels *made;
    if (dt_kernels_create(&vision_own_kernels, &b->model, b->device, &made) < 0) {
        printf("no convolutional networks: %s\n", dt_error_message());
        return;
    }
    b->vision = (struct vision_kernels *)made;
    must(dt_kernels_begin_step(made, b->stream, 0, 1));
    bench_convolution(b, 3, 64, 224, (struct vision_window){7, 2, 3, 1});
    bench_convolution(b, 64, 256, 56, (struct vision_window){1, 1, 0, 1});
    bench_convolution(b, 128, 128, 28, (struct vision_window){3, 1, 1, 1});
    bench_convolution(b, 256, 256, 28, (struct vision_window){3, 2, 1, 1});
    bench_convolution(b, 1024, 2048, 14, (struct vision_window){1, 2, 0, 1});
    bench_images(b);
    must(dt_stream_synchronize(b->stream));
    dt_kernels_destroy(made);
}

static dt_status arguments(struct bench *b, int argc, char **argv)
{
    const char *model = argc > 2 ? argv[2] : "GPTSmall", *dtype = argc > 4 ? argv[4] : "bf16";
    const struct dt_model_preset *preset = preset_named(model);
    if (!preset)
        return dt_fail(DT_ERR_INVALID, "there is no model %s", model);
    b->samples = argc > 3 ? (size_t)atoi(argv[3]) : 8;
    b->threads = argc > 5 ? atoi(argv[5]) : 2;
    b->model = gpt_model_of(DT_DTYPE_COUNT, &(struct gpt_model){.layers = ((const struct gpt_model *)preset->own)->layers,
                                                                .heads = ((const struct gpt_model *)preset->own)->heads,
                                                                .hidden = ((const struct gpt_model *)preset->own)->hidden,
                                                                .vocab_size = VOCAB,
                                                                .block_size = BLOCK});
    b->model.family = &gpt_family;
    for (int i = 0; i < DT_DTYPE_COUNT; i++)
        if (strcmp(dtype, dt_dtype_name((enum dt_dtype)i)) == 0)
            b->model.dtype = (enum dt_dtype)i;
    if (b->model.dtype == DT_DTYPE_COUNT || b->samples < 1 || b->threads < 1)
        return dt_fail(DT_ERR_INVALID, "usage: bench_kernels [DEVICE [MODEL [BATCH [DTYPE [THREADS]]]]]");
    b->rows = b->samples * BLOCK;
    b->element_bytes = dt_dtype_bytes(b->model.dtype);
    return DT_OK;
}

/* Errors: those of the device, which may not support the request. */
static dt_status open_device(struct bench *b, const char *kind, enum dt_warpgroup_kernels warpgroups)
{
    struct dt_device_options options = {.threads = b->threads, .local_size = 1, .warpgroup_kernels = warpgroups};
    DT_TRY(dt_device_create(kind, &options, &b->device));
    must(dt_stream_create(b->device, "compute", &b->stream));
    must(dt_event_create_timed(b->device, &b->start));
    must(dt_event_create_timed(b->device, &b->end));
    must(dt_kernels_init(&b->base, b->device, b->model.dtype));
    must(b->table->create(&b->base, &b->model, &b->k));
    must(dt_kernels_begin_step(&b->base, b->stream, 0, 2)); /* the first one does not read Adam's state */
    return DT_OK;
}

static void close_device(struct bench *b)
{
    b->table->destroy(b->k);
    dt_kernels_finish(&b->base);
    dt_event_destroy(b->start);
    dt_event_destroy(b->end);
    dt_stream_destroy(b->stream);
    dt_device_destroy(b->device);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "cpu";
    struct bench b = {.on_cpu = strcmp(kind, "cpu") == 0};
    struct dt_device_info info;
    must(arguments(&b, argc, argv));
    setvbuf(stdout, NULL, _IOLBF, 0); /* a run that is stopped by a time limit still prints its measurements */
    b.launches = b.on_cpu ? 1 : 10;
    b.table = gpt_kernels_for(dt_device_kind_find(kind));
    must(b.table ? DT_OK : DT_ERR_UNAVAILABLE);
    must(open_device(&b, kind, DT_WARPGROUPS_NEVER));
    dt_device_info(b.device, &info);
    printf("%s, %zu rows, %s, on %s", argc > 2 ? argv[2] : "GPTSmall", b.rows, dt_dtype_name(b.model.dtype), info.name);
    if (b.on_cpu)
        printf(", %d threads", b.threads);
    printf("\n");

    struct gpt_dropout dropout = {.seed = 1, .layer = 1, .probability = 0.1f};
    size_t d = (size_t)gpt_of(&b.model)->hidden;
    int L = gpt_of(&b.model)->layers;
    measure_limits(&b);
    bench_linear(&b, "q k v", L, d, 3 * d, true, false);
    bench_linear(&b, "projection", L, d, d, true, false);
    bench_linear(&b, "mlp up", L, d, 4 * d, true, false);
    bench_linear(&b, "mlp down", L, 4 * d, d, true, true);
    bench_linear(&b, "head", 1, d, VOCAB, false, false);
    bench_activation(&b, GPT_MLP_GELU, "gelu, again");
    bench_activation(&b, GPT_MLP_GELU_NEW, "gelu's tanh form");
    bench_activation(&b, GPT_MLP_RELU, "relu");
    bench_attention(&b, "", L, BLOCK, &dropout);
    bench_rows(&b, &dropout);
    bench_decoder(&b);
    bench_vocabulary(&b, &dropout);
    bench_parameters(&b);
    bench_vision(&b);
    double flops = dt_model_step_flops(&b.model, b.rows);
    printf("a step of these: %.2f ms, %.0f tokens/s, %.2f TFLOP/s\n", b.step_s * 1e3, (double)b.rows / b.step_s, flops / b.step_s * 1e-12);
    if (!b.on_cpu)
        bench_attention(&b, "", 0, LONG, &dropout);
    close_device(&b);
    if (b.on_cpu)
        return 0;
    if (open_device(&b, kind, DT_WARPGROUPS_ALWAYS) < 0) { /* Hopper's own kernels beside those of all GPUs */
        printf("no warpgroup_kernels: %s\n", dt_error_message());
        return 0;
    }
    bench_attention(&b, "warpgroups: ", 0, BLOCK, &dropout);
    bench_attention(&b, "warpgroups: ", 0, LONG, &dropout);
    bench_activation(&b, GPT_MLP_GELU, "gelu, again, warpgroups");
    close_device(&b);
    return 0;
}

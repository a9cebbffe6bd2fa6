/* How fast each cpu kernel is: its time, and how far that is from the machine's own limits, measured in the same run.
 *
 * Usage: bench_kernels [BATCH [THREADS [DTYPE]]]: GPTSmall's shapes at T = 256, by default batch 8, 2 threads, bf16. Not a test.
 * For each kernel: milliseconds (the best of several), then either GFLOP/s, or GB/s of the memory it must read and write and that as a
 * share of what copying memory reaches. Small arrays may stay in a cache and so pass 100 %. */
#include "gpt/kernels_cpu.h"
#include "gpt/kernels_cpu_team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HIDDEN = 768, HEADS = 12, VOCAB = 50000, BLOCK = 256, REPEATS = 7 };

struct bench {
    struct dt_device *device;
    struct dt_stream *stream;
    struct gpt_kernels *k;
    const struct gpt_kernel_table *table;
    struct gpt_model model;
    size_t samples, rows, element_bytes;
    int threads;
    double copy_bytes_per_s;
    double step_s; /* of everything shown, as often as a training step of 12 blocks does it */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(dt_status status)
{
    if (status < 0) {
        fprintf(stderr, "bench_kernels: %s\n", dt_error_message());
        exit(1);
    }
}

/* Small numbers of all signs, in any dtype near enough. */
static void *array(const struct bench *b, size_t count)
{
    void *memory = aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096);
    if (!memory) {
        fprintf(stderr, "bench_kernels: no memory\n");
        exit(1);
    }
    must(b->table->init_normal(b->k, b->stream, memory, count, 1, 1, 0, 0.5f));
    must(dt_stream_synchronize(b->stream));
    return memory;
}

/* One kernel with all its arguments. */
typedef dt_status (*launch)(struct bench *b, const void *arguments);

static double best_of(struct bench *b, launch run, const void *arguments)
{
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = now_s();
        must(run(b, arguments));
        must(dt_stream_synchronize(b->stream));
        double took = now_s() - start;
        if (i > 0 && took < best) /* the first makes primitives and touches memory */
            best = took;
    }
    return best;
}

static void show_memory(struct bench *b, const char *name, int per_step, double bytes, launch run, const void *arguments)
{
    double s = best_of(b, run, arguments);
    b->step_s += per_step * s;
    printf("%-34s %9.3f ms %9.1f GB/s    %5.0f %% of copying   x %3d\n", name, s * 1e3, bytes / s * 1e-9,
           100 * bytes / s / b->copy_bytes_per_s, per_step);
}

static void show_products(struct bench *b, const char *name, int per_step, double flops, launch run, const void *arguments)
{
    double s = best_of(b, run, arguments);
    b->step_s += per_step * s;
    printf("%-34s %9.3f ms %9.1f GFLOP/s                     x %3d\n", name, s * 1e3, flops / s * 1e-9, per_step);
}

struct copy {
    char *to;
    const char *from;
    size_t bytes;
};

static void copy_part(void *argument, int thread, int threads)
{
    const struct copy *c = argument;
    struct gpt_cpu_share share = gpt_cpu_share(c->bytes, 4096, thread, threads);
    memcpy(c->to + share.first, c->from + share.first, share.end - share.first);
}

static void measure_copying(struct bench *b)
{
    struct copy c = {array(b, 64 << 20), array(b, 64 << 20), 256u << 20};
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = now_s();
        gpt_cpu_parallel(b->threads, copy_part, &c);
        double took = now_s() - start;
        best = took < best ? took : best;
    }
    b->copy_bytes_per_s = 2.0 * (double)c.bytes / best;
    printf("%-34s %9.3f ms %9.1f GB/s\n", "copying 256 MiB (read and write)", best * 1e3, b->copy_bytes_per_s * 1e-9);
    free(c.to);
    free((void *)c.from);
}

/* ---- one launch per entry ---- */

#define LAUNCH(entry, type)                                                                                                                \
    static dt_status launch_##entry(struct bench *b, const void *arguments)                                                                \
    {                                                                                                                                      \
        return b->table->entry(b->k, b->stream, (const struct type *)arguments);                                                           \
    }
LAUNCH(embedding, gpt_embedding)
LAUNCH(embedding_gradient, gpt_embedding_gradient)
LAUNCH(layer_norm, gpt_layer_norm)
LAUNCH(layer_norm_gradient, gpt_layer_norm_gradient)
LAUNCH(linear, gpt_linear)
LAUNCH(linear_input_gradient, gpt_linear_input_gradient)
LAUNCH(linear_weight_gradient, gpt_linear_weight_gradient)
LAUNCH(attention, gpt_attention_forward)
LAUNCH(attention_gradient, gpt_attention_backward)
LAUNCH(dropout_residual, gpt_dropout_residual)
LAUNCH(dropout_gradient, gpt_dropout_gradient)
LAUNCH(loss, gpt_loss)
LAUNCH(sgd, gpt_sgd)
LAUNCH(adam, gpt_adam)

struct pair {
    void *to;
    const void *from;
    size_t count;
};

static dt_status launch_gelu(struct bench *b, const void *arguments)
{
    const struct pair *p = arguments;
    return b->table->gelu(b->k, b->stream, p->to, p->from, p->count);
}

static dt_status launch_gelu_gradient(struct bench *b, const void *arguments)
{
    const struct pair *p = arguments;
    return b->table->gelu_gradient(b->k, b->stream, p->to, p->from, p->count);
}

static dt_status launch_add(struct bench *b, const void *arguments)
{
    const struct pair *p = arguments;
    return b->table->add(b->k, b->stream, p->to, p->from, p->count);
}

static dt_status launch_fill(struct bench *b, const void *arguments)
{
    const struct pair *p = arguments;
    return b->table->fill(b->k, b->stream, p->to, p->count, 0);
}

static dt_status launch_normal(struct bench *b, const void *arguments)
{
    const struct pair *p = arguments;
    return b->table->init_normal(b->k, b->stream, p->to, p->count, 1, 2, 3, 0.02f);
}

/* ---- groups of kernels ---- */

static void bench_linear(struct bench *b, const char *name, int per_step, size_t in, size_t out, bool bias)
{
    char label[64];
    double flops = 2.0 * (double)b->rows * (double)in * (double)out;
    void *x = array(b, b->rows * in), *w = array(b, in * out), *v = array(b, out), *y = array(b, b->rows * out);
    void *dw = array(b, in * out), *dv = array(b, out);
    struct gpt_linear forward = {x, w, bias ? v : NULL, y, b->rows, in, out};
    struct gpt_linear_input_gradient for_x = {y, w, x, b->rows, in, out};
    struct gpt_linear_weight_gradient for_w = {y, x, dw, bias ? dv : NULL, b->rows, in, out, false};
    snprintf(label, sizeof label, "%s %zu -> %zu", name, in, out);
    show_products(b, label, per_step, flops, launch_linear, &forward);
    snprintf(label, sizeof label, "%s input gradient", name);
    show_products(b, label, per_step, flops, launch_linear_input_gradient, &for_x);
    snprintf(label, sizeof label, "%s weight gradient%s", name, bias ? " + bias" : "");
    show_products(b, label, per_step, flops, launch_linear_weight_gradient, &for_w);
    void *const all[] = {x, w, v, y, dw, dv};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void bench_attention(struct bench *b, const struct gpt_dropout *dropout)
{
    size_t d = HIDDEN;
    double flops = 4.0 * (double)b->rows * BLOCK * HIDDEN; /* the whole square, as model.h counts */
    void *qkv = array(b, b->rows * 3 * d), *out = array(b, b->rows * d), *dqkv = array(b, b->rows * 3 * d);
    float *lse = array(b, b->rows * HEADS);
    struct gpt_attention_forward forward = {qkv, out, lse, NULL, b->samples, *dropout};
    struct gpt_attention_backward backward = {out, out, qkv, lse, NULL, dqkv, b->samples, *dropout};
    show_products(b, "attention", 12, flops, launch_attention, &forward);
    show_products(b, "attention gradient", 12, 2 * flops, launch_attention_gradient, &backward);
    free(qkv);
    free(out);
    free(dqkv);
    free(lse);
}

static void bench_rows(struct bench *b, const struct gpt_dropout *dropout)
{
    size_t d = HIDDEN, count = b->rows * d, wide = 4 * count;
    double narrow_bytes = (double)(count * b->element_bytes), wide_bytes = (double)(wide * b->element_bytes);
    void *x = array(b, count), *y = array(b, count), *z = array(b, count), *gain = array(b, d), *bias = array(b, d);
    void *dgain = array(b, d), *dbias = array(b, d), *up = array(b, wide), *down = array(b, wide);
    float *mean = array(b, b->rows), *rstd = array(b, b->rows);
    struct gpt_layer_norm norm = {x, gain, bias, y, mean, rstd, b->rows, d};
    struct gpt_layer_norm_gradient dnorm = {y, x, gain, mean, rstd, z, dgain, dbias, b->rows, d, false, false};
    struct gpt_dropout_residual residual = {x, y, z, b->samples, *dropout};
    struct gpt_dropout_gradient gradient = {x, y, b->samples, *dropout};
    struct pair gelu = {up, down, wide};
    show_memory(b, "layer norm (forward, and again)", 49, 2 * narrow_bytes, launch_layer_norm, &norm);
    show_memory(b, "layer norm gradient", 25, 4 * narrow_bytes, launch_layer_norm_gradient, &dnorm);
    show_memory(b, "dropout and residual", 24, 3 * narrow_bytes, launch_dropout_residual, &residual);
    show_memory(b, "dropout gradient", 24, 2 * narrow_bytes, launch_dropout_gradient, &gradient);
    show_memory(b, "gelu (forward, and again)", 24, 2 * wide_bytes, launch_gelu, &gelu);
    show_memory(b, "gelu gradient", 12, 3 * wide_bytes, launch_gelu_gradient, &gelu);
    void *const all[] = {x, y, z, gain, bias, dgain, dbias, up, down, mean, rstd};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void bench_vocabulary(struct bench *b, const struct gpt_dropout *dropout)
{
    size_t d = HIDDEN;
    void *table = array(b, VOCAB * d), *positions = array(b, BLOCK * d), *out = array(b, b->rows * d), *logits = array(b, b->rows * VOCAB);
    int32_t *inputs = array(b, b->rows), *targets = array(b, b->rows);
    double loss = 0, row_bytes = (double)(b->rows * d * b->element_bytes), table_bytes = (double)(VOCAB * d * b->element_bytes);
    must(b->table->tokens(b->k, b->stream, inputs, targets, b->samples, 1, 0));
    struct gpt_embedding embedding = {inputs, table, positions, out, b->samples, *dropout};
    struct gpt_embedding_gradient gradient = {inputs, out, table, positions, b->samples, false, *dropout};
    struct gpt_loss cross_entropy = {logits, targets, &loss, b->rows, 1e-3f, 1, false};
    show_memory(b, "embedding", 1, 2 * row_bytes, launch_embedding, &embedding);
    show_memory(b, "embedding gradient", 1, table_bytes + 2 * row_bytes, launch_embedding_gradient, &gradient);
    show_memory(b, "loss", 1, 2.0 * (double)(b->rows * VOCAB * b->element_bytes), launch_loss, &cross_entropy);
    void *const all[] = {table, positions, out, logits, inputs, targets};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void bench_parameters(struct bench *b)
{
    size_t count = gpt_parameter_count(&b->model), few = count / 4; /* Adam's state of a quarter of the model is large enough */
    double bytes = (double)(count * b->element_bytes);
    void *params = array(b, count), *grads = array(b, count);
    float *state[3] = {array(b, few), array(b, few), array(b, few)};
    struct gpt_sgd sgd = {params, grads, count, 0.01f, 1};
    struct gpt_adam adam = {params, grads, state[0], state[1], state[2], few, 1e-4f, 0.9f, 0.999f, 1e-8f, 1};
    struct pair both = {params, grads, count};
    show_memory(b, "sgd, 162M weights", 1, 3 * bytes, launch_sgd, &sgd);
    show_memory(b, "adam, a quarter of them", 0, (double)few * (24.0 + 3.0 * (double)b->element_bytes), launch_adam, &adam);
    show_memory(b, "add, 162M", 0, 3 * bytes, launch_add, &both);
    show_memory(b, "fill, 162M", 0, bytes, launch_fill, &both);
    show_memory(b, "initial weights, 162M", 0, bytes, launch_normal, &both);
    void *const all[] = {params, grads, state[0], state[1], state[2]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

int main(int argc, char **argv)
{
    struct bench b = {.table = &gpt_kernels_cpu, .samples = argc > 1 ? (size_t)atoi(argv[1]) : 8};
    struct dt_device_options options = {.threads = argc > 2 ? atoi(argv[2]) : 2, .local_size = 1};
    b.model =
        (struct gpt_model){.layers = 12, .heads = HEADS, .hidden = HIDDEN, .vocab_size = VOCAB, .block_size = BLOCK, .dtype = DT_BF16};
    for (enum dt_dtype dtype = 0; argc > 3 && dtype < DT_DTYPE_COUNT; dtype++)
        if (strcmp(argv[3], dt_dtype_name(dtype)) == 0)
            b.model.dtype = dtype;
    b.rows = b.samples * BLOCK;
    b.threads = options.threads;
    b.element_bytes = dt_dtype_bytes(b.model.dtype);
    must(dt_device_create("cpu", &options, &b.device));
    must(dt_stream_create(b.device, "compute", &b.stream));
    must(b.table->create(b.device, &b.model, &b.k));
    must(b.table->begin_step(b.k, b.stream, 0, 2)); /* the first one does not read Adam's state */
    printf("GPTSmall, %zu rows, %s, %d threads, %s\n", b.rows, dt_dtype_name(b.model.dtype), b.threads, dt_cpu_isa_name(dt_cpu_isa()));

    struct gpt_dropout dropout = {.seed = 1, .layer = 1, .probability = 0.1f};
    measure_copying(&b);
    bench_linear(&b, "q k v", 12, HIDDEN, 3 * HIDDEN, true);
    bench_linear(&b, "projection", 12, HIDDEN, HIDDEN, true);
    bench_linear(&b, "mlp up", 12, HIDDEN, 4 * HIDDEN, true);
    bench_linear(&b, "mlp down", 12, 4 * HIDDEN, HIDDEN, true);
    bench_linear(&b, "head", 1, HIDDEN, VOCAB, false);
    bench_attention(&b, &dropout);
    bench_rows(&b, &dropout);
    bench_vocabulary(&b, &dropout);
    bench_parameters(&b);
    printf("a step of these: %.1f ms, %.0f tokens/s\n", b.step_s * 1e3, (double)b.rows / b.step_s);

    b.table->destroy(b.k);
    dt_stream_destroy(b.stream);
    dt_device_destroy(b.device);
    return 0;
}

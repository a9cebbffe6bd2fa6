/* How fast the linear layers' products are on a GPU, and what share that is of the fastest product
 * measured in the same run.
 *
 * Usage: bench_cuda_linear [DTYPE [BATCH]]: fp16 by default, samples of 256 tokens, 8 for GPTSmall
 * and 20 for the others. Not a test. Each product: the time of one of many queued one after the
 * other, operations as 2 m n k. Operands take turns among sets that are together larger than any
 * cache, with values like those of a training: products of zeros are faster. The products of a
 * layer are also summed as a training step does them. */
#include "gpt/family.h"
#include "gpt/kernels.h"
#include "gpt/model.h"
#include "lib/device/device.h"
#include "test/gpt/preset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 50000, BLOCK = 256, REPEATS = 5, MOST_SETS = 16 };

struct bench {
    struct dt_device *device;
    struct dt_stream *stream;
    struct dt_event *start, *end;
    struct dt_kernels base;
    struct gpt_kernels *k;
    size_t element_bytes;
    double peak_flops_per_s;
};

static void must(dt_status status)
{
    if (status < 0) {
        fprintf(stderr, "bench_cuda_linear: %s\n", dt_error_message());
        exit(1);
    }
}

static struct dt_buffer array(struct bench *b, size_t count, float standard_deviation)
{
    struct dt_buffer buffer;
    must(dt_alloc(b->stream, DT_WORKSPACE, count * b->element_bytes, &buffer));
    must(dt_kernels_initialise(
        &b->base, b->stream,
        &(struct dt_initial){.to = buffer.data, .count = count, .seed = 1, .tensor_id = (uint32_t)count, .scale = standard_deviation}));
    return buffer;
}

/* One layer's operands. */
struct set {
    struct dt_buffer x, w, b, y, dx, dw, db, hidden;
};

struct layer {
    const char *name;
    size_t rows, in, out;
    bool bias, after_gelu;
    struct set sets[MOST_SETS];
    int set_count;
};

static void make_sets(struct bench *b, struct layer *l)
{
    size_t elems = 2 * l->rows * (l->in + l->out) + 2 * l->in * l->out;
    size_t wanted = (256u << 20) / (elems * b->element_bytes) + 1;
    l->set_count = wanted < MOST_SETS ? (int)wanted : MOST_SETS;
    for (int i = 0; i < l->set_count; i++)
        l->sets[i] = (struct set){
            .x = array(b, l->rows * l->in, 1),
            .w = array(b, l->out * l->in, 0.02f),
            .b = array(b, l->out, 0.02f),
            .y = array(b, l->rows * l->out, 1),
            .dx = array(b, l->rows * l->in, 1),
            .dw = array(b, l->out * l->in, 1),
            .db = array(b, l->out, 1),
            .hidden = l->after_gelu ? array(b, l->rows * l->in, 1) : (struct dt_buffer){0},
        };
}

static void free_sets(struct bench *b, struct layer *l)
{
    for (int i = 0; i < l->set_count; i++) {
        struct set *s = &l->sets[i];
        struct dt_buffer *const all[] = {&s->x, &s->w, &s->b, &s->y, &s->dx, &s->dw, &s->db, &s->hidden};
        for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
            dt_free(b->stream, all[j]);
    }
}

/* ---- one product each ---- */

typedef dt_status (*launch)(struct bench *b, const struct layer *l, const struct set *s);

static dt_status forward(struct bench *b, const struct layer *l, const struct set *s)
{
    struct gpt_linear a = {s->x.data, s->w.data, l->bias ? s->b.data : NULL, s->y.data, l->rows, l->in, l->out, 1};
    return gpt_kernels_cuda.linear(b->k, b->stream, &a);
}

static dt_status input_gradient(struct bench *b, const struct layer *l, const struct set *s)
{
    struct gpt_linear_input_gradient a = {s->y.data, s->w.data, s->dx.data, l->rows, l->in, l->out, 1};
    return gpt_kernels_cuda.linear_input_gradient(b->k, b->stream, &a);
}

static dt_status gelu_input_gradient(struct bench *b, const struct layer *l, const struct set *s)
{
    struct gpt_linear_gelu_input_gradient a = {{s->y.data, s->w.data, s->dx.data, l->rows, l->in, l->out, 1}, s->hidden.data};
    return gpt_kernels_cuda.linear_gelu_input_gradient(b->k, b->stream, &a);
}

static dt_status weight_gradient(struct bench *b, const struct layer *l, const struct set *s)
{
    struct gpt_linear_weight_gradient a = {s->y.data, s->x.data, s->dw.data, l->bias ? s->db.data : NULL, l->rows, l->in, l->out, 1, false};
    return gpt_kernels_cuda.linear_weight_gradient(b->k, b->stream, &a);
}

static dt_status adding_weight_gradient(struct bench *b, const struct layer *l, const struct set *s)
{
    struct gpt_linear_weight_gradient a = {s->y.data, s->x.data, s->dw.data, l->bias ? s->db.data : NULL, l->rows, l->in, l->out, 1, true};
    return gpt_kernels_cuda.linear_weight_gradient(b->k, b->stream, &a);
}

/* Seconds of one: the median of some runs of at least 20 ms, after one that is not counted. */
static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double seconds_of(struct bench *b, const struct layer *l, launch run)
{
    double seconds[REPEATS];
    for (int i = 0; i < l->set_count; i++)
        must(run(b, l, &l->sets[i]));
    must(dt_stream_synchronize(b->stream));
    for (int r = 0, times = 10; r < REPEATS;) {
        int64_t ns;
        must(dt_event_record(b->start, b->stream));
        for (int i = 0; i < times; i++)
            must(run(b, l, &l->sets[i % l->set_count]));
        must(dt_event_record(b->end, b->stream));
        must(dt_stream_synchronize(b->stream));
        must(dt_event_elapsed_ns(b->start, b->end, &ns));
        if (ns < 20000000 && times < 10000)
            times *= 2;
        else
            seconds[r++] = (double)ns * 1e-9 / times;
    }
    qsort(seconds, REPEATS, sizeof seconds[0], by_time);
    return seconds[REPEATS / 2];
}

static double show(struct bench *b, const struct layer *l, const char *what, launch run)
{
    double flops = 2.0 * (double)l->rows * (double)l->in * (double)l->out, s = seconds_of(b, l, run);
    printf("  %-12s %-34s [%zu, %zu] x [%zu, %zu] %9.1f us %8.1f TFLOP/s %5.1f %%\n", l->name, what, l->rows, l->in, l->in, l->out, s * 1e6,
           flops / s * 1e-12, 100 * flops / s / b->peak_flops_per_s);
    return s;
}

/* The seconds that a step spends on this layer; `flops` grows by what it computes. */
static double bench_layer(struct bench *b, struct layer *l, int per_step, double *flops)
{
    make_sets(b, l);
    double s = show(b, l, l->bias ? "forward + bias" : "forward", forward);
    double plain_s = show(b, l, "input gradient", input_gradient);
    s += l->after_gelu ? show(b, l, "input gradient through GELU", gelu_input_gradient) : plain_s;
    s += show(b, l, l->bias ? "weight gradient + bias's" : "weight gradient", weight_gradient);
    show(b, l, l->bias ? "weight gradient + bias's, added" : "weight gradient, added", adding_weight_gradient);
    free_sets(b, l);
    *flops += 6.0 * (double)l->rows * (double)l->in * (double)l->out * per_step;
    return s * per_step;
}

static void bench_model(struct bench *b, const char *name, size_t samples)
{
    const struct dt_model_preset *preset = preset_named(name);
    size_t d = (size_t)((const struct gpt_model *)preset->own)->hidden, rows = samples * BLOCK;
    struct layer layers[] = {
        {.name = "q k v", .rows = rows, .in = d, .out = 3 * d, .bias = true},
        {.name = "projection", .rows = rows, .in = d, .out = d, .bias = true},
        {.name = "mlp up", .rows = rows, .in = d, .out = 4 * d, .bias = true},
        {.name = "mlp down", .rows = rows, .in = 4 * d, .out = d, .bias = true, .after_gelu = true},
        {.name = "head", .rows = rows, .in = d, .out = VOCAB},
    };
    double s = 0, flops = 0;
    printf("%s, %zu samples\n", name, samples);
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        s += bench_layer(b, &layers[i], strcmp(layers[i].name, "head") == 0 ? 1 : ((const struct gpt_model *)preset->own)->layers, &flops);
    printf("  all of a step: %.2f ms, %.1f TFLOP/s, %.1f %%\n", s * 1e3, flops / s * 1e-12, 100 * flops / s / b->peak_flops_per_s);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct dt_model model =
        gpt_model_of(DT_FP16, &(struct gpt_model){.layers = 1, .heads = 1, .hidden = 8, .vocab_size = VOCAB, .block_size = BLOCK});
    struct dt_device_info info;
    char libraries[128];
    setvbuf(stdout, NULL, _IOLBF, 0); /* a run that is stopped by a time limit still prints its measurements */
    for (enum dt_dtype dtype = 0; argc > 1 && dtype < DT_DTYPE_COUNT; dtype++)
        if (strcmp(argv[1], dt_dtype_name(dtype)) == 0)
            model.dtype = dtype;
    size_t samples = argc > 2 ? (size_t)atoi(argv[2]) : 0;
    b.element_bytes = dt_dtype_bytes(model.dtype);
    must(dt_device_create("cuda", NULL, &b.device));
    must(dt_stream_create(b.device, "compute", &b.stream));
    must(dt_event_create_timed(b.device, &b.start));
    must(dt_event_create_timed(b.device, &b.end));
    must(dt_kernels_init(&b.base, b.device, model.dtype));
    must(gpt_kernels_cuda.create(&b.base, &model, &b.k));
    dt_device_info(b.device, &info);
    gpt_kernels_available(dt_device_kind_find("cuda"), libraries, sizeof libraries);
    printf("%s, %s, %s, %s\n", info.name, info.versions, libraries, dt_dtype_name(model.dtype));

    struct layer square = {.name = "square", .rows = 8192, .in = 8192, .out = 8192};
    make_sets(&b, &square);
    double s = seconds_of(&b, &square, forward);
    free_sets(&b, &square);
    b.peak_flops_per_s = 2 * 8192.0 * 8192 * 8192 / s;
    printf("the measure: [8192, 8192] x [8192, 8192] %.1f us, %.1f TFLOP/s\n", s * 1e6, b.peak_flops_per_s * 1e-12);

    bench_model(&b, "GPTSmall", samples ? samples : 8);
    bench_model(&b, "GPTLarge", samples ? samples : 20);
    bench_model(&b, "GPT2.7B", samples ? samples : 20);

    gpt_kernels_cuda.destroy(b.k);
    dt_kernels_finish(&b.base);
    dt_event_destroy(b.start);
    dt_event_destroy(b.end);
    dt_stream_destroy(b.stream);
    dt_device_destroy(b.device);
    return 0;
}

/* The matrix products of one GPT training step and nothing else: how fast a step could be if the rest of it took no time.
 *
 * For every linear layer (q, k, v as one, projection, MLP up and down, head): forward, input gradient, weight gradient, on row-major
 * matrices as training holds them, each layer with weights of its own. Attention's products, biases and element-wise work are left out.
 * With --packed oneDNN may choose the weights' layout; arranging them so is not timed, so this is more than a training step could reach.
 * Usage: bare_gemm [--batch N] [--block T] [--threads N] [--steps N] [--warmup N] [--dtype bf16|fp32] [--packed]; prints one JSON line. */
#include <dnnl.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { LAYERS = 12, HIDDEN = 768, VOCAB = 50000, PRODUCTS = 3 * (4 * LAYERS + 1) };

struct options {
    int batch, block, threads, steps, warmup;
    dnnl_data_type_t dtype;
    bool packed;
};

/* c [m, n] = a [m, k] * b [k, n] */
struct product {
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
};

struct step {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const struct options *options;
    struct product products[PRODUCTS];
    int count;
    double flops;
};

static void check(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success) {
        fprintf(stderr, "bare_gemm: %s: oneDNN status %d\n", what, (int)status);
        exit(1);
    }
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A description of [rows, columns], stored so or transposed. */
static dnnl_memory_desc_t describe(const struct options *o, int64_t rows, int64_t columns, bool transposed)
{
    dnnl_memory_desc_t desc;
    const dnnl_dims_t dims = {rows, columns};
    check(dnnl_memory_desc_init_by_tag(&desc, 2, dims, o->dtype, transposed ? dnnl_ba : dnnl_ab), "memory description");
    return desc;
}

/* Memory of its own, filled with small numbers: zeros and denormals would be a different workload. */
static dnnl_memory_t allocate(const struct step *s, const dnnl_memory_desc_t *desc)
{
    dnnl_memory_t memory;
    size_t bytes = dnnl_memory_desc_get_size(desc);
    void *data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!data) {
        fprintf(stderr, "bare_gemm: out of memory\n");
        exit(1);
    }
    uint32_t state = 12345;
    for (size_t i = 0; i < bytes / 2; i++) { /* the upper half of an fp32 is a bf16; the lower half hardly matters */
        state = state * 1664525u + 1013904223u;
        ((uint16_t *)data)[i] = (uint16_t)(0x3c00u | (state >> 31 << 15) | (state >> 20 & 0x7f));
    }
    check(dnnl_memory_create(&memory, desc, s->engine, data), "memory");
    return memory;
}

static dnnl_memory_t view(const struct step *s, dnnl_memory_t of, const dnnl_memory_desc_t *desc)
{
    dnnl_memory_t memory;
    void *data;
    check(dnnl_memory_get_data_handle(of, &data), "data handle");
    check(dnnl_memory_create(&memory, desc, s->engine, data), "memory");
    return memory;
}

/* b NULL: weights of oneDNN's own layout are allocated. */
static void add_product(struct step *s, dnnl_memory_desc_t a_desc, dnnl_memory_t a, dnnl_memory_desc_t b_desc, dnnl_memory_t b,
                        dnnl_memory_desc_t c_desc, dnnl_memory_t c)
{
    struct product *p = &s->products[s->count++];
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t primitive_desc;
    if (!b)
        check(dnnl_memory_desc_init_by_tag(&b_desc, 2, b_desc.dims, s->options->dtype, dnnl_format_tag_any), "memory description");
    check(dnnl_matmul_desc_init(&desc, &a_desc, &b_desc, NULL, &c_desc), "matmul description");
    check(dnnl_primitive_desc_create(&primitive_desc, &desc, NULL, s->engine, NULL), "matmul");
    check(dnnl_primitive_create(&p->primitive, primitive_desc), "matmul");
    p->a = view(s, a, &a_desc);
    p->b = b ? view(s, b, &b_desc) : allocate(s, dnnl_primitive_desc_query_md(primitive_desc, dnnl_query_weights_md, 0));
    p->c = view(s, c, &c_desc);
    check(dnnl_primitive_desc_destroy(primitive_desc), "matmul");
    s->flops += 2.0 * (double)a_desc.dims[0] * (double)a_desc.dims[1] * (double)b_desc.dims[1];
}

/* x [rows, in], y [rows, out]: activations, shared by layers of the same shape. Weights and their gradients are the layer's own. */
static void add_linear(struct step *s, int64_t rows, int64_t in, int64_t out, dnnl_memory_t x, dnnl_memory_t dx, dnnl_memory_t y)
{
    const struct options *o = s->options;
    dnnl_memory_desc_t x_desc = describe(o, rows, in, false), y_desc = describe(o, rows, out, false);
    dnnl_memory_desc_t w_desc = describe(o, out, in, false), wt_desc = describe(o, in, out, true);
    dnnl_memory_t w = allocate(s, &w_desc), dw = allocate(s, &w_desc);
    add_product(s, x_desc, x, wt_desc, o->packed ? NULL : w, y_desc, y);                         /* y = x * w^T */
    add_product(s, y_desc, y, w_desc, o->packed ? NULL : w, x_desc, dx);                         /* dx = dy * w */
    add_product(s, describe(o, out, rows, true), y, x_desc, x, describe(o, out, in, false), dw); /* dw = dy^T * x */
}

static void build(struct step *s)
{
    const struct options *o = s->options;
    int64_t rows = (int64_t)o->batch * o->block, d = HIDDEN;
    dnnl_memory_desc_t narrow = describe(o, rows, d, false), wide = describe(o, rows, 4 * d, false),
                       logits = describe(o, rows, VOCAB, false);
    dnnl_memory_t x = allocate(s, &narrow), dx = allocate(s, &narrow), h = allocate(s, &wide), dh = allocate(s, &wide);
    dnnl_memory_t z = allocate(s, &logits);
    for (int layer = 0; layer < LAYERS; layer++) {
        add_linear(s, rows, d, 3 * d, x, dx, h);
        add_linear(s, rows, d, d, x, dx, h);
        add_linear(s, rows, d, 4 * d, x, dx, h);
        add_linear(s, rows, 4 * d, d, h, dh, x);
    }
    add_linear(s, rows, d, VOCAB, x, dx, z);
}

static double run(struct step *s)
{
    double start = now_s();
    for (int i = 0; i < s->count; i++) {
        const struct product *p = &s->products[i];
        const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
        check(dnnl_primitive_execute(p->primitive, s->stream, 3, arguments), "execution");
    }
    check(dnnl_stream_wait(s->stream), "wait");
    return now_s() - start;
}

static int number(const char *text, const char *option)
{
    char *end;
    long value = strtol(text ? text : "", &end, 10);
    if (!text || end == text || *end || value < 1 || value > 100000) {
        fprintf(stderr, "bare_gemm: %s needs a whole number from 1 to 100000\n", option);
        exit(2);
    }
    return (int)value;
}

static struct options parse(char **argv)
{
    struct options o = {.batch = 8, .block = 256, .threads = 2, .steps = 3, .warmup = 1, .dtype = dnnl_bf16};
    for (char **a = argv + 1; *a; a++) {
        struct {
            const char *name;
            int *value;
        } numbers[] = {
            {"--batch", &o.batch}, {"--block", &o.block}, {"--threads", &o.threads}, {"--steps", &o.steps}, {"--warmup", &o.warmup}};
        bool known = false;
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !known; i++)
            if (strcmp(*a, numbers[i].name) == 0) {
                *numbers[i].value = number(a[1], *a);
                known = true;
            }
        if (known) {
            a++;
        } else if (strcmp(*a, "--packed") == 0) {
            o.packed = true;
        } else if (strcmp(*a, "--dtype") == 0 && a[1] && (strcmp(a[1], "bf16") == 0 || strcmp(a[1], "fp32") == 0)) {
            o.dtype = strcmp(*++a, "bf16") == 0 ? dnnl_bf16 : dnnl_f32;
        } else {
            fprintf(stderr,
                    "bare_gemm: cannot use '%s'; options: --batch, --block, --threads, --steps, --warmup N, --dtype bf16|fp32, --packed\n",
                    *a);
            exit(2);
        }
    }
    return o;
}

int main(int argc, char **argv)
{
    const struct options options = parse(argv);
    struct step step = {.options = &options};
    struct rusage usage;
    omp_set_num_threads(options.threads);
    check(dnnl_engine_create(&step.engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&step.stream, step.engine, dnnl_stream_default_flags), "stream");
    build(&step);
    for (int i = 0; i < options.warmup; i++)
        run(&step);
    printf("{\"peer\": \"bare_gemm\", \"version\": \"oneDNN %d.%d.%d\", \"dtype\": \"%s\", \"packed\": %s, \"batch\": %d, \"block\": %d, "
           "\"threads\": %d, \"step_s\": [",
           dnnl_version()->major, dnnl_version()->minor, dnnl_version()->patch, options.dtype == dnnl_bf16 ? "bf16" : "fp32",
           options.packed ? "true" : "false", options.batch, options.block, options.threads);
    double total = 0;
    for (int i = 0; i < options.steps; i++) {
        double seconds = run(&step);
        total += seconds;
        printf("%s%.6f", i ? ", " : "", seconds);
    }
    getrusage(RUSAGE_SELF, &usage);
    double mean = total / options.steps;
    printf("], \"tokens_per_s\": %.2f, \"gflops\": %.1f, \"peak_rss_bytes\": %lld}\n", options.batch * options.block / mean,
           step.flops / mean * 1e-9, (long long)usage.ru_maxrss * 1024);
    return 0;
}

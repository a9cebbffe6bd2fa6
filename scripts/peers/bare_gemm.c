/* The matrix products of one GPT training step and nothing else: how fast a step could be if the
 * rest of it took no time.
 *
 * For every linear layer (q, k, v as one, projection, MLP up and down, head): forward, input
 * gradient, weight gradient, on row-major matrices as training holds them, each layer with weights
 * of its own. Attention's products, biases and element-wise work are left out. With --packed oneDNN
 * may choose the weights' layout; arranging them so is not timed, so this is more than a training
 * step could reach. Usage: bare_gemm [--batch N] [--block T] [--threads N] [--steps N] [--warmup N]
 * [--dtype bf16|fp32] [--packed]; prints one JSON line. */
#include "gpt/cpu/matmul/onednn.h"
#include "scripts/peers/bare.h"

#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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
    bare_check("bare_gemm", (int)status, what);
}

/* Memory of its own, filled with small numbers: zeros and denormals would be a different
 * workload. */
static void *allocate(size_t bytes)
{
    void *data = bare_allocate("bare_gemm", bytes);
    uint32_t state = 12345;
    for (size_t i = 0; i < bytes / 2; i++) { /* the upper half of an fp32 is a bf16; the lower half hardly matters */
        state = state * 1664525u + 1013904223u;
        ((uint16_t *)data)[i] = (uint16_t)(0x3c00u | (state >> 31 << 15) | (state >> 20 & 0x7f));
    }
    return data;
}

static void *allocate_matrix(const struct options *o, size_t rows, size_t columns)
{
    return allocate(rows * columns * dnnl_data_type_size(o->dtype));
}

static dnnl_memory_t view(const struct step *s, dnnl_primitive_desc_t desc, dnnl_query_t operand, void *data, size_t *out_bytes)
{
    dnnl_memory_t memory;
    check(dt_onednn_memory(s->engine, desc, operand, 0, &memory, out_bytes), "memory");
    check(dnnl_memory_set_data_handle(memory, data), "memory");
    return memory;
}

/* b NULL: weights of oneDNN's own layout are allocated. */
static void add_product(struct step *s, struct gpt_onednn_matrix a_shape, void *a, struct gpt_onednn_matrix b_shape, void *b,
                        struct gpt_onednn_matrix c_shape, void *c)
{
    struct product *p = &s->products[s->count++];
    dnnl_primitive_desc_t desc;
    size_t b_bytes;
    b_shape.any_layout = b == NULL;
    check(gpt_onednn_matmul(s->engine, &a_shape, &b_shape, NULL, &c_shape, NULL, &desc), "matmul");
    check(dnnl_primitive_create(&p->primitive, desc), "matmul");
    p->a = view(s, desc, dnnl_query_src_md, a, NULL);
    p->b = view(s, desc, dnnl_query_weights_md, b, &b_bytes);
    p->c = view(s, desc, dnnl_query_dst_md, c, NULL);
    if (!b)
        check(dnnl_memory_set_data_handle(p->b, allocate(b_bytes)), "memory");
    check(dnnl_primitive_desc_destroy(desc), "matmul");
    s->flops += 2.0 * (double)a_shape.rows * (double)a_shape.columns * (double)b_shape.columns;
}

/* x [rows, in], y [rows, out]: activations, shared by layers of the same shape. Weights and their
 * gradients are the layer's own. */
static void add_linear(struct step *s, size_t rows, size_t in, size_t out, void *x, void *dx, void *y)
{
    const struct options *o = s->options;
    const struct gpt_onednn_matrix xs = {.type = o->dtype, .rows = rows, .columns = in},
                                   ys = {.type = o->dtype, .rows = rows, .columns = out},
                                   ws = {.type = o->dtype, .rows = out, .columns = in};
    const struct gpt_onednn_matrix wt = {.type = o->dtype, .rows = in, .columns = out, .transposed = true},
                                   yt = {.type = o->dtype, .rows = out, .columns = rows, .transposed = true};
    void *w = allocate_matrix(o, out, in), *dw = allocate_matrix(o, out, in);
    add_product(s, xs, x, wt, o->packed ? NULL : w, ys, y);  /* y = x * w^T */
    add_product(s, ys, y, ws, o->packed ? NULL : w, xs, dx); /* dx = dy * w */
    add_product(s, yt, y, xs, x, ws, dw);                    /* dw = dy^T * x */
}

static void build(struct step *s)
{
    const struct options *o = s->options;
    size_t rows = (size_t)o->batch * (size_t)o->block, d = HIDDEN;
    void *x = allocate_matrix(o, rows, d), *dx = allocate_matrix(o, rows, d), *h = allocate_matrix(o, rows, 4 * d),
         *dh = allocate_matrix(o, rows, 4 * d), *z = allocate_matrix(o, rows, VOCAB);
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
    double start = bare_now_s();
    for (int i = 0; i < s->count; i++) {
        const struct product *p = &s->products[i];
        const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
        check(dnnl_primitive_execute(p->primitive, s->stream, 3, arguments), "execution");
    }
    check(dnnl_stream_wait(s->stream), "wait");
    return bare_now_s() - start;
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

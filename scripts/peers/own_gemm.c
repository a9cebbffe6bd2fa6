/* The matrix products of GPTSmall's training step as dtbench does them, packing, bias gradients and
 * GELU's derivative included, and nothing else; and what the processor could do at most: a loop of
 * multiplications alone, on as many threads, in the same run. That is its tile unit's where the
 * products are by tiles, its vector units' in fp32, and nothing (0) elsewhere.
 *
 * Usage: own_gemm [--batch N] [--block N] [--threads N] [--steps N] [--warmup N] [--dtype
 * bf16|fp32]; prints one JSON line. DTBENCH_CPU_PRODUCTS chooses as it does for dtbench
 * (gpt/cpu/matmul/products.h). */
#include "gpt/cpu/matmul/products.h"
#include "lib/base/clock.h"
#include "lib/kernels/cpu/team.h"
#include "scripts/peers/tile_ceiling.h"
#include "scripts/peers/vector_ceiling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 12, HIDDEN = 768, VOCAB = 50000 };

struct options {
    int batch, block, threads, steps, warmup;
    enum dt_dtype dtype;
};

struct bench {
    struct gpt_cpu_products *products;
    const struct dt_simd *simd;
    size_t rows, element_bytes;
    double flops;
};

static void must(dt_status status)
{
    if (status < 0) {
        fprintf(stderr, "own_gemm: %s\n", dt_error_message());
        exit(1);
    }
}

/* Small numbers of both signs, so that no sum overflows and no arithmetic is special. */
static void *matrix(const struct bench *b, size_t elems)
{
    static uint32_t tensor;
    void *memory = aligned_alloc(4096, (elems * b->element_bytes + 4095) / 4096 * 4096);
    if (!memory) {
        fprintf(stderr, "own_gemm: no memory\n");
        exit(1);
    }
    b->simd->normal(memory, elems, 1, tensor++, 0, 0.05f);
    return memory;
}

/* A linear layer's three products. Weights and their gradients are the layer's own. */
struct linear {
    size_t in, out;
    bool bias, gelu;
    void *w, *dw, *b, *db;
    void *x, *dx, *y;
};

static void run_linear(struct bench *b, const struct linear *l)
{
    size_t rows = b->rows;
    must(gpt_cpu_multiply(
        b->products,
        &(struct gpt_cpu_product){
            .a = l->x, .b = l->w, .bias = l->bias ? l->b : NULL, .c = l->y, .m = rows, .n = l->out, .k = l->in, .transpose_b = true}));
    must(gpt_cpu_multiply(
        b->products,
        &(struct gpt_cpu_product){.a = l->y, .b = l->w, .gelu_of = l->gelu ? l->x : NULL, .c = l->dx, .m = rows, .n = l->in, .k = l->out}));
    must(gpt_cpu_multiply(b->products, &(struct gpt_cpu_product){.a = l->y,
                                                                 .b = l->x,
                                                                 .c = l->dw,
                                                                 .row_sums = l->bias ? l->db : NULL,
                                                                 .m = l->out,
                                                                 .n = l->in,
                                                                 .k = rows,
                                                                 .transpose_a = true}));
    b->flops += 6.0 * (double)rows * (double)l->in * (double)l->out;
}

enum { EACH_LAYER = 4, LINEARS = EACH_LAYER * LAYERS + 1 };

static void make_linears(const struct bench *b, struct linear all[LINEARS])
{
    static const struct linear kinds[] = {{.in = HIDDEN, .out = 3 * HIDDEN, .bias = true},
                                          {.in = HIDDEN, .out = HIDDEN, .bias = true},
                                          {.in = HIDDEN, .out = 4 * HIDDEN, .bias = true},
                                          {.in = 4 * HIDDEN, .out = HIDDEN, .bias = true, .gelu = true},
                                          {.in = HIDDEN, .out = VOCAB}};
    void *narrow[2] = {matrix(b, b->rows * HIDDEN), matrix(b, b->rows * HIDDEN)};
    void *wide[2] = {matrix(b, b->rows * 4 * HIDDEN), matrix(b, b->rows * 4 * HIDDEN)}, *logits = matrix(b, b->rows * VOCAB);
    for (int i = 0; i < LINEARS; i++) {
        struct linear *l = &all[i];
        *l = kinds[i == LINEARS - 1 ? EACH_LAYER : i % EACH_LAYER];
        l->w = matrix(b, l->in * l->out);
        l->dw = matrix(b, l->in * l->out);
        l->b = matrix(b, l->out);
        l->db = matrix(b, l->out);
        l->x = l->in == HIDDEN ? narrow[0] : wide[0];
        l->dx = l->in == HIDDEN ? narrow[1] : wide[1];
        l->y = l->out == VOCAB ? logits : l->out == HIDDEN ? narrow[1] : wide[1];
        if (l->dx == l->y) /* the product's result must not be its operand */
            l->dx = l->in == HIDDEN ? matrix(b, b->rows * HIDDEN) : matrix(b, b->rows * 4 * HIDDEN);
    }
}

static double run_step(struct bench *b, const struct linear all[LINEARS])
{
    double start = dt_clock_s();
    b->flops = 0;
    for (int i = 0; i < LINEARS; i++)
        run_linear(b, &all[i]);
    return dt_clock_s() - start;
}

static int number(const char *text, const char *option)
{
    char *end;
    long value = strtol(text ? text : "", &end, 10);
    if (!text || end == text || *end || value < 1 || value > 100000) {
        fprintf(stderr, "own_gemm: %s needs a whole number from 1 to 100000\n", option);
        exit(2);
    }
    return (int)value;
}

static struct options parse(char **argv)
{
    struct options o = {.batch = 8, .block = 256, .threads = 2, .steps = 3, .warmup = 1, .dtype = DT_BF16};
    const struct {
        const char *name;
        int *value;
    } numbers[] = {{"--batch", &o.batch}, {"--block", &o.block}, {"--threads", &o.threads}, {"--steps", &o.steps}, {"--warmup", &o.warmup}};
    for (char **a = argv + 1; *a; a += 2) {
        bool known = strcmp(*a, "--dtype") == 0 && a[1] && (strcmp(a[1], "bf16") == 0 || strcmp(a[1], "fp32") == 0);
        if (known)
            o.dtype = strcmp(a[1], "bf16") == 0 ? DT_BF16 : DT_FP32;
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !known; i++)
            if (strcmp(*a, numbers[i].name) == 0) {
                *numbers[i].value = number(a[1], *a);
                known = true;
            }
        if (!known) {
            fprintf(stderr, "own_gemm: cannot use '%s'; options: --batch, --block, --threads, --steps, --warmup N, --dtype bf16|fp32\n",
                    *a);
            exit(2);
        }
    }
    return o;
}

/* ---- the ceiling ---- */

struct ceiling {
    const char *name;
    double (*run)(int rounds);
    double flops[256], seconds[256]; /* of each thread */
};

/* run is NULL where there is none. */
static struct ceiling ceiling_for(enum dt_dtype dtype, const char *products)
{
    if (strcmp(products, "amx") == 0 && tile_ceiling_usable())
        return (struct ceiling){.name = "tile unit", .run = tile_ceiling_run};
    if (dtype == DT_FP32 && dt_cpu_isa() >= DT_ISA_AVX2)
        return (struct ceiling){.name = "vector units", .run = dt_cpu_isa() >= DT_ISA_AVX512 ? vector_ceiling_avx512 : vector_ceiling_avx2};
    return (struct ceiling){.name = ""};
}

static void ceiling_part(void *argument, int thread, int threads)
{
    struct ceiling *c = argument;
    double start = dt_clock_s();
    do { /* long enough for the clock that the processor keeps under this load */
        c->flops[thread] += c->run(100000);
        c->seconds[thread] = dt_clock_s() - start;
    } while (c->seconds[thread] < 0.5);
}

/* All threads together; 0 without a ceiling. */
static double ceiling_flops_per_s(struct ceiling *c, int threads)
{
    double all = 0;
    if (!c->run || threads > (int)(sizeof c->flops / sizeof c->flops[0]))
        return 0;
    dt_cpu_parallel(threads, ceiling_part, c);
    for (int i = 0; i < threads; i++)
        all += c->seconds[i] > 0 ? c->flops[i] / c->seconds[i] : 0;
    return all;
}

int main(int argc, char **argv)
{
    struct options o = parse(argv);
    struct bench b = {
        .simd = dt_simd_for(dt_cpu_isa(), o.dtype), .rows = (size_t)o.batch * (size_t)o.block, .element_bytes = dt_dtype_bytes(o.dtype)};
    struct linear all[LINEARS];
    double total = 0;
    must(gpt_cpu_products_create(o.dtype, dt_cpu_isa(), false, o.threads, &b.products));
    make_linears(&b, all);
    for (int i = 0; i < o.warmup; i++)
        run_step(&b, all);
    printf("{\"peer\": \"own_gemm\", \"products\": \"%s\", \"dtype\": \"%s\", \"batch\": %d, \"block\": %d, \"threads\": %d, \"step_s\": [",
           gpt_cpu_products_name(b.products), dt_dtype_name(o.dtype), o.batch, o.block, o.threads);
    for (int i = 0; i < o.steps; i++) {
        double seconds = run_step(&b, all);
        total += seconds;
        printf("%s%.6f", i ? ", " : "", seconds);
    }
    double mean = total / o.steps;
    struct ceiling ceiling = ceiling_for(o.dtype, gpt_cpu_products_name(b.products));
    printf("], \"tokens_per_s\": %.2f, \"gflops\": %.1f, \"ceiling\": \"%s\", \"ceiling_gflops\": %.1f}\n", (double)b.rows / mean,
           b.flops / mean * 1e-9, ceiling.name, ceiling_flops_per_s(&ceiling, o.threads) * 1e-9);
    gpt_cpu_products_destroy(b.products);
    return 0; /* the matrices go with the process */
}

/* Attention on the CPU against the double-precision reference, over sizes, dtypes, dropout, threads and every instruction set that runs
 * here. */
#include "gpt/attention_cpu_tile.h"
#include "test/check.h"
#include "test/reference.h"

#include <stdlib.h>
#include <time.h>

static unsigned long long seed; /* fresh in each run, and printed; DTBENCH_TEST_SEED repeats one */

static const double tolerance[DT_DTYPE_COUNT] = {[DT_FP32] = 1e-5, [DT_BF16] = 1e-2, [DT_FP16] = 1e-3};

struct problem {
    struct gpt_model model;
    size_t samples;
    struct gpt_dropout dropout;
    double *qkv, *dout; /* as the dtype rounds them */
    void *qkv_memory, *dout_memory;
    double *out, *lse, *weights, *dqkv; /* the reference's */
};

struct result {
    void *out, *dqkv, *weights;
    float *lse;
};

static size_t rows_of(const struct problem *p)
{
    return p->samples * (size_t)p->model.block_size;
}

static size_t lse_count(const struct problem *p)
{
    return rows_of(p) * (size_t)p->model.heads;
}

static double uniform(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(seed >> 11) * 0x1p-53 * 2 - 1;
}

static double *random_values(size_t count, double size)
{
    double *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = size * uniform();
    return values;
}

static void problem_init(struct problem *p, enum dt_dtype dtype, int T, int heads, int width, size_t samples, float dropout)
{
    size_t d = (size_t)(heads * width), bytes = dt_dtype_bytes(dtype);
    *p = (struct problem){
        .model =
            {.layers = 1, .heads = heads, .hidden = heads * width, .vocab_size = 8, .block_size = T, .dtype = dtype, .dropout = dropout},
        .samples = samples,
        .dropout = {.seed = seed, .layer = 5, .first_sample = 11, .probability = dropout},
    };
    size_t rows = rows_of(p);
    p->qkv = random_values(rows * 3 * d, 2);
    p->dout = random_values(rows * d, 1);
    ref_round(dtype, p->qkv, rows * 3 * d);
    ref_round(dtype, p->dout, rows * d);
    p->qkv_memory = malloc(rows * 3 * d * bytes);
    p->dout_memory = malloc(rows * d * bytes);
    ref_encode(dtype, p->qkv, p->qkv_memory, rows * 3 * d);
    ref_encode(dtype, p->dout, p->dout_memory, rows * d);
    p->out = malloc(rows * d * sizeof *p->out);
    p->dqkv = malloc(rows * 3 * d * sizeof *p->dqkv);
    p->lse = malloc(lse_count(p) * sizeof *p->lse);
    p->weights = malloc(lse_count(p) * (size_t)T * sizeof *p->weights);
    ref_attention(&p->model, p->qkv, p->out, p->lse, p->weights, samples, &p->dropout);
    ref_attention_gradient(&p->model, p->dout, p->qkv, p->dqkv, samples, &p->dropout);
}

static void problem_finish(struct problem *p)
{
    free(p->qkv);
    free(p->dout);
    free(p->qkv_memory);
    free(p->dout_memory);
    free(p->out);
    free(p->lse);
    free(p->weights);
    free(p->dqkv);
}

static void *poisoned(size_t bytes)
{
    return memset(malloc(bytes), 0xFF, bytes);
}

static void result_init(const struct problem *p, struct result *r)
{
    size_t rows = rows_of(p), d = (size_t)p->model.hidden, bytes = dt_dtype_bytes(p->model.dtype);
    bool fused = p->model.attention == GPT_ATTENTION_FUSED;
    r->out = poisoned(rows * d * bytes);
    r->dqkv = poisoned(rows * 3 * d * bytes);
    r->lse = fused ? poisoned(lse_count(p) * sizeof(float)) : NULL;
    r->weights = fused ? NULL : poisoned(lse_count(p) * (size_t)p->model.block_size * bytes);
}

static void result_finish(struct result *r)
{
    free(r->out);
    free(r->dqkv);
    free(r->lse);
    free(r->weights);
}

/* Samples first to first + count of the problem, forward and backward, into their places of the result. */
static void run_part(const struct problem *p, struct gpt_cpu_attention *a, struct result *r, size_t first, size_t count)
{
    size_t T = (size_t)p->model.block_size, d = (size_t)p->model.hidden, bytes = dt_dtype_bytes(p->model.dtype);
    size_t place = first * T * d * bytes, heads = (size_t)p->model.heads;
    struct gpt_dropout dropout = p->dropout;
    dropout.first_sample += (uint32_t)first;
    float *lse = r->lse ? r->lse + first * heads * T : NULL;
    void *weights = r->weights ? (char *)r->weights + first * heads * T * T * bytes : NULL;
    CHECK_OK(gpt_cpu_attention_forward(a, &(struct gpt_attention_forward){.qkv = (char *)p->qkv_memory + 3 * place,
                                                                          .out = (char *)r->out + place,
                                                                          .lse = lse,
                                                                          .weights = weights,
                                                                          .samples = count,
                                                                          .dropout = dropout}));
    CHECK_OK(gpt_cpu_attention_backward(a, &(struct gpt_attention_backward){.dout = (char *)p->dout_memory + place,
                                                                            .out = (char *)r->out + place,
                                                                            .qkv = (char *)p->qkv_memory + 3 * place,
                                                                            .lse = lse,
                                                                            .weights = weights,
                                                                            .dqkv = (char *)r->dqkv + 3 * place,
                                                                            .samples = count,
                                                                            .dropout = dropout}));
}

static double error_of(enum dt_dtype dtype, const void *got, const double *want, size_t count)
{
    double *values = malloc(count * sizeof *values);
    ref_decode(dtype, got, values, count);
    double error = ref_error(values, want, count);
    free(values);
    return error;
}

/* Hold `what` of `count` elements against the reference. */
static void check_part(const struct problem *p, const char *table, const char *what, enum dt_dtype dtype, const void *got,
                       const double *want, size_t count, double limit)
{
    double error = error_of(dtype, got, want, count);
    CHECK(error <= limit, "%s, %s, table %s: T %d, width %d, dropout %g: %s is off by %.2e", dt_dtype_name(p->model.dtype),
          p->model.attention == GPT_ATTENTION_FUSED ? "fused" : "unfused", table, p->model.block_size, p->model.hidden / p->model.heads,
          (double)p->dropout.probability, what, error);
}

static void check_result(const struct problem *p, const struct result *r, const char *table)
{
    enum dt_dtype dtype = p->model.dtype;
    size_t elems = rows_of(p) * (size_t)p->model.hidden, T = (size_t)p->model.block_size;
    /* Backward takes the rounded `out`; with few keys the scores' gradients are near zero, and that rounding stands out in what is left. */
    double few_keys = T < 64 ? 3 : 1;
    check_part(p, table, "out", dtype, r->out, p->out, elems, tolerance[dtype]);
    check_part(p, table, "dqkv", dtype, r->dqkv, p->dqkv, 3 * elems, few_keys * tolerance[dtype]);
    if (r->lse)
        check_part(p, table, "lse", DT_FP32, r->lse, p->lse, lse_count(p), 1e-5);
    else
        check_part(p, table, "weights", dtype, r->weights, p->weights, lse_count(p) * T, tolerance[dtype]);
}

static void check_all_tables(struct problem *p, int threads)
{
    for (int kind = 0; kind < 2; kind++) {
        p->model.attention = kind ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
        const struct gpt_tile_ops *ops;
        for (int i = 0; (ops = gpt_tile_ops_for(p->model.dtype, i)); i++) {
            struct gpt_cpu_attention *a;
            struct result r;
            CHECK_OK(gpt_cpu_attention_create_with(&p->model, threads, ops, &a));
            result_init(p, &r);
            run_part(p, a, &r, 0, p->samples);
            check_result(p, &r, ops->name);
            result_finish(&r);
            gpt_cpu_attention_destroy(a);
        }
    }
}

static void against_reference(enum dt_dtype dtype)
{
    static const int lengths[] = {1, 5, 64, 200, 256, 300}, widths[] = {64, 86, 200, 5};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (size_t j = 0; j < sizeof widths / sizeof widths[0]; j++) {
            struct problem p;
            int heads = dtype == DT_FP32 || lengths[i] <= 64 ? 2 : 1; /* the reference is slow */
            problem_init(&p, dtype, lengths[i], heads, widths[j], 1, (i + j) % 2 ? 0.1f : 0);
            check_all_tables(&p, 1 + (int)(i % 2));
            problem_finish(&p);
        }
}

static void against_reference_fp32(void)
{
    against_reference(DT_FP32);
}

static void against_reference_bf16(void)
{
    against_reference(DT_BF16);
}

static void against_reference_fp16(void)
{
    against_reference(DT_FP16);
}

/* One thread or three, one call or two: the same bits. */
static void division_changes_nothing(void)
{
    static const enum dt_dtype dtypes[] = {DT_FP32, DT_BF16};
    for (int i = 0; i < 2; i++)
        for (int kind = 0; kind < 2; kind++) {
            struct problem p;
            problem_init(&p, dtypes[i], 70, 3, 24, 3, 0.1f);
            p.model.attention = kind ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
            struct gpt_cpu_attention *one, *three;
            struct result whole, parts;
            CHECK_OK(gpt_cpu_attention_create(&p.model, 1, &one));
            CHECK_OK(gpt_cpu_attention_create(&p.model, 3, &three));
            result_init(&p, &whole);
            result_init(&p, &parts);
            run_part(&p, three, &whole, 0, 3);
            run_part(&p, one, &parts, 0, 1);
            run_part(&p, three, &parts, 1, 2);
            size_t elems = rows_of(&p) * (size_t)p.model.hidden, bytes = dt_dtype_bytes(dtypes[i]);
            CHECK(memcmp(whole.out, parts.out, elems * bytes) == 0);
            CHECK(memcmp(whole.dqkv, parts.dqkv, 3 * elems * bytes) == 0);
            result_finish(&whole);
            result_finish(&parts);
            gpt_cpu_attention_destroy(one);
            gpt_cpu_attention_destroy(three);
            problem_finish(&p);
        }
}

/* Weights far from one another, and scores whose running maximum grows from chunk to chunk. */
static void large_scores(void)
{
    struct problem p;
    problem_init(&p, DT_FP32, 600, 1, 16, 1, 0);
    for (size_t i = 0; i < rows_of(&p) * 3 * 16; i++)
        p.qkv[i] *= i % 48 < 32 ? 1 + 20 * (double)i / (600 * 48) : 1;
    ref_round(DT_FP32, p.qkv, rows_of(&p) * 3 * 16);
    ref_encode(DT_FP32, p.qkv, p.qkv_memory, rows_of(&p) * 3 * 16);
    ref_attention(&p.model, p.qkv, p.out, p.lse, NULL, 1, &p.dropout);
    struct gpt_cpu_attention *a;
    struct result r;
    CHECK_OK(gpt_cpu_attention_create(&p.model, 1, &a));
    result_init(&p, &r);
    run_part(&p, a, &r, 0, 1);
    /* scores of some thousands carry an absolute error of 1e-4 in fp32 */
    double out = error_of(DT_FP32, r.out, p.out, rows_of(&p) * 16), lse = error_of(DT_FP32, r.lse, p.lse, lse_count(&p));
    CHECK(out <= 1e-3, "error %.2e", out);
    CHECK(lse <= 1e-5, "error %.2e", lse);
    result_finish(&r);
    gpt_cpu_attention_destroy(a);
    problem_finish(&p);
}

/* A diverged run must show: NaN in a query makes its output NaN, in every instruction set, and no other row's. */
static void nan_stays(void)
{
    for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
        enum { T = 70, WIDTH = 32, ROW = 66 };
        const struct gpt_tile_ops *ops;
        struct problem p;
        problem_init(&p, dtype, T, 1, WIDTH, 1, 0.1f);
        p.qkv[ROW * 3 * WIDTH + 7] = NAN;
        ref_encode(dtype, p.qkv, p.qkv_memory, (size_t)T * 3 * WIDTH);
        for (int i = 0; (ops = gpt_tile_ops_for(dtype, i)); i++) {
            struct gpt_cpu_attention *a;
            struct result r;
            double out[T * WIDTH];
            CHECK_OK(gpt_cpu_attention_create_with(&p.model, 1, ops, &a));
            result_init(&p, &r);
            run_part(&p, a, &r, 0, 1);
            ref_decode(dtype, r.out, out, T * WIDTH);
            for (int j = 0; j < T * WIDTH; j++)
                CHECK(isnan(out[j]) == (j / WIDTH == ROW), "%s %s: row %d", ops->name, dt_dtype_name(dtype), j / WIDTH);
            result_finish(&r);
            gpt_cpu_attention_destroy(a);
        }
        problem_finish(&p);
    }
}

static void bad_arguments(void)
{
    struct gpt_model model = {.heads = 3, .hidden = 64, .block_size = 8, .dtype = DT_FP32};
    struct gpt_cpu_attention *a = NULL;
    CHECK(gpt_cpu_attention_create(&model, 1, &a) == DT_ERR_INVALID && !a);
    model.heads = 2;
    CHECK(gpt_cpu_attention_create(&model, 0, &a) == DT_ERR_INVALID && !a);
    CHECK_OK(gpt_cpu_attention_create(&model, 1, &a));
    float memory[1];
    CHECK(gpt_cpu_attention_forward(a, &(struct gpt_attention_forward){.qkv = memory, .out = memory, .samples = 1}) == DT_ERR_INVALID);
    CHECK(gpt_cpu_attention_backward(a, &(struct gpt_attention_backward){.qkv = memory, .out = memory, .samples = 1}) == DT_ERR_INVALID);
    gpt_cpu_attention_destroy(a);
    gpt_cpu_attention_destroy(NULL);
}

static const struct test_case cases[] = {
    {"fp32 agrees with the reference", against_reference_fp32},
    {"bf16 agrees with the reference", against_reference_bf16},
    {"fp16 agrees with the reference", against_reference_fp16},
    {"threads and calls do not change a bit", division_changes_nothing},
    {"large scores", large_scores},
    {"NaN stays NaN", nan_stays},
    {"bad arguments are refused", bad_arguments},
};

int main(void)
{
    const char *given = getenv("DTBENCH_TEST_SEED");
    seed = given ? strtoull(given, NULL, 10) : (unsigned long long)time(NULL);
    printf("# DTBENCH_TEST_SEED=%llu\n", seed);
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}

/* A problem for attention: fresh random input, the reference's results, and how far a kernel's may
 * be from them. */
#pragma once

#include "test/check.h"
#include "test/gpt/reference.h"

#include <stdlib.h>
#include <time.h>

struct problem {
    struct dt_model model;
    size_t samples;
    struct gpt_dropout dropout;
    double *qkv, *dout; /* as the dtype rounds them */
    void *qkv_memory, *dout_memory;
    double *out, *lse, *weights, *dqkv; /* the reference's */
};

/* Results of kernels, in host memory. */
struct result {
    void *out, *dqkv, *weights;
    float *lse;
};

static unsigned long long problem_seed; /* the same in each run; DTBENCH_TEST_SEED tries another */

static inline void problem_start(void)
{
    const char *given = getenv("DTBENCH_TEST_SEED");
    problem_seed = given ? strtoull(given, NULL, 10) : 7;
    printf("# DTBENCH_TEST_SEED=%llu\n", problem_seed);
}

static inline size_t rows_of(const struct problem *p)
{
    return p->samples * (size_t)gpt_of(&p->model)->block_size;
}

static inline size_t qkv_count(const struct problem *p)
{
    return rows_of(p) * (size_t)gpt_qkv_features(&p->model);
}

static inline size_t lse_count(const struct problem *p)
{
    return rows_of(p) * (size_t)gpt_of(&p->model)->heads;
}

static inline size_t weight_count(const struct problem *p)
{
    return lse_count(p) * (size_t)gpt_of(&p->model)->block_size;
}

static inline double problem_uniform(void)
{
    problem_seed = problem_seed * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(problem_seed >> 11) * 0x1p-53 * 2 - 1;
}

/* From first to last. */
static inline int problem_integer(int first, int last)
{
    return first + (int)((problem_uniform() + 1) / 2 * (last - first + 1));
}

static inline double *random_values(size_t count, double size)
{
    double *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = size * problem_uniform();
    return values;
}

/* Round qkv and dout to the dtype: kernels get these values. */
static inline void problem_round(struct problem *p)
{
    size_t elems = rows_of(p) * (size_t)gpt_of(&p->model)->hidden;
    ref_round(p->model.dtype, p->qkv, qkv_count(p));
    ref_round(p->model.dtype, p->dout, elems);
    ref_encode(p->model.dtype, p->qkv, p->qkv_memory, qkv_count(p));
    ref_encode(p->model.dtype, p->dout, p->dout_memory, elems);
}

/* Compute the reference's results from the rounded values. */
static inline void problem_solve(struct problem *p)
{
    problem_round(p);
    ref_attention(&p->model, p->qkv, p->out, p->lse, p->weights, p->samples, &p->dropout);
    ref_attention_gradient(&p->model, p->dout, p->qkv, p->dqkv, p->samples, &p->dropout);
}

/* Make a problem, with room for results except the weights. kv_heads 0: as many as heads. */
static inline void problem_draw(struct problem *p, enum dt_dtype dtype, int T, int heads, int kv_heads, bool alibi, int width,
                                size_t samples, float dropout)
{
    size_t d = (size_t)(heads * width), bytes = dt_dtype_bytes(dtype);
    struct gpt_model model = {.layers = 1,
                              .heads = heads,
                              .hidden = heads * width,
                              .vocab_size = 8,
                              .block_size = T,
                              .dropout = dropout,
                              .kv_heads = kv_heads,
                              .position = alibi ? GPT_POSITION_ALIBI : GPT_POSITION_LEARNED};
    *p = (struct problem){
        .model = gpt_model_of(dtype, &model),
        .samples = samples,
        .dropout = {.seed = problem_seed, .layer = 5, .first_sample = 11, .probability = dropout},
    };
    size_t rows = rows_of(p);
    p->qkv = random_values(qkv_count(p), 2);
    p->dout = random_values(rows * d, 1);
    p->qkv_memory = malloc(qkv_count(p) * bytes);
    p->dout_memory = malloc(rows * d * bytes);
    p->out = malloc(rows * d * sizeof *p->out);
    p->dqkv = malloc(qkv_count(p) * sizeof *p->dqkv);
    p->lse = malloc(lse_count(p) * sizeof *p->lse);
    problem_round(p);
}

static inline void problem_init_grouped(struct problem *p, enum dt_dtype dtype, int T, int heads, int kv_heads, bool alibi, int width,
                                        size_t samples, float dropout)
{
    problem_draw(p, dtype, T, heads, kv_heads, alibi, width, samples, dropout);
    p->weights = malloc(weight_count(p) * sizeof *p->weights);
    problem_solve(p);
}

static inline void problem_init(struct problem *p, enum dt_dtype dtype, int T, int heads, int width, size_t samples, float dropout)
{
    problem_init_grouped(p, dtype, T, heads, 0, false, width, samples, dropout);
}

static inline void problem_finish(struct problem *p)
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

static inline void *poisoned(size_t bytes)
{
    return memset(malloc(bytes), 0xFF, bytes);
}

static inline void result_init(const struct problem *p, struct result *r)
{
    size_t rows = rows_of(p), d = (size_t)gpt_of(&p->model)->hidden, bytes = dt_dtype_bytes(p->model.dtype);
    bool fused = gpt_of(&p->model)->attention == GPT_ATTENTION_FUSED;
    r->out = poisoned(rows * d * bytes);
    r->dqkv = poisoned(qkv_count(p) * bytes);
    r->lse = fused ? poisoned(lse_count(p) * sizeof(float)) : NULL;
    r->weights = fused ? NULL : poisoned(weight_count(p) * bytes);
}

static inline void result_finish(struct result *r)
{
    free(r->out);
    free(r->dqkv);
    free(r->lse);
    free(r->weights);
}

static inline double error_of(enum dt_dtype dtype, const void *got, const double *want, size_t count)
{
    double *values = malloc(count * sizeof *values);
    ref_decode(dtype, got, values, count);
    double error = ref_error(values, want, count);
    free(values);
    return error;
}

/* Compare `what`, of `count` elements, with the reference. */
static inline void check_part(const struct problem *p, const char *table, const char *what, enum dt_dtype dtype, const void *got,
                              const double *want, size_t count, double limit)
{
    double error = error_of(dtype, got, want, count);
    CHECK(error <= limit, "%s, %s, table %s: T %d, width %d, heads %d, kv heads %d%s, dropout %g: %s is off by %.2e, limit %.3g",
          dt_dtype_name(p->model.dtype), gpt_of(&p->model)->attention == GPT_ATTENTION_FUSED ? "fused" : "unfused", table,
          gpt_of(&p->model)->block_size, gpt_of(&p->model)->hidden / gpt_of(&p->model)->heads, gpt_of(&p->model)->heads,
          gpt_kv_heads(&p->model), gpt_of(&p->model)->position == GPT_POSITION_ALIBI ? ", alibi" : "", (double)p->dropout.probability, what,
          error, limit);
}

static inline void check_result(const struct problem *p, const struct result *r, const char *table)
{
    static const double tolerance[DT_DTYPE_COUNT] = {[DT_FP32] = 1e-5, [DT_BF16] = 1e-2, [DT_FP16] = 1e-3};
    enum dt_dtype dtype = p->model.dtype;
    size_t elems = rows_of(p) * (size_t)gpt_of(&p->model)->hidden;
    /* Backward takes the rounded `out`; with few keys the scores' gradients are near zero, and that
     * rounding is then a large part of them. */
    double few_keys = gpt_of(&p->model)->block_size < 64 ? 3 : 1;
    check_part(p, table, "out", dtype, r->out, p->out, elems, tolerance[dtype]);
    check_part(p, table, "dqkv", dtype, r->dqkv, p->dqkv, qkv_count(p), few_keys * tolerance[dtype]);
    if (r->lse)
        check_part(p, table, "lse", DT_FP32, r->lse, p->lse, lse_count(p), 1e-5);
    else
        check_part(p, table, "weights", dtype, r->weights, p->weights, weight_count(p), tolerance[dtype]);
}

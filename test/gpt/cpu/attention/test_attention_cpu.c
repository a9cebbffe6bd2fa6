/* Attention on the CPU against the double-precision reference, over sizes, dtypes, dropout, threads
 * and every instruction set that runs here. */
#include "gpt/cpu/attention/tile.h"
#include "test/gpt/attention_problem.h"

/* Samples first to first + count of the problem, forward and backward, into their places of the
 * result. */
static void run_part(const struct problem *p, struct gpt_cpu_attention *a, struct result *r, size_t first, size_t count)
{
    size_t T = (size_t)gpt_of(&p->model)->block_size, d = (size_t)gpt_of(&p->model)->hidden, bytes = dt_dtype_bytes(p->model.dtype);
    size_t place = first * T * d * bytes, heads = (size_t)gpt_of(&p->model)->heads;
    size_t wide_place = first * T * (size_t)gpt_qkv_features(&p->model) * bytes;
    struct gpt_dropout dropout = p->dropout;
    dropout.first_sample += (uint32_t)first;
    float *lse = r->lse ? r->lse + first * heads * T : NULL;
    void *weights = r->weights ? (char *)r->weights + first * heads * T * T * bytes : NULL;
    CHECK_OK(gpt_cpu_attention_forward(a, &(struct gpt_attention_forward){.qkv = (char *)p->qkv_memory + wide_place,
                                                                          .out = (char *)r->out + place,
                                                                          .lse = lse,
                                                                          .weights = weights,
                                                                          .samples = count,
                                                                          .heads = {0, heads},
                                                                          .kv_heads = {0, (size_t)gpt_kv_heads(&p->model)},
                                                                          .dropout = dropout}));
    CHECK_OK(gpt_cpu_attention_backward(a, &(struct gpt_attention_backward){.dout = (char *)p->dout_memory + place,
                                                                            .out = (char *)r->out + place,
                                                                            .qkv = (char *)p->qkv_memory + wide_place,
                                                                            .lse = lse,
                                                                            .weights = weights,
                                                                            .dqkv = (char *)r->dqkv + wide_place,
                                                                            .samples = count,
                                                                            .heads = {0, heads},
                                                                            .kv_heads = {0, (size_t)gpt_kv_heads(&p->model)},
                                                                            .dropout = dropout}));
}

static void check_all_tables(struct problem *p, int threads)
{
    for (int kind = 0; kind < 2; kind++) {
        gpt_change(&p->model)->attention = kind ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
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

/* Grouped queries and alibi, in every instruction set; lengths of more than one chunk of keys. */
static void grouped_queries_and_alibi(void)
{
    for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        for (int i = 0; i < 4; i++) {
            struct problem p;
            problem_init_grouped(&p, dtype, (int[]){5, 64, 200, 300}[i], 6, (int[]){1, 2, 3, 6}[i], i % 2, (int[]){64, 20, 86, 16}[i], 1,
                                 i > 1 ? 0.1f : 0);
            check_all_tables(&p, 1 + i % 2);
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
            gpt_change(&p.model)->attention = kind ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
            struct gpt_cpu_attention *one, *three;
            struct result whole, parts;
            CHECK_OK(gpt_cpu_attention_create(&p.model, 1, &one));
            CHECK_OK(gpt_cpu_attention_create(&p.model, 3, &three));
            result_init(&p, &whole);
            result_init(&p, &parts);
            run_part(&p, three, &whole, 0, 3);
            run_part(&p, one, &parts, 0, 1);
            run_part(&p, three, &parts, 1, 2);
            size_t elems = rows_of(&p) * (size_t)gpt_of(&p.model)->hidden, bytes = dt_dtype_bytes(dtypes[i]);
            CHECK(memcmp(whole.out, parts.out, elems * bytes) == 0);
            CHECK(memcmp(whole.dqkv, parts.dqkv, 3 * elems * bytes) == 0);
            result_finish(&whole);
            result_finish(&parts);
            gpt_cpu_attention_destroy(one);
            gpt_cpu_attention_destroy(three);
            problem_finish(&p);
        }
}

/* Fewer kv heads than threads, which then share one: of several heads, over several chunks of keys,
 * and with an odd end. */
static void shared_group_changes_nothing(void)
{
    static const enum dt_dtype dtypes[] = {DT_FP32, DT_BF16};
    for (int i = 0; i < 4; i++) {
        struct problem p;
        struct gpt_cpu_attention *one, *four;
        struct result alone, shared;
        problem_init_grouped(&p, dtypes[i / 2], 590, 3, 1, false, 16, 1, 0.1f);
        gpt_change(&p.model)->attention = i % 2 ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
        CHECK_OK(gpt_cpu_attention_create(&p.model, 1, &one));
        CHECK_OK(gpt_cpu_attention_create(&p.model, 4, &four));
        result_init(&p, &alone);
        result_init(&p, &shared);
        run_part(&p, one, &alone, 0, 1);
        run_part(&p, four, &shared, 0, 1);
        size_t bytes = rows_of(&p) * 5 * 16 * dt_dtype_bytes(dtypes[i / 2]); /* q of three heads, k and v of one */
        CHECK(memcmp(alone.dqkv, shared.dqkv, bytes) == 0, "%s, %s", dt_dtype_name(dtypes[i / 2]), i % 2 ? "unfused" : "fused");
        result_finish(&alone);
        result_finish(&shared);
        gpt_cpu_attention_destroy(one);
        gpt_cpu_attention_destroy(four);
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
    problem_solve(&p);
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

/* A diverged run must be visible: NaN in a query makes its output NaN, in every instruction set,
 * but no other row's. */
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

/* Fused attention at 32,768 tokens needs no more than its share of what it needs at 4,096. */
static void scratch_is_linear(void)
{
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        struct dt_model model = gpt_model_of(DT_FP32, &(struct gpt_model){.heads = 2, .hidden = 256, .block_size = i ? 32768 : 4096});
        struct gpt_cpu_attention *a;
        CHECK_OK(gpt_cpu_attention_create(&model, 2, &a));
        bytes[i] = a->scratch_bytes;
        gpt_cpu_attention_destroy(a);
    }
    CHECK(bytes[1] <= 8 * bytes[0], "%zu bytes, and %zu for eight times the length", bytes[0], bytes[1]);
}

static void bad_arguments(void)
{
    struct dt_model model = gpt_model_of(DT_FP32, &(struct gpt_model){.heads = 3, .hidden = 64, .block_size = 8});
    struct gpt_cpu_attention *a = NULL;
    CHECK(gpt_cpu_attention_create(&model, 1, &a) == DT_ERR_INVALID && !a);
    gpt_change(&model)->heads = 2;
    CHECK(gpt_cpu_attention_create(&model, 0, &a) == DT_ERR_INVALID && !a);
    CHECK_OK(gpt_cpu_attention_create(&model, 1, &a));
    float memory[1];
    CHECK(gpt_cpu_attention_forward(
              a, &(struct gpt_attention_forward){.qkv = memory, .out = memory, .samples = 1, .heads = {0, 2}, .kv_heads = {0, 2}}) ==
          DT_ERR_INVALID);
    CHECK(gpt_cpu_attention_backward(
              a, &(struct gpt_attention_backward){.qkv = memory, .out = memory, .samples = 1, .heads = {0, 2}, .kv_heads = {0, 2}}) ==
          DT_ERR_INVALID);
    struct gpt_attention_forward other = {.qkv = memory, .out = memory, .lse = memory, .samples = 1, .heads = {0, 2}, .kv_heads = {0, 1}};
    CHECK(gpt_cpu_attention_forward(a, &other) == DT_ERR_INVALID, "heads without their kv heads");
    gpt_cpu_attention_destroy(a);
    gpt_change(&model)->heads = 4;
    gpt_change(&model)->kv_heads = 3;
    CHECK(gpt_cpu_attention_create(&model, 1, &a) == DT_ERR_INVALID && !a);
    gpt_cpu_attention_destroy(NULL);
}

static const struct test_case cases[] = {
    {"fp32 agrees with the reference", against_reference_fp32},
    {"bf16 agrees with the reference", against_reference_bf16},
    {"fp16 agrees with the reference", against_reference_fp16},
    {"grouped queries and alibi", grouped_queries_and_alibi},
    {"threads and calls do not change a bit", division_changes_nothing},
    {"threads that share a kv head do not change a bit", shared_group_changes_nothing},
    {"large scores", large_scores},
    {"NaN stays NaN", nan_stays},
    {"scratch is linear in the length", scratch_is_linear},
    {"bad arguments are refused", bad_arguments},
};

int main(void)
{
    problem_start();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}

/* Attention of a device's table of kernels against the double-precision reference. */
#include "test/gpt/attention_device.h"

static void check_grouped(enum dt_dtype dtype, int T, int heads, int kv_heads, bool alibi, int width, size_t samples, float dropout)
{
    struct problem p;
    problem_init_grouped(&p, dtype, T, heads, kv_heads, alibi, width, samples, dropout);
    for (int unfused = 0; unfused < (warpgroups ? 1 : 2); unfused++) {
        struct result r;
        gpt_change(&p.model)->attention = unfused ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
        result_init(&p, &r);
        run_part(&p, &r, 0, samples);
        check_result(&p, &r, table->name);
        result_finish(&r);
    }
    problem_finish(&p);
}

static void check_both_modes(enum dt_dtype dtype, int T, int heads, int width, size_t samples, float dropout)
{
    check_grouped(dtype, T, heads, 0, false, width, samples, dropout);
}

/* Heads that share keys and values, all of them too, and numbers of heads that are no power of two
 * for alibi's slopes. */
static void grouped_queries_and_alibi(void)
{
    if (!begin())
        return;
    for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
        check_grouped(dtype, 70, 4, 2, false, 64, 2, 0.1f);
        check_grouped(dtype, 33, 6, 1, false, 20, 2, 0);
        check_grouped(dtype, 40, 3, 3, true, 64, 1, 0);
        check_grouped(dtype, problem_integer(2, 60), 12, problem_integer(1, 4), true, problem_integer(1, 40), 1, 0);
    }
    /* every width that a GPU has kernels for, over several tiles of keys */
    check_grouped(DT_BF16, 150, 2, 1, true, 32, 1, 0.1f);
    check_grouped(DT_BF16, 70, 2, 1, false, 80, 1, 0.1f);
    check_grouped(DT_BF16, 70, 3, 1, true, 96, 1, 0.1f);
    check_grouped(DT_BF16, 66, 2, 1, false, 128, 1, 0);
    check_grouped(DT_BF16, 40, 2, 1, true, 200, 1, 0.1f);
    end();
}

/* Gradients that turn back as they are stored: widths whose halves are whole accesses of 16 bytes,
 * and others. */
static void turning_gradients(void)
{
    static const struct {
        int T, heads, kv_heads, width;
    } shapes[] = {{70, 2, 1, 64}, {66, 2, 2, 36}, {40, 1, 1, 96}, {35, 2, 1, 192}, {20, 1, 1, 6}};
    if (!begin())
        return;
    for (int i = 0; table->attention_rope_gradient && i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
            struct problem p;
            struct result r;
            problem_init_grouped(&p, dtype, shapes[i].T, shapes[i].heads, shapes[i].kv_heads, false, shapes[i].width, 2, 0.1f);
            gpt_change(&p.model)->position = GPT_POSITION_ROPE;
            gpt_change(&p.model)->rope = (struct gpt_rope_scheme){.base = 10000};
            gpt_change(&p.model)->attention = i % 2 ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
            ref_rope(&p.model, p.dqkv, rows_of(&p), (size_t)(shapes[i].heads + shapes[i].kv_heads), (size_t)gpt_qkv_features(&p.model),
                     true);
            result_init(&p, &r);
            run_part(&p, &r, 0, 2);
            check_result(&p, &r, table->name);
            result_finish(&r);
            problem_finish(&p);
        }
    bool missing = !table->attention_rope_gradient;
    end();
    if (missing)
        SKIP("rope is a kernel of its own there");
}

static bool is_emulated(void)
{
    struct dt_device_info info;
    dt_device_info(device, &info);
    return strstr(info.name, "emulated") != NULL;
}

/* The fused kernel of a 16-bit type against that of fp32, whose input is the same, on shapes that
 * take the reference minutes. */
static void check_against_fp32(enum dt_dtype dtype, int T, int heads, int kv_heads, int width, size_t samples, float dropout)
{
    struct problem p, same;
    struct result r, right;
    problem_draw(&p, dtype, T, heads, kv_heads, false, width, samples, dropout);
    same = p;
    same.model.dtype = DT_FP32;
    same.qkv_memory = malloc(qkv_count(&p) * sizeof(float));
    same.dout_memory = malloc(rows_of(&p) * (size_t)gpt_of(&p.model)->hidden * sizeof(float));
    problem_round(&same);
    result_init(&same, &right);
    result_init(&p, &r);
    run_part(&same, &right, 0, samples);
    run_part(&p, &r, 0, samples);
    ref_decode(DT_FP32, right.out, p.out, rows_of(&p) * (size_t)gpt_of(&p.model)->hidden);
    ref_decode(DT_FP32, right.dqkv, p.dqkv, qkv_count(&p));
    ref_decode(DT_FP32, right.lse, p.lse, lse_count(&p));
    check_result(&p, &r, table->name);
    result_finish(&r);
    result_finish(&right);
    free(same.qkv_memory);
    free(same.dout_memory);
    problem_finish(&p);
}

/* GPTLarge's heads and batch, and long samples, where the device is fast enough; elsewhere a few
 * tiles of the same width. */
static void shapes_of_a_training(void)
{
    if (!begin())
        return;
    bool whole = strcmp(test_device_kind(), "cuda") == 0 && !is_emulated();
    for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
        if (dtype == DT_FP32)
            continue;
        check_against_fp32(dtype, whole ? 256 : 130, whole ? 16 : 2, 0, 96, whole ? 20 : 1, 0.1f);
        if (!whole)
            continue;
        check_against_fp32(dtype, 2048, 16, 0, 96, 2, 0.1f);
        check_against_fp32(dtype, 2048, 32, 8, 64, 1, 0);
    }
    end();
}

/* The terms of the gradients of a row of q, and of one key and its value, in double precision from
 * the inputs and the kernel's lse. */
struct long_problem {
    struct problem p; /* of which qkv, dout and their memory are used */
    size_t heads, kv_heads, w, T, row, d;
    struct result r;
    double *out; /* the kernel's, decoded */
};

static double weight_of(const struct long_problem *l, size_t head, size_t query, size_t key, double *dscore)
{
    size_t kv_head = head / (l->heads / l->kv_heads);
    const double *q = l->p.qkv + query * l->row + head * l->w, *k = l->p.qkv + key * l->row + (l->heads + kv_head) * l->w;
    const double *v = k + l->kv_heads * l->w, *g = l->p.dout + query * l->d + head * l->w, *o = l->out + query * l->d + head * l->w;
    double score = 0, dweight = 0, dot = 0;
    for (size_t c = 0; c < l->w; c++) {
        score += q[c] * k[c];
        dweight += g[c] * v[c];
        dot += g[c] * o[c];
    }
    double weight = exp(score / sqrt((double)l->w) - gpt_alibi_slope((int)l->heads, (int)head) * (double)(query - key) -
                        (double)l->r.lse[head * l->T + query]);
    *dscore = weight * (dweight - dot) / sqrt((double)l->w);
    return weight;
}

/* Row `at` as a query of `head`: its weights sum to one, its output, its dq. */
static void check_long_query(const struct long_problem *l, const double *dqkv, size_t head, size_t at)
{
    size_t kv_head = head / (l->heads / l->kv_heads);
    double sum = 0, out[64] = {0}, dq[64] = {0};
    for (size_t key = 0; key <= at; key++) {
        const double *k = l->p.qkv + key * l->row + (l->heads + kv_head) * l->w, *v = k + l->kv_heads * l->w;
        double dscore, weight = weight_of(l, head, at, key, &dscore);
        sum += weight;
        for (size_t c = 0; c < l->w; c++) {
            out[c] += weight * v[c];
            dq[c] += dscore * k[c];
        }
    }
    CHECK(fabs(sum - 1) < 1e-5, "T %zu, head %zu, query %zu: the weights' sum is %.9g", l->T, head, at, sum);
    CHECK(ref_error(l->out + at * l->d + head * l->w, out, l->w) < 1e-5, "T %zu, head %zu, query %zu: out", l->T, head, at);
    if (at > 0) /* the first one's only weight is 1, whatever its score */
        CHECK(ref_error(dqkv + at * l->row + head * l->w, dq, l->w) < 1e-4, "T %zu, head %zu, query %zu: dq", l->T, head, at);
}

/* Row `at` as a key: dk and dv, over all heads and queries that see it. */
static void check_long_key(const struct long_problem *l, const double *dqkv, size_t kv_head, size_t at)
{
    size_t group = l->heads / l->kv_heads;
    double dk[64] = {0}, dv[64] = {0};
    for (size_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (size_t query = at; query < l->T; query++) {
            double dscore, weight = weight_of(l, head, query, at, &dscore);
            for (size_t c = 0; c < l->w; c++) {
                dk[c] += dscore * l->p.qkv[query * l->row + head * l->w + c];
                dv[c] += weight * l->p.dout[query * l->d + head * l->w + c];
            }
        }
    const double *got = dqkv + at * l->row + (l->heads + kv_head) * l->w;
    CHECK(ref_error(got, dk, l->w) < 1e-4, "T %zu, kv head %zu, key %zu: dk", l->T, kv_head, at);
    CHECK(ref_error(got + l->kv_heads * l->w, dv, l->w) < 1e-4, "T %zu, kv head %zu, key %zu: dv", l->T, kv_head, at);
}

/* More rows than the reference can compute: a few of them are checked, including the first and the
 * last. DTBENCH_LONG_T: another length, as 32768. */
static void long_sequences(void)
{
    if (!begin())
        return;
    if (is_emulated()) {
        end();
        SKIP("an emulated GPU would take minutes");
    }
    const char *given = getenv("DTBENCH_LONG_T");
    struct long_problem l = {.heads = 2, .kv_heads = 1, .w = 8, .T = given ? (size_t)atoi(given) : 2500, .row = 4 * 8, .d = 2 * 8};
    l.p = (struct problem){.model = gpt_model_of(DT_FP32, &(struct gpt_model){.layers = 1,
                                                                              .heads = 2,
                                                                              .kv_heads = 1,
                                                                              .hidden = 16,
                                                                              .vocab_size = 8,
                                                                              .block_size = (int)l.T,
                                                                              .position = GPT_POSITION_ALIBI}),
                           .samples = 1};
    l.p.qkv = random_values(l.T * l.row, 2);
    l.p.dout = random_values(l.T * l.d, 1);
    ref_round(DT_FP32, l.p.qkv, l.T * l.row);
    ref_round(DT_FP32, l.p.dout, l.T * l.d);
    l.p.qkv_memory = malloc(l.T * l.row * sizeof(float));
    l.p.dout_memory = malloc(l.T * l.d * sizeof(float));
    ref_encode(DT_FP32, l.p.qkv, l.p.qkv_memory, l.T * l.row);
    ref_encode(DT_FP32, l.p.dout, l.p.dout_memory, l.T * l.d);
    l.p.dropout.first_sample = 11; /* as problem_init's; none is dropped */
    result_init(&l.p, &l.r);
    run_part(&l.p, &l.r, 0, 1);
    double *dqkv = malloc(l.T * l.row * sizeof *dqkv);
    l.out = malloc(l.T * l.d * sizeof *l.out);
    ref_decode(DT_FP32, l.r.out, l.out, l.T * l.d);
    ref_decode(DT_FP32, l.r.dqkv, dqkv, l.T * l.row);
    for (int i = 0; i < 40; i++) {
        size_t at = i == 0 ? 0 : i == 1 ? l.T - 1 : (size_t)problem_integer(0, (int)l.T - 1);
        check_long_query(&l, dqkv, (size_t)i / 2 % l.heads, at);
        check_long_key(&l, dqkv, 0, at);
    }
    free(dqkv);
    free(l.out);
    result_finish(&l.r);
    free(l.p.qkv);
    free(l.p.dout);
    free(l.p.qkv_memory);
    free(l.p.dout_memory);
    end();
}

/* Lengths around the tiles' sizes, and the widths of the presets with every alignment of a row;
 * those of this run beside them. */
static void against_reference(enum dt_dtype dtype)
{
    static const float dropouts[] = {0, 0.1f};
    if (!begin())
        return;
    check_both_modes(dtype, 1, 3, 5, 2, 0.5f);
    check_both_modes(dtype, 130, 1, 64, 1, 0.1f);
    check_both_modes(dtype, 65, 2, 86, 1, 0.1f);
    check_both_modes(dtype, 66, 1, 200, 1, 0.1f);
    check_both_modes(dtype, 300, 1, 64, 1, 0);
    check_both_modes(dtype, 160, 1, 96, 1, 0.1f);
    check_both_modes(dtype, 130, 1, 120, 1, 0.1f);
    check_both_modes(dtype, 48, 2, 108, 1, 0);
    check_both_modes(dtype, 64, 2, 80, 1, 0.1f);
    check_both_modes(dtype, problem_integer(2, 60), problem_integer(1, 2), problem_integer(1, 64), 2, dropouts[problem_integer(0, 1)]);
    check_both_modes(dtype, problem_integer(61, 140), 1, problem_integer(65, 256), 1, dropouts[problem_integer(0, 1)]);
    end();
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

/* One call or two, and a second time: the same bits. */
static void division_changes_nothing(void)
{
    if (!begin())
        return;
    for (int unfused = 0; unfused < 2; unfused++) {
        struct problem p;
        struct result whole, parts;
        problem_init(&p, DT_BF16, 40, 2, 24, 3, 0.1f);
        gpt_change(&p.model)->attention = unfused ? GPT_ATTENTION_UNFUSED : GPT_ATTENTION_FUSED;
        result_init(&p, &whole);
        result_init(&p, &parts);
        run_part(&p, &whole, 0, 3);
        run_part(&p, &parts, 0, 1);
        run_part(&p, &parts, 1, 2);
        size_t bytes = rows_of(&p) * (size_t)gpt_of(&p.model)->hidden * dt_dtype_bytes(DT_BF16);
        CHECK(memcmp(whole.out, parts.out, bytes) == 0);
        CHECK(memcmp(whole.dqkv, parts.dqkv, 3 * bytes) == 0);
        result_finish(&whole);
        result_finish(&parts);
        problem_finish(&p);
    }
    end();
}

/* Weights far from one another, and scores whose running maximum grows from tile to tile. */
static void large_scores(void)
{
    enum { T = 300, WIDTH = 16 };
    struct problem p;
    struct result r;
    if (!begin())
        return;
    problem_init(&p, DT_FP32, T, 1, WIDTH, 1, 0);
    for (size_t i = 0; i < T * 3 * WIDTH; i++)
        p.qkv[i] *= i % (3 * WIDTH) < 2 * WIDTH ? 1 + 20 * (double)i / (T * 3 * WIDTH) : 1;
    problem_solve(&p);
    result_init(&p, &r);
    run_part(&p, &r, 0, 1);
    /* scores of some thousands carry an absolute error of 1e-4 in fp32 */
    check_part(&p, table->name, "out", DT_FP32, r.out, p.out, T * WIDTH, 1e-3);
    check_part(&p, table->name, "lse", DT_FP32, r.lse, p.lse, T, 1e-5);
    result_finish(&r);
    problem_finish(&p);

    /* The same where weights are rounded: they are 0 or 1, so `out` is a row of v. */
    problem_init(&p, DT_FP16, T / 2, 1, WIDTH, 1, 0);
    for (size_t i = 0; i < T / 2 * 3 * WIDTH; i++)
        p.qkv[i] *= i % (3 * WIDTH) < 2 * WIDTH ? 1 + 20 * (double)i / (T * 3 * WIDTH) : 1;
    problem_solve(&p);
    result_init(&p, &r);
    run_part(&p, &r, 0, 1);
    check_part(&p, table->name, "out", DT_FP16, r.out, p.out, T / 2 * WIDTH, 2e-3);
    check_part(&p, table->name, "lse", DT_FP32, r.lse, p.lse, T / 2, 1e-5);
    result_finish(&r);
    problem_finish(&p);
    end();
}

/* A diverged run must be visible: NaN in a query makes its output NaN, but no other row's. */
static void nan_stays(void)
{
    enum { T = 70, WIDTH = 32, ROW = 66 };
    if (!begin())
        return;
    for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
        struct problem p;
        struct result r;
        double out[T * WIDTH];
        problem_init(&p, dtype, T, 1, WIDTH, 1, 0.1f);
        p.qkv[ROW * 3 * WIDTH + 7] = NAN;
        ref_encode(dtype, p.qkv, p.qkv_memory, (size_t)T * 3 * WIDTH);
        result_init(&p, &r);
        run_part(&p, &r, 0, 1);
        ref_decode(dtype, r.out, out, T * WIDTH);
        for (int i = 0; i < T * WIDTH; i++)
            CHECK(isnan(out[i]) == (i / WIDTH == ROW), "%s %s: row %d", table->name, dt_dtype_name(dtype), i / WIDTH);
        result_finish(&r);
        problem_finish(&p);
    }
    end();
}

/* Hopper's own kernels: every width that they are compiled for and some that they pad, rows that
 * end within a tile and before a warpgroup's, more tiles of keys than shared memory has places for;
 * dropout's bits that backward keeps, and those for which there is no room. */
static void warpgroup_kernels(void)
{
    if (strcmp(test_device_kind(), "cuda") != 0)
        SKIP("the kernels of a GPU");
    warpgroups = DT_WARPGROUPS_ALWAYS;
    if (begin()) {
        for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
            if (dtype == DT_FP32)
                continue;
            check_grouped(dtype, 300, 1, 1, false, 64, 1, 0.1f);
            check_grouped(dtype, 130, 2, 1, true, 80, 1, 0.1f);
            check_grouped(dtype, 70, 4, 2, false, 96, 2, 0.1f);
            check_grouped(dtype, 140, 2, 2, false, 128, 1, 0);
            check_grouped(dtype, 40, 3, 1, false, 72, 1, 0.1f);
            check_grouped(dtype, 1, 3, 0, false, 8, 2, 0.5f);
            check_grouped(dtype, 270, 2, 1, true, 8, 1, 0.1f);
        }
        check_grouped(DT_BF16, 530, 1, 1, false, 16, 1, 0);
        end();
        division_changes_nothing();
        turning_gradients();
        shapes_of_a_training();
        nan_stays();
    }
    warpgroups = DT_WARPGROUPS_NEVER;
}

static const struct test_case cases[] = {
    {"fp32 agrees with the reference", against_reference_fp32},
    {"bf16 agrees with the reference", against_reference_bf16},
    {"fp16 agrees with the reference", against_reference_fp16},
    {"calls do not change a bit", division_changes_nothing},
    {"grouped queries, alibi, and both", grouped_queries_and_alibi},
    {"gradients that turn back", turning_gradients},
    {"shapes of a training, against fp32", shapes_of_a_training},
    {"long sequences", long_sequences},
    {"large scores", large_scores},
    {"NaN stays NaN", nan_stays},
    {"kernels of warpgroups", warpgroup_kernels},
};

int main(void)
{
    problem_start();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}

/* Attention of a device's table of kernels against the double-precision reference: one body for every kind of device. */
#include "gpt/position.h"
#include "test/gpt/attention_problem.h"
#include "test/lib/device/device_kind.h"

static struct dt_device *device;
static struct dt_stream *stream;
static const struct gpt_kernel_table *table;
static struct dt_kernels base;
static bool warpgroups; /* the device is asked for its kernels of warpgroups, which are there for fused attention alone */

static dt_status create_kernels(const struct dt_model *model, struct gpt_kernels **out)
{
    DT_TRY(dt_kernels_init(&base, device, model->dtype));
    return table->create(&base, model, out);
}

static void destroy_kernels(struct gpt_kernels *k)
{
    table->destroy(k);
    dt_kernels_finish(&base);
}

static bool begin(void)
{
    struct dt_device_options options = {.threads = 2, .warpgroup_kernels = warpgroups};
    dt_status status = dt_device_create(test_device_kind(), &options, &device);
    if (status == DT_ERR_UNAVAILABLE) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", dt_error_message());
        return false;
    }
    CHECK_OK(status);
    CHECK_OK(dt_stream_create(device, "compute", &stream));
    table = gpt_kernels_for(dt_device_kind_find(test_device_kind()));
    CHECK(table != NULL);
    return true;
}

static void end(void)
{
    CHECK_OK(dt_stream_synchronize(stream));
    dt_stream_destroy(stream);
    dt_device_destroy(device);
}

/* A buffer of the device with these bytes of the host's. */
static struct dt_buffer on_device(const void *from, size_t bytes)
{
    struct dt_buffer buffer;
    CHECK_OK(dt_alloc(stream, DT_WORKSPACE, bytes, &buffer));
    if (bytes > 0)
        CHECK_OK(dt_copy_from_host(stream, buffer.data, from, bytes));
    return buffer;
}

static void back(struct dt_buffer *buffer, void *to)
{
    if (buffer->bytes > 0)
        CHECK_OK(dt_copy_to_host(stream, to, buffer->data, buffer->bytes));
    CHECK_OK(dt_stream_synchronize(stream));
    dt_free(stream, buffer);
}

/* Samples first to first + count of the problem, forward and backward, into their places of the result. The step's own first sample is the
 * problem's but for one, so that both count. */
static void run_part(const struct problem *p, struct result *r, size_t first, size_t count)
{
    size_t T = (size_t)gpt_of(&p->model)->block_size, d = (size_t)gpt_of(&p->model)->hidden, bytes = dt_dtype_bytes(p->model.dtype);
    size_t place = first * T * d * bytes, size = count * T * d * bytes, heads = (size_t)gpt_of(&p->model)->heads;
    size_t wide_row = T * (size_t)gpt_qkv_features(&p->model) * bytes, wide_place = first * wide_row, wide_size = count * wide_row;
    struct gpt_dropout dropout = p->dropout;
    dropout.first_sample = 1 + (uint32_t)first;
    char *lse_place = r->lse ? (char *)(r->lse + first * heads * T) : NULL;
    char *weights_place = r->weights ? (char *)r->weights + first * heads * T * T * bytes : NULL;
    struct gpt_kernels *k;
    CHECK_OK(create_kernels(&p->model, &k));
    CHECK_OK(dt_kernels_begin_step(&base, stream, p->dropout.first_sample - 1, 1));
    struct dt_buffer qkv = on_device((char *)p->qkv_memory + wide_place, wide_size), dout = on_device((char *)p->dout_memory + place, size);
    struct dt_buffer out = on_device((char *)r->out + place, size), dqkv = on_device((char *)r->dqkv + wide_place, wide_size);
    struct dt_buffer lse = on_device(lse_place, r->lse ? count * heads * T * sizeof(float) : 0);
    struct dt_buffer weights = on_device(weights_place, r->weights ? count * heads * T * T * bytes : 0);
    CHECK_OK(table->attention(k, stream,
                              &(struct gpt_attention_forward){.qkv = qkv.data,
                                                              .out = out.data,
                                                              .lse = lse.data,
                                                              .weights = weights.data,
                                                              .samples = count,
                                                              .heads = {0, heads},
                                                              .kv_heads = {0, (size_t)gpt_kv_heads(&p->model)},
                                                              .dropout = dropout}));
    struct gpt_attention_backward backward = {.dout = dout.data,
                                              .out = out.data,
                                              .qkv = qkv.data,
                                              .lse = lse.data,
                                              .weights = weights.data,
                                              .dqkv = dqkv.data,
                                              .samples = count,
                                              .heads = {0, heads},
                                              .kv_heads = {0, (size_t)gpt_kv_heads(&p->model)},
                                              .dropout = dropout};
    bool turns = gpt_of(&p->model)->position == GPT_POSITION_ROPE;
    CHECK_OK((turns ? table->attention_rope_gradient : table->attention_gradient)(k, stream, &backward));
    back(&out, (char *)r->out + place);
    back(&dqkv, (char *)r->dqkv + wide_place);
    back(&lse, lse_place);
    back(&weights, weights_place);
    dt_free(stream, &qkv);
    dt_free(stream, &dout);
    CHECK_OK(dt_stream_synchronize(stream));
    destroy_kernels(k);
}

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

/* Heads that share keys and values, all of them too, and numbers of heads that are no power of two for alibi's slopes. */
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

/* Gradients that turn back as they are stored: widths whose halves are whole accesses of 16 bytes, and others. */
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

/* The fused kernel of a 16-bit type against that of fp32, whose input is the same, on shapes that take the reference minutes. */
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

/* GPTLarge's heads and batch, and long samples, where the device is fast enough; elsewhere a few tiles of the same width. */
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

/* What the gradients of a row of q, and of one key and its value, are made of; in double precision from the inputs and the kernel's lse. */
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

/* More rows than the reference could do: a few of them, the first and the last among them. DTBENCH_LONG_T: another length, as 32768. */
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

/* Lengths around the tiles' sizes, and the widths of the presets with every alignment of a row; those of this run beside them. */
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

/* Columns [first, first + width) of `blocks` blocks of `columns`, which a row of [rows, blocks * columns] elements of 2 bytes has. */
static void *pick_columns(const void *from, size_t rows, size_t blocks, size_t columns, size_t first, size_t width)
{
    uint16_t *to = malloc(rows * blocks * width * sizeof *to);
    for (size_t i = 0; i < rows * blocks; i++)
        memcpy(to + i * width, (const uint16_t *)from + i * columns + first, width * sizeof *to);
    return to;
}

/* The last two of four heads by themselves: bit for bit what they are among the others, dropout masks included. */
static void heads_by_themselves(void)
{
    enum { WIDTH = 24, HEADS = 4, FIRST = 2, MINE = HEADS - FIRST };
    struct problem p, mine;
    struct result whole, alone;
    if (!begin())
        return;
    problem_init(&p, DT_BF16, 40, HEADS, WIDTH, 3, 0.1f);
    result_init(&p, &whole);
    run_part(&p, &whole, 0, 3);
    mine = p;
    gpt_change(&mine.model)->hidden = MINE * WIDTH; /* sizes of results; the kernels are the whole model's */
    gpt_change(&mine.model)->heads = MINE;
    result_init(&mine, &alone);
    size_t rows = rows_of(&p), bytes = rows * MINE * WIDTH * sizeof(uint16_t), lse_bytes = lse_count(&mine) * sizeof(float);
    void *qkv_values = pick_columns(p.qkv_memory, rows, 3, HEADS * WIDTH, FIRST * WIDTH, MINE * WIDTH);
    void *dout_values = pick_columns(p.dout_memory, rows, 1, HEADS * WIDTH, FIRST * WIDTH, MINE * WIDTH);
    struct dt_buffer qkv = on_device(qkv_values, 3 * bytes), dout = on_device(dout_values, bytes), out = on_device(alone.out, bytes);
    struct dt_buffer dqkv = on_device(alone.dqkv, 3 * bytes), lse = on_device(alone.lse, lse_bytes);
    struct gpt_kernels *k;
    struct gpt_attention_forward forward = {.qkv = qkv.data,
                                            .out = out.data,
                                            .lse = lse.data,
                                            .samples = 3,
                                            .heads = {FIRST, MINE},
                                            .kv_heads = {FIRST, MINE},
                                            .dropout = p.dropout};
    struct gpt_attention_backward backward = {.dout = dout.data,
                                              .out = out.data,
                                              .qkv = qkv.data,
                                              .lse = lse.data,
                                              .dqkv = dqkv.data,
                                              .samples = 3,
                                              .heads = {FIRST, MINE},
                                              .kv_heads = {FIRST, MINE},
                                              .dropout = p.dropout};
    CHECK_OK(create_kernels(&p.model, &k));
    CHECK_OK(table->attention(k, stream, &forward));
    CHECK_OK(table->attention_gradient(k, stream, &backward));
    back(&out, alone.out);
    back(&dqkv, alone.dqkv);
    back(&lse, alone.lse);
    dt_free(stream, &qkv);
    dt_free(stream, &dout);
    CHECK_OK(dt_stream_synchronize(stream));
    destroy_kernels(k);
    void *out_wanted = pick_columns(whole.out, rows, 1, HEADS * WIDTH, FIRST * WIDTH, MINE * WIDTH);
    void *dqkv_wanted = pick_columns(whole.dqkv, rows, 3, HEADS * WIDTH, FIRST * WIDTH, MINE * WIDTH);
    CHECK(memcmp(alone.out, out_wanted, bytes) == 0, "out");
    CHECK(memcmp(alone.dqkv, dqkv_wanted, 3 * bytes) == 0, "dqkv");
    for (size_t sample = 0, T = 40; sample < 3; sample++)
        CHECK(memcmp(alone.lse + sample * MINE * T, whole.lse + (sample * HEADS + FIRST) * T, MINE * T * sizeof(float)) == 0, "lse");
    void *all[] = {qkv_values, dout_values, out_wanted, dqkv_wanted};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    result_finish(&whole);
    result_finish(&alone);
    problem_finish(&p);
    end();
}

/* Heads [first, first + count) of the problem's, with the heads of k and v that they read: forward and backward. Adds the gradients of k and v,
 * which are those of these heads alone, to `dkv` [rows, 2 K w]; out, lse and q's gradients must be the whole's to the last bit. */
static void check_some_heads(const struct problem *p, const struct result *whole, size_t first, size_t count, double *dkv)
{
    size_t rows = rows_of(p), T = (size_t)gpt_of(&p->model)->block_size, w = (size_t)gpt_head_width(&p->model),
           H = (size_t)gpt_of(&p->model)->heads;
    size_t K = (size_t)gpt_kv_heads(&p->model), group = H / K, first_kv = first / group, kv = (first + count - 1) / group - first_kv + 1;
    size_t columns = (count + 2 * kv) * w, whole_columns = (H + 2 * K) * w;
    float *qkv_values = malloc(rows * columns * sizeof(float)), *dout_values = malloc(rows * count * w * sizeof(float));
    float *out_values = malloc(rows * count * w * sizeof(float)), *dqkv_values = malloc(rows * columns * sizeof(float));
    float *lse_values = malloc(rows * count * sizeof(float));
    const size_t from[] = {first * w, (H + first_kv) * w, (H + K + first_kv) * w}, widths[] = {count * w, kv * w, kv * w};
    for (size_t row = 0; row < rows; row++) {
        float *to = qkv_values + row * columns;
        for (int part = 0; part < 3; to += widths[part++])
            memcpy(to, (float *)p->qkv_memory + row * whole_columns + from[part], widths[part] * sizeof(float));
        memcpy(dout_values + row * count * w, (float *)p->dout_memory + row * H * w + first * w, count * w * sizeof(float));
    }
    struct dt_buffer qkv = on_device(qkv_values, rows * columns * sizeof(float)), dqkv = on_device(dqkv_values, qkv.bytes);
    struct dt_buffer dout = on_device(dout_values, rows * count * w * sizeof(float)), out = on_device(out_values, dout.bytes);
    struct dt_buffer lse = on_device(lse_values, rows * count * sizeof(float));
    struct gpt_attention_forward forward = {.qkv = qkv.data,
                                            .out = out.data,
                                            .lse = lse.data,
                                            .samples = p->samples,
                                            .heads = {first, count},
                                            .kv_heads = {first_kv, kv},
                                            .dropout = p->dropout};
    struct gpt_attention_backward backward = {.dout = dout.data,
                                              .out = out.data,
                                              .qkv = qkv.data,
                                              .lse = lse.data,
                                              .dqkv = dqkv.data,
                                              .samples = p->samples,
                                              .heads = {first, count},
                                              .kv_heads = {first_kv, kv},
                                              .dropout = p->dropout};
    struct gpt_kernels *k;
    CHECK_OK(create_kernels(&p->model, &k));
    CHECK_OK(table->attention(k, stream, &forward));
    CHECK_OK(table->attention_gradient(k, stream, &backward));
    back(&out, out_values);
    back(&dqkv, dqkv_values);
    back(&lse, lse_values);
    dt_free(stream, &qkv);
    dt_free(stream, &dout);
    CHECK_OK(dt_stream_synchronize(stream));
    destroy_kernels(k);
    for (size_t row = 0; row < rows; row++) {
        const float *dq = dqkv_values + row * columns, *of_kv = dq + count * w;
        CHECK(memcmp(out_values + row * count * w, (float *)whole->out + row * H * w + first * w, count * w * sizeof(float)) == 0, "out");
        CHECK(memcmp(dq, (float *)whole->dqkv + row * whole_columns + first * w, count * w * sizeof(float)) == 0, "q's gradient");
        for (size_t i = 0; i < 2 * kv * w; i++)
            dkv[row * 2 * K * w + (i / (kv * w) * K + first_kv) * w + i % (kv * w)] += of_kv[i];
    }
    for (size_t sample = 0; sample < p->samples; sample++)
        CHECK(memcmp(lse_values + sample * count * T, whole->lse + (sample * H + first) * T, count * T * sizeof(float)) == 0, "lse");
    void *all[] = {qkv_values, dout_values, out_values, dqkv_values, lse_values};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Ranks whose heads begin and end within those of a head of k and v: what each finds of its gradients adds up to the whole. */
static void parts_of_a_group(void)
{
    static const struct gpt_part parts[] = {{0, 1}, {1, 3}, {4, 2}};
    struct problem p;
    struct result whole;
    if (!begin())
        return;
    for (int alibi = 0; alibi < 2; alibi++) {
        problem_init_grouped(&p, DT_FP32, 40, 6, 2, alibi, 20, 2, 0.1f);
        gpt_change(&p.model)->attention = GPT_ATTENTION_FUSED;
        result_init(&p, &whole);
        run_part(&p, &whole, 0, 2);
        size_t rows = rows_of(&p), of_q = 6 * 20, of_kv = 2 * 2 * 20;
        double *dkv = calloc(rows * of_kv, sizeof *dkv), *want = malloc(rows * of_kv * sizeof *want);
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            check_some_heads(&p, &whole, parts[i].first, parts[i].count, dkv);
        for (size_t row = 0; row < rows; row++)
            memcpy(want + row * of_kv, p.dqkv + row * (of_q + of_kv) + of_q, of_kv * sizeof *want);
        double error = ref_error(dkv, want, rows * of_kv);
        CHECK(error < 1e-5, "gradients of k and v add up to something off by %.2e", error);
        free(dkv);
        free(want);
        result_finish(&whole);
        problem_finish(&p);
    }
    end();
}

enum { SHARING = 3, OF_A_SHARE = 86, SHARE_WIDTH = 20, SHARE_HEADS = 2, SHARE_KV_HEADS = 1 };

/* Of `columns` floats each: those rows of a matrix of all positions that are of `where`, from column `first` on. */
static void pick_rows(float *to, const void *from, const struct gpt_positions *where, size_t samples, size_t whole_columns, size_t first,
                      size_t columns)
{
    for (size_t row = 0; row < samples * OF_A_SHARE; row++) {
        struct gpt_place place = gpt_place_of(where, OF_A_SHARE * SHARING, row);
        const float *whole = (const float *)from + (place.sample * OF_A_SHARE * SHARING + place.position) * whole_columns + first;
        memcpy(to + row * columns, whole, columns * sizeof *to);
    }
}

/* With the keys of the rank that are `step` before it, of `elems` elements each. */
static struct gpt_piece ring_piece(const struct gpt_piece *all, int rank, int step, size_t elems)
{
    struct gpt_piece piece = *all;
    piece.key_ranks = 1;
    piece.key_rank = (rank + SHARING - step) % SHARING;
    piece.keys = (const float *)all->keys + (size_t)piece.key_rank * elems;
    piece.joins = step > 0;
    return piece;
}

/* One of the ranks that share samples, with everybody's keys, one after the other in a ring: its outputs, lse and gradient of q must be the reference's; dkeys [rank, rows, k | v]
 * gets what it adds to the gradients of all keys. */
static void check_share(const struct problem *p, int rank, bool ring, const float *keys_values, float *keys_gradient)
{
    enum { Q = SHARE_HEADS * SHARE_WIDTH, KV = 2 * SHARE_KV_HEADS * SHARE_WIDTH, COLUMNS = Q + KV };
    struct gpt_positions where = gpt_positions_of(&p->model, rank, SHARING, DT_CONTEXT_ALL_GATHER);
    size_t rows = p->samples * OF_A_SHARE;
    float *qkv_values = malloc(rows * COLUMNS * sizeof(float)), *dout_values = malloc(rows * Q * sizeof(float));
    float *out_values = malloc(rows * Q * sizeof(float)), *lse_values = malloc(rows * SHARE_HEADS * sizeof(float));
    double *found = malloc(rows * COLUMNS * sizeof *found), *want = malloc(rows * COLUMNS * sizeof *want);
    pick_rows(qkv_values, p->qkv_memory, &where, p->samples, COLUMNS, 0, COLUMNS);
    pick_rows(dout_values, p->dout_memory, &where, p->samples, Q, 0, Q);
    struct dt_buffer qkv = on_device(qkv_values, rows * COLUMNS * sizeof(float)), dout = on_device(dout_values, rows * Q * sizeof(float));
    struct dt_buffer keys = on_device(keys_values, SHARING * rows * KV * sizeof(float)), dkeys = on_device(keys_values, keys.bytes);
    struct dt_buffer out = on_device(out_values, dout.bytes), lse = on_device(lse_values, rows * SHARE_HEADS * sizeof(float));
    struct dt_buffer dqkv = on_device(qkv_values, qkv.bytes);
    struct gpt_piece piece = {.keys = keys.data, .queries = where, .ranks = SHARING, .key_ranks = SHARING};
    struct gpt_attention_forward forward = {.qkv = qkv.data,
                                            .out = out.data,
                                            .lse = lse.data,
                                            .samples = p->samples,
                                            .heads = {0, SHARE_HEADS},
                                            .kv_heads = {0, SHARE_KV_HEADS},
                                            .dropout = p->dropout,
                                            .piece = piece};
    struct gpt_attention_backward backward = {.dout = dout.data,
                                              .out = out.data,
                                              .qkv = qkv.data,
                                              .lse = lse.data,
                                              .dqkv = dqkv.data,
                                              .samples = p->samples,
                                              .heads = {0, SHARE_HEADS},
                                              .kv_heads = {0, SHARE_KV_HEADS},
                                              .dropout = p->dropout,
                                              .piece = piece,
                                              .dkeys = dkeys.data};
    struct gpt_kernels *k;
    CHECK_OK(create_kernels(&p->model, &k));
    for (int step = 0; step < (ring ? SHARING : 1); step++) {
        forward.piece = ring ? ring_piece(&piece, rank, step, rows * KV) : piece;
        CHECK_OK(table->attention(k, stream, &forward));
    }
    for (int step = 0; step < (ring ? SHARING : 1); step++) {
        backward.piece = ring ? ring_piece(&piece, rank, step, rows * KV) : piece;
        backward.dkeys = (float *)dkeys.data + (size_t)backward.piece.key_rank * rows * KV;
        CHECK_OK(table->attention_gradient(k, stream, &backward));
    }
    back(&out, out_values);
    back(&lse, lse_values);
    back(&dqkv, qkv_values);
    back(&dkeys, keys_gradient);
    dt_free(stream, &qkv);
    dt_free(stream, &dout);
    dt_free(stream, &keys);
    CHECK_OK(dt_stream_synchronize(stream));
    destroy_kernels(k);
    for (size_t row = 0; row < rows; row++) {
        struct gpt_place place = gpt_place_of(&where, OF_A_SHARE * SHARING, row);
        size_t whole = place.sample * OF_A_SHARE * SHARING + place.position;
        for (size_t i = 0; i < Q; i++) {
            found[row * 2 * Q + i] = out_values[row * Q + i];
            want[row * 2 * Q + i] = p->out[whole * Q + i];
            found[row * 2 * Q + Q + i] = qkv_values[row * COLUMNS + i];
            want[row * 2 * Q + Q + i] = p->dqkv[whole * COLUMNS + i];
        }
        for (size_t head = 0; head < SHARE_HEADS; head++) {
            float here = lse_values[(place.sample * SHARE_HEADS + head) * OF_A_SHARE + row % OF_A_SHARE];
            double there = p->lse[(place.sample * SHARE_HEADS + head) * OF_A_SHARE * SHARING + place.position];
            CHECK(fabs(here - there) < 1e-5 * (1 + fabs(there)), "rank %d, row %zu: lse %g, not %g", rank, row, here, there);
        }
    }
    double error = ref_error(found, want, rows * 2 * Q);
    CHECK(error < 1e-5, "rank %d: outputs and gradients of q off by %.2e", rank, error);
    void *all[] = {qkv_values, dout_values, out_values, lse_values, found, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Ranks that share samples, each with two pieces of the positions that end within tiles: together they are the whole. */
static void shared_samples(void)
{
    enum { Q = SHARE_HEADS * SHARE_WIDTH, KV = 2 * SHARE_KV_HEADS * SHARE_WIDTH, SAMPLES = 3, ROWS = SAMPLES * OF_A_SHARE };
    struct problem p;
    if (!begin())
        return;
    if (strcmp(test_device_kind(), "cpu") != 0) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "samples are shared on cpu alone");
        end();
        return;
    }
    problem_init_grouped(&p, DT_FP32, OF_A_SHARE * SHARING, SHARE_HEADS, SHARE_KV_HEADS, true, SHARE_WIDTH, SAMPLES, 0.1f);
    gpt_change(&p.model)->attention = GPT_ATTENTION_FUSED;
    float *keys = malloc(SHARING * ROWS * KV * sizeof *keys), *gradient = malloc(SHARING * ROWS * KV * sizeof *gradient);
    double *sums = calloc(SHARING * ROWS * KV, sizeof *sums), *want = malloc(SHARING * ROWS * KV * sizeof *want);
    for (int rank = 0; rank < SHARING; rank++) {
        struct gpt_positions where = gpt_positions_of(&p.model, rank, SHARING, DT_CONTEXT_ALL_GATHER);
        pick_rows(keys + (size_t)rank * ROWS * KV, p.qkv_memory, &where, SAMPLES, Q + KV, Q, KV);
        for (size_t i = 0; i < ROWS * KV; i++) {
            struct gpt_place place = gpt_place_of(&where, OF_A_SHARE * SHARING, i / KV);
            want[(size_t)rank * ROWS * KV + i] = p.dqkv[(place.sample * OF_A_SHARE * SHARING + place.position) * (Q + KV) + Q + i % KV];
        }
    }
    for (int rank = 0; rank < 2 * SHARING; rank++) {
        check_share(&p, rank / 2, rank % 2, keys, gradient);
        for (size_t i = 0; i < SHARING * ROWS * KV; i++)
            sums[i] += 0.5 * (double)gradient[i];
    }
    double error = ref_error(sums, want, SHARING * ROWS * KV);
    CHECK(error < 1e-5, "gradients of k and v add up to something off by %.2e", error);
    void *all[] = {keys, gradient, sums, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    problem_finish(&p);
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

/* A diverged run must show: NaN in a query makes its output NaN, and no other row's. */
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

/* Hopper's own kernel: every width that it is compiled for and some that it pads, rows that end within a tile and before a warpgroup's, more
 * tiles of keys than shared memory has places for. */
static void warpgroup_kernels(void)
{
    if (strcmp(test_device_kind(), "cuda") != 0)
        SKIP("the kernels of a GPU");
    warpgroups = true;
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
        }
        check_grouped(DT_BF16, 530, 1, 1, false, 16, 1, 0);
        end();
        shapes_of_a_training();
        nan_stays();
    }
    warpgroups = false;
}

static const struct test_case cases[] = {
    {"fp32 agrees with the reference", against_reference_fp32},
    {"bf16 agrees with the reference", against_reference_bf16},
    {"fp16 agrees with the reference", against_reference_fp16},
    {"calls do not change a bit", division_changes_nothing},
    {"some of the heads by themselves", heads_by_themselves},
    {"grouped queries, alibi, and both", grouped_queries_and_alibi},
    {"gradients that turn back", turning_gradients},
    {"parts of the heads that share keys and values", parts_of_a_group},
    {"ranks that share samples", shared_samples},
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

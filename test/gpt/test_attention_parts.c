/* Attention of a part of the heads or of the positions, as ranks divide it, is that part of the
 * whole. */
#include "test/gpt/attention_device.h"

/* Columns [first, first + width) of `blocks` blocks of `columns`, which a row of [rows, blocks *
 * columns] elements of 2 bytes has. */
static void *pick_columns(const void *from, size_t rows, size_t blocks, size_t columns, size_t first, size_t width)
{
    uint16_t *to = malloc(rows * blocks * width * sizeof *to);
    for (size_t i = 0; i < rows * blocks; i++)
        memcpy(to + i * width, (const uint16_t *)from + i * columns + first, width * sizeof *to);
    return to;
}

/* The last two of four heads by themselves: bit for bit what they are among the others, dropout
 * masks included. */
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

/* Heads [first, first + count) of the problem's, with the heads of k and v that they read: forward
 * and backward. Adds the gradients of k and v, which are those of these heads alone, to `dkv`
 * [rows, 2 K w]; out, lse and q's gradients must be the whole's to the last bit. */
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

/* Ranks whose heads begin and end within those of a head of k and v: what each finds of its
 * gradients adds up to the whole. */
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

enum {
    SHARING = 3,
    SHARE_WIDTH = 20,
    SHARE_HEADS = 2,
    SHARE_KV_HEADS = 1,
    Q = SHARE_HEADS * SHARE_WIDTH,
    KV = 2 * SHARE_KV_HEADS * SHARE_WIDTH
};

/* The problem of ranks that share samples, `share` positions each. */
struct shared_problem {
    struct problem whole;
    size_t share, rows, element; /* rows of a rank; bytes of an element */
    double tolerance;
};

/* Those rows of a matrix of all positions that are of `where`, `columns` of them from column
 * `first` on. */
static void *pick_rows(const struct shared_problem *s, const void *from, const struct gpt_positions *where, size_t whole_columns,
                       size_t first, size_t columns)
{
    char *to = malloc(s->rows * columns * s->element);
    for (size_t row = 0; row < s->rows; row++) {
        struct gpt_place place = gpt_place_of(where, s->share * SHARING, row);
        size_t at = (place.sample * s->share * SHARING + place.position) * whole_columns + first;
        memcpy(to + row * columns * s->element, (const char *)from + at * s->element, columns * s->element);
    }
    return to;
}

/* With the keys of the rank that are `step` before it. */
static struct gpt_piece ring_piece(const struct shared_problem *s, const struct gpt_piece *all, int rank, int step)
{
    struct gpt_piece piece = *all;
    piece.key_ranks = 1;
    piece.key_rank = (rank + SHARING - step) % SHARING;
    piece.keys = (const char *)all->keys + (size_t)piece.key_rank * s->rows * KV * s->element;
    piece.joins = step > 0;
    return piece;
}

/* One of the ranks that share samples, with everybody's keys, at once or one after the other in a
 * ring: its outputs, lse and gradient of q must be the reference's; adds half of what it adds to
 * the gradients of all keys [SHARING, rows, k | v] to `sums`. */
static void check_share(const struct shared_problem *s, int rank, bool ring, const void *keys_values, double *sums)
{
    const struct problem *p = &s->whole;
    struct gpt_positions where = gpt_positions_of(&p->model, rank, SHARING, DT_CONTEXT_ALL_GATHER);
    size_t rows = s->rows, all_keys = SHARING * rows * KV;
    void *qkv_values = pick_rows(s, p->qkv_memory, &where, Q + KV, 0, Q + KV), *dout_values = pick_rows(s, p->dout_memory, &where, Q, 0, Q);
    void *out_values = malloc(rows * Q * s->element), *gradient = malloc(all_keys * s->element);
    float *lse_values = malloc(rows * SHARE_HEADS * sizeof(float));
    double *out_found = malloc(rows * Q * sizeof *out_found), *qkv_found = malloc(rows * (Q + KV) * sizeof *qkv_found);
    double *found = malloc(rows * Q * sizeof *found), *want = malloc(rows * Q * sizeof *want), *added = malloc(all_keys * sizeof *added);
    double *dq_want = malloc(rows * Q * sizeof *dq_want);
    struct dt_buffer qkv = on_device(qkv_values, rows * (Q + KV) * s->element), dout = on_device(dout_values, rows * Q * s->element);
    struct dt_buffer keys = on_device(keys_values, all_keys * s->element), dkeys = on_device(keys_values, keys.bytes);
    struct dt_buffer out = on_device(out_values, dout.bytes), lse = on_device(lse_values, rows * SHARE_HEADS * sizeof(float));
    struct dt_buffer dqkv = on_device(qkv_values, qkv.bytes);
    struct gpt_piece piece = {.keys = keys.data, .queries = where, .ranks = SHARING, .key_ranks = SHARING};
    struct gpt_attention_forward forward = {.qkv = qkv.data,
                                            .out = out.data,
                                            .lse = lse.data,
                                            .samples = p->samples,
                                            .heads = {0, SHARE_HEADS},
                                            .kv_heads = {0, SHARE_KV_HEADS},
                                            .dropout = p->dropout};
    struct gpt_attention_backward backward = {.dout = dout.data,
                                              .out = out.data,
                                              .qkv = qkv.data,
                                              .lse = lse.data,
                                              .dqkv = dqkv.data,
                                              .samples = p->samples,
                                              .heads = {0, SHARE_HEADS},
                                              .kv_heads = {0, SHARE_KV_HEADS},
                                              .dropout = p->dropout};
    struct gpt_kernels *k;
    CHECK_OK(create_kernels(&p->model, &k));
    CHECK_OK(dt_kernels_begin_step(&base, stream, 0, 1));
    for (int step = 0; step < (ring ? SHARING : 1); step++) {
        forward.piece = ring ? ring_piece(s, &piece, rank, step) : piece;
        CHECK_OK(table->attention(k, stream, &forward));
    }
    for (int step = 0; step < (ring ? SHARING : 1); step++) {
        backward.piece = ring ? ring_piece(s, &piece, rank, step) : piece;
        backward.dkeys = (char *)dkeys.data + (size_t)backward.piece.key_rank * rows * KV * s->element;
        CHECK_OK(table->attention_gradient(k, stream, &backward));
    }
    back(&out, out_values);
    back(&lse, lse_values);
    back(&dqkv, qkv_values);
    back(&dkeys, gradient);
    dt_free(stream, &qkv);
    dt_free(stream, &dout);
    dt_free(stream, &keys);
    CHECK_OK(dt_stream_synchronize(stream));
    destroy_kernels(k);
    ref_decode(p->model.dtype, out_values, out_found, rows * Q);
    ref_decode(p->model.dtype, qkv_values, qkv_found, rows * (Q + KV));
    ref_decode(p->model.dtype, gradient, added, all_keys);
    for (size_t i = 0; i < all_keys; i++)
        sums[i] += 0.5 * added[i];
    for (size_t row = 0; row < rows; row++) {
        struct gpt_place place = gpt_place_of(&where, s->share * SHARING, row);
        size_t whole = place.sample * s->share * SHARING + place.position;
        for (size_t i = 0; i < Q; i++) {
            want[row * Q + i] = p->out[whole * Q + i];
            found[row * Q + i] = qkv_found[row * (Q + KV) + i];
            dq_want[row * Q + i] = p->dqkv[whole * (Q + KV) + i];
        }
        for (size_t head = 0; head < SHARE_HEADS; head++) {
            float here = lse_values[(place.sample * SHARE_HEADS + head) * s->share + row % s->share];
            double there = p->lse[(place.sample * SHARE_HEADS + head) * s->share * SHARING + place.position];
            CHECK(fabs(here - there) < 1e-5 * (1 + fabs(there)), "rank %d, row %zu: lse %g, not %g", rank, row, here, there);
        }
    }
    double error = ref_error(out_found, want, rows * Q), dq_error = ref_error(found, dq_want, rows * Q);
    CHECK(error < s->tolerance && dq_error < s->tolerance, "%s, rank %d%s: outputs off by %.2e, gradients of q by %.2e",
          dt_dtype_name(p->model.dtype), rank, ring ? ", ring" : "", error, dq_error);
    void *all[] = {qkv_values, dout_values, out_values, lse_values, out_found, qkv_found, found, want, dq_want, added, gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* share: pieces are half of it, and end within tiles. Outputs of a ring are rounded once a step. */
static void check_shared(enum dt_dtype dtype, size_t share, bool alibi, float dropout)
{
    static const double tolerance[DT_DTYPE_COUNT] = {[DT_FP32] = 1e-5, [DT_BF16] = 2e-2, [DT_FP16] = 2e-3};
    enum { SAMPLES = 3 };
    struct shared_problem s = {.share = share, .rows = SAMPLES * share, .element = dt_dtype_bytes(dtype), .tolerance = tolerance[dtype]};
    size_t of_a_rank = s.rows * KV;
    problem_init_grouped(&s.whole, dtype, (int)share * SHARING, SHARE_HEADS, SHARE_KV_HEADS, alibi, SHARE_WIDTH, SAMPLES, dropout);
    gpt_change(&s.whole.model)->attention = GPT_ATTENTION_FUSED;
    char *keys = malloc(SHARING * of_a_rank * s.element);
    double *sums = calloc(SHARING * of_a_rank, sizeof *sums), *want = malloc(SHARING * of_a_rank * sizeof *want);
    for (int rank = 0; rank < SHARING; rank++) {
        struct gpt_positions where = gpt_positions_of(&s.whole.model, rank, SHARING, DT_CONTEXT_ALL_GATHER);
        void *own = pick_rows(&s, s.whole.qkv_memory, &where, Q + KV, Q, KV);
        memcpy(keys + (size_t)rank * of_a_rank * s.element, own, of_a_rank * s.element);
        free(own);
        for (size_t i = 0; i < of_a_rank; i++) {
            struct gpt_place place = gpt_place_of(&where, share * SHARING, i / KV);
            want[(size_t)rank * of_a_rank + i] = s.whole.dqkv[(place.sample * share * SHARING + place.position) * (Q + KV) + Q + i % KV];
        }
    }
    for (int rank = 0; rank < 2 * SHARING; rank++)
        check_share(&s, rank / 2, rank % 2, keys, sums);
    double error = ref_error(sums, want, SHARING * of_a_rank);
    CHECK(error < s.tolerance, "%s: gradients of k and v add up to something off by %.2e", dt_dtype_name(dtype), error);
    free(keys);
    free(sums);
    free(want);
    problem_finish(&s.whole);
}

/* Ranks that share samples, each with two pieces of the positions: together they are the whole. */
static void shared_samples(void)
{
    if (!begin())
        return;
    if (strcmp(test_device_kind(), "cpu") == 0) {
        check_shared(DT_FP32, 86, true, 0.1f);
    } else {
        for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
            check_shared(dtype, 80, true, 0.1f); /* with dropout, pieces are of eights */
        check_shared(DT_FP16, 86, false, 0);
    }
    end();
}

static const struct test_case cases[] = {
    {"some of the heads by themselves", heads_by_themselves},
    {"parts of the heads that share keys and values", parts_of_a_group},
    {"ranks that share samples", shared_samples},
};

int main(void)
{
    problem_start();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}

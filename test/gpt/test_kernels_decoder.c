/* Norms, and other kernels of today's decoders, against the double-precision reference: norms of
 * rows and of single heads, SwiGLU, rotary positions. */
#include "gpt/position.h"
#include "test/gpt/kernel_setup.h"

static const struct {
    size_t rows, d;
} norms[] = {{1, 9}, {40, 64}, {9, 86}, {5, 1032}, {19, 2064}, {3, 5184}, {2, 16392}};

enum { NORMS = sizeof norms / sizeof norms[0] };

enum norm_kind { LAYER_NORM, LAYER_NORM_WITHOUT_BIAS, RMS_NORM };

/* Every shape with and without something to add to, or one way. */
static void norm_case(struct setup *s, enum norm_kind kind, int i)
{
    size_t rows = norms[i % NORMS].rows, d = norms[i % NORMS].d;
    bool accumulate = (i % NORMS + i / NORMS + (int)s->dtype) % 2, rms = kind == RMS_NORM;
    double epsilon = i % 3 ? 1e-5 : 0.25, center = rms ? 0.5 : 3;
    struct array x = input(s->dtype, rows * d, center, 1), gain = input(s->dtype, d, 1, 0.5), y = output(s->dtype, rows * d);
    struct array dy = input(s->dtype, rows * d, 0, 1), bias = {0}, dbias = {0};
    double *old_dx = test_alloc(rows * d * sizeof(double)), *old = test_alloc(2 * d * sizeof(double));
    struct array dx = target(s, rows * d, accumulate, old_dx), dgain = target(s, d, accumulate, old);
    float *mean = rms ? NULL : test_alloc(rows * sizeof *mean), *rstd = test_alloc(rows * sizeof *rstd);
    double *ref_mean = test_alloc(rows * sizeof *ref_mean), *ref_rstd = test_alloc(rows * sizeof *ref_rstd);
    double *ref_dbias = test_alloc(d * sizeof *ref_dbias);
    if (kind == LAYER_NORM) {
        bias = input(s->dtype, d, 0, 1);
        dbias = target(s, d, accumulate, old + d);
        ref_dbias = dbias.values;
    }
    struct gpt_norm forward = {x.data, gain.data, bias.data, y.data, mean, rstd, rows, d, (float)epsilon};
    struct gpt_norm_gradient backward = {.dy = dy.data,
                                         .x = x.data,
                                         .gain = gain.data,
                                         .mean = mean,
                                         .rstd = rstd,
                                         .dx = dx.data,
                                         .dgain = dgain.data,
                                         .dbias = dbias.data,
                                         .rows = rows,
                                         .d = d,
                                         .overwrite = !accumulate,
                                         .accumulate = accumulate};
    CHECK_OK((rms ? s->table->rms_norm : s->table->layer_norm)(s->kernels, s->stream, &forward));
    CHECK_OK((rms ? s->table->rms_norm_gradient : s->table->layer_norm_gradient)(s->kernels, s->stream, &backward));
    CHECK_OK(dt_stream_synchronize(s->stream));
    if (rms) {
        ref_rms_norm(x.values, gain.values, y.values, ref_rstd, rows, d, epsilon);
        ref_rms_norm_gradient(dy.values, x.values, gain.values, dx.values, dgain.values, rows, d, epsilon);
    } else {
        ref_layer_norm(x.values, gain.values, bias.values, y.values, ref_mean, ref_rstd, rows, d, epsilon);
        ref_layer_norm_gradient(dy.values, x.values, gain.values, dx.values, dgain.values, ref_dbias, rows, d, epsilon);
        CHECK(error_of(DT_FP32, mean, ref_mean, rows) < 1e-6);
    }
    add_old(&dx, old_dx);
    add_old(&dgain, old);
    CHECK_ARRAY(s, y, "y");
    CHECK(error_of(DT_FP32, rstd, ref_rstd, rows) < 3e-6);
    CHECK_ARRAY(s, dx, "dx");
    CHECK_ARRAY(s, dgain, "dgain");
    if (kind == LAYER_NORM) {
        add_old(&dbias, old + d);
        CHECK_ARRAY(s, dbias, "dbias");
    }
}

static void norm_cases(struct setup *s, enum norm_kind kind, int step)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < (every_way(s) ? 2 * NORMS : NORMS); i += every_way(s) ? 1 : step)
        norm_case(s, kind, i);
}

static void layer_norm_body(struct setup *s)
{
    norm_cases(s, LAYER_NORM, 1);
}

static void layer_norm(void)
{
    for_every_setup(layer_norm_body);
}

static void layer_norm_without_bias_body(struct setup *s)
{
    norm_cases(s, LAYER_NORM_WITHOUT_BIAS, 3);
}

static void layer_norm_without_bias(void)
{
    for_every_setup(layer_norm_without_bias_body);
}

static void rms_norm_body(struct setup *s)
{
    norm_cases(s, RMS_NORM, 1);
}

static void rms_norm(void)
{
    for_every_setup(rms_norm_body);
}

/* Columns [first, first + width) of a matrix [rows, columns]. */
static double *columns_of(const double *from, size_t rows, size_t columns, size_t first, size_t width)
{
    double *to = test_alloc(rows * width * sizeof *to);
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * width, from + r * columns + first, width * sizeof *to);
    return to;
}

static void put_columns(double *to, const double *from, size_t rows, size_t columns, size_t first, size_t width)
{
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * columns + first, from + r * width, width * sizeof *to);
}

/* Each head of q and k as the rms norm of rows of its width; v untouched. */
static void head_norm_body(struct setup *s)
{
    static const struct {
        int heads, kv_heads, w;
    } shapes[] = {{1, 1, 5}, {6, 2, 64}, {4, 1, 86}, {3, 3, 128}};
    for (int i = 0; i < 2 * (int)(sizeof shapes / sizeof shapes[0]); i++) {
        size_t H = (size_t)shapes[i / 2].heads, K = (size_t)shapes[i / 2].kv_heads, w = (size_t)shapes[i / 2].w, rows = 37;
        size_t columns = (H + 2 * K) * w;
        bool accumulate = i % 2;
        setup_kernels(s, (int)H, (int)(H * w), 8, 8);
        struct array qkv = input(s->dtype, rows * columns, 0, 2), out = output(s->dtype, rows * columns);
        struct array q_gain = input(s->dtype, w, 1, 0.5), k_gain = input(s->dtype, w, 1, 0.5), dqkv = input(s->dtype, rows * columns, 0, 1);
        double *old = test_alloc(2 * w * sizeof *old), *rstd = test_alloc(rows * H * sizeof *rstd), *dgain = test_alloc(w * sizeof *dgain);
        struct array dq_gain = target(s, w, accumulate, old), dk_gain = target(s, w, accumulate, old + w);
        struct gpt_head_norm forward = {qkv.data, q_gain.data, k_gain.data, out.data, rows, H, K, 1e-6f};
        struct gpt_head_norm_gradient backward = {.qkv = qkv.data,
                                                  .q_gain = q_gain.data,
                                                  .k_gain = k_gain.data,
                                                  .dqkv = dqkv.data,
                                                  .dq_gain = dq_gain.data,
                                                  .dk_gain = dk_gain.data,
                                                  .rows = rows,
                                                  .heads = H,
                                                  .kv_heads = K,
                                                  .epsilon = 1e-6f,
                                                  .accumulate = accumulate};
        CHECK_OK(s->table->head_norm(s->kernels, s->stream, &forward));
        CHECK_OK(s->table->head_norm_gradient(s->kernels, s->stream, &backward));
        CHECK_OK(dt_stream_synchronize(s->stream));

        memcpy(out.values, qkv.values, rows * columns * sizeof(double));
        memset(dq_gain.values, 0, w * sizeof(double));
        memset(dk_gain.values, 0, w * sizeof(double));
        for (size_t head = 0; head < H + K; head++) {
            const double *gain = head < H ? q_gain.values : k_gain.values;
            double *x = columns_of(qkv.values, rows, columns, head * w, w), *y = test_alloc(rows * w * sizeof *y);
            double *dy = columns_of(dqkv.values, rows, columns, head * w, w), *dx = test_alloc(rows * w * sizeof *dx);
            ref_rms_norm(x, gain, y, rstd, rows, w, 1e-6);
            ref_rms_norm_gradient(dy, x, gain, dx, dgain, rows, w, 1e-6);
            put_columns(out.values, y, rows, columns, head * w, w);
            put_columns(dqkv.values, dx, rows, columns, head * w, w);
            for (size_t j = 0; j < w; j++)
                (head < H ? dq_gain : dk_gain).values[j] += dgain[j];
        }
        add_old(&dq_gain, old);
        add_old(&dk_gain, old + w);
        CHECK_ARRAY(s, out, "out");
        CHECK_ARRAY(s, dqkv, "dqkv");
        CHECK_ARRAY(s, dq_gain, "dq_gain");
        CHECK_ARRAY(s, dk_gain, "dk_gain");

        forward.out = qkv.data; /* in place */
        CHECK_OK(s->table->head_norm(s->kernels, s->stream, &forward));
        CHECK_OK(dt_stream_synchronize(s->stream));
        CHECK(memcmp(qkv.data, out.data, rows * columns * dt_dtype_bytes(s->dtype)) == 0, "in place: %s", setup_text(s));
    }
}

static void head_norm(void)
{
    for_every_setup(head_norm_body);
}

static void swiglu_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 8; i++) {
        size_t rows = (size_t[]){1, 7, 33, 5}[i / 2], f = (size_t[]){3, 86, 256, 4099}[i / 2];
        double range = (double[]){1, 8, 3, 40}[i / 2];
        bool in_place = i % 2;
        struct array hidden = input(s->dtype, rows * 2 * f, 0, range), y = output(s->dtype, rows * f), dy = input(s->dtype, rows * f, 0, 1);
        struct array dhidden = output(s->dtype, rows * 2 * f), again = output(s->dtype, rows * f);
        struct array gate = output(s->dtype, rows * f), up = output(s->dtype, rows * f); /* the same beside each other */
        for (size_t r = 0, row = f * dt_dtype_bytes(s->dtype); r < rows; r++) {
            memcpy((char *)gate.data + r * row, (char *)hidden.data + 2 * r * row, row);
            memcpy((char *)up.data + r * row, (char *)hidden.data + (2 * r + 1) * row, row);
        }
        const void *beside = in_place ? NULL : up.data, *from = in_place ? hidden.data : gate.data;
        CHECK_OK(s->table->swiglu(s->kernels, s->stream, &(struct gpt_swiglu){y.data, from, rows, f, beside}));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_swiglu(hidden.values, y.values, rows, f);
        ref_swiglu_gradient(dy.values, hidden.values, dhidden.values, rows, f);
        CHECK_ARRAY(s, y, "y");
        memcpy(again.values, y.values, rows * f * sizeof(double));
        if (in_place) {
            dhidden.data = hidden.data;
            again.data = dy.data;
        }
        struct gpt_swiglu_gradient backward = {dy.data, from, dhidden.data, i == 0 ? NULL : again.data, rows, f, beside};
        CHECK_OK(s->table->swiglu_gradient(s->kernels, s->stream, &backward));
        CHECK_OK(dt_stream_synchronize(s->stream));
        CHECK_ARRAY(s, dhidden, "dhidden");
        if (backward.y)
            CHECK_ARRAY(s, again, "y again");
    }
}

static void swiglu(void)
{
    for_every_setup(swiglu_body);
}

/* Where exp overflows on one side or the other, and for what is no number. */
static void swiglu_far_from_zero_body(struct setup *s)
{
    static const double gates[] = {-60000, -200, -100, -88, 88, 100, 200, 60000};
    enum { COUNT = sizeof gates / sizeof gates[0] };
    double values[2 * COUNT + 2], got[COUNT + 1];
    setup_kernels(s, 1, 8, 8, 8);
    struct array hidden = output(s->dtype, 2 * COUNT + 2), y = output(s->dtype, COUNT + 1);
    struct array dy = input(s->dtype, COUNT + 1, 1, 0), dhidden = output(s->dtype, 2 * COUNT + 2);
    for (int i = 0; i < COUNT; i++)
        values[i] = gates[i];
    values[COUNT] = NAN;
    for (int i = COUNT + 1; i < 2 * COUNT + 2; i++)
        values[i] = 0.5;
    ref_encode(s->dtype, values, hidden.data, 2 * COUNT + 2);
    ref_round(s->dtype, values, 2 * COUNT + 2);
    CHECK_OK(s->table->swiglu(s->kernels, s->stream, &(struct gpt_swiglu){y.data, hidden.data, 1, COUNT + 1, NULL}));
    CHECK_OK(s->table->swiglu_gradient(s->kernels, s->stream,
                                       &(struct gpt_swiglu_gradient){dy.data, hidden.data, dhidden.data, NULL, 1, COUNT + 1, NULL}));
    CHECK_OK(dt_stream_synchronize(s->stream));
    ref_decode(s->dtype, y.data, got, COUNT + 1);
    for (int i = 0; i < COUNT; i++) {
        double want = values[i] < 0 ? 0 : values[i] / 2;
        CHECK(fabs(got[i] - want) <= fmax(1e-30, 0.01 * want), "silu(%g) / 2 = %g, not %g", values[i], got[i], want);
    }
    CHECK(isnan(got[COUNT]));
    ref_decode(s->dtype, dhidden.data, got, COUNT + 1);
    for (int i = 0; i < COUNT; i++)
        CHECK(fabs(got[i] - (values[i] < 0 ? 0 : 0.5)) < 1e-6, "silu'(%g) / 2 = %g", values[i], got[i]);
    CHECK(isnan(got[COUNT]));
}

static void swiglu_far_from_zero(void)
{
    for_every_setup(swiglu_far_from_zero_body);
}

static void rope_kernels(struct setup *s, struct dt_model model)
{
    gpt_change(&model)->layers = 1;
    gpt_change(&model)->vocab_size = 8;
    model.dtype = s->dtype;
    gpt_change(&model)->position = GPT_POSITION_ROPE;
    setup_model(s, &model);
}

/* Widths of a head with every kind of end, both scalings, positions up to some thousands; v is
 * after what turns. And back. */
static void rope_body(struct setup *s)
{
    const struct gpt_rope_scheme plain = {.base = 10000};
    const struct gpt_rope_scheme scaled = {.base = 500000,
                                           .scaling = GPT_ROPE_LLAMA3,
                                           .factor = 32,
                                           .low_frequency_factor = 1,
                                           .high_frequency_factor = 4,
                                           .original_length = 512};
    const struct gpt_model models[] = {{.heads = 3, .kv_heads = 1, .hidden = 12, .block_size = 7, .rope = plain},
                                       {.heads = 2, .kv_heads = 2, .hidden = 128, .block_size = 33, .rope = scaled},
                                       {.heads = 2, .kv_heads = 1, .hidden = 172, .block_size = 20, .rope = plain},
                                       {.heads = 1, .kv_heads = 1, .hidden = 64, .block_size = 3000, .rope = scaled}};
    for (int i = 0; i < (int)(sizeof models / sizeof models[0]); i++) {
        struct dt_model of = gpt_model_of(s->dtype, &models[i]), *m = &of;
        size_t columns = (size_t)gpt_qkv_features(m), turning = (size_t)(gpt_of(m)->heads + gpt_of(m)->kv_heads);
        size_t rows = (size_t)gpt_of(m)->block_size * (gpt_of(m)->block_size < 100 ? 3 : 1);
        rope_kernels(s, *m);
        struct array x = input(s->dtype, rows * columns, 0, 1);
        struct array back = {test_alloc(rows * columns * sizeof(double)), x.data, x.count};
        CHECK_OK(s->table->rope(s->kernels, s->stream, &(struct gpt_rope){x.data, rows, turning, columns, false, {0}}));
        CHECK_OK(dt_stream_synchronize(s->stream));
        memcpy(back.values, x.values, rows * columns * sizeof(double));
        ref_rope(m, x.values, rows, turning, columns, false);
        CHECK_ARRAY(s, x, "rope");
        CHECK_OK(s->table->rope(s->kernels, s->stream, &(struct gpt_rope){x.data, rows, turning, columns, true, {0}}));
        CHECK_OK(dt_stream_synchronize(s->stream));
        double error = error_of(s->dtype, back.data, back.values, back.count);
        CHECK(error <= 2 * bound_of(s->dtype), "rope and back: error %.3g with %s, %s", error, dt_dtype_name(s->dtype), setup_text(s));
    }
}

static void rope(void)
{
    for_every_setup(rope_body);
}

/* Llama 3.1's own numbers (base 500,000, factor 8, 1, 4, 8,192): the fastest pair stays, the
 * slowest is 8 times as slow. */
static void published_frequencies(void)
{
    struct dt_model m = gpt_model_of(DT_FP32, &(struct gpt_model){.heads = 1,
                                                                  .hidden = 128,
                                                                  .rope = {.base = 500000,
                                                                           .scaling = GPT_ROPE_LLAMA3,
                                                                           .factor = 8,
                                                                           .low_frequency_factor = 1,
                                                                           .high_frequency_factor = 4,
                                                                           .original_length = 8192}});
    CHECK(gpt_rope_frequency(&m, 0) == 1);
    double slowest = pow(500000, -126.0 / 128);
    CHECK(fabs(gpt_rope_frequency(&m, 63) - slowest / 8) < 1e-12 * slowest);
    for (int i = 1; i < 64; i++)
        CHECK(gpt_rope_frequency(&m, i) < gpt_rope_frequency(&m, i - 1), "pair %d", i);
}

/* The paper's own: 1/2, 1/4, ... 1/256 for 8 heads. For 12 the published code gives those of 8 and
 * every second one of 16. */
static void published_slopes(void)
{
    static const double of_12[] = {0.5,
                                   0.25,
                                   0.125,
                                   0.0625,
                                   0.03125,
                                   0.015625,
                                   0.0078125,
                                   0.00390625,
                                   0.70710678118654757,
                                   0.35355339059327379,
                                   0.17677669529663689,
                                   0.088388347648318447};
    for (int i = 0; i < 8; i++)
        CHECK(gpt_alibi_slope(8, i) == ldexp(1, -1 - i), "head %d of 8: %g", i, gpt_alibi_slope(8, i));
    for (int i = 0; i < 12; i++)
        CHECK(fabs(gpt_alibi_slope(12, i) - of_12[i]) < 1e-15, "head %d of 12: %.17g", i, gpt_alibi_slope(12, i));
    CHECK(gpt_alibi_slope(1, 0) == 0x1p-8);
}

static const struct test_case cases[] = {
    {"layer norm and its gradients", layer_norm},
    {"layer norm without bias, and its gradients", layer_norm_without_bias},
    {"rms norm and its gradients", rms_norm},
    {"rms norm of each head, and its gradients", head_norm},
    {"SwiGLU and its gradient", swiglu},
    {"SwiGLU far from zero", swiglu_far_from_zero},
    {"rotary positions, and back", rope},
    {"frequencies as Llama 3.1's", published_frequencies},
    {"slopes as ALiBi's paper's", published_slopes},
};

int main(void)
{
    test_seed();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}

/* The kernels of the cpu or of another device (test/lib/device/device_kind.h), but for GELU,
 * attention and the updates, against the double-precision reference. */
#include "test/gpt/product_shapes.h"
#include "test/normal.h"

static void linear_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 2 * shapes_for(s); i++) {
        struct shape z = shapes[i / 2];
        bool bias = i % 2;
        struct array x = input(s->dtype, z.rows * z.in, 0, 1), w = input(s->dtype, z.out * z.in, 0, 0.1), b = input(s->dtype, z.out, 0, 1);
        struct array y = output(s->dtype, z.rows * z.out);
        struct gpt_linear a = {x.data, w.data, bias ? b.data : NULL, y.data, z.rows, z.in, z.out, 1};
        CHECK_OK(s->table->linear(s->kernels, s->stream, &a));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_linear(x.values, w.values, bias ? b.values : NULL, y.values, z.rows, z.in, z.out);
        CHECK_ARRAY(s, y, "y");
    }
}

static void linear(void)
{
    for_every_setup(linear_body);
}

static void linear_gradient_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 2 * shapes_for(s); i++) {
        struct shape z = shapes[i / 2];
        bool accumulate = i % 2;
        struct array x = input(s->dtype, z.rows * z.in, 0, 1), w = input(s->dtype, z.out * z.in, 0, 0.1);
        struct array dy = input(s->dtype, z.rows * z.out, 0, 1), dx = output(s->dtype, z.rows * z.in);
        double *old_dw = test_alloc(z.out * z.in * sizeof(double)), *old_db = test_alloc(z.out * sizeof(double));
        struct array dw = target(s, z.out * z.in, accumulate, old_dw), db = target(s, z.out, accumulate, old_db);
        struct gpt_linear_input_gradient for_x = {dy.data, w.data, dx.data, z.rows, z.in, z.out, 1};
        struct gpt_linear_weight_gradient for_w = {dy.data, x.data, dw.data, i == 2 ? NULL : db.data, z.rows, z.in, z.out, 1, accumulate};
        CHECK_OK(s->table->linear_input_gradient(s->kernels, s->stream, &for_x));
        CHECK_OK(s->table->linear_weight_gradient(s->kernels, s->stream, &for_w));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_linear_gradient(dy.values, x.values, w.values, dx.values, dw.values, db.values, z.rows, z.in, z.out);
        add_old(&dw, old_dw);
        add_old(&db, old_db);
        CHECK_ARRAY(s, dx, "dx");
        CHECK_ARRAY(s, dw, "dw");
        if (for_w.db)
            CHECK_ARRAY(s, db, "db");
    }
}

static void linear_gradient(void)
{
    for_every_setup(linear_gradient_body);
}

static struct gpt_dropout some_dropout(float probability)
{
    return (struct gpt_dropout){
        .seed = test_random(),
        .layer = (uint32_t)(test_random() % (1 << 24)),
        .first_sample = (uint32_t)(test_random() % 1000),
        .probability = probability,
    };
}

/* The end of a branch: of an operand that goes through GELU or not, with dropout or not. Reference:
 * each step after the other. */
static void linear_residual_body(struct setup *s)
{
    for (int i = 0; i < 4 * shapes_for(s); i++) {
        struct shape z = shapes[i / 4];
        size_t T = z.rows % 3 ? z.rows : z.rows / 3;
        bool gelu = i & 1;
        struct gpt_dropout dropout = some_dropout(i & 2 ? 0.25f : 0);
        struct array x = input(s->dtype, z.rows * z.in, 0, 2), w = input(s->dtype, z.out * z.in, 0, 0.1), b = input(s->dtype, z.out, 0, 1);
        struct array residual = input(s->dtype, z.rows * z.out, 0, 1), y = output(s->dtype, z.rows * z.out);
        struct array active = output(s->dtype, x.count);
        struct gpt_linear_residual a = {
            .linear = {x.data, w.data, i < 2 ? NULL : b.data, y.data, z.rows, z.in, z.out, 1},
            .residual = residual.data,
            .active = gelu ? active.data : NULL,
            .dropout = dropout,
        };
        setup_kernels(s, 1, (int)z.out, 8, (int)T);
        CHECK_OK(s->table->linear_residual(s->kernels, s->stream, &a));
        CHECK_OK(dt_stream_synchronize(s->stream));
        if (gelu) {
            ref_gelu(x.values, x.values, x.count, GPT_MLP_GELU);
            ref_round(s->dtype, x.values, x.count);
        }
        ref_linear(x.values, w.values, a.linear.b ? b.values : NULL, y.values, z.rows, z.in, z.out);
        struct dt_model model = gpt_model_of(DT_FP32, &(struct gpt_model){.hidden = (int)z.out, .block_size = (int)T});
        ref_dropout_residual(&model, residual.values, y.values, y.values, z.rows / T, &dropout);
        double error = error_of(s->dtype, y.data, y.values, y.count); /* the branch may be rounded on its own */
        CHECK(error <= 2 * bound_of(s->dtype), "y: error %.3g with %s, %s", error, dt_dtype_name(s->dtype), setup_text(s));
    }
}

static void linear_residual(void)
{
    for_every_setup(linear_residual_body);
}

static void dropout_body(struct setup *s)
{
    for (int i = 0; i < 8; i++) {
        int d = (int[]){4, 86, 256, 2064}[i / 2], T = 5;
        size_t samples = 3, count = samples * (size_t)(T * d);
        struct gpt_dropout dropout = some_dropout(i % 2 ? 0.1f : 0);
        setup_kernels(s, 1, d, 8, T);
        CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 100, 1));
        struct array residual = input(s->dtype, count, 0, 1), branch = input(s->dtype, count, 0, 1), dout = input(s->dtype, count, 0, 1);
        struct array out = {test_alloc(count * sizeof(double)), branch.data, count}, dbranch = output(s->dtype, count);
        struct gpt_dropout_residual forward = {residual.data, branch.data, out.data, samples * (size_t)T, dropout};
        struct gpt_dropout_gradient backward = {dout.data, dbranch.data, samples * (size_t)T, dropout};
        CHECK_OK(s->table->dropout_residual(s->kernels, s->stream, &forward));
        CHECK_OK(s->table->dropout_gradient(s->kernels, s->stream, &backward));
        CHECK_OK(dt_stream_synchronize(s->stream));
        struct dt_model model = gpt_model_of(DT_FP32, &(struct gpt_model){.hidden = d, .block_size = T});
        dropout.first_sample += 100; /* the step's */
        ref_dropout_residual(&model, residual.values, branch.values, out.values, samples, &dropout);
        ref_dropout_gradient(&model, dout.values, dbranch.values, samples, &dropout);
        CHECK_ARRAY(s, out, "out in the branch's place");
        CHECK_ARRAY(s, dbranch, "dbranch");
    }
}

static void dropout(void)
{
    for_every_setup(dropout_body);
}

static void embedding_body(struct setup *s)
{
    static const struct {
        int hidden, vocab, samples;
    } sizes[] = {{20, 301, 4}, {86, 301, 4}, {264, 6, 4}, {86, 6, 4}, {8, 1500, 300}};
    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++) {
        struct dt_model model = gpt_model_of(
            DT_FP32,
            &(struct gpt_model){
                .heads = 1, .hidden = sizes[i].hidden, .vocab_size = sizes[i].vocab, .block_size = 7, .position_rows = i % 2 ? 9 : 0});
        size_t samples = (size_t)sizes[i].samples, d = (size_t)gpt_of(&model)->hidden, T = 7, V = (size_t)gpt_of(&model)->vocab_size;
        size_t P = (size_t)gpt_position_rows(&model); /* rows of positions */
        struct gpt_dropout dropout = some_dropout(i == 3 ? 0 : 0.25f);
        setup_kernels(s, 1, gpt_of(&model)->hidden, gpt_of(&model)->vocab_size, gpt_of(&model)->block_size);
        struct array tokens_table = input(s->dtype, V * d, 0, 1), positions = input(s->dtype, P * d, 0, 1);
        struct array out = output(s->dtype, samples * T * d), dout = input(s->dtype, samples * T * d, 0, 1);
        int32_t *tokens = test_alloc(samples * T * sizeof *tokens);
        for (size_t m = 0; m < samples * T; m++)
            tokens[m] = (int32_t)(test_random() % V);
        struct gpt_embedding forward = {tokens, tokens_table.data, positions.data, out.data, samples, {0, V}, {0, P}, dropout};
        CHECK_OK(s->table->embedding(s->kernels, s->stream, &forward));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_embedding(&model, tokens, tokens_table.values, positions.values, out.values, samples, &dropout);
        CHECK_ARRAY(s, out, "out");
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            double *old = test_alloc((V + P) * d * sizeof *old);
            struct array dtokens = target(s, V * d, accumulate, old), dpositions = target(s, P * d, accumulate, old + V * d);
            struct gpt_embedding_gradient backward = {tokens, dout.data, dtokens.data, dpositions.data, samples,
                                                      {0, V}, {0, P},    accumulate,   dropout};
            CHECK_OK(s->table->embedding_gradient(s->kernels, s->stream, &backward));
            CHECK_OK(dt_stream_synchronize(s->stream));
            ref_embedding_gradient(&model, tokens, dout.values, dtokens.values, dpositions.values, samples, &dropout);
            add_old(&dtokens, old);
            add_old(&dpositions, old + V * d);
            CHECK_ARRAY(s, dtokens, "dtoken_table");
            CHECK_ARRAY(s, dpositions, "dposition_table");
        }
    }
}

static void embedding(void)
{
    for_every_setup(embedding_body);
}

static void loss_body(struct setup *s)
{
    for (int i = 0; i < 6; i++) {
        size_t V = (size_t[]){7, 65, 50000}[i / 2], rows = V > 1000 ? 2 : 11;
        bool sum = i % 2;
        double center = i / 2 == 1 ? -200 : 0, spread = i / 2 == 1 ? 90 : 6; /* also far below zero, and far apart */
        setup_kernels(s, 1, 8, (int)V, 8);
        struct array logits = input(s->dtype, rows * V, center, spread), gradient = logits;
        gradient.values = test_alloc(rows * V * sizeof(double));
        int32_t *targets = test_alloc(rows * sizeof *targets);
        for (size_t r = 0; r < rows; r++)
            targets[r] = (int32_t)(test_random() % V);
        double *loss = test_alloc(sizeof *loss), want, scale = sum ? (double)(rows * V) * (fabs(center) + spread) : 100;
        struct gpt_loss a = {gradient.data, targets, loss, rows, 64, 0.125f, sum}; /* 64: fp16 would lose the smallest gradients */
        *loss = 2.5;
        CHECK_OK(s->table->loss(s->kernels, s->stream, &a));
        CHECK_OK(dt_stream_synchronize(s->stream));
        want = 2.5 + ref_loss(logits.values, targets, gradient.values, rows, V, 64, 0.125, sum);
        CHECK(fabs(*loss - want) < 1e-7 * scale, "loss %.9g, not %.9g: %s", *loss, want, dt_dtype_name(s->dtype));
        CHECK_ARRAY(s, gradient, "gradient");
    }
}

static void loss(void)
{
    for_every_setup(loss_body);
}

/* A diverged model must be visible. */
static void loss_keeps_nan_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 129, 8);
    for (size_t at = 0; at < 129; at++) {
        struct array logits = input(s->dtype, 129, 0, 1);
        double *loss = test_alloc(sizeof *loss), nan = NAN;
        int32_t *target_token = test_alloc(sizeof *target_token);
        struct gpt_loss a = {logits.data, target_token, loss, 1, 1, 1, at % 2};
        *loss = 0;
        *target_token = 5;
        ref_encode(s->dtype, &nan, (char *)logits.data + at * dt_dtype_bytes(s->dtype), 1);
        CHECK_OK(s->table->loss(s->kernels, s->stream, &a));
        CHECK_OK(dt_stream_synchronize(s->stream));
        CHECK(isnan(*loss), "NaN at %zu gives %g", at, *loss);
        test_free_all();
    }
}

static void loss_keeps_nan(void)
{
    for_every_setup(loss_keeps_nan_body);
}

static void add_and_fill_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 6; i++) { /* from the fourth on those of host memory */
        size_t count = (size_t[]){17, 77, 30001}[i % 3];
        struct array to = input(s->dtype, count, 0, 1), from = input(s->dtype, count, 0, 1), filled = output(s->dtype, count);
        CHECK_OK(dt_kernels_add(&s->base, s->stream, i >= 3, to.data, from.data, count));
        CHECK_OK(dt_kernels_fill(&s->base, s->stream, filled.data, count, 0.75f));
        CHECK_OK(dt_stream_synchronize(s->stream));
        for (size_t j = 0; j < count; j++) {
            to.values[j] += from.values[j];
            filled.values[j] = 0.75;
        }
        CHECK_ARRAY(s, to, "sum");
        CHECK(error_of(s->dtype, filled.data, filled.values, count) == 0, "fill");
    }
}

static void add_and_fill(void)
{
    for_every_setup(add_and_fill_body);
}

static void normal_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 4; i++) {
        size_t count = (size_t[]){1, 301, 20000, 200}[i];
        uint64_t seed = test_random(), first = i == 3 ? (1ull << 34) - 77 : test_random() % 1000;
        uint32_t tensor = (uint32_t)test_random();
        struct array weights = output(s->dtype, count);
        struct dt_initial a = {
            .to = weights.data, .count = count, .seed = seed, .first_element = first, .tensor_id = tensor, .scale = 0.02f};
        CHECK_OK(dt_kernels_initialise(&s->base, s->stream, &a));
        CHECK_OK(dt_stream_synchronize(s->stream));
        double *got = test_alloc(count * sizeof *got);
        ref_decode(s->dtype, weights.data, got, count);
        for (size_t j = 0; j < count; j++) {
            double want = (double)dt_random_normal(seed, tensor, first + j) * 0.02f;
            /* one unit in the dtype's last place; fp32 has some more from the way there, and fp16
             * is coarse next to zero */
            double unit = s->dtype == DT_FP32 ? 1e-6 : s->dtype == DT_FP16 ? 0x1p-10 : 0x1p-7;
            CHECK(fabs(got[j] - want) <= unit * fabs(want) + (s->dtype == DT_FP16 ? 0x1p-24 : 0), "element %zu: %.9g, not %.9g", j, got[j],
                  want);
        }
    }
}

static void normal(void)
{
    for_every_setup(normal_body);
}

static void tokens_body(struct setup *s)
{
    size_t T = 9, samples = 3;
    uint64_t seed = test_random();
    int32_t *inputs = test_alloc(samples * T * sizeof *inputs), *targets = test_alloc(samples * T * sizeof *targets);
    setup_kernels(s, 1, 8, 50000, (int)T);
    CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 12, 1));
    CHECK_OK(s->table->tokens(s->kernels, s->stream, &(struct gpt_tokens){inputs, targets, samples, {0}, seed, 5}));
    CHECK_OK(dt_stream_synchronize(s->stream));
    for (size_t m = 0; m < samples * T; m++) {
        uint32_t sample = 17 + (uint32_t)(m / T), t = (uint32_t)(m % T);
        CHECK(inputs[m] == (int32_t)dt_random_token(seed, sample, t, 50000));
        CHECK(targets[m] == (int32_t)dt_random_token(seed, sample, t + 1, 50000));
    }
}

static void tokens(void)
{
    for_every_setup(tokens_body);
}

/* Parts of rows, whether they are whole packs of elements or not; what lies between them stays. */
static void move_body(struct setup *s)
{
    enum { ROWS = 37 };
    static const struct {
        size_t columns, from_stride, to_stride;
    } moved[] = {{24, 72, 40}, {5, 11, 7}, {264, 264, 272}, {1, 1, 3}};
    size_t element = dt_dtype_bytes(s->dtype);
    setup_kernels(s, 1, 8, 50000, 9);
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        size_t columns = moved[i].columns, from_stride = moved[i].from_stride, to_stride = moved[i].to_stride;
        struct array from = input(s->dtype, ROWS * from_stride, 0, 1), to = input(s->dtype, ROWS * to_stride, 0, 1);
        char *want = malloc(ROWS * to_stride * element);
        memcpy(want, to.data, ROWS * to_stride * element);
        for (size_t row = 0; row < ROWS; row++)
            memcpy(want + row * to_stride * element, (char *)from.data + row * from_stride * element, columns * element);
        CHECK_OK(s->table->move(s->kernels, s->stream, &(struct gpt_move){from.data, to.data, ROWS, columns, from_stride, to_stride}));
        CHECK_OK(dt_stream_synchronize(s->stream));
        CHECK(memcmp(to.data, want, ROWS * to_stride * element) == 0, "%zu columns", columns);
        free(want);
    }
}

static void moves(void)
{
    for_every_setup(move_body);
}

/* ---- several kernels in one: where the backend has them, what those they stand for compute
 * ---- */

static void residual_norm_case(struct setup *s, int d, bool rms, float probability)
{
    enum { SAMPLES = 3, T = 5, ROWS = SAMPLES * T };
    size_t count = ROWS * (size_t)d, width = (size_t)d;
    struct gpt_dropout dropout = some_dropout(probability);
    struct array residual = input(s->dtype, count, 3, 1), branch = input(s->dtype, count, 0, 1), gain = input(s->dtype, width, 1, 0.5);
    struct array bias = input(s->dtype, width, 0, 1), y = output(s->dtype, count);
    struct array sum = {test_alloc(count * sizeof(double)), branch.data, count};
    float *mean = test_alloc(ROWS * sizeof *mean), *rstd = test_alloc(ROWS * sizeof *rstd);
    double *ref_mean = test_alloc(ROWS * sizeof *ref_mean), *ref_rstd = test_alloc(ROWS * sizeof *ref_rstd);
    struct gpt_residual_norm a = {
        .sum = {residual.data, branch.data, sum.data, ROWS, dropout},
        .norm = {sum.data, gain.data, rms ? NULL : bias.data, y.data, rms ? NULL : mean, rstd, ROWS, width, 1e-5f},
    };
    struct dt_model model = gpt_model_of(DT_FP32, &(struct gpt_model){.hidden = d, .block_size = T});
    setup_kernels(s, 1, d, 8, T);
    CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 100, 1));
    CHECK_OK(s->table->residual_norm(s->kernels, s->stream, &a));
    CHECK_OK(dt_stream_synchronize(s->stream));
    dropout.first_sample += 100; /* the step's */
    ref_dropout_residual(&model, residual.values, branch.values, sum.values, SAMPLES, &dropout);
    CHECK_ARRAY(s, sum, "the sum in the branch's place");
    ref_decode(s->dtype, sum.data, sum.values, count); /* the norm reads it as it was rounded */
    if (rms)
        ref_rms_norm(sum.values, gain.values, y.values, ref_rstd, ROWS, width, 1e-5);
    else
        ref_layer_norm(sum.values, gain.values, bias.values, y.values, ref_mean, ref_rstd, ROWS, width, 1e-5);
    CHECK_ARRAY(s, y, "y");
    CHECK(rms || error_of(DT_FP32, mean, ref_mean, ROWS) < 1e-6);
    CHECK(error_of(DT_FP32, rstd, ref_rstd, ROWS) < 3e-6);
}

static void norm_branch_gradient_case(struct setup *s, int d, bool rms, bool accumulate)
{
    enum { SAMPLES = 3, T = 5, ROWS = SAMPLES * T };
    size_t count = ROWS * (size_t)d, width = (size_t)d;
    struct gpt_dropout dropout = some_dropout(accumulate ? 0.1f : 0);
    struct array x = input(s->dtype, count, rms ? 0 : 3, 1), gain = input(s->dtype, width, 1, 0.5), dy = input(s->dtype, count, 0, 1);
    double *old_dx = test_alloc(count * sizeof(double)), *old = test_alloc(2 * width * sizeof(double));
    struct array dx = target(s, count, true, old_dx), dgain = target(s, width, accumulate, old),
                 dbias = target(s, width, accumulate, old + d);
    struct array dbranch = output(s->dtype, count), bias = input(s->dtype, width, 0, 1),
                 y = {test_alloc(count * sizeof(double)), dy.data, count};
    bool makes_branch = (rms + accumulate) % 2 == 0 || d > 64; /* without it only once each */
    float *mean = test_alloc(ROWS * sizeof *mean), *rstd = test_alloc(ROWS * sizeof *rstd);
    double *ref_mean = test_alloc(ROWS * sizeof *ref_mean), *ref_rstd = test_alloc(ROWS * sizeof *ref_rstd);
    void *again = accumulate ? NULL : y.data; /* in dy's place */
    struct gpt_norm_branch_gradient a = {
        .norm = {x.data, gain.data, rms ? NULL : bias.data, again, rms ? NULL : mean, rstd, ROWS, width, 1e-5f},
        .dy = dy.data,
        .dx = dx.data,
        .dgain = dgain.data,
        .dbias = rms ? NULL : dbias.data,
        .dbranch = makes_branch ? dbranch.data : NULL,
        .accumulate = accumulate,
        .dropout = dropout,
    };
    struct dt_model model = gpt_model_of(DT_FP32, &(struct gpt_model){.hidden = d, .block_size = T});
    if (rms)
        ref_rms_norm(x.values, gain.values, y.values, ref_rstd, ROWS, width, 1e-5);
    else
        ref_layer_norm(x.values, gain.values, bias.values, y.values, ref_mean, ref_rstd, ROWS, width, 1e-5);
    for (int r = 0; r < ROWS; r++) {
        mean[r] = rms ? 0.0f : (float)ref_mean[r];
        rstd[r] = (float)ref_rstd[r];
    }
    setup_kernels(s, 1, d, 8, T);
    CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 100, 1));
    CHECK_OK(s->table->norm_branch_gradient(s->kernels, s->stream, &a));
    CHECK_OK(dt_stream_synchronize(s->stream));
    if (rms)
        ref_rms_norm_gradient(dy.values, x.values, gain.values, dx.values, dgain.values, ROWS, width, 1e-5);
    else
        ref_layer_norm_gradient(dy.values, x.values, gain.values, dx.values, dgain.values, dbias.values, ROWS, width, 1e-5);
    add_old(&dx, old_dx);
    add_old(&dgain, old);
    CHECK_ARRAY(s, dx, "dx");
    CHECK_ARRAY(s, dgain, "dgain");
    if (!rms) {
        add_old(&dbias, old + d);
        CHECK_ARRAY(s, dbias, "dbias");
    }
    dropout.first_sample += 100;
    ref_decode(s->dtype, dx.data, dx.values, count); /* the branch's gradient is that of dx as it was rounded */
    ref_dropout_gradient(&model, dx.values, dbranch.values, SAMPLES, &dropout);
    if (makes_branch)
        CHECK_ARRAY(s, dbranch, "dbranch");
    if (again)
        CHECK_ARRAY(s, y, "y in dy's place");
}

/* Rows in the registers of a warp and of blocks, and longer ones. */
static void norms_in_one_body(struct setup *s)
{
    static const int widths[] = {64, 86, 1032, 2064, 5184, 16392, 33000};
    if (!s->table->residual_norm)
        return;
    for (int i = 0; i < (int)(sizeof widths / sizeof *widths); i++)
        for (int rms = 0; rms < 2; rms++) {
            bool other = (i + rms + (int)s->dtype) % 2;
            residual_norm_case(s, widths[i], rms, other ? 0.25f : 0);
            norm_branch_gradient_case(s, widths[i], rms, other);
        }
}

static void norms_in_one(void)
{
    if (!gpt_kernels_for(dt_device_kind_find(test_device_kind()))->residual_norm)
        SKIP("device \"%s\" has kernels of their own for each", test_device_kind());
    for_every_setup(norms_in_one_body);
}

static const struct test_case cases[] = {
    {"linear", linear},
    {"linear's gradients", linear_gradient},
    {"linear and the residual stream", linear_residual},
    {"norms and what is before them in one", norms_in_one},
    {"dropout, with the residual and alone", dropout},
    {"embedding and its gradients", embedding},
    {"cross-entropy and the plain sum of logits", loss},
    {"a NaN among the logits makes the loss NaN", loss_keeps_nan},
    {"add and fill", add_and_fill},
    {"initial weights", normal},
    {"tokens", tokens},
    {"parts of rows move", moves},
};

int main(void)
{
    test_seed();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}

/* The activation of the MLP alone, and in one with the products around it (kernel_setup.h), against
 * the double-precision reference; Hopper's kernel for its gradient, and the trials of such kernels. */
#include "gpt/kernel_set.h"
#include "lib/model/stage.h"
#include "test/gpt/product_shapes.h"

/* The activation to test with a dtype. */
static enum gpt_mlp_kind activation_of(const struct setup *s)
{
    static const enum gpt_mlp_kind of[] = {[DT_FP32] = GPT_MLP_RELU, [DT_FP16] = GPT_MLP_GELU_NEW, [DT_BF16] = GPT_MLP_GELU};
    return of[s->dtype];
}

static void gelu_form(struct setup *s, enum gpt_mlp_kind mlp)
{
    setup_gelu(s, mlp);
    for (int i = 0; i < 4; i++) {
        size_t count = (size_t[]){17, 37, 4099, 20000}[i];
        double range = (double[]){1, 8, 3, 40}[i];
        struct array x = input(s->dtype, count, 0, range), y = output(s->dtype, count), dy = input(s->dtype, count, 0, 1), dx = dy;
        dx.values = test_alloc(count * sizeof *dx.values);
        CHECK_OK(s->table->gelu(s->kernels, s->stream, &(struct gpt_gelu){y.data, x.data, count}));
        CHECK_OK(s->table->gelu_gradient(s->kernels, s->stream, &(struct gpt_gelu_gradient){dx.data, x.data, count}));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_gelu(x.values, y.values, count, mlp);
        ref_gelu_gradient(dy.values, x.values, dx.values, count, mlp);
        CHECK_ARRAY(s, y, "y");
        CHECK_ARRAY(s, dx, "dx");
        /* The left tail is small, and must be right all the same; of the tanh form it is e to a
         * number of up to 70, whose rounding counts. */
        double tail = mlp == GPT_MLP_GELU_NEW ? 3e-5 : 1e-5;
        for (size_t j = 0; j < count && s->dtype == DT_FP32; j++)
            CHECK(x.values[j] < -9 || fabs(((float *)y.data)[j] - y.values[j]) <= tail * fabs(y.values[j]), "gelu(%.9g) = %.9g, not %.9g",
                  x.values[j], ((float *)y.data)[j], y.values[j]);
    }
}

/* The limits where x is infinite, and NaN where it is none; in vectors and after them. */
static void gelu_limits_form(struct setup *s, enum gpt_mlp_kind mlp)
{
    enum { COUNT = 5 * 9 };
    static const double at[] = {INFINITY, -INFINITY, NAN, 60000, -60000}, value[] = {INFINITY, 0, NAN, 60000, 0},
                        slope[] = {1, 0, NAN, 1, 0};
    setup_gelu(s, mlp);
    struct array x = input(s->dtype, COUNT, 0, 1), y = output(s->dtype, COUNT), dx = input(s->dtype, COUNT, 1, 0);
    for (size_t j = 0; j < COUNT; j++)
        x.values[j] = at[j % 5];
    ref_encode(s->dtype, x.values, x.data, COUNT);
    CHECK_OK(s->table->gelu(s->kernels, s->stream, &(struct gpt_gelu){y.data, x.data, COUNT}));
    CHECK_OK(s->table->gelu_gradient(s->kernels, s->stream, &(struct gpt_gelu_gradient){dx.data, x.data, COUNT}));
    CHECK_OK(dt_stream_synchronize(s->stream));
    ref_decode(s->dtype, y.data, y.values, COUNT);
    ref_decode(s->dtype, dx.data, dx.values, COUNT);
    for (size_t j = 0; j < COUNT; j++) {
        double want = value[j % 5], got = y.values[j], want_slope = slope[j % 5], got_slope = dx.values[j];
        bool near = isfinite(want) ? fabs(got - want) <= 0.004 * fabs(want) + 1e-30 : isnan(want) ? isnan(got) : got == want;
        bool near_slope = isnan(want_slope) ? isnan(got_slope) : fabs(got_slope - want_slope) < 1e-30;
        CHECK(near && near_slope, "%s, element %zu: gelu(%g) = %g, its derivative %g", dt_dtype_name(s->dtype), j, at[j % 5], got,
              got_slope);
    }
}

static void gelu_body(struct setup *s)
{
    static const enum gpt_mlp_kind forms[] = {GPT_MLP_GELU, GPT_MLP_GELU_NEW, GPT_MLP_RELU};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        gelu_form(s, forms[i]);
        gelu_limits_form(s, forms[i]);
    }
}

static void gelu(void)
{
    for_every_setup(gelu_body);
}

/* Back through a linear and the GELU in front of it. */
static void linear_gelu_gradient_body(struct setup *s)
{
    enum gpt_mlp_kind mlp = activation_of(s);
    setup_gelu(s, mlp);
    for (int i = 0; i < shapes_for(s); i++) {
        struct shape z = shapes[i];
        struct array dy = input(s->dtype, z.rows * z.out, 0, 1), w = input(s->dtype, z.out * z.in, 0, 0.1);
        struct array hidden = input(s->dtype, z.rows * z.in, 0, 3), dx = output(s->dtype, z.rows * z.in);
        double *product = test_alloc(dx.count * sizeof *product), *dw = test_alloc(w.count * sizeof *dw);
        double *db = test_alloc(z.out * sizeof *db);
        struct gpt_linear_gelu_input_gradient a = {{dy.data, w.data, dx.data, z.rows, z.in, z.out, 1}, hidden.data};
        CHECK_OK(s->table->linear_gelu_input_gradient(s->kernels, s->stream, &a));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_linear_gradient(dy.values, hidden.values, w.values, product, dw, db, z.rows, z.in, z.out);
        ref_gelu_gradient(product, hidden.values, dx.values, dx.count, mlp);
        double error = error_of(s->dtype, dx.data, dx.values, dx.count); /* the product may be rounded on its own */
        CHECK(error <= 2 * bound_of(s->dtype), "dx: error %.3g with %s, %s", error, dt_dtype_name(s->dtype), setup_text(s));
    }
}

static void linear_gelu_gradient(void)
{
    for_every_setup(linear_gelu_gradient_body);
}

static void linear_gelu_weights_body(struct setup *s)
{
    enum gpt_mlp_kind mlp = activation_of(s);
    setup_gelu(s, mlp);
    for (int i = 0; i < 2 * shapes_for(s); i++) {
        struct shape z = shapes[i / 2];
        bool accumulate = i % 2;
        struct array hidden = input(s->dtype, z.rows * z.in, 0, 2), dy = input(s->dtype, z.rows * z.out, 0, 1);
        struct array active = output(s->dtype, hidden.count), w = input(s->dtype, z.out * z.in, 0, 1);
        double *old_dw = test_alloc(w.count * sizeof(double)), *old_db = test_alloc(z.out * sizeof(double));
        struct array dw = target(s, w.count, accumulate, old_dw), db = target(s, z.out, accumulate, old_db);
        double *dx = test_alloc(hidden.count * sizeof *dx);
        struct gpt_linear_gelu_weight_gradient a = {
            {dy.data, hidden.data, dw.data, i == 2 ? NULL : db.data, z.rows, z.in, z.out, 1, accumulate}, active.data};
        CHECK_OK(s->table->linear_gelu_weight_gradient(s->kernels, s->stream, &a));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_gelu(hidden.values, hidden.values, hidden.count, mlp);
        ref_round(s->dtype, hidden.values, hidden.count);
        ref_linear_gradient(dy.values, hidden.values, w.values, dx, dw.values, db.values, z.rows, z.in, z.out);
        add_old(&dw, old_dw);
        add_old(&db, old_db);
        CHECK_ARRAY(s, dw, "dw");
        if (a.linear.db)
            CHECK_ARRAY(s, db, "db");
    }
}

static void linear_gelu_weights(void)
{
    for_every_setup(linear_gelu_weights_body);
}

/* ---- several kernels in one: where the backend has them, what those they stand for compute ---- */

/* The tanh form where products have it: shape 5 in 16 bits, and all arrays aligned. */
static enum gpt_mlp_kind activation_in_one(const struct setup *s, int shape)
{
    return shape == SHAPES - 1 && s->dtype != DT_FP32 ? GPT_MLP_GELU_NEW : activation_of(s);
}

static void linear_gelu_body(struct setup *s)
{
    if (!s->table->linear_gelu)
        return;
    for (int i = 0; i < 2 * shapes_for(s); i++) {
        struct shape z = shapes[i / 2];
        enum gpt_mlp_kind mlp = activation_in_one(s, i / 2);
        setup_gelu(s, mlp);
        struct array x = input(s->dtype, z.rows * z.in, 0, 1), w = input(s->dtype, z.out * z.in, 0, 0.1), b = input(s->dtype, z.out, 0, 1);
        struct array hidden = output(s->dtype, z.rows * z.out), active = output(s->dtype, z.rows * z.out);
        if (mlp == GPT_MLP_RELU && i > 1)
            active = hidden;
        struct gpt_linear linear = {x.data, w.data, i % 2 ? b.data : NULL, hidden.data, z.rows, z.in, z.out, 1};
        CHECK_OK(s->table->linear_gelu(s->kernels, s->stream, &(struct gpt_linear_gelu){linear, active.data}));
        CHECK_OK(dt_stream_synchronize(s->stream));
        ref_linear(x.values, w.values, i % 2 ? b.values : NULL, hidden.values, z.rows, z.in, z.out);
        if (active.data != hidden.data)
            CHECK_ARRAY(s, hidden, "hidden");
        ref_gelu(hidden.values, active.values, active.count, mlp);
        double error = error_of(s->dtype, active.data, active.values, active.count); /* hidden may be rounded on its own */
        CHECK(error <= 2 * bound_of(s->dtype), "active: error %.3g with %s, %s", error, dt_dtype_name(s->dtype), setup_text(s));
    }
}

/* active: NULL, or where GELU goes once more: true in the place of what it is of. */
static void gelu_gradient_sums_case(struct setup *s, struct shape z, enum gpt_mlp_kind mlp, bool accumulate, bool sums,
                                    const bool *in_place)
{
    setup_gelu(s, mlp);
    struct array dy = input(s->dtype, z.rows * z.out, 0, 1), w = input(s->dtype, z.out * z.in, 0, 0.1);
    struct array hidden = input(s->dtype, z.rows * z.in, 0, 3), dx = output(s->dtype, z.rows * z.in);
    double *product = test_alloc(dx.count * sizeof *product), *old_db = test_alloc(z.in * sizeof *old_db);
    struct array db = target(s, z.in, accumulate, old_db);
    struct array apart = output(s->dtype, hidden.count), active = in_place && *in_place ? hidden : apart;
    double *gelu = test_alloc(hidden.count * sizeof *gelu);
    ref_gelu(hidden.values, gelu, hidden.count, mlp);
    struct gpt_gelu_gradient_sums a = {{{dy.data, w.data, dx.data, z.rows, z.in, z.out, 1}, hidden.data},
                                       sums ? db.data : NULL,
                                       in_place ? active.data : NULL,
                                       accumulate};
    CHECK_OK(s->table->gelu_gradient_sums(s->kernels, s->stream, &a));
    CHECK_OK(dt_stream_synchronize(s->stream));
    ref_linear_gradient(dy.values, hidden.values, w.values, product, NULL, NULL, z.rows, z.in, z.out);
    ref_gelu_gradient(product, hidden.values, dx.values, dx.count, mlp);
    double error = error_of(s->dtype, dx.data, dx.values, dx.count); /* the product may be rounded on its own */
    CHECK(error <= 2 * bound_of(s->dtype), "dx: error %.3g with %s, %s", error, dt_dtype_name(s->dtype), setup_text(s));
    active.values = gelu;
    if (a.active)
        CHECK_ARRAY(s, active, "gelu once more");
    if (!a.db)
        return;
    ref_decode(s->dtype, dx.data, dx.values, dx.count); /* and the sums are of dx as it was rounded */
    for (size_t column = 0; column < z.in; column++) {
        db.values[column] = 0;
        for (size_t row = 0; row < z.rows; row++)
            db.values[column] += dx.values[row * z.in + column];
    }
    add_old(&db, old_db);
    CHECK_ARRAY(s, db, "db");
}

static const bool in_place = true, apart = false;

static void gelu_gradient_sums_body(struct setup *s)
{
    for (int i = 0; s->table->gelu_gradient_sums && i < 2 * shapes_for(s); i++)
        gelu_gradient_sums_case(s, shapes[i / 2], activation_in_one(s, i / 2), i % 2, i % 3 != 2,
                                i == 0       ? NULL
                                : i % 3 == 1 ? &apart
                                             : &in_place);
}

/* Tiles that the arrays do not fill, more tiles of depth than shared memory has places for, and
 * widths that the kernel leaves to others. */
static void gelu_gradient_in_one_body(struct setup *s)
{
    if (s->dtype == DT_FP32)
        return;
    gelu_gradient_sums_case(s, (struct shape){150, 392, 328}, GPT_MLP_GELU, false, true, &in_place);
    gelu_gradient_sums_case(s, (struct shape){70, 264, 72}, GPT_MLP_GELU, true, true, NULL);
    gelu_gradient_sums_case(s, (struct shape){129, 8, 8}, GPT_MLP_GELU, false, false, &apart);
    gelu_gradient_sums_case(s, (struct shape){9, 20, 8}, GPT_MLP_GELU, false, true, &in_place);
}

static void products_in_one(void)
{
    if (!gpt_kernels_for(dt_device_kind_find(test_device_kind()))->linear_gelu)
        SKIP("device \"%s\" has kernels of their own for each", test_device_kind());
    for_every_setup(linear_gelu_body);
    for_every_setup(gelu_gradient_sums_body);
}

/* Those of gpt/cuda/gelu_hopper.cu. */
static void warpgroups(void)
{
    struct dt_device *device;
    const char *kind = test_device_kind();
    setup_options.warpgroup_kernels = DT_WARPGROUPS_ALWAYS;
    dt_status status =
        strcmp(kind, "cuda") == 0 ? dt_device_create(kind, &setup_options, &device) : dt_fail(DT_ERR_UNAVAILABLE, "the kernels of a GPU");
    if (status == DT_OK) {
        dt_device_destroy(device);
        for_every_setup(gelu_gradient_in_one_body);
        for_every_setup(linear_gelu_gradient_body);
    }
    setup_options.warpgroup_kernels = DT_WARPGROUPS_NEVER;
    if (status == DT_ERR_UNAVAILABLE)
        SKIP("%s", dt_error_message());
    CHECK_OK(status);
}

/* A right kernel passes its trial, whatever the model: rounding is never taken for a fault. */
static void trial_case(struct dt_device *device, enum dt_dtype dtype, struct gpt_model of)
{
    struct dt_model model = gpt_model_of(dtype, &of);
    struct dt_kernels *kernels;
    CHECK_OK(dt_kernels_create(&gpt_own_kernels, &model, device, &kernels));
    const struct dt_trials *trials = &kernels->trials;
    unsigned wanted = dtype == DT_FP32 ? 0 : of.mlp == GPT_MLP_GELU ? 7 : 3;
    CHECK(trials->in_use == wanted && !*trials->doubt, "%s, heads of %d: trials %x, %s", dt_dtype_name(dtype), of.hidden / of.heads,
          trials->in_use, trials->doubt);
    dt_kernels_destroy(kernels);
}

static void trials(void)
{
    struct dt_device *device;
    const struct dt_device_options always = {.warpgroup_kernels = DT_WARPGROUPS_ALWAYS};
    if (strcmp(test_device_kind(), "cuda") != 0)
        SKIP("the kernels of a GPU");
    dt_status status = dt_device_create("cuda", &always, &device);
    if (status == DT_ERR_UNAVAILABLE)
        SKIP("%s", dt_error_message());
    CHECK_OK(status);
    dt_device_destroy(device);
    CHECK_OK(dt_device_create("cuda", NULL, &device));
    for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
        trial_case(device, dtype, (struct gpt_model){.layers = 1, .heads = 4, .hidden = 512, .vocab_size = 8, .block_size = 1024});
        trial_case(device, dtype,
                   (struct gpt_model){.layers = 1,
                                      .heads = 8,
                                      .kv_heads = 2,
                                      .hidden = 768,
                                      .vocab_size = 8,
                                      .block_size = 300,
                                      .dropout = 0.1f,
                                      .position = GPT_POSITION_ALIBI});
        trial_case(device, dtype,
                   (struct gpt_model){.layers = 1, .heads = 1, .hidden = 8, .vocab_size = 8, .block_size = 1, .dropout = 0.5f});
        trial_case(device, dtype,
                   (struct gpt_model){.layers = 1, .heads = 2, .hidden = 80, .vocab_size = 8, .block_size = 9, .mlp = GPT_MLP_SWIGLU});
    }
    dt_device_destroy(device);
}

static const struct test_case cases[] = {
    {"GELU and its gradient", gelu},
    {"linear's input gradient through GELU", linear_gelu_gradient},
    {"linear's weight gradient after GELU", linear_gelu_weights},
    {"products, GELU and sums in one", products_in_one},
    {"kernels of warpgroups", warpgroups},
    {"trials of kernels of warpgroups", trials},
};

int main(void)
{
    test_seed();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}

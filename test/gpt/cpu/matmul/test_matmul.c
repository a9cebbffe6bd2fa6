/* Products by tiles against double precision: on the twin everywhere, on AMX where there is AMX,
 * and elsewhere the code for AMX by way of amx_trap.h. Sizes that fill no tile, all transposes,
 * starts that suit no vector, what follows a product, NaN and infinities, 1 to 8 threads; and which
 * way DTBENCH_CPU_PRODUCTS leads. */
#include "gpt/cpu/matmul/matmul.h"
#include "gpt/cpu/matmul/products.h"
#include "gpt/cpu/matmul/tiles.h"
#include "lib/base/random.h"
#include "test/gpt/cpu/matmul/units.h"
#include "test/gpt/kernel_setup.h"

/* ---- a problem, and what is right ---- */

struct shape {
    size_t m, n, k;
};

/* Work before or after the product. RESIDUAL: with bias and dropout. GELU_A, GELU_B: an operand
 * goes through GELU first. */
enum follows { NOTHING, BIAS, ACCUMULATE, GELU, SUMS, RESIDUAL, GELU_A, GELU_B, FOLLOWS };

struct problem {
    struct shape shape;
    bool transpose_a, transpose_b;
    enum follows follows;
    struct array a, b, bias, gelu_of, old, old_sums; /* as they are stored */
    double *want, *tolerance;                        /* [m, n] */
    double *want_sums, *sums_tolerance;              /* [m] */
};

/* Rows from the middle of a sample on; samples end within strips. */
static const struct gpt_dropout dropped = {.seed = 77, .layer = 3, .first_sample = 5, .first_row = 3, .probability = 0.25f};
enum { DROPPED_T = 7 };

static double a_at(const struct problem *p, size_t row, size_t k)
{
    return p->a.values[p->transpose_a ? k * p->shape.m + row : row * p->shape.k + k];
}

static double b_at(const struct problem *p, size_t k, size_t column)
{
    return p->b.values[p->transpose_b ? column * p->shape.k + k : k * p->shape.n + column];
}

/* The allowed difference: fp32's rounding of k additions (each of at most the sum of all
 * magnitudes), then bf16's. */
static double tolerance_of(double want, double magnitudes, size_t k)
{
    return fabs(want) * 0x1p-8 + magnitudes * ((double)k + 8) * 0x1p-24 * (1 + 0x1p-8) + 0x1p-100;
}

static void expect_element(struct problem *p, size_t row, size_t column)
{
    size_t place = row * p->shape.n + column;
    double sum = 0, magnitudes = 0, largest = 0, factor;
    for (size_t k = 0; k < p->shape.k; k++) {
        double product = a_at(p, row, k) * b_at(p, k, column);
        sum += product;
        magnitudes += fabs(product);
        largest = fmax(largest, fabs(product));
    }
    if (p->follows == GELU_A || p->follows == GELU_B)
        magnitudes += largest * 0x1p17 / ((double)p->shape.k + 8); /* an element may be rounded the other way: its last place */
    double added = p->follows == BIAS || p->follows == RESIDUAL     ? p->bias.values[column]
                   : p->follows == ACCUMULATE || p->follows == SUMS ? p->old.values[place]
                                                                    : 0;
    sum += added;
    magnitudes += fabs(added);
    if (p->follows == GELU) {
        ref_gelu_gradient(&(double){1}, &p->gelu_of.values[place], &factor, 1, GPT_MLP_GELU);
        sum *= factor;
        magnitudes *= 2;
    }
    if (p->follows == RESIDUAL) {
        size_t at = dropped.first_row + row;
        factor = ref_dropout(&dropped, at / DROPPED_T, at % DROPPED_T, column);
        sum = sum * factor + p->old.values[place];
        magnitudes = magnitudes * 2 + fabs(p->old.values[place]);
    }
    p->want[place] = sum;
    p->tolerance[place] = tolerance_of(sum, magnitudes, p->shape.k);
}

static void expect_sum(struct problem *p, size_t row)
{
    double sum = p->old_sums.values[row], magnitudes = fabs(sum);
    for (size_t k = 0; k < p->shape.k; k++) {
        sum += a_at(p, row, k);
        magnitudes += fabs(a_at(p, row, k));
    }
    p->want_sums[row] = sum;
    p->sums_tolerance[row] = tolerance_of(sum, magnitudes, p->shape.k);
}

/* shift: elements by which everything begins after an aligned address. SUMS also accumulates. */
static struct problem problem_make(struct shape s, bool transpose_a, bool transpose_b, enum follows follows, size_t shift)
{
    struct problem p = {.shape = s, .transpose_a = transpose_a, .transpose_b = transpose_b, .follows = follows};
    test_heap.shift_elems = shift;
    p.a = input(DT_BF16, s.m * s.k, 0, 1);
    p.b = input(DT_BF16, s.k * s.n, 0, 1);
    p.bias = input(DT_BF16, s.n, 0, 4);
    p.gelu_of = input(DT_BF16, s.m * s.n, 0, 3);
    p.old = input(DT_BF16, s.m * s.n, 0, 4);
    p.old_sums = input(DT_BF16, s.m, 0, 4);
    p.want = test_alloc(s.m * s.n * sizeof(double));
    p.tolerance = test_alloc(s.m * s.n * sizeof(double));
    p.want_sums = test_alloc(s.m * sizeof(double));
    p.sums_tolerance = test_alloc(s.m * sizeof(double));
    return p;
}

/* Apply the activation to the operand; the twin and AMX get the original one. */
static void activate(struct array *operand)
{
    ref_gelu(operand->values, operand->values, operand->count, GPT_MLP_GELU);
    ref_round(DT_BF16, operand->values, operand->count);
}

static void problem_expect(struct problem *p)
{
    if (p->follows == GELU_A || p->follows == GELU_B)
        activate(p->follows == GELU_A ? &p->a : &p->b);
    for (size_t row = 0; row < p->shape.m; row++) {
        for (size_t column = 0; column < p->shape.n; column++)
            expect_element(p, row, column);
        expect_sum(p, row);
    }
}

/* c and the sums of a's rows, in fresh memory. */
struct result {
    struct array c, sums;
};

static struct result problem_run(const struct problem *p, const struct gpt_matmul_ops *ops, int threads)
{
    struct gpt_matmul *matmul;
    struct result r = {output(DT_BF16, p->shape.m * p->shape.n), output(DT_BF16, p->shape.m)};
    bool accumulate = p->follows == ACCUMULATE || p->follows == SUMS;
    struct gpt_cpu_product product = {.a = p->a.data,
                                      .b = p->b.data,
                                      .bias = p->follows == BIAS || p->follows == RESIDUAL ? p->bias.data : NULL,
                                      .gelu_of = p->follows == GELU ? p->gelu_of.data : NULL,
                                      .c = r.c.data,
                                      .row_sums = p->follows == SUMS ? r.sums.data : NULL,
                                      .m = p->shape.m,
                                      .n = p->shape.n,
                                      .k = p->shape.k,
                                      .transpose_a = p->transpose_a,
                                      .transpose_b = p->transpose_b,
                                      .accumulate = accumulate,
                                      .gelu = p->follows == GELU_A   ? GPT_CPU_OPERAND_A
                                              : p->follows == GELU_B ? GPT_CPU_OPERAND_B
                                                                     : GPT_CPU_NO_OPERAND};
    if (p->follows == RESIDUAL) {
        product.residual = p->old.data;
        product.dropout = (struct gpt_dropout_rows){.seed = dropped.seed,
                                                    .layer_word = (uint32_t)DT_RANDOM_DROPOUT << 24 | dropped.layer,
                                                    .first_sample = dropped.first_sample,
                                                    .threshold = dt_dropout_threshold(dropped.probability),
                                                    .first_row = dropped.first_row,
                                                    .T = DROPPED_T,
                                                    .scale = dt_dropout_scale(dropped.probability)};
    }
    if (accumulate)
        memcpy(r.c.data, p->old.data, p->old.count * 2);
    if (p->follows == SUMS)
        memcpy(r.sums.data, p->old_sums.data, p->old_sums.count * 2);
    CHECK_OK(gpt_matmul_create(ops, dt_simd_for(dt_cpu_isa(), DT_BF16), threads, &matmul));
    CHECK_OK(gpt_matmul_run(matmul, &product));
    gpt_matmul_destroy(matmul);
    ref_decode(DT_BF16, r.c.data, r.c.values, r.c.count);
    ref_decode(DT_BF16, r.sums.data, r.sums.values, r.sums.count);
    return r;
}

/* NaN where NaN is right, the right infinity, and else within the tolerance. */
static bool agrees(double got, double want, double tolerance)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= tolerance;
}

static void check_result(const struct problem *p, const struct result *r, const char *unit, int threads)
{
    size_t wrong = 0, first = 0;
    for (size_t i = r->c.count; i-- > 0;)
        if (!agrees(r->c.values[i], p->want[i], p->tolerance[i])) {
            first = i;
            wrong++;
        }
    CHECK(wrong == 0, "%s, %d threads, [%zu, %zu, %zu], transposed %d %d, follows %d: %zu elements; element %zu is %g, not %g", unit,
          threads, p->shape.m, p->shape.n, p->shape.k, p->transpose_a, p->transpose_b, p->follows, wrong, first, r->c.values[first],
          p->want[first]);
    for (size_t i = 0; p->follows == SUMS && i < r->sums.count; i++)
        CHECK(agrees(r->sums.values[i], p->want_sums[i], p->sums_tolerance[i]), "%s: the sum of row %zu is %g, not %g", unit, i,
              r->sums.values[i], p->want_sums[i]);
}

static void check_problem(struct problem *p, int threads)
{
    problem_expect(p);
    for (int i = 0; matmul_unit(i); i++) {
        struct result r = problem_run(p, matmul_unit(i), threads);
        check_result(p, &r, matmul_unit_name(i), threads);
    }
    test_free_all();
    test_heap.shift_elems = 0;
}

/* ---- cases ---- */

static void sizes_and_transposes(void)
{
    static const struct shape shapes[] = {{1, 1, 1}, {5, 3, 2}, {16, 16, 32}, {33, 65, 31}, {64, 32, 64}, {70, 19, 33}, {31, 97, 130}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int way = 0; way < 4; way++)
            for (int follows = 0; follows < FOLLOWS; follows++) {
                if (follows == SUMS && !(way & 1))
                    continue;
                struct problem p = problem_make(shapes[i], way & 1, way & 2, (enum follows)follows, (i + (size_t)follows) % 4);
                check_problem(&p, 1 + (int)(i % 3));
            }
}

/* K larger than one multiplication and than a block; more rows and columns than a block and than
 * one thread's groups. */
static void blocks(void)
{
    static const struct {
        struct shape shape;
        bool transpose_a, transpose_b;
        enum follows follows;
    } all[] = {{{37, 35, 4096 + 300}, true, false, SUMS},   {{3, 5, 2 * 4096 + 1}, false, true, BIAS},
               {{2048 + 40, 3, 34}, true, false, SUMS},     {{4, 4096 + 33, 35}, false, false, GELU},
               {{9, 4096 + 33, 40}, false, true, RESIDUAL}, {{2048 + 37, 5, 33}, false, true, RESIDUAL},
               {{35, 4, 4096 + 70}, false, true, GELU_A},   {{300, 40, 290}, true, true, ACCUMULATE}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct problem p = problem_make(all[i].shape, all[i].transpose_a, all[i].transpose_b, all[i].follows, i);
        check_problem(&p, 2);
    }
}

/* Not a finite number in one element of a, of b, and of both at the same place of K; the zeros that
 * fill tiles must not make more. */
static void not_finite(void)
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    static const enum follows before[] = {NOTHING, BIAS, RESIDUAL, GELU_A, GELU_B};
    for (int i = 0; i < 9; i++)
        for (int way = 0; way < 4; way++) {
            enum follows follows = before[(i + way) % (i % 3 == 0 ? 5 : 3)]; /* GELU of an infinity is tested with the kernels */
            struct problem p = problem_make((struct shape){35, 37, 70}, way & 1, way & 2, follows, 1);
            size_t k = 40, row = 33, column = 36;
            if (i / 3 != 1)
                p.a.values[p.transpose_a ? k * p.shape.m + row : row * p.shape.k + k] = values[i % 3];
            if (i / 3 != 0)
                p.b.values[p.transpose_b ? column * p.shape.k + k : k * p.shape.n + column] = values[i % 3];
            ref_encode(DT_BF16, p.a.values, p.a.data, p.a.count);
            ref_encode(DT_BF16, p.b.values, p.b.data, p.b.count);
            check_problem(&p, 1);
        }
}

static void threads_change_nothing(void)
{
    static const enum follows all[] = {SUMS, RESIDUAL, GELU_A, GELU_B};
    for (int i = 0; i < 4; i++) {
        struct problem p = problem_make((struct shape){290, 70, 70}, true, false, all[i], 1);
        struct result one = problem_run(&p, matmul_unit(0), 1);
        for (int threads = 2; threads <= 8; threads++) {
            struct result many = problem_run(&p, matmul_unit(0), threads);
            CHECK(memcmp(one.c.data, many.c.data, one.c.count * 2) == 0, "follows %d, %d threads", all[i], threads);
            if (all[i] == SUMS)
                CHECK(memcmp(one.sums.data, many.sums.data, one.sums.count * 2) == 0, "%d threads", threads);
        }
        test_free_all();
        test_heap.shift_elems = 0;
    }
}

/* The code for AMX does the twin's very operations. By the handler that must give the same bits; on
 * a real tile unit it shows whether that computes as documented. */
static void units_agree(void)
{
    if (!matmul_unit(1))
        SKIP("this processor has neither AMX nor AVX2");
    struct problem p = problem_make((struct shape){70, 40, 600}, false, true, BIAS, 0);
    struct result twin = problem_run(&p, matmul_unit(0), 2), other = problem_run(&p, matmul_unit(1), 2);
    bool same = memcmp(twin.c.data, other.c.data, twin.c.count * 2) == 0;
    printf("# %s and the twin: %s\n", matmul_unit_name(1), same ? "the same bits" : "other bits");
    CHECK(same || matmul_unit_is_real(1));
    test_free_all();
}

/* ---- the twin of one multiplication ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t pair_of(float low, float high)
{
    return bits_of(low) >> 16 | (bits_of(high) & 0xFFFF0000u);
}

/* One element of the sums, from `pairs` pairs of a and b in its row and column, on top of c. */
static float twin_of(float c, int pairs, const float a[][2], const float b[][2])
{
    static struct tiles t;
    float sum;
    tiles_begin(&t);
    t.words[0][3][5] = bits_of(c);
    for (int k = 0; k < pairs; k++) {
        t.words[1][3][k] = pair_of(a[k][0], a[k][1]);
        t.words[2][k][5] = pair_of(b[k][0], b[k][1]);
    }
    tile_multiply(&t, 0, 1, 2);
    memcpy(&sum, &t.words[0][3][5], sizeof sum);
    return sum;
}

static void twin_rounds_as_documented(void)
{
    /* 1 and 2^-24 apart, then together: the tie goes to the even 1; onto 2^-24 again. In any other
     * order 2^-23 would be left. */
    CHECK(twin_of(0x1p-24f, 1, (const float[][2]){{1, 0x1p-12f}}, (const float[][2]){{1, 0x1p-12f}}) == 1);
    /* 2^128 is no fp32, but 2^128 - 2^127 is. */
    CHECK(twin_of(0, 2, (const float[][2]){{-0x1p127f, 0}, {0x1p64f, 0}}, (const float[][2]){{1, 0}, {0x1p64f, 0}}) == 0x1p127f);
    /* Denormals count as zero: of a, of c, of a product, of the two halves' sum, of the result. */
    CHECK(twin_of(0, 1, (const float[][2]){{0x1p-130f, 0}}, (const float[][2]){{0x1p100f, 0}}) == 0);
    CHECK(twin_of(0x1p-130f, 0, NULL, NULL) == 0);
    CHECK(twin_of(0, 2, (const float[][2]){{0x1p-100f, 0}, {0x1p-100f, 0}}, (const float[][2]){{0x1p-27f, 0}, {0x1p-27f, 0}}) == 0);
    CHECK(twin_of(0, 1, (const float[][2]){{0x1.8p-126f, -0x1p-126f}}, (const float[][2]){{1, 1}}) == 0);
    CHECK(twin_of(-0x1p-126f, 1, (const float[][2]){{0x1.8p-126f, 0}}, (const float[][2]){{1, 0}}) == 0);
    CHECK(twin_of(3, 1, (const float[][2]){{2, 5}}, (const float[][2]){{7, 11}}) == 3 + 14 + 55);
}

/* ---- the variable ---- */

static const char *products_with(const char *value, enum dt_dtype dtype)
{
    struct gpt_cpu_products *products;
    setenv("DTBENCH_CPU_PRODUCTS", value, 1);
    dt_status status = gpt_cpu_products_create(dtype, dt_cpu_isa(), false, 1, &products);
    const char *name = status == DT_OK ? gpt_cpu_products_name(products) : status_name(status);
    gpt_cpu_products_destroy(products);
    unsetenv("DTBENCH_CPU_PRODUCTS");
    return name;
}

static void variable_chooses(void)
{
    const char *best = gpt_matmul_ops_for("amx") ? "amx" : "onednn";
    CHECK(strcmp(products_with("", DT_BF16), best) == 0);
    CHECK(strcmp(products_with("onednn", DT_BF16), "onednn") == 0);
    CHECK(strcmp(products_with("twin", DT_BF16), "twin") == 0);
    CHECK(strcmp(products_with("twin", DT_FP32), "onednn") == 0);
    CHECK(strcmp(products_with("amx", DT_FP16), "onednn") == 0);
    CHECK(strcmp(products_with("amx", DT_BF16), gpt_matmul_ops_for("amx") ? "amx" : status_name(DT_ERR_UNAVAILABLE)) == 0);
    CHECK(strcmp(products_with("mkl", DT_BF16), status_name(DT_ERR_INVALID)) == 0);
    CHECK(strstr(dt_error_message(), "onednn, amx or twin"), "%s", dt_error_message());
}

/* The same kernels by way of tiles and of oneDNN. */
static void kernels_agree(void)
{
    static const char *const ways[] = {"onednn", "twin"};
    struct shape s = {40, 70, 50}; /* rows, out, in */
    struct problem p = problem_make((struct shape){s.m, s.n, s.k}, false, true, BIAS, 0);
    struct array x = p.a, w = p.b, dy = p.old, hidden = input(DT_BF16, s.m * s.k, 0, 2);
    struct array y[2], dx[2], dw[2], db[2], out[2], behind[2], active = output(DT_BF16, s.m * s.k);
    struct array residual = input(DT_BF16, s.m * s.n, 0, 1);
    for (int i = 0; i < 2; i++) {
        struct dt_model model =
            gpt_model_of(DT_BF16, &(struct gpt_model){.layers = 1, .heads = 1, .hidden = 8, .vocab_size = 8, .block_size = 8});
        struct dt_device *device;
        struct dt_stream *stream;
        struct dt_kernels base;
        struct gpt_kernels *k;
        setenv("DTBENCH_CPU_PRODUCTS", ways[i], 1);
        y[i] = output(DT_BF16, s.m * s.n);
        dx[i] = output(DT_BF16, s.m * s.k);
        dw[i] = output(DT_BF16, s.n * s.k);
        out[i] = output(DT_BF16, s.m * s.n);
        behind[i] = output(DT_BF16, s.n * s.k);
        db[i] = output(DT_BF16, s.n);
        CHECK_OK(dt_device_create("cpu", NULL, &device));
        CHECK_OK(dt_stream_create(device, "compute", &stream));
        CHECK_OK(dt_kernels_init(&base, device, DT_BF16));
        CHECK_OK(gpt_kernels_cpu.create(&base, &model, &k));
        CHECK(strcmp(gpt_kernels_cpu.products(k), ways[i]) == 0);
        CHECK_OK(gpt_kernels_cpu.linear(k, stream, &(struct gpt_linear){x.data, w.data, p.bias.data, y[i].data, s.m, s.k, s.n, 1}));
        CHECK_OK(gpt_kernels_cpu.linear_gelu_input_gradient(
            k, stream, &(struct gpt_linear_gelu_input_gradient){{dy.data, w.data, dx[i].data, s.m, s.k, s.n, 1}, hidden.data}));
        CHECK_OK(gpt_kernels_cpu.linear_weight_gradient(
            k, stream, &(struct gpt_linear_weight_gradient){dy.data, x.data, dw[i].data, db[i].data, s.m, s.k, s.n, 1, false}));
        struct gpt_linear_residual all = {
            {x.data, w.data, p.bias.data, out[i].data, s.m, s.k, s.n, 1}, residual.data, active.data, dropped};
        struct gpt_linear_gelu_weight_gradient through = {{dy.data, x.data, behind[i].data, NULL, s.m, s.k, s.n, 1, false}, active.data};
        CHECK_OK(gpt_kernels_cpu.linear_residual(k, stream, &all));
        CHECK_OK(gpt_kernels_cpu.linear_gelu_weight_gradient(k, stream, &through));
        CHECK_OK(dt_stream_synchronize(stream));
        gpt_kernels_cpu.destroy(k);
        dt_kernels_finish(&base);
        dt_stream_destroy(stream);
        dt_device_destroy(device);
        unsetenv("DTBENCH_CPU_PRODUCTS");
    }
    struct array *const pairs[] = {y, dx, dw, db, out, behind};
    for (int i = 0; i < 6; i++) {
        ref_decode(DT_BF16, pairs[i][0].data, pairs[i][0].values, pairs[i][0].count);
        double error = error_of(DT_BF16, pairs[i][1].data, pairs[i][0].values, pairs[i][0].count);
        CHECK(error <= 3 * bound_of(DT_BF16), "result %d: %g", i, error); /* each is rounded, one of them twice */
    }
    test_free_all();
}

static const struct test_case cases[] = {
    {"sizes, transposes, starts and what follows", sizes_and_transposes},
    {"more than a block has", blocks},
    {"NaN and infinities", not_finite},
    {"threads change nothing", threads_change_nothing},
    {"the code for AMX and the twin", units_agree},
    {"the twin rounds as documented", twin_rounds_as_documented},
    {"DTBENCH_CPU_PRODUCTS", variable_chooses},
    {"linear's kernels by tiles and on oneDNN", kernels_agree},
};

int main(void)
{
    test_random_state = 1;
    matmul_units_begin();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}

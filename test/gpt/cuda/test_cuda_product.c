/* Linear layers as column-major products: computed here as cuBLASLt is told to, in double
 * precision, against the reference. */
#include "gpt/cuda/product.h"
#include "gpt/cuda/tuning.h"
#include "test/check.h"
#include "test/gpt/reference.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, IN = 3, OUT = 7 };

static void randomize(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (double)rand() / RAND_MAX - 0.5;
}

/* Multiply as the product describes, on arrays of double. */
static void multiply(const struct gpt_cuda_product *p)
{
    const double *a = p->a, *b = p->b, *bias = p->bias;
    double *d = p->d, *gelu_input = p->gelu_input, *row_sums = p->epilogue == GPT_CUDA_GELU_BIAS_GRADIENT ? p->bias_gradient : NULL;
    double *sums = row_sums ? NULL : p->bias_gradient;
    size_t rows_a = gpt_cuda_product_stored_rows_a(p), rows_b = gpt_cuda_product_stored_rows_b(p);
    for (size_t j = 0; j < p->n; j++) {
        double column_sum = 0;
        for (size_t l = 0; l < p->k; l++)
            column_sum += p->transpose_b ? b[l * rows_b + j] : b[j * rows_b + l];
        if (sums)
            sums[j] = column_sum;
        for (size_t i = 0; i < p->m; i++) {
            double sum = p->accumulate ? d[j * p->m + i] : 0;
            for (size_t l = 0; l < p->k; l++)
                sum += (p->transpose_a ? a[i * rows_a + l] : a[l * rows_a + i]) * (p->transpose_b ? b[l * rows_b + j] : b[j * rows_b + l]);
            sum += bias ? bias[i] : 0;
            double *at = &d[j * p->m + i], *gelu_at = gelu_input ? &gelu_input[j * p->m + i] : NULL;
            *at = sum;
            if (p->epilogue == GPT_CUDA_GELU || p->epilogue == GPT_CUDA_BIAS_GELU) {
                *gelu_at = sum;
                ref_gelu(gelu_at, at, 1, GPT_MLP_GELU_NEW);
            } else if (gelu_at) {
                ref_gelu_gradient(&sum, gelu_at, at, 1, GPT_MLP_GELU_NEW);
            }
            if (row_sums)
                row_sums[i] = (j > 0 ? row_sums[i] : 0) + *at;
        }
    }
}

static void forward(void)
{
    double x[ROWS * IN], w[OUT * IN], b[OUT], y[ROWS * OUT], want[ROWS * OUT];
    randomize(x, ROWS * IN);
    randomize(w, OUT * IN);
    randomize(b, OUT);
    for (int biased = 0; biased < 2; biased++) {
        struct gpt_linear a = {x, w, biased ? b : NULL, y, ROWS, IN, OUT, 1};
        struct gpt_cuda_product p = gpt_cuda_product_forward(&a);
        CHECK(p.epilogue == (biased ? GPT_CUDA_BIAS : GPT_CUDA_PLAIN));
        multiply(&p);
        ref_linear(x, w, a.b, want, ROWS, IN, OUT);
        CHECK(ref_error(y, want, ROWS * OUT) < 1e-14);
    }
}

static void gradients(void)
{
    double x[ROWS * IN], w[OUT * IN], dy[ROWS * OUT], dx[ROWS * IN], dw[OUT * IN], db[OUT];
    double want_dx[ROWS * IN], want_dw[OUT * IN], want_db[OUT];
    randomize(x, ROWS * IN);
    randomize(w, OUT * IN);
    randomize(dy, ROWS * OUT);
    ref_linear_gradient(dy, x, w, want_dx, want_dw, want_db, ROWS, IN, OUT);

    struct gpt_linear_input_gradient for_x = {dy, w, dx, ROWS, IN, OUT, 1};
    struct gpt_cuda_product p = gpt_cuda_product_input_gradient(&for_x);
    multiply(&p);
    CHECK(ref_error(dx, want_dx, ROWS * IN) < 1e-14);

    struct gpt_linear_weight_gradient for_w = {dy, x, dw, db, ROWS, IN, OUT, 1, false};
    p = gpt_cuda_product_weight_gradient(&for_w);
    CHECK(p.epilogue == GPT_CUDA_BIAS_GRADIENT);
    multiply(&p);
    CHECK(ref_error(dw, want_dw, OUT * IN) < 1e-14 && ref_error(db, want_db, OUT) < 1e-14);

    for_w.accumulate = true; /* sums that add are done apart */
    p = gpt_cuda_product_weight_gradient(&for_w);
    CHECK(p.epilogue == GPT_CUDA_PLAIN && !p.bias_gradient);
    multiply(&p);
    for (int i = 0; i < OUT * IN; i++)
        want_dw[i] *= 2;
    CHECK(ref_error(dw, want_dw, OUT * IN) < 1e-14);
}

static void through_gelu(void)
{
    double x[ROWS * IN], w[OUT * IN], b[OUT], hidden[ROWS * OUT], active[ROWS * OUT], want_hidden[ROWS * OUT], want[ROWS * OUT];
    double dy[ROWS * IN], dx[ROWS * OUT], product[ROWS * OUT], db[OUT];
    randomize(x, ROWS * IN);
    randomize(w, OUT * IN);
    randomize(b, OUT);
    randomize(dy, ROWS * IN);
    for (int biased = 0; biased < 2; biased++) {
        struct gpt_linear_gelu a = {{x, w, biased ? b : NULL, hidden, ROWS, IN, OUT, 1}, active};
        struct gpt_cuda_product p = gpt_cuda_product_gelu(&a), apart = gpt_cuda_product_apart(&p);
        struct gpt_cuda_product plain = gpt_cuda_product_forward(&a.linear);
        CHECK(apart.epilogue == plain.epilogue && apart.d == plain.d);
        multiply(&p);
        ref_linear(x, w, a.linear.b, want_hidden, ROWS, IN, OUT);
        ref_gelu(want_hidden, want, ROWS * OUT, GPT_MLP_GELU_NEW);
        CHECK(ref_error(hidden, want_hidden, ROWS * OUT) < 1e-14 && ref_error(active, want, ROWS * OUT) < 1e-14);

        /* w as that of a linear from OUT to IN features, after GELU */
        struct gpt_linear_gelu_input_gradient back = {{dy, w, dx, ROWS, OUT, IN, 1}, hidden};
        p = gpt_cuda_product_gelu_gradient(&back, biased ? db : NULL);
        multiply(&p);
        ref_linear_gradient(dy, hidden, w, product, NULL, NULL, ROWS, OUT, IN);
        ref_gelu_gradient(product, hidden, want, ROWS * OUT, GPT_MLP_GELU_NEW);
        CHECK(ref_error(dx, want, ROWS * OUT) < 1e-14);
        for (int i = 0; i < OUT && biased; i++) {
            double sum = 0;
            for (int row = 0; row < ROWS; row++)
                sum += want[row * OUT + i];
            CHECK(fabs(db[i] - sum) < 1e-14, "db[%d] is %g, not %g", i, db[i], sum);
        }
    }
}

/* A smaller alignment of an address makes another shape; accumulation does not. */
static void shapes(void)
{
    static char memory[256] __attribute__((aligned(64)));
    struct gpt_linear a = {memory, memory + 32, memory + 64, memory + 128, ROWS, IN, OUT, 1}, less = a;
    struct gpt_cuda_product p = gpt_cuda_product_forward(&a), q = p;
    struct gpt_cuda_product_shape one = gpt_cuda_product_shape(&p), other;
    CHECK(one.a_bytes == 16 && one.b_bytes == 16 && one.d_bytes == 16 && one.extra_bytes == 16);
    q.accumulate = true;
    q.b = memory + 16;
    other = gpt_cuda_product_shape(&q);
    CHECK(gpt_cuda_product_shapes_equal(&one, &other));
    const void **const parts[] = {&less.x, &less.w, &less.b, (const void **)&less.y};
    for (int i = 0; i < 4; i++) {
        less = a;
        *parts[i] = (const char *)*parts[i] + 6;
        p = gpt_cuda_product_forward(&less);
        other = gpt_cuda_product_shape(&p);
        CHECK(!gpt_cuda_product_shapes_equal(&one, &other), "argument %d", i);
        CHECK(other.a_bytes + other.b_bytes + other.d_bytes + other.extra_bytes == 3 * 16 + 2);
    }
    less = a;
    less.rows++;
    p = gpt_cuda_product_forward(&less);
    other = gpt_cuda_product_shape(&p);
    CHECK(!gpt_cuda_product_shapes_equal(&one, &other));
}

/* ---- a tuning ---- */

static struct gpt_listed_product product_of(enum dt_dtype dtype, size_t rows)
{
    struct gpt_linear a = {NULL, NULL, NULL, NULL, rows, IN, OUT, 1};
    struct gpt_cuda_product p = gpt_cuda_product_forward(&a);
    return (struct gpt_listed_product){dtype, gpt_cuda_product_shape(&p)};
}

static struct gpt_tuned_product entry_of(const char *gpu, size_t rows)
{
    struct gpt_tuned_product entry = {.product = product_of(DT_BF16, rows)};
    unsigned char algorithm[GPT_ALGORITHM_BYTES];
    for (int i = 0; i < GPT_ALGORITHM_BYTES; i++)
        algorithm[i] = (unsigned char)(37 * i + (int)rows);
    gpt_algorithm_to_text(algorithm, entry.algorithm);
    snprintf(entry.gpu, sizeof entry.gpu, "%s", gpu);
    snprintf(entry.library, sizeof entry.library, "cuBLASLt 13.0.2");
    entry.us = 1.5;
    entry.first_us = 2;
    return entry;
}

/* Written entries are read again, and entries are found by their whole key. */
static void tuning_file(void)
{
    struct dt_tuning *one, *two;
    char *text, *again;
    CHECK_OK(gpt_tuner.create(&one));
    CHECK_OK(gpt_tuner.create(&two));
    struct gpt_tuned_product entries[] = {entry_of("GPU A", 5), entry_of("GPU A", 6), entry_of("GPU B", 5)};
    for (int i = 0; i < 3; i++)
        CHECK_OK(gpt_tuning_add(one, &entries[i]));
    entries[1].us = 1;
    CHECK_OK(gpt_tuning_add(one, &entries[1])); /* in place of the first one of its kind */
    CHECK_OK(gpt_tuner.write(one, &text));
    CHECK_OK(gpt_tuner.read(two, "t.json", text));
    CHECK_OK(gpt_tuner.write(two, &again));
    CHECK(two->known_count == 3 && strcmp(text, again) == 0, "%s%s", text, again);
    struct gpt_listed_product five = product_of(DT_BF16, 5), five_fp16 = product_of(DT_FP16, 5), seven = product_of(DT_BF16, 7);
    const struct gpt_tuned_product *found = gpt_tuning_find(two, "GPU B", "cuBLASLt 13.0.2", &five);
    unsigned char algorithm[GPT_ALGORITHM_BYTES];
    CHECK(found && gpt_algorithm_from_text(found->algorithm, algorithm) && algorithm[3] == 116);
    CHECK(!gpt_tuning_find(two, "GPU C", "cuBLASLt 13.0.2", &five) && !gpt_tuning_find(two, "GPU B", "cuBLASLt 13.0.1", &five));
    CHECK(!gpt_tuning_find(two, "GPU B", "cuBLASLt 13.0.2", &five_fp16) && !gpt_tuning_find(two, "GPU B", "cuBLASLt 13.0.2", &seven));
    five.shape.a_bytes = 2;
    CHECK(!gpt_tuning_find(two, "GPU B", "cuBLASLt 13.0.2", &five), "another alignment");
    CHECK_OK(gpt_tuning_check(two, "GPU A", "cuBLASLt 13.0.2"));
    CHECK(gpt_tuning_check(two, "GPU C", "cuBLASLt 13.0.2") == DT_ERR_INVALID && strstr(dt_error_message(), "this is GPU C"), "%s",
          dt_error_message());
    free(text);
    free(again);
    gpt_tuner.destroy(one);
    gpt_tuner.destroy(two);
}

static void tuning_file_that_is_wrong(void)
{
    static const char *const wrong[][2] = {
        {"[]", "t.json: tuning: "},
        {"{\"tuning\": 2, \"products\": []}", "t.json: tuning: expected 1"},
        {"{\"tuning\": 1}", "t.json: products: expected a list"},
        {"{\"tuning\": 1, \"products\": {}}", "t.json: products: expected a list"},
        {"{\"tuning\": 1, \"products\": [1]}", "t.json: products[0]"},
        {"{\"tuning\": 1, \"products\": [{\"gpu\": \"\"}]}", "t.json: products[0]: gpu"},
        {"{\"tuning\": 1, \"products\": [{\"m\": 0}]}", "t.json: products[0]: m"},
        {"{\"tuning\": 1, \"products\": [{\"epilogue\": \"silu\"}]}", "t.json: products[0]: epilogue"},
        {"{\"tuning\": 1, \"products\": [{\"cache\": 1}]}", "t.json: products[0]: cache"},
        {"{\"tuning\": 1, \"products\": [{\"m\": 1}]}", "t.json: products[0]"},
        {"{\"tuning\": 1,", "t.json:1"},
    };
    unsigned char algorithm[GPT_ALGORITHM_BYTES];
    struct dt_tuning *t;
    CHECK_OK(gpt_tuner.create(&t));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(gpt_tuner.read(t, "t.json", wrong[i][0]) == DT_ERR_INVALID &&
                  strncmp(dt_error_message(), wrong[i][1], strlen(wrong[i][1])) == 0,
              "%s: %s", wrong[i][0], dt_error_message());
    CHECK(t->known_count == 0);
    struct gpt_tuned_product entry = entry_of("GPU", 5);
    entry.algorithm[7] = 'g';
    CHECK(!gpt_algorithm_from_text(entry.algorithm, algorithm) && !gpt_algorithm_from_text("00", algorithm));
    gpt_tuner.destroy(t);
}

static const struct test_case cases[] = {
    {"forward", forward},
    {"gradients", gradients},
    {"GELU after a product, and its derivative", through_gelu},
    {"which products are alike", shapes},
    {"a tuning's file", tuning_file},
    {"a tuning's file that is wrong", tuning_file_that_is_wrong},
};
TEST_MAIN(cases)

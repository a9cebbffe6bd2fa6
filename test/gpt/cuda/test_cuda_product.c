/* Linear layers as column-major products: computed here as cuBLASLt is told to, in double precision, against the reference. */
#include "gpt/cuda/product.h"
#include "test/check.h"
#include "test/gpt/reference.h"

#include <stdlib.h>

enum { ROWS = 5, IN = 3, OUT = 7 };

static void randomize(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (double)rand() / RAND_MAX - 0.5;
}

/* As the product says, on arrays of double. */
static void multiply(const struct gpt_cuda_product *p)
{
    const double *a = p->a, *b = p->b, *bias = p->bias;
    double *d = p->d, *sums = p->bias_gradient;
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
            d[j * p->m + i] = sum + (bias ? bias[i] : 0);
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

/* An address that is aligned to less is another shape; what is added to is not. */
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

static const struct test_case cases[] = {
    {"forward", forward},
    {"gradients", gradients},
    {"which products are alike", shapes},
};
TEST_MAIN(cases)

/* The reference's gradients against central differences of its own forward functions. */
#include "test/check.h"
#include "test/gpt/reference.h"

#include <stdlib.h>

enum { ROWS = 6, IN = 5, OUT = 7, T = 5, D = 6, SAMPLES = 2, V = 11 };

static const struct gpt_model model = {.layers = 1, .heads = 2, .hidden = D, .vocab_size = V, .block_size = T};
static const struct gpt_model turned = {
    .heads = 3,
    .hidden = 18,
    .block_size = T,
    .rope = {
        .base = 50, .scaling = GPT_ROPE_LLAMA3, .factor = 8, .low_frequency_factor = 1, .high_frequency_factor = 4, .original_length = 12}};
static const struct gpt_model grouped = {
    .heads = 6, .kv_heads = 2, .hidden = 12, .vocab_size = V, .block_size = T, .position = GPT_POSITION_ALIBI};

/* A model of these sizes, until the next one. */
static const struct dt_model *decoder(const struct gpt_model *gpt)
{
    static struct dt_model one;
    one = gpt_model_of(DT_FP32, gpt);
    return &one;
}
static const struct gpt_dropout dropout = {.seed = 3, .layer = 5, .first_sample = 9, .probability = 0.3f};

static void randomise(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (double)rand() / RAND_MAX * 2 - 1;
}

/* What a case differentiates: the dot product of forward(x) with `weights`. */
typedef void (*forward_fn)(const double *x, double *y);

static void differences_agree(const char *what, forward_fn forward, double *x, size_t x_count, const double *dy, size_t y_count,
                              const double *dx)
{
    double *y = calloc(y_count, sizeof *y), *measured = calloc(x_count, sizeof *measured);
    for (size_t i = 0; i < x_count; i++) {
        double at = x[i], step = 1e-5;
        for (int side = -1; side <= 1; side += 2) {
            x[i] = at + side * step;
            forward(x, y);
            for (size_t j = 0; j < y_count; j++)
                measured[i] += side * dy[j] * y[j] / (2 * step);
        }
        x[i] = at;
    }
    CHECK(ref_error(dx, measured, x_count) < 1e-7, "%s: error %g", what, ref_error(dx, measured, x_count));
    free(y);
    free(measured);
}

static double x[ROWS * V], w[OUT * IN], b[OUT], gain[D], bias[D], mean[ROWS], rstd[ROWS];
static int32_t tokens[SAMPLES * T] = {3, 10, 0, 3, 7, 7, 1, 3, 9, 0};

static void linear_of_x(const double *from, double *y)
{
    ref_linear(from, w, b, y, ROWS, IN, OUT);
}
static void linear_of_w(const double *from, double *y)
{
    ref_linear(x, from, b, y, ROWS, IN, OUT);
}
static void linear_of_b(const double *from, double *y)
{
    ref_linear(x, w, from, y, ROWS, IN, OUT);
}

static void linear(void)
{
    double dy[ROWS * OUT], dx[ROWS * IN], dw[OUT * IN], db[OUT];
    randomise(x, ROWS * IN);
    randomise(w, OUT * IN);
    randomise(b, OUT);
    randomise(dy, ROWS * OUT);
    ref_linear_gradient(dy, x, w, dx, dw, db, ROWS, IN, OUT);
    differences_agree("x", linear_of_x, x, ROWS * IN, dy, ROWS * OUT, dx);
    differences_agree("w", linear_of_w, w, OUT * IN, dy, ROWS * OUT, dw);
    differences_agree("b", linear_of_b, b, OUT, dy, ROWS * OUT, db);
}

static void norm_of_x(const double *from, double *y)
{
    ref_layer_norm(from, gain, bias, y, mean, rstd, ROWS, D, 1e-5);
}
static void norm_of_gain(const double *from, double *y)
{
    ref_layer_norm(x, from, bias, y, mean, rstd, ROWS, D, 1e-5);
}
static void norm_of_bias(const double *from, double *y)
{
    ref_layer_norm(x, gain, from, y, mean, rstd, ROWS, D, 1e-5);
}

static void layer_norm(void)
{
    double dy[ROWS * D], dx[ROWS * D], dgain[D], dbias[D];
    randomise(x, ROWS * D);
    randomise(gain, D);
    randomise(bias, D);
    randomise(dy, ROWS * D);
    ref_layer_norm_gradient(dy, x, gain, dx, dgain, dbias, ROWS, D, 1e-5);
    differences_agree("x", norm_of_x, x, ROWS * D, dy, ROWS * D, dx);
    differences_agree("gain", norm_of_gain, gain, D, dy, ROWS * D, dgain);
    differences_agree("bias", norm_of_bias, bias, D, dy, ROWS * D, dbias);
}

static void rms_norm_of_x(const double *from, double *y)
{
    ref_rms_norm(from, gain, y, rstd, ROWS, D, 1e-3);
}
static void rms_norm_of_gain(const double *from, double *y)
{
    ref_rms_norm(x, from, y, rstd, ROWS, D, 1e-3);
}

static void rms_norm(void)
{
    double dy[ROWS * D], dx[ROWS * D], dgain[D];
    randomise(x, ROWS * D);
    randomise(gain, D);
    randomise(dy, ROWS * D);
    ref_rms_norm_gradient(dy, x, gain, dx, dgain, ROWS, D, 1e-3);
    differences_agree("x", rms_norm_of_x, x, ROWS * D, dy, ROWS * D, dx);
    differences_agree("gain", rms_norm_of_gain, gain, D, dy, ROWS * D, dgain);
}

static void swiglu_of_hidden(const double *from, double *y)
{
    ref_swiglu(from, y, ROWS, OUT / 2);
}

static void swiglu(void)
{
    double dy[ROWS * OUT / 2], dhidden[ROWS * OUT];
    randomise(x, ROWS * OUT / 2 * 2);
    randomise(dy, ROWS * (OUT / 2));
    ref_swiglu_gradient(dy, x, dhidden, ROWS, OUT / 2);
    differences_agree("hidden", swiglu_of_hidden, x, ROWS * (OUT / 2) * 2, dy, ROWS * (OUT / 2), dhidden);
}

static void rope_of_x(const double *from, double *y)
{
    memcpy(y, from, ROWS * 12 * sizeof *y);
    ref_rope(decoder(&turned), y, ROWS, 2, 12, false);
}

/* The gradient is the rotation back; of two heads of six elements. */
static void rope(void)
{
    double from[ROWS * 12], dy[ROWS * 12], dx[ROWS * 12];
    randomise(from, ROWS * 12);
    randomise(dy, ROWS * 12);
    memcpy(dx, dy, sizeof dx);
    ref_rope(decoder(&turned), dx, ROWS, 2, 12, true);
    differences_agree("x", rope_of_x, from, ROWS * 12, dy, ROWS * 12, dx);
}

static void gelu_of_x(const double *from, double *y)
{
    ref_gelu(from, y, ROWS * D, GPT_MLP_GELU);
}

static void gelu_new_of_x(const double *from, double *y)
{
    ref_gelu(from, y, ROWS * D, GPT_MLP_GELU_NEW);
}

static void relu_of_x(const double *from, double *y)
{
    ref_gelu(from, y, ROWS * D, GPT_MLP_RELU);
}

static void gelu(void)
{
    double dy[ROWS * D], dx[ROWS * D];
    randomise(x, ROWS * D);
    randomise(dy, ROWS * D);
    ref_gelu_gradient(dy, x, dx, ROWS * D, GPT_MLP_GELU);
    differences_agree("x", gelu_of_x, x, ROWS * D, dy, ROWS * D, dx);
    ref_gelu_gradient(dy, x, dx, ROWS * D, GPT_MLP_GELU_NEW);
    differences_agree("x", gelu_new_of_x, x, ROWS * D, dy, ROWS * D, dx);
    ref_gelu_gradient(dy, x, dx, ROWS * D, GPT_MLP_RELU);
    differences_agree("x", relu_of_x, x, ROWS * D, dy, ROWS * D, dx);
}

static void grouped_attention_of_qkv(const double *from, double *y)
{
    ref_attention(decoder(&grouped), from, y, NULL, NULL, SAMPLES, &dropout);
}

static void grouped_attention(void)
{
    enum { ROW = (6 + 2 * 2) * 2 };
    double qkv[SAMPLES * T * ROW], dout[SAMPLES * T * 12], dqkv[SAMPLES * T * ROW];
    randomise(qkv, SAMPLES * T * ROW);
    randomise(dout, SAMPLES * T * 12);
    ref_attention_gradient(decoder(&grouped), dout, qkv, dqkv, SAMPLES, &dropout);
    differences_agree("qkv", grouped_attention_of_qkv, qkv, SAMPLES * T * ROW, dout, SAMPLES * T * 12, dqkv);
}

static void attention_of_qkv(const double *from, double *y)
{
    ref_attention(decoder(&model), from, y, NULL, NULL, SAMPLES, &dropout);
}

static void attention(void)
{
    double qkv[SAMPLES * T * 3 * D], dout[SAMPLES * T * D], dqkv[SAMPLES * T * 3 * D];
    randomise(qkv, SAMPLES * T * 3 * D);
    randomise(dout, SAMPLES * T * D);
    ref_attention_gradient(decoder(&model), dout, qkv, dqkv, SAMPLES, &dropout);
    differences_agree("qkv", attention_of_qkv, qkv, SAMPLES * T * 3 * D, dout, SAMPLES * T * D, dqkv);
}

/* The last row must not see what its causal mask hides, and sees everything else when nothing is
 * dropped. */
static void attention_is_causal(void)
{
    static const struct gpt_dropout none = {0};
    double qkv[T * 3 * D], out[T * D], changed[T * D], weights[2 * T * T], lse[2 * T];
    randomise(qkv, T * 3 * D);
    ref_attention(decoder(&model), qkv, out, lse, weights, 1, &none);
    for (int row = 0; row < 2 * T; row++) {
        double sum = 0;
        for (int key = 0; key < T; key++) {
            sum += weights[row * T + key];
            CHECK(key <= row % T || weights[row * T + key] == 0);
        }
        CHECK(fabs(sum - 1) < 1e-12);
    }
    randomise(qkv + (T - 1) * 3 * D, 3 * D);
    ref_attention(decoder(&model), qkv, changed, NULL, NULL, 1, &none);
    CHECK(memcmp(out, changed, (T - 1) * D * sizeof *out) == 0);
    CHECK(memcmp(out + (T - 1) * D, changed + (T - 1) * D, D * sizeof *out) != 0);
}

static double position_table[T * D], token_table[V * D];

static void embedding_of_tokens(const double *from, double *y)
{
    ref_embedding(decoder(&model), tokens, from, position_table, y, SAMPLES, &dropout);
}
static void embedding_of_positions(const double *from, double *y)
{
    ref_embedding(decoder(&model), tokens, token_table, from, y, SAMPLES, &dropout);
}

static void embedding(void)
{
    double dout[SAMPLES * T * D], dtoken[V * D], dposition[T * D];
    randomise(token_table, V * D);
    randomise(position_table, T * D);
    randomise(dout, SAMPLES * T * D);
    ref_embedding_gradient(decoder(&model), tokens, dout, dtoken, dposition, SAMPLES, &dropout);
    differences_agree("tokens", embedding_of_tokens, token_table, V * D, dout, SAMPLES * T * D, dtoken);
    differences_agree("positions", embedding_of_positions, position_table, T * D, dout, SAMPLES * T * D, dposition);
}

static bool plain_sum;

static void loss_of_logits(const double *from, double *y)
{
    double unused[ROWS * V];
    *y = ref_loss(from, tokens, unused, ROWS, V, 1, 1, plain_sum);
}

static void loss(void)
{
    double dlogits[ROWS * V], one = 1;
    for (int sum = 0; sum < 2; sum++) {
        plain_sum = sum;
        randomise(x, ROWS * V);
        ref_loss(x, tokens, dlogits, ROWS, V, 1, 1, sum);
        differences_agree(sum ? "sum" : "cross-entropy", loss_of_logits, x, ROWS * V, &one, 1, dlogits);
    }
}

static void errors_are_seen(void)
{
    double a[3] = {1, 2, 3}, c[3] = {1, 2, 3.3}, nan[3] = {1, NAN, 3};
    CHECK(ref_error(a, a, 3) == 0 && fabs(ref_error(c, a, 3) - 0.3 / sqrt(14)) < 1e-12 && isinf(ref_error(nan, a, 3)));
}

static const struct test_case cases[] = {
    {"linear's gradients", linear},
    {"layer norm's gradients", layer_norm},
    {"rms norm's gradients", rms_norm},
    {"GELU's gradient", gelu},
    {"SwiGLU's gradient", swiglu},
    {"rope's gradient is the rotation back", rope},
    {"attention's gradients, with dropout", attention},
    {"attention's gradients with grouped queries and alibi", grouped_attention},
    {"attention is causal and its weights sum to one", attention_is_causal},
    {"embedding's gradients, with dropout", embedding},
    {"both losses' gradients", loss},
    {"the error measure", errors_are_seen},
};
TEST_MAIN(cases)

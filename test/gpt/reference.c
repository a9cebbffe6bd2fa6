#include "test/gpt/reference.h"

#include "lib/base/random.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void ref_encode(enum dt_dtype dtype, const double *from, void *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == DT_FP32)
            ((float *)to)[i] = (float)from[i];
        else
            ((unsigned short *)to)[i] = dtype == DT_BF16 ? dt_fp32_to_bf16((float)from[i]) : dt_fp32_to_fp16((float)from[i]);
    }
}

void ref_decode(enum dt_dtype dtype, const void *from, double *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned short *half = from;
        if (dtype == DT_FP32)
            to[i] = ((const float *)from)[i];
        else
            to[i] = dtype == DT_BF16 ? dt_bf16_to_fp32(half[i]) : dt_fp16_to_fp32(half[i]);
    }
}

void ref_round(enum dt_dtype dtype, double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float bits;
        ref_encode(dtype, &values[i], &bits, 1);
        ref_decode(dtype, &bits, &values[i], 1);
    }
}

double ref_error(const double *got, const double *want, size_t count)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(got[i]))
            return INFINITY;
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    return difference > 0 ? sqrt(difference / size) : 0;
}

static double dropout_factor(const struct gpt_dropout *dropout, uint32_t c0, uint32_t c1, size_t sample, enum dt_random_purpose purpose,
                             size_t column)
{
    if (dropout->probability == 0)
        return 1;
    static _Thread_local struct dt_philox block; /* the last one, which has the bits of eight columns */
    static _Thread_local uint64_t of[3];         /* never all 0, as no purpose is 0 */
    uint32_t c2 = dropout->first_sample + (uint32_t)sample, c3 = (uint32_t)purpose << 24 | dropout->layer;
    uint64_t place[3] = {dropout->seed, (uint64_t)c0 << 32 | c1, (uint64_t)c2 << 32 | c3};
    if (place[0] != of[0] || place[1] != of[1] || place[2] != of[2]) {
        block = dt_philox4x32(dropout->seed, c0, c1, c2, c3);
        memcpy(of, place, sizeof of);
    }
    uint32_t bits = block.word[column % 8 / 2] >> (column % 2 ? 16 : 0) & 0xFFFFu;
    return bits >= dt_dropout_threshold(dropout->probability) ? (double)dt_dropout_scale(dropout->probability) : 0;
}

double ref_dropout(const struct gpt_dropout *dropout, size_t sample, size_t t, size_t column)
{
    return dropout_factor(dropout, (uint32_t)(column / 8), (uint32_t)t, sample, DT_RANDOM_DROPOUT, column);
}

double ref_attention_dropout(const struct gpt_dropout *dropout, size_t sample, size_t head, size_t query, size_t key)
{
    return dropout_factor(dropout, (uint32_t)(head << 20 | key / 8), (uint32_t)query, sample, DT_RANDOM_ATTENTION, key);
}

void ref_linear(const double *x, const double *w, const double *b, double *y, size_t rows, size_t in, size_t out)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (size_t i = 0; i < in; i++)
                sum += x[r * in + i] * w[o * in + i];
            y[r * out + o] = sum;
        }
}

void ref_linear_gradient(const double *dy, const double *x, const double *w, double *dx, double *dw, double *db, size_t rows, size_t in,
                         size_t out)
{
    if (dx)
        memset(dx, 0, rows * in * sizeof *dx);
    if (dw)
        memset(dw, 0, out * in * sizeof *dw);
    if (db)
        memset(db, 0, out * sizeof *db);
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) {
            double g = dy[r * out + o];
            for (size_t i = 0; dx && i < in; i++)
                dx[r * in + i] += g * w[o * in + i];
            for (size_t i = 0; dw && i < in; i++)
                dw[o * in + i] += g * x[r * in + i];
            if (db)
                db[o] += g;
        }
}

void ref_layer_norm(const double *x, const double *gain, const double *bias, double *y, double *mean, double *rstd, size_t rows, size_t d,
                    double epsilon)
{
    for (size_t r = 0; r < rows; r++, x += d, y += d) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < d; i++)
            sum += x[i];
        mean[r] = sum / (double)d;
        for (size_t i = 0; i < d; i++)
            squares += (x[i] - mean[r]) * (x[i] - mean[r]);
        rstd[r] = 1 / sqrt(squares / (double)d + epsilon);
        for (size_t i = 0; i < d; i++)
            y[i] = (x[i] - mean[r]) * rstd[r] * gain[i] + (bias ? bias[i] : 0);
    }
}

void ref_layer_norm_gradient(const double *dy, const double *x, const double *gain, double *dx, double *dgain, double *dbias, size_t rows,
                             size_t d, double epsilon)
{
    memset(dgain, 0, d * sizeof *dgain);
    memset(dbias, 0, d * sizeof *dbias);
    for (size_t r = 0; r < rows; r++, x += d, dy += d, dx += d) {
        double mean = 0, squares = 0, sum = 0, dot = 0;
        for (size_t i = 0; i < d; i++)
            mean += x[i] / (double)d;
        for (size_t i = 0; i < d; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        double rstd = 1 / sqrt(squares / (double)d + epsilon);
        for (size_t i = 0; i < d; i++) {
            double normal = (x[i] - mean) * rstd;
            dgain[i] += dy[i] * normal;
            dbias[i] += dy[i];
            sum += dy[i] * gain[i];
            dot += dy[i] * gain[i] * normal;
        }
        for (size_t i = 0; i < d; i++)
            dx[i] = rstd * (dy[i] * gain[i] - sum / (double)d - (x[i] - mean) * rstd * dot / (double)d);
    }
}

void ref_rms_norm(const double *x, const double *gain, double *y, double *rstd, size_t rows, size_t d, double epsilon)
{
    for (size_t r = 0; r < rows; r++) {
        double squares = 0;
        for (size_t i = 0; i < d; i++)
            squares += x[r * d + i] * x[r * d + i];
        rstd[r] = 1 / sqrt(squares / (double)d + epsilon);
        for (size_t i = 0; i < d; i++)
            y[r * d + i] = x[r * d + i] * rstd[r] * gain[i];
    }
}

void ref_rms_norm_gradient(const double *dy, const double *x, const double *gain, double *dx, double *dgain, size_t rows, size_t d,
                           double epsilon)
{
    memset(dgain, 0, d * sizeof *dgain);
    for (size_t r = 0; r < rows; r++) {
        double squares = 0, dot = 0;
        for (size_t i = 0; i < d; i++)
            squares += x[r * d + i] * x[r * d + i];
        double rstd = 1 / sqrt(squares / (double)d + epsilon);
        for (size_t i = 0; i < d; i++) {
            dgain[i] += dy[r * d + i] * x[r * d + i] * rstd;
            dot += dy[r * d + i] * gain[i] * x[r * d + i];
        }
        for (size_t i = 0; i < d; i++) /* d rstd / d x = -rstd^3 x / d */
            dx[r * d + i] = rstd * dy[r * d + i] * gain[i] - rstd * rstd * rstd * x[r * d + i] * dot / (double)d;
    }
}

void ref_swiglu(const double *hidden, double *y, size_t rows, size_t f)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < f; i++) {
            double gate = hidden[r * 2 * f + i], up = hidden[r * 2 * f + f + i];
            y[r * f + i] = gate / (1 + exp(-gate)) * up;
        }
}

void ref_swiglu_gradient(const double *dy, const double *hidden, double *dhidden, size_t rows, size_t f)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < f; i++) {
            double gate = hidden[r * 2 * f + i], up = hidden[r * 2 * f + f + i], g = dy[r * f + i], e = exp(-gate);
            dhidden[r * 2 * f + i] = g * up * (isinf(e) ? 0 : (1 + e + gate * e) / ((1 + e) * (1 + e)));
            dhidden[r * 2 * f + f + i] = g * gate / (1 + e);
        }
}

/* By complex numbers, one a pair: multiplied by e^(i angle). */
void ref_rope(const struct dt_model *model, double *x, size_t rows, size_t heads, size_t columns, bool inverse)
{
    size_t w = (size_t)(gpt_of(model)->hidden / gpt_of(model)->heads), T = (size_t)gpt_of(model)->block_size;
    const struct gpt_rope_scheme *rope = &gpt_of(model)->rope;
    for (size_t r = 0; r < rows; r++)
        for (size_t head = 0; head < heads; head++)
            for (size_t i = 0; i < w / 2; i++) {
                double frequency = exp(-log(rope->base) * 2 * (double)i / (double)w), wavelength = 2 * M_PI / frequency;
                if (rope->scaling == GPT_ROPE_LLAMA3) {
                    double longest = rope->original_length / rope->low_frequency_factor;
                    double shortest = rope->original_length / rope->high_frequency_factor;
                    double smooth = (rope->original_length / wavelength - rope->low_frequency_factor) /
                                    (rope->high_frequency_factor - rope->low_frequency_factor);
                    if (wavelength > longest)
                        frequency /= rope->factor;
                    else if (wavelength >= shortest)
                        frequency *= (1 - smooth) / rope->factor + smooth;
                }
                double *a = &x[r * columns + head * w + i], *b = a + w / 2;
                double complex turned = (*a + *b * I) * cexp((inverse ? -1 : 1) * (double)(r % T) * frequency * I);
                *a = creal(turned);
                *b = cimag(turned);
            }
}

/* u of the tanh form, and its derivative. */
static double gelu_u(double x, double *slope)
{
    *slope = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

/* The factor of x: for ReLU 1 or 0. */
static double share(double x, enum gpt_mlp_kind mlp)
{
    double slope;
    if (mlp == GPT_MLP_RELU)
        return x > 0;
    return mlp == GPT_MLP_GELU_NEW ? 1 / (1 + exp(-2 * gelu_u(x, &slope))) : 0.5 * erfc(-x * M_SQRT1_2);
}

void ref_gelu(const double *x, double *y, size_t count, enum gpt_mlp_kind mlp)
{
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] * share(x[i], mlp);
}

void ref_gelu_gradient(const double *dy, const double *x, double *dx, size_t count, enum gpt_mlp_kind mlp)
{
    for (size_t i = 0; i < count; i++) {
        double slope, u = gelu_u(x[i], &slope), cosine = cosh(u);
        double exact = 0.5 * erfc(-x[i] * M_SQRT1_2) + x[i] * exp(-0.5 * x[i] * x[i]) / sqrt(2 * M_PI);
        double tanh_form = 0.5 * (1 + tanh(u)) + 0.5 * x[i] * slope / (cosine * cosine);
        dx[i] = dy[i] * (mlp == GPT_MLP_RELU ? share(x[i], mlp) : mlp == GPT_MLP_GELU_NEW ? tanh_form : exact);
    }
}

/* The slopes of `heads` heads, as the list that the paper's code makes: recursively where their
 * number is no power of two. */
static void alibi_slopes(size_t heads, double *slopes)
{
    size_t power = (size_t)1 << (size_t)floor(log2((double)heads));
    double *wider = calloc(2 * power, sizeof *wider);
    for (size_t i = 0; i < power; i++)
        slopes[i] = pow(2, -8.0 / (double)power * (double)(i + 1));
    if (power < heads) {
        alibi_slopes(2 * power, wider);
        for (size_t i = power; i < heads; i++)
            slopes[i] = wider[2 * (i - power)];
    }
    free(wider);
}

/* The places of a head's numbers, and of the head that has its keys and values. */
struct ref_head {
    size_t T, w, row; /* row: elements of a row of qkv */
    size_t q, k, v;   /* columns in it */
    double slope;
};

static struct ref_head ref_head_of(const struct dt_model *model, size_t head)
{
    size_t heads = (size_t)gpt_of(model)->heads, kv_heads = gpt_of(model)->kv_heads ? (size_t)gpt_of(model)->kv_heads : heads,
           w = (size_t)gpt_of(model)->hidden / heads;
    size_t kv_head = head / (heads / kv_heads);
    struct ref_head h = {.T = (size_t)gpt_of(model)->block_size, .w = w, .row = (heads + 2 * kv_heads) * w};
    h.q = head * w;
    h.k = (heads + kv_head) * w;
    h.v = (heads + kv_heads + kv_head) * w;
    if (gpt_of(model)->position == GPT_POSITION_ALIBI) {
        double *slopes = calloc(heads, sizeof *slopes);
        alibi_slopes(heads, slopes);
        h.slope = slopes[head];
        free(slopes);
    }
    return h;
}

/* Softmax of one query's scores over keys 0..query, and its log-sum-exp. qkv: of one sample. */
static double attention_row(const struct ref_head *h, const double *qkv, size_t query, double *weights)
{
    double largest = -INFINITY, sum = 0;
    for (size_t key = 0; key <= query; key++) {
        double score = 0;
        for (size_t c = 0; c < h->w; c++)
            score += qkv[query * h->row + h->q + c] * qkv[key * h->row + h->k + c];
        weights[key] = score / sqrt((double)h->w) - h->slope * (double)(query - key);
        largest = fmax(largest, weights[key]);
    }
    for (size_t key = 0; key <= query; key++)
        sum += exp(weights[key] - largest);
    for (size_t key = 0; key <= query; key++)
        weights[key] = exp(weights[key] - largest) / sum;
    return largest + log(sum);
}

void ref_attention(const struct dt_model *model, const double *qkv, double *out, double *lse, double *weights, size_t samples,
                   const struct gpt_dropout *dropout)
{
    size_t T = (size_t)gpt_of(model)->block_size, heads = (size_t)gpt_of(model)->heads, d = (size_t)gpt_of(model)->hidden;
    double *row = calloc(T, sizeof *row);
    for (size_t head = 0; head < heads; head++) {
        struct ref_head h = ref_head_of(model, head);
        for (size_t s = 0; s < samples; s++)
            for (size_t t = 0; t < T; t++) {
                const double *sample = qkv + s * T * h.row;
                double *o = out + (s * T + t) * d + head * h.w, sum = attention_row(&h, sample, t, row);
                memset(o, 0, h.w * sizeof *o);
                for (size_t key = 0; key <= t; key++)
                    for (size_t c = 0; c < h.w; c++)
                        o[c] += row[key] * ref_attention_dropout(dropout, s, head, t, key) * sample[key * h.row + h.v + c];
                if (lse)
                    lse[(s * heads + head) * T + t] = sum;
                for (size_t key = 0; weights && key < T; key++)
                    weights[((s * heads + head) * T + t) * T + key] = key <= t ? row[key] : 0;
            }
    }
    free(row);
}

void ref_attention_gradient(const struct dt_model *model, const double *dout, const double *qkv, double *dqkv, size_t samples,
                            const struct gpt_dropout *dropout)
{
    size_t T = (size_t)gpt_of(model)->block_size, heads = (size_t)gpt_of(model)->heads, d = (size_t)gpt_of(model)->hidden;
    double *row = calloc(2 * T, sizeof *row), *dweight = row + T;
    memset(dqkv, 0, samples * T * ref_head_of(model, 0).row * sizeof *dqkv);
    for (size_t head = 0; head < heads; head++) {
        struct ref_head h = ref_head_of(model, head);
        for (size_t s = 0; s < samples; s++)
            for (size_t t = 0; t < T; t++) {
                const double *sample = qkv + s * T * h.row, *g = dout + (s * T + t) * d + head * h.w;
                double *dsample = dqkv + s * T * h.row;
                double dot = 0; /* sum over keys of weight * its gradient */
                attention_row(&h, sample, t, row);
                for (size_t key = 0; key <= t; key++) {
                    double factor = ref_attention_dropout(dropout, s, head, t, key), through = 0;
                    for (size_t c = 0; c < h.w; c++) {
                        through += g[c] * sample[key * h.row + h.v + c];
                        dsample[key * h.row + h.v + c] += row[key] * factor * g[c];
                    }
                    dweight[key] = through * factor;
                    dot += dweight[key] * row[key];
                }
                for (size_t key = 0; key <= t; key++) {
                    double dscore = row[key] * (dweight[key] - dot) / sqrt((double)h.w);
                    for (size_t c = 0; c < h.w; c++) {
                        dsample[t * h.row + h.q + c] += dscore * sample[key * h.row + h.k + c];
                        dsample[key * h.row + h.k + c] += dscore * sample[t * h.row + h.q + c];
                    }
                }
            }
    }
    free(row);
}

void ref_embedding(const struct dt_model *model, const int32_t *tokens, const double *token_table, const double *position_table,
                   double *out, size_t samples, const struct gpt_dropout *dropout)
{
    size_t T = (size_t)gpt_of(model)->block_size, d = (size_t)gpt_of(model)->hidden;
    for (size_t m = 0; m < samples * T; m++)
        for (size_t c = 0; c < d; c++)
            out[m * d + c] = (token_table[(size_t)tokens[m] * d + c] + (position_table ? position_table[m % T * d + c] : 0)) *
                             ref_dropout(dropout, m / T, m % T, c);
}

void ref_embedding_gradient(const struct dt_model *model, const int32_t *tokens, const double *dout, double *dtoken_table,
                            double *dposition_table, size_t samples, const struct gpt_dropout *dropout)
{
    size_t T = (size_t)gpt_of(model)->block_size, d = (size_t)gpt_of(model)->hidden;
    memset(dtoken_table, 0, (size_t)gpt_of(model)->vocab_size * d * sizeof *dtoken_table);
    if (dposition_table)
        memset(dposition_table, 0, (size_t)gpt_position_rows(model) * d * sizeof *dposition_table);
    for (size_t m = 0; m < samples * T; m++)
        for (size_t c = 0; c < d; c++) {
            double g = dout[m * d + c] * ref_dropout(dropout, m / T, m % T, c);
            dtoken_table[(size_t)tokens[m] * d + c] += g;
            if (dposition_table)
                dposition_table[m % T * d + c] += g;
        }
}

void ref_dropout_residual(const struct dt_model *model, const double *residual, const double *branch, double *out, size_t samples,
                          const struct gpt_dropout *dropout)
{
    size_t T = (size_t)gpt_of(model)->block_size, d = (size_t)gpt_of(model)->hidden;
    for (size_t m = 0; m < samples * T; m++)
        for (size_t c = 0; c < d; c++)
            out[m * d + c] = residual[m * d + c] + branch[m * d + c] * ref_dropout(dropout, m / T, m % T, c);
}

void ref_dropout_gradient(const struct dt_model *model, const double *dout, double *dbranch, size_t samples,
                          const struct gpt_dropout *dropout)
{
    size_t T = (size_t)gpt_of(model)->block_size, d = (size_t)gpt_of(model)->hidden;
    for (size_t m = 0; m < samples * T; m++)
        for (size_t c = 0; c < d; c++)
            dbranch[m * d + c] = dout[m * d + c] * ref_dropout(dropout, m / T, m % T, c);
}

double ref_loss(const double *logits, const int32_t *targets, double *dlogits, size_t rows, size_t vocab, double gradient_scale,
                double loss_scale, bool sum)
{
    double loss = 0;
    for (size_t r = 0; r < rows; r++, logits += vocab, dlogits += vocab) {
        double largest = -INFINITY, total = 0, plain = 0;
        for (size_t v = 0; v < vocab; v++) {
            largest = fmax(largest, logits[v]);
            plain += logits[v];
        }
        for (size_t v = 0; v < vocab; v++)
            total += exp(logits[v] - largest);
        for (size_t v = 0; v < vocab; v++)
            dlogits[v] = sum ? gradient_scale : (exp(logits[v] - largest) / total - (v == (size_t)targets[r])) * gradient_scale;
        loss += sum ? plain : largest + log(total) - logits[targets[r]];
    }
    return loss * loss_scale;
}

void ref_adam(const double *grads, double *first_moment, double *second_moment, double *master, size_t count, int step,
              double learning_rate, double beta1, double beta2, double epsilon, double gradient_scale)
{
    for (size_t i = 0; i < count; i++) {
        double g = grads[i] * gradient_scale;
        first_moment[i] = beta1 * first_moment[i] + (1 - beta1) * g;
        second_moment[i] = beta2 * second_moment[i] + (1 - beta2) * g * g;
        double m = first_moment[i] / (1 - pow(beta1, step)), v = second_moment[i] / (1 - pow(beta2, step));
        master[i] -= learning_rate * m / (sqrt(v) + epsilon);
    }
}

/* The functions of gpt/kernels.h as plain loops in double precision: slow, and short enough to
 * check by reading.
 *
 * Arrays are row-major doubles with the shapes of gpt/kernels.h; arguments named `d...` are
 * written, never added to. Dropout takes its bits from lib/base/random.h as the kernels do. */
#pragma once

#include "gpt/kernels.h"

/* Between doubles and a dtype's memory; encoding rounds to nearest by way of fp32. */
void ref_encode(enum dt_dtype dtype, const double *from, void *to, size_t count);
void ref_decode(enum dt_dtype dtype, const void *from, double *to, size_t count);
/* Round each value to the dtype, so that the reference has the same inputs as the kernel. */
void ref_round(enum dt_dtype dtype, double *values, size_t count);

/* ||got - want|| / ||want||, Euclidean; infinity when `got` holds a NaN or an infinity. 0 / 0 is
 * 0. */
double ref_error(const double *got, const double *want, size_t count);

/* The factor of dropout: 0, or the inverse of the probability to keep an element. sample: its
 * number within the call. */
double ref_dropout(const struct gpt_dropout *dropout, size_t sample, size_t t, size_t column);
double ref_attention_dropout(const struct gpt_dropout *dropout, size_t sample, size_t head, size_t query, size_t key);

void ref_linear(const double *x, const double *w, const double *b, double *y, size_t rows, size_t in, size_t out); /* b may be NULL */
void ref_linear_gradient(const double *dy, const double *x, const double *w, double *dx, double *dw, double *db, size_t rows, size_t in,
                         size_t out); /* each of dx, dw, db may be NULL */

/* bias may be NULL. */
void ref_layer_norm(const double *x, const double *gain, const double *bias, double *y, double *mean, double *rstd, size_t rows, size_t d,
                    double epsilon);
void ref_layer_norm_gradient(const double *dy, const double *x, const double *gain, double *dx, double *dgain, double *dbias, size_t rows,
                             size_t d, double epsilon);
void ref_rms_norm(const double *x, const double *gain, double *y, double *rstd, size_t rows, size_t d, double epsilon);
void ref_rms_norm_gradient(const double *dy, const double *x, const double *gain, double *dx, double *dgain, size_t rows, size_t d,
                           double epsilon);

void ref_swiglu(const double *hidden, double *y, size_t rows, size_t f);
void ref_swiglu_gradient(const double *dy, const double *hidden, double *dhidden, size_t rows, size_t f);

/* In place; the model's rope must name its base. */
void ref_rope(const struct dt_model *model, double *x, size_t rows, size_t heads, size_t columns, bool inverse);

void ref_gelu(const double *x, double *y, size_t count, enum gpt_mlp_kind mlp);
void ref_gelu_gradient(const double *dy, const double *x, double *dx, size_t count, enum gpt_mlp_kind mlp);

/* Of all heads, with the model's kv_heads (0: as many as heads), and with alibi where the model
 * says so. weights [samples, heads, T, T] before dropout and lse [samples, heads, T] may be
 * NULL. */
void ref_attention(const struct dt_model *model, const double *qkv, double *out, double *lse, double *weights, size_t samples,
                   const struct gpt_dropout *dropout);
void ref_attention_gradient(const struct dt_model *model, const double *dout, const double *qkv, double *dqkv, size_t samples,
                            const struct gpt_dropout *dropout);

/* Position tables may be NULL: none. */
void ref_embedding(const struct dt_model *model, const int32_t *tokens, const double *token_table, const double *position_table,
                   double *out, size_t samples, const struct gpt_dropout *dropout);
void ref_embedding_gradient(const struct dt_model *model, const int32_t *tokens, const double *dout, double *dtoken_table,
                            double *dposition_table, size_t samples, const struct gpt_dropout *dropout);

void ref_dropout_residual(const struct dt_model *model, const double *residual, const double *branch, double *out, size_t samples,
                          const struct gpt_dropout *dropout);
void ref_dropout_gradient(const struct dt_model *model, const double *dout, double *dbranch, size_t samples,
                          const struct gpt_dropout *dropout);

/* Returns the summand of *loss; unlike the kernel's, dlogits is a separate array. */
double ref_loss(const double *logits, const int32_t *targets, double *dlogits, size_t rows, size_t vocab, double gradient_scale,
                double loss_scale, bool sum);

/* One Adam step on doubles; master, first and second moment are updated in place. */
void ref_adam(const double *grads, double *first_moment, double *second_moment, double *master, size_t count, int step,
              double learning_rate, double beta1, double beta2, double epsilon, double gradient_scale);

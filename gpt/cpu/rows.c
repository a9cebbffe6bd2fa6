/* Kernels over the rows of a matrix: layer norm, dropout and the residual stream, loss. */
#include "gpt/cpu/kernels.h"
#include "gpt/cpu/team.h"
#include "lib/device/cpu/device.h"

#include <stdlib.h>
#include <string.h>

/* Address of row r of [.., columns] in the model's dtype. */
static void *row_of(const struct gpt_kernels *k, const void *matrix, size_t r, size_t columns)
{
    return (char *)matrix + r * columns * gpt_cpu_element_bytes(k);
}

/* ---- layer norm ---- */

struct layer_norm_task {
    struct gpt_kernels *k;
    struct gpt_layer_norm a;
};

static void layer_norm_part(void *argument, int thread, int threads)
{
    const struct layer_norm_task *t = argument;
    const struct gpt_layer_norm *a = &t->a;
    struct gpt_cpu_share share = gpt_cpu_share(a->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++)
        t->k->simd->layer_norm(row_of(t->k, a->y, r, a->d), row_of(t->k, a->x, r, a->d), a->gain, a->bias, a->d, &a->mean[r], &a->rstd[r]);
}

static dt_status run_layer_norm(void *arguments)
{
    struct layer_norm_task *t = arguments;
    gpt_cpu_parallel(t->k->threads, layer_norm_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_layer_norm, gpt_layer_norm)
{
    struct layer_norm_task t = {k, *a};
    return dt_cpu_submit(stream, "layer norm", run_layer_norm, &t, sizeof t);
}

/* The rows are summed in chunks and the chunks in order, so that dgain and dbias do not depend on the number of threads. */
enum { NORM_CHUNKS = 64, NORM_CHUNK_LEAST_ROWS = 16 };

struct layer_norm_gradient_task {
    struct gpt_kernels *k;
    struct gpt_layer_norm_gradient a;
    size_t chunks;
    float *sums; /* [chunks, 2, d]: dgain, dbias */
};

static void layer_norm_gradient_part(void *argument, int thread, int threads)
{
    const struct layer_norm_gradient_task *t = argument;
    const struct gpt_layer_norm_gradient *a = &t->a;
    struct gpt_cpu_share share = gpt_cpu_share(t->chunks, 1, thread, threads);
    for (size_t chunk = share.first; chunk < share.end; chunk++) {
        float *dgain = t->sums + chunk * 2 * a->d, *dbias = dgain + a->d;
        memset(dgain, 0, 2 * a->d * sizeof *dgain);
        for (size_t r = a->rows * chunk / t->chunks; r < a->rows * (chunk + 1) / t->chunks; r++)
            t->k->simd->layer_norm_gradient(row_of(t->k, a->dx, r, a->d), row_of(t->k, a->dy, r, a->d), row_of(t->k, a->x, r, a->d),
                                            a->gain, dgain, dbias, a->d, a->mean[r], a->rstd[r], a->overwrite);
    }
}

static void combine_norm_chunks_part(void *argument, int thread, int threads)
{
    const struct layer_norm_gradient_task *t = argument;
    const struct gpt_layer_norm_gradient *a = &t->a;
    struct gpt_cpu_share share = gpt_cpu_share(a->d, 64, thread, threads);
    void *const outputs[2] = {a->dgain, a->dbias};
    for (size_t o = 0; o < 2 && share.first < share.end; o++) {
        float *sums = t->sums + o * a->d + share.first;
        void *to = row_of(t->k, outputs[o], share.first, 1);
        for (size_t chunk = 1; chunk < t->chunks; chunk++)
            t->k->simd_fp32->add(sums, sums + chunk * 2 * a->d, share.end - share.first);
        if (a->accumulate)
            t->k->simd->narrow_add(to, sums, share.end - share.first);
        else
            t->k->simd->narrow(to, sums, share.end - share.first);
    }
}

static dt_status run_layer_norm_gradient(void *arguments)
{
    struct layer_norm_gradient_task *t = arguments;
    t->chunks = t->a.rows / NORM_CHUNK_LEAST_ROWS;
    t->chunks = t->chunks < 1 ? 1 : t->chunks > NORM_CHUNKS ? NORM_CHUNKS : t->chunks;
    t->sums = malloc(t->chunks * 2 * t->a.d * sizeof *t->sums);
    if (!t->sums)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory");
    gpt_cpu_parallel(t->k->threads, layer_norm_gradient_part, t);
    gpt_cpu_parallel(t->k->threads, combine_norm_chunks_part, t);
    free(t->sums);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_layer_norm_gradient, gpt_layer_norm_gradient)
{
    struct layer_norm_gradient_task t = {.k = k, .a = *a};
    return dt_cpu_submit(stream, "layer norm gradient", run_layer_norm_gradient, &t, sizeof t);
}

/* ---- dropout ---- */

struct dropout_task {
    struct gpt_kernels *k;
    void *out;
    const void *residual, *branch; /* residual NULL: out is the dropped-out branch alone */
    size_t samples;
    struct gpt_dropout dropout;
};

static void dropout_part(void *argument, int thread, int threads)
{
    const struct dropout_task *t = argument;
    size_t d = (size_t)t->k->model.hidden;
    struct gpt_cpu_share share = gpt_cpu_share(t->samples * (size_t)t->k->model.block_size, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++) {
        struct gpt_dropout_row row = gpt_cpu_dropout_row(t->k, &t->dropout, r);
        void *out = row_of(t->k, t->out, r, d), *branch = row_of(t->k, t->branch, r, d);
        if (t->residual)
            t->k->simd->dropout_residual(out, row_of(t->k, t->residual, r, d), branch, d, &row);
        else
            t->k->simd->dropout_gradient(out, branch, d, &row);
    }
}

static dt_status run_dropout(void *arguments)
{
    struct dropout_task *t = arguments;
    gpt_cpu_parallel(t->k->threads, dropout_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_dropout_residual, gpt_dropout_residual)
{
    struct dropout_task t = {k, a->out, a->residual, a->branch, a->samples, gpt_cpu_dropout(k, &a->dropout)};
    return dt_cpu_submit(stream, "dropout and residual", run_dropout, &t, sizeof t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_dropout_gradient, gpt_dropout_gradient)
{
    struct dropout_task t = {k, a->dbranch, NULL, a->dout, a->samples, gpt_cpu_dropout(k, &a->dropout)};
    return dt_cpu_submit(stream, "dropout gradient", run_dropout, &t, sizeof t);
}

/* ---- loss ---- */

struct loss_task {
    struct gpt_kernels *k;
    struct gpt_loss a;
    double *losses; /* [rows], summed in their order */
};

static void loss_part(void *argument, int thread, int threads)
{
    const struct loss_task *t = argument;
    const struct gpt_loss *a = &t->a;
    size_t vocab = (size_t)t->k->model.vocab_size;
    struct gpt_cpu_share share = gpt_cpu_share(a->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++) {
        void *logits = row_of(t->k, a->logits, r, vocab);
        t->losses[r] = a->sum ? t->k->simd->logit_sum(logits, vocab, a->gradient_scale)
                              : t->k->simd->cross_entropy(logits, vocab, a->targets[r], a->gradient_scale);
    }
}

static dt_status run_loss(void *arguments)
{
    struct loss_task *t = arguments;
    double loss = 0;
    t->losses = malloc(t->a.rows * sizeof *t->losses);
    if (!t->losses)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory");
    gpt_cpu_parallel(t->k->threads, loss_part, t);
    for (size_t r = 0; r < t->a.rows; r++)
        loss += t->losses[r];
    free(t->losses);
    *t->a.loss += loss * t->a.loss_scale;
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_loss, gpt_loss)
{
    struct loss_task t = {.k = k, .a = *a};
    return dt_cpu_submit(stream, "loss", run_loss, &t, sizeof t);
}

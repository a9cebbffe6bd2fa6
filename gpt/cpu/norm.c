/* Norms of rows: layer norm, rms norm, and the rms norm of single heads. */
#include "gpt/cpu/kernels.h"

#include <stdlib.h>
#include <string.h>

/* ---- forward ---- */

static void norm_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct gpt_norm *a = arguments;
    for (size_t r = first; r < end; r++) {
        void *y = gpt_cpu_row(k, a->y, r, a->d), *x = gpt_cpu_row(k, a->x, r, a->d);
        if (a->mean)
            k->simd.layer_norm(y, x, a->gain, a->bias, a->d, a->epsilon, &a->mean[r], &a->rstd[r]);
        else
            k->simd.rms_norm(y, x, a->gain, a->d, a->epsilon, &a->rstd[r]);
    }
}

GPT_KERNEL_FUNCTION(gpt_cpu_layer_norm, gpt_norm)
{
    return gpt_cpu_submit_rows(k, stream, "layer norm", norm_rows, a->rows, a, sizeof *a);
}

GPT_KERNEL_FUNCTION(gpt_cpu_rms_norm, gpt_norm)
{
    return gpt_cpu_submit_rows(k, stream, "rms norm", norm_rows, a->rows, a, sizeof *a);
}

static void head_norm_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct gpt_head_norm *a = arguments;
    size_t w = (size_t)gpt_head_width(&k->model), normed = a->heads + a->kv_heads, columns = (normed + a->kv_heads) * w;
    for (size_t r = first; r < end; r++) {
        char *from = gpt_cpu_row(k, a->qkv, r, columns), *to = gpt_cpu_row(k, a->out, r, columns);
        for (size_t head = 0; head < normed; head++) {
            float rstd;
            k->simd.rms_norm(gpt_cpu_row(k, to, head, w), gpt_cpu_row(k, from, head, w), head < a->heads ? a->q_gain : a->k_gain, w,
                             a->epsilon, &rstd);
        }
        if (to != from)
            memcpy(gpt_cpu_row(k, to, normed, w), gpt_cpu_row(k, from, normed, w), a->kv_heads * w * gpt_cpu_element_bytes(k));
    }
}

GPT_KERNEL_FUNCTION(gpt_cpu_head_norm, gpt_head_norm)
{
    return gpt_cpu_submit_rows(k, stream, "head norm", head_norm_rows, a->rows, a, sizeof *a);
}

/* ---- gradients ---- */

/* Rows are summed in chunks, and the chunks in order, so that sums over all rows do not depend on
 * the number of threads. */
enum { NORM_CHUNKS = 64, NORM_CHUNK_LEAST_ROWS = 16, NORM_MOST_SUMS = 2 };

struct norm_gradient_task;

/* Compute the rows [first, end), and add their parts of each column's sums to sums [sum_count,
 * columns]. */
typedef void (*gradient_rows)(const struct norm_gradient_task *t, size_t first, size_t end, float *sums);

struct norm_gradient_task {
    struct gpt_kernels *k;
    union {
        struct gpt_norm_gradient norm;
        struct gpt_head_norm_gradient head;
    } a;
    gradient_rows add_rows;
    size_t rows, columns;
    void *outputs[NORM_MOST_SUMS]; /* [columns] of the model's dtype */
    int sum_count;                 /* the number of outputs */
    bool accumulate;
    size_t chunks;
    float *sums; /* [chunks, sum_count, columns] */
};

static void norm_gradient_rows(const struct norm_gradient_task *t, size_t first, size_t end, float *sums)
{
    const struct gpt_norm_gradient *a = &t->a.norm;
    for (size_t r = first; r < end; r++) {
        void *dx = gpt_cpu_row(t->k, a->dx, r, a->d), *dy = gpt_cpu_row(t->k, a->dy, r, a->d), *x = gpt_cpu_row(t->k, a->x, r, a->d);
        if (a->mean)
            t->k->simd.layer_norm_gradient(dx, dy, x, a->gain, sums, a->dbias ? sums + a->d : NULL, a->d, a->mean[r], a->rstd[r],
                                           a->overwrite);
        else
            t->k->simd.rms_norm_gradient(dx, dy, x, a->gain, sums, a->d, a->rstd[r], a->overwrite);
    }
}

static void head_norm_gradient_rows(const struct norm_gradient_task *t, size_t first, size_t end, float *sums)
{
    const struct gpt_head_norm_gradient *a = &t->a.head;
    size_t w = t->columns, normed = a->heads + a->kv_heads;
    for (size_t r = first; r < end; r++)
        for (size_t head = 0; head < normed; head++) {
            bool of_q = head < a->heads;
            size_t place = r * (normed + a->kv_heads) + head;
            const void *x = gpt_cpu_row(t->k, a->qkv, place, w);
            void *dy = gpt_cpu_row(t->k, a->dqkv, place, w);
            t->k->simd.rms_norm_gradient(dy, dy, x, of_q ? a->q_gain : a->k_gain, of_q ? sums : sums + w, w,
                                         t->k->simd.rms_rstd(x, w, a->epsilon), true);
        }
}

static void add_chunks_part(void *argument, int thread, int threads)
{
    const struct norm_gradient_task *t = argument;
    size_t chunk_sums = (size_t)t->sum_count * t->columns;
    struct dt_cpu_share share = dt_cpu_share(t->chunks, 1, thread, threads);
    for (size_t chunk = share.first; chunk < share.end; chunk++) {
        float *sums = t->sums + chunk * chunk_sums;
        memset(sums, 0, chunk_sums * sizeof *sums);
        t->add_rows(t, t->rows * chunk / t->chunks, t->rows * (chunk + 1) / t->chunks, sums);
    }
}

static void combine_chunks_part(void *argument, int thread, int threads)
{
    const struct norm_gradient_task *t = argument;
    size_t chunk_sums = (size_t)t->sum_count * t->columns;
    struct dt_cpu_share share = dt_cpu_share(t->columns, 64, thread, threads);
    for (int o = 0; o < t->sum_count && share.first < share.end; o++) {
        float *sums = t->sums + (size_t)o * t->columns + share.first;
        void *to = gpt_cpu_row(t->k, t->outputs[o], share.first, 1);
        for (size_t chunk = 1; chunk < t->chunks; chunk++)
            t->k->flat_fp32->add(sums, sums + chunk * chunk_sums, share.end - share.first);
        (t->accumulate ? t->k->flat->narrow_add : t->k->flat->narrow)(to, sums, share.end - share.first);
    }
}

static dt_status run_norm_gradient(void *arguments)
{
    struct norm_gradient_task *t = arguments;
    t->chunks = t->rows / NORM_CHUNK_LEAST_ROWS;
    t->chunks = t->chunks < 1 ? 1 : t->chunks > NORM_CHUNKS ? NORM_CHUNKS : t->chunks;
    t->sums = malloc(t->chunks * (size_t)t->sum_count * t->columns * sizeof *t->sums);
    DT_TRY(dt_allocated(t->sums, "no host memory"));
    dt_cpu_parallel(t->k->threads, add_chunks_part, t);
    dt_cpu_parallel(t->k->threads, combine_chunks_part, t);
    free(t->sums);
    return DT_OK;
}

static dt_status norm_gradient(struct gpt_kernels *k, struct dt_stream *stream, const char *label, const struct gpt_norm_gradient *a)
{
    struct norm_gradient_task t = {
        .k = k,
        .a.norm = *a,
        .add_rows = norm_gradient_rows,
        .rows = a->rows,
        .columns = a->d,
        .outputs = {a->dgain, a->dbias},
        .sum_count = a->dbias ? 2 : 1,
        .accumulate = a->accumulate,
    };
    return dt_cpu_submit(stream, label, run_norm_gradient, &t, sizeof t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_layer_norm_gradient, gpt_norm_gradient)
{
    return norm_gradient(k, stream, "layer norm gradient", a);
}

GPT_KERNEL_FUNCTION(gpt_cpu_rms_norm_gradient, gpt_norm_gradient)
{
    return norm_gradient(k, stream, "rms norm gradient", a);
}

GPT_KERNEL_FUNCTION(gpt_cpu_head_norm_gradient, gpt_head_norm_gradient)
{
    struct norm_gradient_task t = {
        .k = k,
        .a.head = *a,
        .add_rows = head_norm_gradient_rows,
        .rows = a->rows,
        .columns = (size_t)gpt_head_width(&k->model),
        .outputs = {a->dq_gain, a->dk_gain},
        .sum_count = 2,
        .accumulate = a->accumulate,
    };
    return dt_cpu_submit(stream, "head norm gradient", run_norm_gradient, &t, sizeof t);
}

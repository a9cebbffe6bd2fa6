/* Kernels over the rows of a matrix: dropout and the residual stream, loss. */
#include "gpt/cpu/kernels.h"
#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/team.h"

#include <math.h>
#include <stdlib.h>

/* ---- dropout ---- */

struct dropout_task {
    struct gpt_kernels *k;
    void *out;
    const void *residual, *branch; /* residual NULL: out is the dropped-out branch alone */
    size_t rows;
    struct gpt_dropout dropout;
};

static void dropout_part(void *argument, int thread, int threads)
{
    const struct dropout_task *t = argument;
    size_t d = (size_t)gpt_of(&t->k->model)->hidden;
    struct dt_cpu_share share = dt_cpu_share(t->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++) {
        struct gpt_dropout_row row = gpt_cpu_dropout_row(t->k, &t->dropout, r);
        void *out = gpt_cpu_row(t->k, t->out, r, d), *branch = gpt_cpu_row(t->k, t->branch, r, d);
        if (t->residual)
            t->k->simd.dropout_residual(out, gpt_cpu_row(t->k, t->residual, r, d), branch, d, &row);
        else
            t->k->simd.dropout_gradient(out, branch, d, &row);
    }
}

static dt_status run_dropout(void *arguments)
{
    struct dropout_task *t = arguments;
    dt_cpu_parallel(t->k->threads, dropout_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_dropout_residual, gpt_dropout_residual)
{
    struct dropout_task t = {k, a->out, a->residual, a->branch, a->rows, gpt_cpu_dropout(k, &a->dropout)};
    return dt_cpu_submit(stream, "dropout and residual", run_dropout, &t, sizeof t);
}

GPT_KERNEL_FUNCTION(gpt_cpu_dropout_gradient, gpt_dropout_gradient)
{
    struct dropout_task t = {k, a->dbranch, NULL, a->dout, a->rows, gpt_cpu_dropout(k, &a->dropout)};
    return dt_cpu_submit(stream, "dropout gradient", run_dropout, &t, sizeof t);
}

/* ---- loss ---- */

struct loss_task {
    struct gpt_kernels *k;
    struct gpt_loss a;
    float gradient_scale; /* the step's loss scale in it */
    double *losses;       /* [rows], summed in their order */
};

static void loss_part(void *argument, int thread, int threads)
{
    const struct loss_task *t = argument;
    const struct gpt_loss *a = &t->a;
    size_t vocab = (size_t)gpt_of(&t->k->model)->vocab_size;
    struct dt_cpu_share share = dt_cpu_share(a->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++) {
        void *logits = gpt_cpu_row(t->k, a->logits, r, vocab);
        t->losses[r] = a->sum ? t->k->flat->sum(logits, vocab) : t->k->flat->cross_entropy(logits, vocab, a->targets[r], t->gradient_scale);
        if (a->sum)
            t->k->flat->fill(logits, vocab, t->gradient_scale);
    }
}

static dt_status run_loss(void *arguments)
{
    struct loss_task *t = arguments;
    double loss = 0;
    t->gradient_scale = t->a.gradient_scale * t->k->base->host.norm.loss_scale;
    t->losses = malloc(t->a.rows * sizeof *t->losses);
    if (!t->losses)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory");
    dt_cpu_parallel(t->k->threads, loss_part, t);
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

/* ---- the same where the vocabulary is divided ---- */

struct loss_part_task {
    struct gpt_kernels *k;
    struct gpt_loss_part a;
};

/* The target's place among this rank's logits; false where it has another part of the vocabulary. */
static bool find_target(const struct gpt_part *vocab, int32_t target, size_t *place)
{
    *place = (size_t)target - vocab->first;
    return (size_t)target >= vocab->first && *place < vocab->count;
}

static void loss_part_part(void *argument, int thread, int threads)
{
    const struct loss_part_task *t = argument;
    const struct gpt_loss_part *a = &t->a;
    struct dt_cpu_share share = dt_cpu_share(a->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++) {
        const void *logits = gpt_cpu_row(t->k, a->logits, r, a->vocab.count);
        size_t place;
        a->out[r] = (struct gpt_logit_row){0};
        if (a->sum) {
            a->out[r].exponentials = (float)t->k->flat->sum(logits, a->vocab.count);
            continue;
        }
        a->out[r].exponentials = (float)t->k->flat->exponentials(logits, a->vocab.count, &a->out[r].largest);
        if (find_target(&a->vocab, a->targets[r], &place))
            t->k->flat->widen(&a->out[r].at_target, (const char *)logits + place * gpt_cpu_element_bytes(t->k), 1);
    }
}

static dt_status run_loss_part(void *arguments)
{
    struct loss_part_task *t = arguments;
    dt_cpu_parallel(t->k->threads, loss_part_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_loss_part, gpt_loss_part)
{
    struct loss_part_task t = {k, *a};
    return dt_cpu_submit(stream, "loss, one part", run_loss_part, &t, sizeof t);
}

struct loss_gradient_task {
    struct gpt_kernels *k;
    struct gpt_loss_gradient a;
    float gradient_scale; /* the step's loss scale in it */
    double *losses;       /* [rows] */
};

/* All ranks' numbers of row `r` as one's. */
struct whole_row {
    double largest, exponentials, at_target;
};

static struct whole_row combine(const struct gpt_loss_gradient *a, size_t r)
{
    struct whole_row all = {.largest = a->all[r].largest};
    for (size_t part = 1; part < a->parts; part++)
        all.largest = fmax(all.largest, a->all[part * a->rows + r].largest);
    for (size_t part = 0; part < a->parts; part++) {
        const struct gpt_logit_row *one = &a->all[part * a->rows + r];
        all.exponentials += one->exponentials * exp(one->largest - all.largest);
        all.at_target += one->at_target;
    }
    return all;
}

static double loss_row(const struct loss_gradient_task *t, size_t r)
{
    const struct gpt_loss_gradient *a = &t->a;
    struct whole_row all = combine(a, r);
    char *logits = gpt_cpu_row(t->k, a->logits, r, a->vocab.count);
    size_t place;
    if (a->sum) {
        t->k->flat->fill(logits, a->vocab.count, t->gradient_scale);
        return all.exponentials;
    }
    t->k->flat->softmax(logits, a->vocab.count, (float)all.largest, (float)(t->gradient_scale / all.exponentials));
    if (find_target(&a->vocab, a->targets[r], &place)) {
        float gradient = (float)(t->gradient_scale * (exp(all.at_target - all.largest) / all.exponentials - 1));
        t->k->flat->narrow(logits + place * gpt_cpu_element_bytes(t->k), &gradient, 1);
    }
    return all.largest + log(all.exponentials) - all.at_target;
}

static void loss_gradient_part(void *argument, int thread, int threads)
{
    const struct loss_gradient_task *t = argument;
    struct dt_cpu_share share = dt_cpu_share(t->a.rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++)
        t->losses[r] = loss_row(t, r);
}

static dt_status run_loss_gradient(void *arguments)
{
    struct loss_gradient_task *t = arguments;
    double loss = 0;
    t->gradient_scale = t->a.gradient_scale * t->k->base->host.norm.loss_scale;
    t->losses = malloc(t->a.rows * sizeof *t->losses);
    if (!t->losses)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory");
    dt_cpu_parallel(t->k->threads, loss_gradient_part, t);
    for (size_t r = 0; r < t->a.rows; r++)
        loss += t->losses[r];
    free(t->losses);
    *t->a.loss += loss * t->a.loss_scale;
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_loss_gradient, gpt_loss_gradient)
{
    struct loss_gradient_task t = {.k = k, .a = *a};
    return dt_cpu_submit(stream, "loss gradient", run_loss_gradient, &t, sizeof t);
}

/* Kernels over the rows of a matrix: dropout with the residual sum, loss. */
#include "gpt/cpu/kernels.h"
#include "lib/base/random.h"

#include <math.h>
#include <stdlib.h>

/* ---- dropout ---- */

struct gpt_dropout gpt_cpu_dropout(const struct gpt_kernels *k, const struct gpt_dropout *dropout)
{
    struct gpt_dropout queued = *dropout;
    queued.first_sample += k->base->first_sample;
    return queued;
}

struct gpt_dropout_rows gpt_cpu_dropout_rows(const struct gpt_kernels *k, const struct gpt_dropout *dropout)
{
    return (struct gpt_dropout_rows){
        .seed = dropout->seed,
        .layer_word = (uint32_t)DT_RANDOM_DROPOUT << 24 | dropout->layer,
        .first_sample = dropout->first_sample,
        .threshold = dt_dropout_threshold(dropout->probability),
        .first_row = dropout->first_row,
        .T = (size_t)gpt_of(&k->model)->block_size,
        .positions = dropout->positions,
        .scale = dt_dropout_scale(dropout->probability),
    };
}

struct gpt_dropout_row gpt_cpu_dropout_row(const struct gpt_kernels *k, const struct gpt_dropout *dropout, size_t row)
{
    struct gpt_dropout_rows rows = gpt_cpu_dropout_rows(k, dropout);
    return gpt_dropout_row_of(&rows, row);
}

struct dropout_rows {
    void *out;
    const void *residual, *branch; /* residual NULL: out is the branch after dropout */
    struct gpt_dropout dropout;
};

static void dropout_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct dropout_rows *a = arguments;
    size_t d = (size_t)gpt_of(&k->model)->hidden;
    for (size_t r = first; r < end; r++) {
        struct gpt_dropout_row row = gpt_cpu_dropout_row(k, &a->dropout, r);
        void *out = gpt_cpu_row(k, a->out, r, d), *branch = gpt_cpu_row(k, a->branch, r, d);
        if (a->residual)
            k->simd.dropout_residual(out, gpt_cpu_row(k, a->residual, r, d), branch, d, &row);
        else
            k->simd.dropout_gradient(out, branch, d, &row);
    }
}

GPT_KERNEL_FUNCTION(gpt_cpu_dropout_residual, gpt_dropout_residual)
{
    struct dropout_rows of = {a->out, a->residual, a->branch, gpt_cpu_dropout(k, &a->dropout)};
    return gpt_cpu_submit_rows(k, stream, "dropout and residual", dropout_rows, a->rows, &of, sizeof of);
}

GPT_KERNEL_FUNCTION(gpt_cpu_dropout_gradient, gpt_dropout_gradient)
{
    struct dropout_rows of = {a->dbranch, NULL, a->dout, gpt_cpu_dropout(k, &a->dropout)};
    return gpt_cpu_submit_rows(k, stream, "dropout gradient", dropout_rows, a->rows, &of, sizeof of);
}

/* ---- loss ---- */

struct loss_task {
    struct gpt_kernels *k;
    union {
        struct gpt_loss loss;
        struct gpt_loss_gradient gradient; /* if the vocabulary is divided over ranks */
    } a;
    double (*loss_of)(const struct loss_task *t, size_t row); /* returns the row's part of the loss; its logits become their gradient */
    size_t rows;
    double *loss;                  /* the call's loss, to which the rows' parts are added */
    float given_scale, loss_scale; /* scales of the call's gradients, and of its loss */
    float gradient_scale;          /* includes the step's loss scale */
    double *losses;                /* [rows], summed in their order */
};

static double loss_of(const struct loss_task *t, size_t r)
{
    const struct gpt_loss *a = &t->a.loss;
    size_t vocab = (size_t)gpt_of(&t->k->model)->vocab_size;
    void *logits = gpt_cpu_row(t->k, a->logits, r, vocab);
    if (!a->sum)
        return t->k->flat->cross_entropy(logits, vocab, a->targets[r], t->gradient_scale);
    double loss = t->k->flat->sum(logits, vocab);
    t->k->flat->fill(logits, vocab, t->gradient_scale);
    return loss;
}

static void loss_part(void *argument, int thread, int threads)
{
    const struct loss_task *t = argument;
    struct dt_cpu_share share = dt_cpu_share(t->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++)
        t->losses[r] = t->loss_of(t, r);
}

static dt_status run_loss(void *arguments)
{
    struct loss_task *t = arguments;
    double loss = 0;
    t->gradient_scale = t->given_scale * t->k->base->host.norm.loss_scale;
    t->losses = malloc(t->rows * sizeof *t->losses);
    DT_TRY(dt_allocated(t->losses, "no host memory"));
    dt_cpu_parallel(t->k->threads, loss_part, t);
    for (size_t r = 0; r < t->rows; r++)
        loss += t->losses[r];
    free(t->losses);
    *t->loss += loss * t->loss_scale;
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_loss, gpt_loss)
{
    struct loss_task t = {.k = k,
                          .a.loss = *a,
                          .loss_of = loss_of,
                          .rows = a->rows,
                          .loss = a->loss,
                          .given_scale = a->gradient_scale,
                          .loss_scale = a->loss_scale};
    return dt_cpu_submit(stream, "loss", run_loss, &t, sizeof t);
}

/* ---- the same where the vocabulary is divided ---- */

/* Find the target's place among this rank's logits; false if another rank has that part of the
 * vocabulary. */
static bool find_target(const struct gpt_part *vocab, int32_t target, size_t *place)
{
    *place = (size_t)target - vocab->first;
    return (size_t)target >= vocab->first && *place < vocab->count;
}

static void loss_part_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct gpt_loss_part *a = arguments;
    for (size_t r = first; r < end; r++) {
        const void *logits = gpt_cpu_row(k, a->logits, r, a->vocab.count);
        size_t place;
        a->out[r] = (struct gpt_logit_row){0};
        if (a->sum) {
            a->out[r].exponentials = (float)k->flat->sum(logits, a->vocab.count);
            continue;
        }
        a->out[r].exponentials = (float)k->flat->exponentials(logits, a->vocab.count, &a->out[r].largest);
        if (find_target(&a->vocab, a->targets[r], &place))
            k->flat->widen(&a->out[r].at_target, (const char *)logits + place * gpt_cpu_element_bytes(k), 1);
    }
}

GPT_KERNEL_FUNCTION(gpt_cpu_loss_part, gpt_loss_part)
{
    return gpt_cpu_submit_rows(k, stream, "loss, one part", loss_part_rows, a->rows, a, sizeof *a);
}

/* The numbers of row `r` of all ranks, combined. */
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

static double loss_of_parts(const struct loss_task *t, size_t r)
{
    const struct gpt_loss_gradient *a = &t->a.gradient;
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

GPT_KERNEL_FUNCTION(gpt_cpu_loss_gradient, gpt_loss_gradient)
{
    struct loss_task t = {.k = k,
                          .a.gradient = *a,
                          .loss_of = loss_of_parts,
                          .rows = a->rows,
                          .loss = a->loss,
                          .given_scale = a->gradient_scale,
                          .loss_scale = a->loss_scale};
    return dt_cpu_submit(stream, "loss gradient", run_loss, &t, sizeof t);
}

/* Token and position embedding, and the gradients of both tables. */
#include "gpt/cpu/kernels.h"

#include <stdlib.h>
#include <string.h>

static void *row_of(const struct gpt_kernels *k, const void *matrix, size_t r)
{
    return (char *)matrix + r * (size_t)gpt_of(&k->model)->hidden * gpt_cpu_element_bytes(k);
}

/* Row `i` of a table of which this rank has the rows `part`, at `table`; NULL if another rank has
 * row i. */
static const void *table_row(const struct gpt_kernels *k, const void *table, const struct gpt_part *part, size_t i)
{
    return i >= part->first && i - part->first < part->count ? row_of(k, table, i - part->first) : NULL;
}

/* out [d] = dropout(token + position). Either row may be NULL. */
static void embed(const struct gpt_kernels *k, const struct gpt_embedding *a, size_t m)
{
    size_t T = (size_t)gpt_of(&k->model)->block_size, d = (size_t)gpt_of(&k->model)->hidden;
    struct gpt_dropout_row row = gpt_cpu_dropout_row(k, &a->dropout, m);
    const void *token = table_row(k, a->token_table, &a->vocab, (size_t)a->tokens[m]);
    const void *position = table_row(k, a->position_table, &a->positions, gpt_place_of(&a->dropout.positions, T, m).position);
    if (token && position)
        k->simd.embedding(row_of(k, a->out, m), token, position, d, &row);
    else if (token || position)
        k->simd.dropout_gradient(row_of(k, a->out, m), token ? token : position, d, &row);
    else
        k->flat->fill(row_of(k, a->out, m), d, 0);
}

static void embedding_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    for (size_t m = first; m < end; m++)
        embed(kernels, arguments, m);
}

GPT_KERNEL_FUNCTION(gpt_cpu_embedding, gpt_embedding)
{
    struct gpt_embedding queued = *a;
    queued.dropout = gpt_cpu_dropout(k, &a->dropout);
    size_t rows = a->samples * gpt_positions_count(&a->dropout.positions, &k->model);
    return gpt_cpu_submit_rows(k, stream, "embedding", embedding_rows, rows, &queued, sizeof queued);
}

/* The rows of dout of each token form a list in rising order. One thread sums up each row of the
 * table in fp32, and stores it once. */
struct embedding_gradient_task {
    struct gpt_kernels *k;
    struct gpt_embedding_gradient a;
    int32_t *first; /* [vocab.count]: the first row with this token, or -1 */
    int32_t *next;  /* [M]: the next row with the same token, or -1 */
    float *sums;    /* [threads, d] */
};

static size_t rows_of(const struct embedding_gradient_task *t)
{
    return t->a.samples * gpt_positions_count(&t->a.dropout.positions, &t->k->model);
}

static void add_row(const struct embedding_gradient_task *t, float *sums, size_t m)
{
    struct gpt_dropout_row row = gpt_cpu_dropout_row(t->k, &t->a.dropout, m);
    t->k->simd.dropout_sum(sums, row_of(t->k, t->a.dout, m), (size_t)gpt_of(&t->k->model)->hidden, &row);
}

static void finish_row(const struct embedding_gradient_task *t, void *table, size_t r, const float *sums)
{
    (t->a.accumulate ? t->k->flat->narrow_add : t->k->flat->narrow)(row_of(t->k, table, r), sums, (size_t)gpt_of(&t->k->model)->hidden);
}

static void token_table_part(const struct embedding_gradient_task *t, float *sums, struct dt_cpu_share share)
{
    size_t d = (size_t)gpt_of(&t->k->model)->hidden;
    for (size_t v = share.first; v < share.end; v++) {
        size_t unused = v;
        while (unused < share.end && t->first[unused] < 0)
            unused++;
        if (unused > v && !t->a.accumulate)
            memset(row_of(t->k, t->a.dtoken_table, v), 0, (unused - v) * d * gpt_cpu_element_bytes(t->k));
        v = unused;
        if (v == share.end)
            return;
        memset(sums, 0, d * sizeof *sums);
        for (int32_t m = t->first[v]; m >= 0; m = t->next[m])
            add_row(t, sums, (size_t)m);
        finish_row(t, t->a.dtoken_table, v, sums);
    }
}

/* *place: the index of the position's row among those of a sample. false: it has none. */
static bool place_of(const struct embedding_gradient_task *t, size_t position, size_t *place)
{
    const struct gpt_positions *p = &t->a.dropout.positions;
    size_t count = gpt_positions_count(p, &t->k->model), half = count / 2;
    *place = position;
    if (p->count)
        *place = position < p->first[1] ? position - p->first[0] : position - p->first[1] + half;
    return *place < (p->count && position < p->first[1] ? half : count);
}

static void embedding_gradient_part(void *argument, int thread, int threads)
{
    const struct embedding_gradient_task *t = argument;
    size_t d = (size_t)gpt_of(&t->k->model)->hidden, count = gpt_positions_count(&t->a.dropout.positions, &t->k->model), place;
    float *sums = t->sums + (size_t)thread * d;
    token_table_part(t, sums, dt_cpu_share(t->a.vocab.count, 1, thread, threads));
    struct dt_cpu_share share = dt_cpu_share(t->a.positions.count, 1, thread, threads);
    for (size_t position = share.first; position < share.end; position++) {
        memset(sums, 0, d * sizeof *sums);
        for (size_t s = 0; s < t->a.samples && place_of(t, t->a.positions.first + position, &place); s++)
            add_row(t, sums, s * count + place);
        finish_row(t, t->a.dposition_table, position, sums);
    }
}

static dt_status list_rows(struct embedding_gradient_task *t)
{
    size_t rows = rows_of(t);
    memset(t->first, 0xFF, t->a.vocab.count * sizeof *t->first);
    for (size_t m = rows; m-- > 0;) {
        int32_t token = t->a.tokens[m];
        if (token < 0 || token >= gpt_of(&t->k->model)->vocab_size)
            return dt_fail(DT_ERR_INVALID, "token %d at row %zu: the vocabulary has %d", (int)token, m, gpt_of(&t->k->model)->vocab_size);
        size_t place = (size_t)token - t->a.vocab.first;
        if ((size_t)token < t->a.vocab.first || place >= t->a.vocab.count)
            continue; /* another rank has it */
        t->next[m] = t->first[place];
        t->first[place] = (int32_t)m;
    }
    return DT_OK;
}

static dt_status run_embedding_gradient(void *arguments)
{
    struct embedding_gradient_task *t = arguments;
    size_t rows = rows_of(t), vocab = t->a.vocab.count;
    DT_FREED int32_t *first = t->first = malloc((vocab + rows) * sizeof *t->first);
    DT_FREED float *sums = t->sums = malloc((size_t)t->k->threads * (size_t)gpt_of(&t->k->model)->hidden * sizeof *t->sums);
    DT_TRY(dt_allocated(first && sums, "no host memory for the gradient of the embedding"));
    t->next = first + vocab;
    DT_TRY(list_rows(t));
    dt_cpu_parallel(t->k->threads, embedding_gradient_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_embedding_gradient, gpt_embedding_gradient)
{
    struct embedding_gradient_task t = {.k = k, .a = *a};
    t.a.dropout = gpt_cpu_dropout(k, &a->dropout);
    return dt_cpu_submit(stream, "embedding gradient", run_embedding_gradient, &t, sizeof t);
}

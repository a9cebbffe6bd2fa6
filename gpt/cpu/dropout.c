/* Which dropout mask a row of a call gets. */
#include "gpt/cpu/kernels.h"
#include "lib/base/random.h"

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
        .scale = dt_dropout_scale(dropout->probability),
    };
}

struct gpt_dropout_row gpt_cpu_dropout_row(const struct gpt_kernels *k, const struct gpt_dropout *dropout, size_t row)
{
    struct gpt_dropout_rows rows = gpt_cpu_dropout_rows(k, dropout);
    return gpt_dropout_row_of(&rows, row);
}

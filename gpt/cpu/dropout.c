/* Which dropout mask a row of a call gets. */
#include "gpt/cpu/kernels.h"
#include "lib/base/random.h"

struct gpt_dropout gpt_cpu_dropout(const struct gpt_kernels *k, const struct gpt_dropout *dropout)
{
    struct gpt_dropout queued = *dropout;
    queued.first_sample += k->first_sample;
    return queued;
}

struct gpt_dropout_row gpt_cpu_dropout_row(const struct gpt_kernels *k, const struct gpt_dropout *dropout, size_t row)
{
    size_t T = (size_t)k->model.block_size;
    row += dropout->first_row;
    return (struct gpt_dropout_row){
        .seed = dropout->seed,
        .layer_word = (uint32_t)DT_RANDOM_DROPOUT << 24 | dropout->layer,
        .sample = dropout->first_sample + (uint32_t)(row / T),
        .t = (uint32_t)(row % T),
        .threshold = dt_dropout_threshold(dropout->probability),
        .scale = dt_dropout_scale(dropout->probability),
    };
}

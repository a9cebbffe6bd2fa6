/* The family's part of struct dt_tuner (lib/model/tuning.h). */
#include "gpt/cuda/tuning.h"

#include "gpt/kernel_set.h"

#include <stdlib.h>

static dt_status create(struct dt_tuning **out)
{
    *out = calloc(1, sizeof **out);
    return dt_allocated(*out, "no host memory for a tuning");
}

static void destroy(struct dt_tuning *t)
{
    if (!t)
        return;
    free(t->listed);
    free(t->known);
    free(t);
}

static dt_status list(struct dt_tuning *t, struct dt_kernels *kernels, const struct dt_model *model)
{
    return gpt_kernel_set_list(kernels, t, model);
}

static int listed(const struct dt_tuning *t)
{
    return t->listed_count;
}

static dt_status use(const struct dt_tuning *t, struct dt_kernels *kernels)
{
    const struct gpt_kernel_table *table = gpt_kernel_set(kernels)->plain.table;
    return table->use_tuning ? table->use_tuning(gpt_kernel_set(kernels)->plain.state, t) : DT_OK;
}

static void used(const struct dt_kernels *kernels, struct dt_tuned *out)
{
    *out = (struct dt_tuned){0};
    if (gpt_kernel_set(kernels)->plain.table->tuned)
        gpt_kernel_set(kernels)->plain.table->tuned(gpt_kernel_set(kernels)->plain.state, out);
}

const struct dt_tuner gpt_tuner = {
    .create = create,
    .destroy = destroy,
    .read = gpt_tuning_read,
    .write = gpt_tuning_write,
    .list = list,
    .listed = listed,
    .measure = gpt_cuda_tune,
    .describe = gpt_tuning_describe,
    .use = use,
    .used = used,
};

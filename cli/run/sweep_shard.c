#include "cli/run/sweep_shard.h"

#include <stdio.h>
#include <stdlib.h>

struct load {
    double flops; /* of one rank, all steps */
    int experiment;
};

dt_status sweep_shard_parse(const char *text, struct sweep_shard *out)
{
    int length = 0;
    bool read = *text >= '0' && *text <= '9' && sscanf(text, "%9d/%n", &out->number, &length) == 1 && length > 0;
    const char *rest = text + length;
    int all = 0;
    read = read && *rest >= '0' && *rest <= '9' && sscanf(rest, "%9d%n", &out->count, &all) == 1 && rest[all] == 0;
    if (!read || out->number < 1 || out->number > out->count)
        return dt_fail(DT_ERR_INVALID, "--shard %s: expected K/N with K from 1 to N, such as 1/4", text);
    return DT_OK;
}

static int by_load(const void *left, const void *right)
{
    const struct load *a = left, *b = right;
    if (a->flops != b->flops)
        return a->flops < b->flops ? 1 : -1;
    return (a->experiment > b->experiment) - (a->experiment < b->experiment);
}

dt_status sweep_shard_select(struct sweep_shard shard, const struct experiment_list *experiments, bool *elsewhere)
{
    int count = experiment_list_count(experiments);
    struct experiment own;
    struct load *loads = malloc(((size_t)count + 1) * sizeof *loads);
    if (!loads)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a sweep of %d experiments", count);
    for (int i = 0; i < count; i++) {
        const struct experiment *e = experiment_list_get(experiments, i, &own);
        double steps = (double)e->steps.warmup + e->steps.timed;
        loads[i] = (struct load){
            .flops = dt_model_step_flops(&e->model, experiment_global_batch(e) * (uint64_t)e->model.block_size) / e->world_size * steps,
            .experiment = i,
        };
    }
    qsort(loads, (size_t)count, sizeof *loads, by_load);
    for (int i = 0; i < count; i++) {
        int round = i / shard.count, seat = i % shard.count;
        int dealt_to = round % 2 == 0 ? seat : shard.count - 1 - seat;
        elsewhere[loads[i].experiment] = dealt_to != shard.number - 1;
    }
    free(loads);
    return DT_OK;
}

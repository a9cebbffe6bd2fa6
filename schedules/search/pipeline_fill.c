#include "schedules/search/pipeline_fill.h"

#include "schedules/config/order.h"
#include "schedules/config/split.h"
#include "schedules/plan/orders.h"
#include "schedules/plan/plans.h"
#include "schedules/plan/play.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

dt_status pipeline_blocks(const struct experiment *e, int virtual_stages, int *blocks)
{
    int *first = malloc(((size_t)virtual_stages + 1) * sizeof *first), block = 0;
    if (!first)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d stages", virtual_stages);
    dt_status status = experiment_partition(e, virtual_stages, first);
    for (int v = 0; status == DT_OK && v < virtual_stages; v++) {
        while (block < e->model.layers && e->model.family->block_layer(block) < first[v])
            block++;
        blocks[v] = 0;
        while (block < e->model.layers && e->model.family->block_layer(block + 1) <= first[v + 1]) {
            blocks[v]++;
            block++;
        }
    }
    free(first);
    return status;
}

bool pipeline_drains(const struct experiment *e)
{
    static const char *const names[] = {"gpipe", "1f1b", "interleaved"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(e->pipeline.order, names[i]) == 0)
            return true;
    return false;
}

double pipeline_fill_s(const int *blocks, int stages, const struct order_layout *layout, const struct block_times *t, int *most)
{
    double longest = 0;
    int before = 0;
    for (int k = 0; k < stages; k++) {
        int own = 0;
        for (int part = 0; part < layout->parts; part++)
            own += blocks[virtual_stage_of(part, k, stages, layout->folded)];
        longest = fmax(longest, own * t->all_s + (t->drains ? before * t->last_s : 0));
        longest = fmax(longest, own * (t->all_s - t->last_s + t->end_s) + (t->drains ? before * t->forward_s : 0));
        *most = own > *most ? own : *most;
        before += blocks[k];
    }
    return longest;
}

/* ---- played ---- */

/* Gradients of inputs take at least as long as those of weights, which no attention is part of. */
static double shortest_s(const struct plan *plans, int stages, const double *blocks, double block_s, double block_forward_s,
                         struct rank_time *ranks, dt_status *status)
{
    double shortest = INFINITY;
    for (double inputs = 0.5; inputs < 0.95 && *status == DT_OK; inputs += 0.1) {
        double backward_s = block_s - block_forward_s;
        struct plan_times times = {.forward = block_forward_s,
                                   .backward_input = inputs * backward_s,
                                   .backward_weight = (1 - inputs) * backward_s,
                                   .shares = blocks};
        *status = plan_time(plans, stages, &times, ranks);
        shortest = fmin(shortest, ranks[0].end - ranks[0].begin);
    }
    return shortest;
}

static dt_status play(const struct experiment *e, const struct order_shape *shape, int virtual_stages, double block_s,
                      double block_forward_s, struct plan *plans, struct rank_time *ranks, int *blocks, double *shares, double *out)
{
    DT_TRY(pipeline_blocks(e, virtual_stages, blocks));
    for (int v = 0; v < virtual_stages; v++)
        shares[v] = blocks[v];
    DT_TRY(plans_make(e->pipeline.order, shape, plans));
    dt_status status = DT_OK;
    *out = shortest_s(plans, shape->stages, shares, block_s, block_forward_s, ranks, &status);
    return status;
}

dt_status pipeline_played_s(const struct experiment *e, double block_s, double block_forward_s, double *out)
{
    struct experiment_order order;
    struct order_layout layout;
    *out = 0;
    if (experiment_stages(e) == 1 || pipeline_order_is_file(e->pipeline.order) || !(block_s > block_forward_s) || !(block_forward_s > 0))
        return DT_OK;
    DT_TRY(experiment_order_init(&order, e));
    DT_TRY(pipeline_order_layout(e->pipeline.order, &order.shape, &layout));
    int stages = order.shape.stages, virtual_stages = stages * layout.parts;
    struct plan *plans = calloc((size_t)stages, sizeof *plans);
    struct rank_time *ranks = calloc((size_t)stages, sizeof *ranks);
    int *blocks = calloc((size_t)virtual_stages, sizeof *blocks);
    double *shares = calloc((size_t)virtual_stages, sizeof *shares);
    dt_status status = plans && ranks && blocks && shares
                           ? play(e, &order.shape, virtual_stages, block_s, block_forward_s, plans, ranks, blocks, shares, out)
                           : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the plans of %d stages", stages);
    for (int i = 0; plans && i < stages; i++)
        plan_finish(&plans[i]);
    free(shares);
    free(blocks);
    free(ranks);
    free(plans);
    return status;
}

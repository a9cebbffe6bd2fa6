#include "schedules/plan/plan.h"

#include <stdlib.h>

/* Copy the made plans of `count` stages; stages NULL: of the first ones. *are: they had been made
 * for this shape. */
static dt_status copy_made(const struct order_shape *shape, const int *stages, int count, struct plan *out, bool *are)
{
    const struct plan *made = shape->made;
    *are = made && made->stages == shape->stages && made->micro_batches == shape->micro_batches;
    for (int i = 0; *are && i < count; i++)
        DT_TRY(plan_copy(&made[stages ? stages[i] : i], &out[i]));
    return DT_OK;
}

dt_status plans_make(const struct pipeline_order *order, const struct order_shape *shape, struct plan *plans)
{
    bool are;
    DT_TRY(copy_made(shape, NULL, shape->stages, plans, &are));
    if (are)
        return DT_OK;
    DT_TRY(pipeline_order_emit(order, shape, plans));
    for (int stage = 0; stage < shape->stages; stage++)
        DT_TRY(plan_add_messages(&plans[stage]));
    return plan_play(plans, shape->stages, NULL, NULL);
}

void plans_destroy(struct plan *plans, int stages)
{
    for (int stage = 0; plans && stage < stages; stage++)
        plan_finish(&plans[stage]);
    free(plans);
}

/* For orders that emit all ranks together. */
static dt_status take_from_all(const struct pipeline_order *order, const struct order_shape *shape, const int *stages, int count,
                               struct plan *out)
{
    bool are;
    DT_TRY(copy_made(shape, stages, count, out, &are));
    if (are)
        return DT_OK;
    struct plan *plans = calloc((size_t)shape->stages, sizeof *plans);
    DT_TRY(dt_allocated(plans, "no host memory for the plans of %d stages", shape->stages));
    dt_status status = plans_make(order, shape, plans);
    for (int i = 0; status == DT_OK && i < count; i++) {
        struct plan *one = &plans[stages ? stages[i] : i];
        out[i] = *one;
        *one = (struct plan){0};
    }
    plans_destroy(plans, shape->stages);
    return status;
}

dt_status plans_of_stages(const struct pipeline_order *order, const struct order_shape *shape, const int *stages, int count,
                          struct plan *out)
{
    for (int i = 0; i < count; i++)
        out[i] = (struct plan){0};
    if (!order->emit)
        return take_from_all(order, shape, stages, count, out);
    for (int i = 0; i < count; i++) {
        DT_TRY(pipeline_order_emit_rank(order, shape, stages ? stages[i] : i, &out[i]));
        DT_TRY(plan_add_messages(&out[i]));
    }
    return DT_OK;
}

dt_status plan_order_bubble(const struct pipeline_order *order, const struct order_shape *shape, double *out)
{
    struct plan *plans = calloc((size_t)shape->stages, sizeof *plans);
    DT_FREED struct rank_time *ranks = calloc((size_t)shape->stages, sizeof *ranks);
    dt_status status = dt_allocated(plans && ranks, "no host memory for the plans of %d stages", shape->stages);
    double busy = 0, end = 0;
    DT_THEN(status, plans_make(order, shape, plans));
    DT_THEN(status, plan_time(plans, shape->stages, &shape->times, ranks));
    for (int stage = 0; status == DT_OK && stage < shape->stages; stage++) {
        busy += ranks[stage].busy;
        end = ranks[stage].end > end ? ranks[stage].end : end;
    }
    *out = end > 0 ? 1 - busy / (end * shape->stages) : 0;
    plans_destroy(plans, shape->stages);
    return status;
}

#include "schedules/config/order.h"
#include "schedules/config/print.h"
#include "schedules/config/split.h"

#include "lib/base/grow.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "schedules/plan/plan.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status read_file(struct experiment_order *order, const struct experiment *e)
{
    char path[PATH_MAX];
    size_t length;
    DT_TRY(dt_find_data_file(e->pipeline.order, e->directory, path, sizeof path));
    DT_TRY(dt_read_file(path, &order->text, &length));
    order->shape.file = e->pipeline.order;
    order->shape.text = order->text;
    return DT_OK;
}

dt_status experiment_order_init(struct experiment_order *order, const struct experiment *e)
{
    const struct strategy *s = &e->strategy;
    *order = (struct experiment_order){
        .row = s->order,
        .shape = {.stages = s->stages,
                  .virtual_stages = e->pipeline.virtual_stages,
                  .micro_batches = s->micro_batches,
                  .window = s->window,
                  .memory_limit = e->pipeline.memory_limit,
                  .times = plan_unit_times,
                  .made = e->made_plans},
    };
    return s->has_order_file ? read_file(order, e) : DT_OK;
}

void experiment_order_finish(struct experiment_order *order)
{
    free(order->text);
    *order = (struct experiment_order){0};
}

dt_status experiment_make_plans(const struct experiment *e, struct plan **out)
{
    DT_ENDED(experiment_order_finish) struct experiment_order order = {0};
    *out = NULL;
    DT_TRY(experiment_order_init(&order, e));
    if (order.row->emit)
        return DT_OK;
    struct plan *plans = calloc((size_t)order.shape.stages, sizeof *plans);
    DT_TRY(dt_allocated(plans, "no host memory for the plans of %d stages", order.shape.stages));
    dt_status status = plans_make(order.row, &order.shape, plans);
    if (status < 0)
        plans_destroy(plans, order.shape.stages);
    else
        *out = plans;
    return status;
}

static dt_status check_layers(const struct experiment *e, int virtual_stages)
{
    DT_FREED int *first_layer = malloc(((size_t)virtual_stages + 1) * sizeof *first_layer);
    DT_TRY(dt_allocated(first_layer, "out of memory for %d stages", virtual_stages));
    return experiment_partition(e, virtual_stages, first_layer);
}

static dt_status check_file(const struct experiment_order *order, const struct experiment *e, int *parts)
{
    struct order_layout layout;
    struct plan *plans = calloc((size_t)order->shape.stages, sizeof *plans);
    dt_status status = dt_allocated(plans, "out of memory for %d plans", order->shape.stages);
    DT_THEN(status, plans_make(order->row, &order->shape, plans));
    plans_destroy(plans, order->shape.stages);
    DT_TRY(status);
    DT_TRY(pipeline_order_layout(order->row, &order->shape, &layout));
    *parts = layout.parts;
    return e->passes_only ? DT_OK : check_layers(e, order->shape.stages * layout.parts);
}

dt_status experiment_check_order(struct experiment *e, const char *where)
{
    struct experiment_order order = {0};
    int parts = 1;
    if (!e->strategy.has_order_file)
        return DT_OK;
    dt_status status = experiment_order_init(&order, e);
    DT_THEN(status, check_file(&order, e, &parts));
    if (status == DT_OK)
        experiment_hash_file(e, order.text, strlen(order.text));
    experiment_order_finish(&order);
    bool named = strncmp(dt_error_message(), e->pipeline.order, strlen(e->pipeline.order)) == 0; /* the text begins with the file's name */
    if (status < 0)
        return dt_fail(status, "%s: pipeline.order: %s%s%s", where, named ? "" : e->pipeline.order, named ? "" : ": ", dt_error_message());
    return e->passes_only ? DT_OK : experiment_check_activation(e, parts, where);
}

dt_status experiment_find_order(struct experiment *e)
{
    char path[PATH_MAX];
    if (!e->strategy.has_order_file)
        return DT_OK;
    DT_TRY(dt_find_data_file(e->pipeline.order, e->directory, path, sizeof path));
    return dt_intern_into(&e->pipeline.order, path);
}

#include "schedules/config/order.h"

#include "lib/config/data_file.h"
#include "lib/config/json.h"

#include <stdlib.h>
#include <string.h>

static dt_status read_file(struct experiment_order *order, const struct experiment *e)
{
    char path[2048];
    size_t length;
    DT_TRY(dt_find_data_file(order->name, e->directory, path, sizeof path));
    DT_TRY(dt_read_file(path, &order->text, &length));
    order->shape.file = order->name;
    order->shape.text = order->text;
    return DT_OK;
}

dt_status experiment_order_init(struct experiment_order *order, const struct experiment *e)
{
    struct mesh_shape mesh = experiment_mesh(e);
    bool pipelined = mesh.size[MESH_PIPELINE] > 1;
    int window = pipelined ? e->pipeline.chunks : 1;
    *order = (struct experiment_order){
        .name = pipelined ? e->pipeline.order : "gpipe", /* a window of one: forward, then backward */
        .shape = {.stages = mesh.size[MESH_PIPELINE],
                  .virtual_stages = e->pipeline.virtual_stages,
                  .micro_batches = e->micro_batches * window,
                  .window = window,
                  .memory_limit = e->pipeline.memory_limit,
                  .times = plan_unit_times},
    };
    return strchr(order->name, '.') ? read_file(order, e) : DT_OK;
}

void experiment_order_finish(struct experiment_order *order)
{
    free(order->text);
    *order = (struct experiment_order){0};
}

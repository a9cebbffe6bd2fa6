#include "schedules/pipeline/order.h"

#include <stdlib.h>
#include <string.h>

/* GPipe: all forwards, then all backwards in the opposite order, so that the newest activations leave first.
 * Source  Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS 2019, section 2.2. */
static void gpipe(int stage, int stages, int micro_batches, struct pipeline_order *order)
{
    for (int i = 0; i < micro_batches; i++)
        order->actions[order->count++] = (struct pipeline_action){PIPELINE_FORWARD, i};
    for (int i = micro_batches - 1; i >= 0; i--)
        order->actions[order->count++] = (struct pipeline_action){PIPELINE_BACKWARD, i};
}

static const struct {
    const char *name;
    void (*make)(int stage, int stages, int micro_batches, struct pipeline_order *order);
} orders[] = {
    {"gpipe", gpipe},
};

dt_status pipeline_order_init(const char *name, int stage, int stages, int micro_batches, struct pipeline_order *out)
{
    *out = (struct pipeline_order){0};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (strcmp(orders[i].name, name) != 0)
            continue;
        out->actions = calloc(2 * (size_t)micro_batches, sizeof *out->actions);
        if (!out->actions)
            return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an order of %d micro-batches", micro_batches);
        orders[i].make(stage, stages, micro_batches, out);
        return DT_OK;
    }
    return dt_fail(DT_ERR_INVALID, "unknown pipeline order \"%s\"", name);
}

void pipeline_order_finish(struct pipeline_order *order)
{
    free(order->actions);
    *order = (struct pipeline_order){0};
}

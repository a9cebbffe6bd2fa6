#include "schedules/plan/orders.h"

#include <string.h>

/* ---- warm-up rules ---- */

static int all_first(const struct order_shape *shape, int parts)
{
    return shape->micro_batches;
}

/* So many that the first backward pass of the last stage arrives when they are done. */
static int stages_behind(const struct order_shape *shape, int parts)
{
    return shape->stages - shape->stage - 1;
}

/* Stages behind this one count twice, since a stage takes `stages` micro-batches of one part before those of the next part. */
static int parts_behind(const struct order_shape *shape, int parts)
{
    return 2 * (shape->stages - shape->stage - 1) + (parts - 1) * shape->stages;
}

/* ---- weight gradients ---- */

/* A late stage waits least for its gradients and has most time at the end: it puts off as many as stages are before it. No rank then holds
 * more stashes than the first one does under 1F1B. */
static int stages_before(const struct order_shape *shape)
{
    return shape->stage;
}

/* ---- the orders ----
 *
 * gpipe             Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS 2019, section
 *                   2.3. Backward passes begin with the newest activations.
 * 1f1b              Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019, section 3.2, with the
 *                   flush of Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021, section 3.
 * interleaved_1f1b  Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021, section
 *                   2.2: two parts a rank.
 * zero_bubble       Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.1: the schedule ZB-H1. */
static const struct pipeline_order orders[] = {
    {.name = "gpipe", .parts = 1, .warm_up = all_first, .newest_first = true, .flushes = true},
    {.name = "1f1b", .parts = 1, .warm_up = stages_behind},
    {.name = "interleaved_1f1b", .planned = true, .parts = 2, .warm_up = parts_behind, .needs_whole_rounds = true},
    {.name = "zero_bubble", .planned = true, .parts = 1, .warm_up = stages_behind, .halves = true, .weight_lag = stages_before},
};

const struct pipeline_order *pipeline_order_at(int index)
{
    return index >= 0 && (size_t)index < sizeof orders / sizeof *orders ? &orders[index] : NULL;
}

const struct pipeline_order *pipeline_order_find(const char *name)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i].name, name) == 0)
            return &orders[i];
    return NULL;
}

/* ---- emitting ---- */

/* Passes of one window. The passes of a kind are numbered from 0; with several parts `stages` micro-batches go through a part before they
 * go through the next. */
struct emitter {
    const struct pipeline_order *order;
    const struct order_shape *shape;
    struct plan *plan;
    int first, micro_batches; /* of the window */
};

static dt_status emit(const struct emitter *e, enum action_op op, int number)
{
    bool forward = op == ACTION_FORWARD;
    int parts = e->order->parts, stages = e->shape->stages, last = e->micro_batches * parts - 1;
    int micro_batch = number, part = 0;
    if (!forward && e->order->newest_first)
        micro_batch = last - number;
    if (parts > 1) {
        int in_round = number % (stages * parts);
        micro_batch = number / (stages * parts) * stages + in_round % stages;
        part = forward ? in_round / stages : parts - 1 - in_round / stages;
    }
    return plan_append(e->plan,
                       (struct action){.op = (uint8_t)op, .part = (uint8_t)part, .micro_batch = (uint32_t)(e->first + micro_batch)});
}

static dt_status emit_window(const struct emitter *e)
{
    const struct pipeline_order *order = e->order;
    int total = e->micro_batches * order->parts, lag = order->halves ? order->weight_lag(e->shape) : 0, weights = 0;
    int warm_up = order->warm_up(e->shape, order->parts);
    for (int i = 0; i < warm_up && i < total; i++)
        DT_TRY(emit(e, ACTION_FORWARD, i));
    for (int i = 0; i < total; i++) {
        if (warm_up + i < total)
            DT_TRY(emit(e, ACTION_FORWARD, warm_up + i));
        DT_TRY(emit(e, order->halves ? ACTION_BACKWARD_INPUT : ACTION_BACKWARD, i));
        if (order->halves && i + 1 - weights > lag)
            DT_TRY(emit(e, ACTION_BACKWARD_WEIGHT, weights++));
    }
    for (; order->halves && weights < total; weights++)
        DT_TRY(emit(e, ACTION_BACKWARD_WEIGHT, weights));
    return DT_OK;
}

dt_status pipeline_order_emit(const struct pipeline_order *order, const struct order_shape *shape, struct plan *out)
{
    int window = order->flushes ? shape->window : shape->micro_batches;
    *out = (struct plan){.stage = shape->stage, .stages = shape->stages, .parts = order->parts, .micro_batches = shape->micro_batches};
    if (order->needs_whole_rounds && shape->micro_batches % shape->stages != 0)
        return dt_fail(DT_ERR_INVALID, "order \"%s\" needs a multiple of its %d stages as micro-batches; there are %d", order->name,
                       shape->stages, shape->micro_batches);
    for (int first = 0; first < shape->micro_batches; first += window)
        DT_TRY(emit_window(&(struct emitter){.order = order, .shape = shape, .plan = out, .first = first, .micro_batches = window}));
    return DT_OK;
}

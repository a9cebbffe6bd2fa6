#include "schedules/plan/plan.h"

#include <string.h>

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* ---- forward passes first, then forward and backward in turn ---- */

/* One rank's passes of a window. The passes of a kind are numbered from 0; with several parts,
 * `stages` micro-batches go through a part before they go through the next. If the last round is
 * incomplete, its missing passes are left out. */
struct turns {
    struct plan *plan;
    int first, micro_batches; /* of the window */
    int warm_up;              /* forward passes before the first backward pass */
    bool newest_first;        /* backward passes begin with the last forward's micro-batch; otherwise with the first */
    bool halves;              /* backward is emitted in halves; weight gradients are delayed by weight_lag passes */
    int weight_lag;
};

static dt_status turn(const struct turns *t, enum action_op op, int number)
{
    bool forward = op == ACTION_FORWARD;
    int parts = t->plan->parts, stages = t->plan->stages, micro_batch = number, part = 0;
    if (!forward && t->newest_first)
        micro_batch = t->micro_batches - 1 - number;
    if (parts > 1) {
        int in_round = number % (stages * parts);
        micro_batch = number / (stages * parts) * stages + in_round % stages;
        part = forward ? in_round / stages : parts - 1 - in_round / stages;
    }
    return micro_batch < t->micro_batches ? plan_append_pass(t->plan, op, part, t->first + micro_batch) : DT_OK;
}

static dt_status take_turns(const struct turns *t)
{
    int parts = t->plan->parts, round = parts > 1 ? t->plan->stages : 1, weights = 0;
    int total = (t->micro_batches + round - 1) / round * round * parts;
    for (int i = 0; i < t->warm_up && i < total; i++)
        DT_TRY(turn(t, ACTION_FORWARD, i));
    for (int i = 0; i < total; i++) {
        if (t->warm_up + i < total)
            DT_TRY(turn(t, ACTION_FORWARD, t->warm_up + i));
        DT_TRY(turn(t, t->halves ? ACTION_BACKWARD_INPUT : ACTION_BACKWARD, i));
        if (t->halves && i + 1 - weights > t->weight_lag)
            DT_TRY(turn(t, ACTION_BACKWARD_WEIGHT, weights++));
    }
    for (; t->halves && weights < total; weights++)
        DT_TRY(turn(t, ACTION_BACKWARD_WEIGHT, weights));
    return DT_OK;
}

/* All forward passes of a window, then all backward passes. */
static dt_status emit_gpipe(const struct order_shape *shape, struct plan *plan)
{
    for (int first = 0; first < shape->micro_batches; first += shape->window)
        DT_TRY(take_turns(
            &(struct turns){.plan = plan, .first = first, .micro_batches = shape->window, .warm_up = shape->window, .newest_first = true}));
    return DT_OK;
}

/* The warm-up ends when the last stage's first gradient arrives: one forward pass for each stage
 * after this one. */
static dt_status emit_1f1b(const struct order_shape *shape, struct plan *plan)
{
    return take_turns(&(struct turns){.plan = plan, .micro_batches = shape->micro_batches, .warm_up = shape->stages - 1 - plan->stage});
}

/* Stages after a rank count twice, since it takes `stages` micro-batches of one part before those
 * of the next part. */
static int interleaved_warm_up(int stages, int parts, int rank)
{
    return 2 * (stages - 1 - rank) + (parts - 1) * stages;
}

static dt_status emit_interleaved(const struct order_shape *shape, struct plan *plan)
{
    return take_turns(&(struct turns){
        .plan = plan, .micro_batches = shape->micro_batches, .warm_up = interleaved_warm_up(shape->stages, plan->parts, plan->stage)});
}

/* A late stage waits least for its gradients and has most time at the end: it delays as many weight
 * gradients as there are stages before it. So no rank keeps more than the first one keeps under
 * 1F1B. */
static dt_status emit_zb_h1(const struct order_shape *shape, struct plan *plan)
{
    return take_turns(&(struct turns){.plan = plan,
                                      .micro_batches = shape->micro_batches,
                                      .warm_up = shape->stages - 1 - plan->stage,
                                      .halves = true,
                                      .weight_lag = plan->stage});
}

/* Twice the forward passes in the warm-up, and twice the delayed weight gradients: each rank's step
 * has no bubble, and the ranks begin one after the other. */
static dt_status emit_zb_h2(const struct order_shape *shape, struct plan *plan)
{
    return take_turns(&(struct turns){.plan = plan,
                                      .micro_batches = shape->micro_batches,
                                      .warm_up = 2 * (shape->stages - 1 - plan->stage),
                                      .halves = true,
                                      .weight_lag = 2 * plan->stage});
}

/* ---- the V ---- */

/* One rank's passes: the next micro-batch for each kind of pass through each part. A step with too
 * few micro-batches to fill the pipeline is a longer step with passes left out. */
struct vee {
    struct plan *plan;
    int next[ACTION_OPS][2];
};

static dt_status vee_pass(struct vee *v, enum action_op op, int part)
{
    int micro_batch = v->next[op][part]++;
    return micro_batch < v->plan->micro_batches ? plan_append_pass(v->plan, op, part, micro_batch) : DT_OK;
}

static dt_status vee_backward(struct vee *v, int part)
{
    DT_TRY(vee_pass(v, ACTION_BACKWARD_INPUT, part));
    return vee_pass(v, ACTION_BACKWARD_WEIGHT, part);
}

/* The first rank also has the loss, and can begin with backward as soon as a micro-batch has passed
 * through the whole V. Until then each rank does forward passes: first through its first part, then
 * through both. */
static dt_status vee_warm_up(struct vee *v, int stages, int rank)
{
    for (int i = 0; i < 2 * (stages - rank) - 1; i++)
        DT_TRY(vee_pass(v, ACTION_FORWARD, 0));
    for (int i = 0; i < rank; i++) {
        DT_TRY(vee_pass(v, ACTION_FORWARD, 1));
        DT_TRY(vee_pass(v, ACTION_FORWARD, 0));
    }
    for (int i = 0; i < stages - rank; i++) {
        DT_TRY(vee_pass(v, ACTION_FORWARD, 1));
        DT_TRY(vee_backward(v, 1));
    }
    return DT_OK;
}

static dt_status vee_steady(struct vee *v, int micro_batches)
{
    while (v->next[ACTION_FORWARD][1] < micro_batches) {
        if (v->next[ACTION_FORWARD][0] < micro_batches)
            DT_TRY(vee_pass(v, ACTION_FORWARD, 0));
        DT_TRY(vee_backward(v, 0));
        DT_TRY(vee_pass(v, ACTION_FORWARD, 1));
        DT_TRY(vee_backward(v, 1));
    }
    return DT_OK;
}

/* Input gradients first, since other ranks wait for them. */
static dt_status vee_end(struct vee *v, int micro_batches, int rank)
{
    for (int i = 0; i < rank; i++) {
        DT_TRY(vee_pass(v, ACTION_BACKWARD_INPUT, 0));
        DT_TRY(vee_pass(v, ACTION_BACKWARD_INPUT, 1));
    }
    while (v->next[ACTION_BACKWARD_INPUT][0] < micro_batches)
        DT_TRY(vee_backward(v, 0));
    for (int part = 1; part >= 0; part--)
        while (v->next[ACTION_BACKWARD_WEIGHT][part] < micro_batches)
            DT_TRY(vee_pass(v, ACTION_BACKWARD_WEIGHT, part));
    return DT_OK;
}

static dt_status emit_zb_v(const struct order_shape *shape, struct plan *plan)
{
    int fills = 2 * shape->stages - 1, micro_batches = shape->micro_batches > fills ? shape->micro_batches : fills;
    struct vee v = {.plan = plan};
    DT_TRY(vee_warm_up(&v, shape->stages, plan->stage));
    DT_TRY(vee_steady(&v, micro_batches));
    return vee_end(&v, micro_batches, plan->stage);
}

/* ---- closed forms ---- */

static double kept_window(const struct pipeline_order *order, const struct order_shape *shape, int rank)
{
    return shape->window;
}

static double kept_1f1b(const struct pipeline_order *order, const struct order_shape *shape, int rank)
{
    return least(shape->stages - rank, shape->micro_batches);
}

static double kept_interleaved(const struct pipeline_order *order, const struct order_shape *shape, int rank)
{
    int parts = shape->virtual_stages;
    return least(interleaved_warm_up(shape->stages, parts, rank) + 1, shape->micro_batches * parts) / (double)parts;
}

static double kept_stages(const struct pipeline_order *order, const struct order_shape *shape, int rank)
{
    return least(shape->stages, shape->micro_batches);
}

static double kept_zb_h2(const struct pipeline_order *order, const struct order_shape *shape, int rank)
{
    return least(2 * shape->stages - 1, shape->micro_batches);
}

static double whole_pass(const struct order_shape *shape)
{
    return shape->times.forward + shape->times.backward_input + shape->times.backward_weight;
}

static double bubble_gpipe(const struct order_shape *shape)
{
    return shape->micro_batches / shape->window * (shape->stages - 1) * whole_pass(shape);
}

static double bubble_1f1b(const struct order_shape *shape)
{
    return (shape->stages - 1) * whole_pass(shape);
}

static double bubble_interleaved(const struct order_shape *shape)
{
    return (shape->stages - 1) * whole_pass(shape) / shape->virtual_stages;
}

static double bubble_zb_h1(const struct order_shape *shape)
{
    const struct plan_times *t = &shape->times;
    return (shape->stages - 1) * (t->forward + t->backward_input - t->backward_weight);
}

static double bubble_zb_h2(const struct order_shape *shape)
{
    const struct plan_times *t = &shape->times;
    return (shape->stages - 1) * (t->forward + t->backward_input - 2 * t->backward_weight);
}

/* ---- the orders ---- */

static const struct pipeline_order orders[] = {
    /* Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline
     * Parallelism", NeurIPS 2019, section 2.3. Backward passes begin with the newest
     * activations. */
    {.name = "gpipe",
     .title = "GPipe",
     .drains = ORDER_DRAINS_WINDOWS,
     .help = "all forward passes, then all backward passes",
     .parts = 1,
     .emit = emit_gpipe,
     .kept = kept_window,
     .bubble = bubble_gpipe},
    /* Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019,
     * section 3.2, with the flush of Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
     * Training", ICML 2021, section 3. */
    {.name = "1f1b",
     .title = "1F1B",
     .drains = ORDER_DRAINS_STEPS,
     .help = "one of each in turns: fewer activations, the same bubble",
     .parts = 1,
     .emit = emit_1f1b,
     .kept = kept_1f1b,
     .bubble = bubble_1f1b},
    /* Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
     * Megatron-LM", SC 2021, section 2.2. */
    {.name = "interleaved",
     .drains = ORDER_DRAINS_STEPS,
     .help = "1f1b with several parts of the model on each rank: a bubble divided by their number",
     .emit = emit_interleaved,
     .kept = kept_interleaved,
     .bubble = bubble_interleaved},
    /* Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, sections 2.1 and 2.2. */
    {.name = "zb_h1",
     .title = "ZB-H1",
     .abroad = "zb-1p",
     .help = "1f1b with weight gradients put off into the bubble",
     .parts = 1,
     .halves = true,
     .emit = emit_zb_h1,
     .kept = kept_stages,
     .bubble = bubble_zb_h1},
    {.name = "zb_h2",
     .title = "ZB-H2",
     .abroad = "zb-2p",
     .help = "the same with more forward passes first: no bubble if all passes take the same time",
     .parts = 1,
     .halves = true,
     .emit = emit_zb_h2,
     .kept = kept_zb_h2,
     .bubble = bubble_zb_h2},
    /* Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, section 4: V-ZB. */
    {.name = "zb_v",
     .title = "ZB-V",
     .abroad = "zb-v",
     .help = "two parts on each rank, placed as a V: no bubble if all passes take the same time, with the activations of 1f1b",
     .parts = 2,
     .folded = true,
     .halves = true,
     .emit = emit_zb_v,
     .kept = kept_stages},
    /* Qi et al., ICLR 2024, section 3.1. */
    {.name = "zb_auto",
     .help = "found by a search within pipeline.memory_limit",
     .parts = 1,
     .halves = true,
     .emit_all = search_emit,
     .tell = search_tell},
};

static const struct pipeline_order file_order = {.name = "a file", .help = "passes as they stand in a file", .emit_all = order_file_emit};

__attribute__((weak)) const struct pipeline_order *pipeline_order_more(int index)
{
    return NULL;
}

const struct pipeline_order *pipeline_order_at(int index)
{
    const int count = (int)(sizeof orders / sizeof *orders);
    return index < count ? &orders[index] : pipeline_order_more(index - count);
}

const struct pipeline_order *pipeline_order_find(const char *name)
{
    const struct pipeline_order *order;
    for (int i = 0; (order = pipeline_order_at(i)); i++)
        if (strcmp(order->name, name) == 0)
            return order;
    size_t length = strlen(name), ending = strlen(ORDER_FILE_ENDING);
    return length > ending && strcmp(name + length - ending, ORDER_FILE_ENDING) == 0 ? &file_order : NULL;
}

bool pipeline_order_is_file(const struct pipeline_order *order)
{
    return order == &file_order;
}

dt_status pipeline_order_layout(const struct pipeline_order *order, const struct order_shape *shape, struct order_layout *out)
{
    if (pipeline_order_is_file(order))
        return order_file_layout(shape, out);
    *out = (struct order_layout){.parts = order->parts ? order->parts : shape->virtual_stages, .folded = order->folded};
    return DT_OK;
}

static struct plan plan_at(const struct order_shape *shape, const struct order_layout *layout, int rank)
{
    return (struct plan){
        .stage = rank, .stages = shape->stages, .parts = layout->parts, .folded = layout->folded, .micro_batches = shape->micro_batches};
}

dt_status pipeline_order_emit(const struct pipeline_order *order, const struct order_shape *shape, struct plan *plans)
{
    struct order_layout layout;
    memset(plans, 0, (size_t)shape->stages * sizeof *plans);
    DT_TRY(pipeline_order_layout(order, shape, &layout));
    for (int rank = 0; rank < shape->stages; rank++)
        plans[rank] = plan_at(shape, &layout, rank);
    for (int rank = 0; rank < shape->stages && order->emit; rank++)
        DT_TRY(order->emit(shape, &plans[rank]));
    return order->emit ? DT_OK : order->emit_all(shape, plans);
}

dt_status pipeline_order_emit_rank(const struct pipeline_order *order, const struct order_shape *shape, int rank, struct plan *out)
{
    struct order_layout layout;
    *out = (struct plan){0};
    DT_TRY(pipeline_order_layout(order, shape, &layout));
    *out = plan_at(shape, &layout, rank);
    return order->emit(shape, out);
}

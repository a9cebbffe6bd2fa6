/* `dtbench check --plan --times`: how long a pipeline's passes take with given times, whatever the model and the device. */
#include "cli/predict/plan_times.h"

#include "cli/text/table.h"
#include "lib/config/json.h"
#include "schedules/config/order.h"
#include "schedules/plan/plans.h"

#include <stdlib.h>
#include <string.h>

/* ---- the times ---- */

static const struct {
    const char *name;
    size_t offset;
} time_names[] = {
    {"forward", offsetof(struct plan_times, forward)},
    {"backward_input", offsetof(struct plan_times, backward_input)},
    {"backward_weight", offsetof(struct plan_times, backward_weight)},
    {"send", offsetof(struct plan_times, send)},
};

enum { TIMES = sizeof time_names / sizeof *time_names };

static int find_time(const char *text, size_t length)
{
    for (int i = 0; i < TIMES; i++)
        if (strlen(time_names[i].name) == length && strncmp(time_names[i].name, text, length) == 0)
            return i;
    return -1;
}

static dt_status parse_time(const char *text, size_t length, bool *given, struct plan_times *out)
{
    const char *equals = memchr(text, '=', length);
    int index = equals ? find_time(text, (size_t)(equals - text)) : -1;
    char *end = NULL;
    double value = index >= 0 ? strtod(equals + 1, &end) : 0;
    if (index < 0)
        return dt_fail(DT_ERR_INVALID, "--times: \"%.*s\" is none of forward=MS, backward_input=MS, backward_weight=MS, send=MS",
                       (int)length, text);
    if (end == equals + 1 || end != text + length || !(value >= 0 && value <= 1e9))
        return dt_fail(DT_ERR_INVALID, "--times: \"%.*s\": expected milliseconds, from 0 to 1e9", (int)length, text);
    if (given[index])
        return dt_fail(DT_ERR_INVALID, "--times: %s is given twice", time_names[index].name);
    given[index] = true;
    memcpy((char *)out + time_names[index].offset, &value, sizeof value);
    return DT_OK;
}

dt_status plan_parse_times(const char *text, struct plan_times *out)
{
    bool given[TIMES] = {0};
    *out = (struct plan_times){0};
    for (const char *from = text;; from++) {
        size_t length = strcspn(from, ",");
        DT_TRY(parse_time(from, length, given, out));
        from += length;
        if (!*from)
            break;
    }
    for (int i = 0; i < TIMES - 1; i++) /* without send messages take no time */
        if (!given[i])
            return dt_fail(DT_ERR_INVALID, "--times: %s=MS is missing", time_names[i].name);
    if (!(out->forward > 0))
        return dt_fail(DT_ERR_INVALID, "--times: forward takes more than 0 ms");
    return DT_OK;
}

/* ---- a pipeline with them ---- */

void timed_plan_finish(struct timed_plan *t)
{
    free(t->ranks);
    free(t->kept);
}

static dt_status time_plans(const struct experiment_order *order, struct plan *plans, struct timed_plan *out)
{
    DT_TRY(plans_make(order->row, &order->shape, plans));
    DT_TRY(plan_time(plans, out->stages, &order->shape.times, out->ranks));
    for (int i = 0; i < out->stages; i++)
        out->kept[i] = plan_keeps(&plans[i]);
    return DT_OK;
}

dt_status timed_plan_init(struct timed_plan *t, const struct experiment *e, const struct plan_times *times)
{
    struct experiment_order order = {0};
    dt_status status = experiment_order_init(&order, e);
    *t = (struct timed_plan){.stages = order.shape.stages, .micro_batches = order.shape.micro_batches};
    const char *name = e->strategy.has_order_file ? e->pipeline.order : order.row->name;
    snprintf(t->order, sizeof t->order, "%.63s", name);
    struct plan *plans = calloc((size_t)t->stages, sizeof *plans);
    t->ranks = calloc((size_t)t->stages, sizeof *t->ranks);
    t->kept = calloc((size_t)t->stages, sizeof *t->kept);
    order.shape.times = *times;
    if (status == DT_OK)
        status = plans && t->ranks && t->kept ? time_plans(&order, plans, t)
                                              : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the plans of %d ranks", t->stages);
    for (int i = 0; plans && i < t->stages; i++)
        plan_finish(&plans[i]);
    free(plans);
    experiment_order_finish(&order);
    return status;
}

/* ---- as a table ---- */

static dt_status print_ranks(const struct timed_plan *t, FILE *to)
{
    static const char *const titles[] = {"rank", "begins\nms", "ends\nms", "busy\nms", "bubble", "micro-batches\nkept"};
    double makespan = plan_makespan(t->ranks, t->stages);
    struct table *table = table_create();
    if (!table)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a table");
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        table_column(table, TABLE_RIGHT | TABLE_STAYS, titles[i]);
    for (int i = 0; i < t->stages; i++) {
        const struct rank_time *r = &t->ranks[i];
        table_cell(table, "%d", i);
        table_cell(table, "%.3f", r->begin);
        table_cell(table, "%.3f", r->end);
        table_cell(table, "%.3f", r->busy);
        table_cell(table, "%.4f", 1 - r->busy / makespan);
        table_cell(table, "%.4g", t->kept[i].activations);
    }
    dt_status status = table_print(table, to);
    table_destroy(table);
    return status;
}

dt_status plan_print_times(const struct experiment *e, const struct plan_times *times, FILE *to)
{
    struct timed_plan t;
    dt_status status = timed_plan_init(&t, e, times);
    if (status == DT_OK) {
        fprintf(
            to,
            "%s: order %s, %d stages, %d micro-batches; forward %g ms, backward %g ms for inputs and %g ms for weights, messages %g ms\n\n",
            e->name, t.order, t.stages, t.micro_batches, times->forward, times->backward_input, times->backward_weight, times->send);
        status = print_ranks(&t, to);
        fprintf(to, "\nmakespan %.3f ms, bubble %.4f: the longest rank from its first pass to its last\n", plan_makespan(t.ranks, t.stages),
                plan_bubble(t.ranks, t.stages));
        fputs("note: the times are of a micro-batch through a whole rank, whatever the config's model and device\n", to);
    }
    timed_plan_finish(&t);
    return status;
}

/* ---- as JSON ---- */

static dt_status timed_plan_as_json(const struct experiment *e, const struct plan_times *times, struct cJSON **out)
{
    struct timed_plan t;
    struct cJSON *ranks = dt_json_array();
    dt_status status = timed_plan_init(&t, e, times);
    double makespan = status == DT_OK ? plan_makespan(t.ranks, t.stages) : 0, bubble = status == DT_OK ? plan_bubble(t.ranks, t.stages) : 0;
    for (int i = 0; status == DT_OK && i < t.stages; i++) {
        const struct rank_time *r = &t.ranks[i];
        dt_json_append(&ranks,
                       dt_json_object("rank: %d, begin_ms: %g, end_ms: %g, busy_ms: %g, bubble: %g, kept_micro_batches: %g, "
                                      "kept_weighted: %g",
                                      i, r->begin, r->end, r->busy, 1 - r->busy / makespan, t.kept[i].activations, t.kept[i].weighted));
    }
    *out = dt_json_object("name: %s, config_hash: %s, plan: {order: %s, stages: %d, micro_batches: %d, makespan_ms: %g, "
                          "bubble: %g, ranks: %p}",
                          e->name, e->hash, t.order, t.stages, t.micro_batches, makespan, bubble, ranks);
    timed_plan_finish(&t);
    return status;
}

dt_status plan_print_times_json(const struct experiment_list *experiments, const struct plan_times *times, FILE *to)
{
    int count = experiment_list_count(experiments);
    struct experiment e;
    struct cJSON *array = dt_json_array(), *plan = NULL;
    dt_status status = DT_OK;
    for (int i = 0; i < count && status == DT_OK; i++) {
        status = timed_plan_as_json(experiment_list_get(experiments, i, &e), times, &plan);
        if (count > 1)
            dt_json_append(&array, plan);
    }
    struct cJSON *all = count > 1 ? array : plan;
    if (all != array)
        dt_json_destroy(array);
    if (status == DT_OK)
        return dt_json_write(all, to);
    dt_json_destroy(all);
    return status;
}

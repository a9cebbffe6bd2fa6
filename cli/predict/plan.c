#include "cli/predict/predict.h"

#include "cli/text/text.h"
#include "lib/config/json.h"
#include "schedules/config/order.h"
#include "schedules/plan/plan.h"
#include "schedules/run/dry_rank.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The letter of each action. Passes through a stage and through its groups have the same
 * letters. */
static const struct {
    char letter;
    const char *meaning;
} shown[ACTION_OPS] = {
    [ACTION_FORWARD] = {'F', "forward"},
    [ACTION_BACKWARD] = {'B', "backward"},
    [ACTION_BACKWARD_INPUT] = {'I', "backward, input gradients"},
    [ACTION_BACKWARD_WEIGHT] = {'W', "backward, weight gradients"},
    [ACTION_RECOMPUTE] = {'R', "recomputation"},
    [ACTION_FORWARD_BACKWARD] = {'H', "late head, forward and backward"},
    [ACTION_COPY_OUT] = {'o', "activations to host memory"},
    [ACTION_COPY_IN] = {'i', "activations to the device"},
    [ACTION_PUBLISH] = {'p', "parameters are sent"},
    [ACTION_GATHER] = {'g', "gather parameters"},
    [ACTION_FREE] = {'x', "free parameters"},
    [ACTION_SUM_COPIES] = {'s', "sum gradients of both copies"},
    [ACTION_REDUCE] = {'r', "reduce gradients"},
    [ACTION_UPDATE] = {'u', "update a group"},
    [ACTION_END_STEP] = {'U', "update"},
};

enum { WAITS = '.' };

struct lines {
    char **text; /* [stages], terminated */
    int stages, columns;
    bool seen[256];
    bool odd_parts; /* shown in small letters */
};

static dt_status lines_init(struct lines *lines, int stages, int columns)
{
    *lines = (struct lines){.text = calloc((size_t)(unsigned)stages, sizeof *lines->text), .stages = stages, .columns = columns};
    for (int i = 0; lines->text && i < stages; i++) {
        lines->text[i] = malloc((size_t)columns + 1);
        DT_TRY(dt_allocated(lines->text[i], "no memory for a plan of %d columns", columns));
        memset(lines->text[i], ' ', (size_t)columns);
        lines->text[i][columns] = 0;
    }
    return dt_allocated(lines->text, "no memory for the plans of %d ranks", stages);
}

static void put(struct lines *lines, int stage, int column, char letter)
{
    if (column >= lines->columns)
        return;
    lines->text[stage][column] = letter;
    lines->seen[(unsigned char)letter] = true;
}

/* ---- one stage: a column for each action ---- */

static dt_status draw_actions(const struct experiment *e, struct lines *lines)
{
    DT_ENDED(plan_finish) struct plan plan = {0};
    int column = 0;
    DT_TRY(rank_plan(e, 0, &plan));
    DT_TRY(lines_init(lines, 1, plan.count));
    for (int i = 0; i < plan.count; i++)
        if (shown[plan.actions[i].op].letter)
            put(lines, 0, column++, shown[plan.actions[i].op].letter);
    lines->columns = column;
    return DT_OK;
}

/* ---- several stages: a column for the time of a forward pass ---- */

/* ends [count]: when each action ends. A pass fills the columns from its start to its end; in empty
 * columns before it the rank waits. */
static void draw_stage(const struct plan *plan, const double *ends, struct lines *lines)
{
    int column = 0;
    for (int i = 0; i < plan->count; i++) {
        const struct action *a = &plan->actions[i];
        int width = a->op == ACTION_BACKWARD ? 2 : 1, end = (int)lround(ends[i] * plan->parts);
        if (!action_computes(a))
            continue;
        for (; column < end - width; column++)
            put(lines, plan->stage, column, WAITS);
        for (; column < end; column++) {
            put(lines, plan->stage, column, shown[a->op].letter);
            if (a->part % 2 == 1 && column < lines->columns)
                lines->text[plan->stage][column] = (char)tolower(shown[a->op].letter);
        }
        lines->odd_parts |= a->part % 2 == 1;
    }
    put(lines, plan->stage, column, shown[ACTION_END_STEP].letter);
}

static dt_status draw_passes(const struct experiment_order *order, struct plan *plans, double **ends, struct lines *lines)
{
    int stages = order->shape.stages;
    double end = 0;
    DT_TRY(plans_make(order->row, &order->shape, plans));
    for (int s = 0; s < stages; s++) {
        ends[s] = calloc((size_t)plans[s].count, sizeof **ends);
        DT_TRY(dt_allocated(ends[s], "no memory for the times of %d actions", plans[s].count));
    }
    DT_TRY(plan_play(plans, stages, &plan_unit_times, ends));
    for (int s = 0; s < stages; s++)
        end = fmax(end, ends[s][plans[s].count - 1]);
    DT_TRY(lines_init(lines, stages, (int)lround(end * plans[0].parts) + 1));
    for (int s = 0; s < stages; s++)
        draw_stage(&plans[s], ends[s], lines);
    return DT_OK;
}

static dt_status draw_pipeline(const struct experiment *e, int stages, struct lines *lines)
{
    struct plan *plans = calloc((size_t)stages, sizeof *plans);
    double **ends = calloc((size_t)stages, sizeof *ends);
    DT_ENDED(experiment_order_finish) struct experiment_order order = {0};
    dt_status status = dt_allocated(plans && ends, "no memory for the plans of %d ranks", stages);
    DT_THEN(status, experiment_order_init(&order, e));
    DT_THEN(status, draw_passes(&order, plans, ends, lines));
    plans_destroy(plans, stages);
    for (int s = 0; ends && s < stages; s++)
        free(ends[s]);
    free(ends);
    return status;
}

/* ---- all of it ---- */

static void print_legend(const struct lines *lines, FILE *to)
{
    const char *separator = "";
    struct line line;
    line_begin(&line, to);
    for (int op = 0; op < ACTION_OPS; op++) {
        if (!shown[op].letter || !lines->seen[(unsigned char)shown[op].letter])
            continue;
        line_add(&line, "%s%c %s", separator, shown[op].letter, shown[op].meaning);
        separator = ", ";
    }
    line_add(&line, "%s%s", lines->odd_parts ? "; small letters: the same for parts 1, 3, ..." : "",
             lines->seen[WAITS] ? ", . waits for a message" : "");
    line_end(&line);
}

/* The number of the first `columns` up to the last letter. */
static int last_column(const char *text, int columns)
{
    while (columns > 0 && text[columns - 1] == ' ')
        columns--;
    return columns;
}

static void print_lines(const struct experiment *e, const struct lines *lines, int width, FILE *to)
{
    enum { LABEL = 10 };
    int room = width > LABEL + 20 ? width - LABEL : 20, columns = lines->columns < room ? lines->columns : room;
    for (int s = 0; s < lines->stages; s++)
        fprintf(to, "rank %-5d%.*s\n", lines->stages > 1 ? experiment_rank_of_kind(e, s) : 0, last_column(lines->text[s], columns),
                lines->text[s]);
    if (columns < lines->columns)
        line_print(to, "note: the first %d of %d columns; --json has all actions", columns, lines->columns);
}

dt_status plan_print(const struct experiment *e, int width, FILE *to)
{
    struct mesh_shape shape = e->strategy.mesh;
    int stages = shape.size[MESH_PIPELINE];
    struct lines lines = {0};
    dt_status status = stages > 1 ? draw_pipeline(e, stages, &lines) : draw_actions(e, &lines);
    if (status == DT_OK) {
        struct line line;
        line_begin(&line, to);
        line_add(&line, "%s: %s", e->name, paradigm_name(e->paradigm));
        if (stages > 1)
            line_add(&line, ", order %s, %d micro-batches; a column is the time of a forward pass", e->pipeline.order,
                     e->micro_batches * e->pipeline.chunks);
        else
            line_add(&line, "; a column is an action");
        line_add(&line, "%s", e->world_size > stages ? "; the other ranks do the same" : "");
        line_end(&line);
        print_lines(e, &lines, width, to);
        print_legend(&lines, to);
    }
    for (int i = 0; lines.text && i < lines.stages; i++)
        free(lines.text[i]);
    free(lines.text);
    return status;
}

/* ---- as JSON ---- */

static struct cJSON *action_as_json(const struct plan *plan, const struct action *a)
{
    struct cJSON *object = dt_json_object("action: %s", action_name((enum action_op)a->op));
    if (a->op == ACTION_PUBLISH || a->op == ACTION_END_STEP)
        return object;
    dt_json_add(&object, "micro_batch: %d, slot: %d", a->micro_batch, a->slot);
    if (plan->parts > 1)
        dt_json_add(&object, "part: %d", a->part);
    if (action_computes(a) || (a->op >= ACTION_GATHER && a->op <= ACTION_UPDATE))
        dt_json_add(&object, "group: %d", a->group);
    return object;
}

static dt_status add_rank(struct cJSON **array, const struct experiment *e, int rank)
{
    DT_ENDED(plan_finish) struct plan plan = {0};
    DT_TRY(rank_plan(e, rank, &plan));
    struct cJSON *actions = dt_json_array();
    for (int i = 0; i < plan.count; i++)
        dt_json_append(&actions, action_as_json(&plan, &plan.actions[i]));
    dt_json_append(array, dt_json_object("rank: %d, stage: %d, slots: %d, actions: %p", rank, plan.stage, plan.slots, actions));
    return DT_OK;
}

static dt_status add_experiment(struct cJSON **array, const struct experiment *e)
{
    int stages = e->strategy.stages;
    struct experiment with_plans = *e;
    struct plan *made;
    DT_TRY(experiment_make_plans(e, &made));
    with_plans.made_plans = made;
    struct cJSON *ranks = dt_json_array();
    dt_status status = DT_OK;
    for (int stage = 0; status == DT_OK && stage < stages; stage++)
        status = add_rank(&ranks, &with_plans, stages > 1 ? experiment_rank_of_kind(e, stage) : 0);
    plans_destroy(made, stages);
    dt_json_append(
        array, dt_json_object("name: %s, config_hash: %s, paradigm: %s, ranks: %p", e->name, e->hash, paradigm_name(e->paradigm), ranks));
    return status;
}

dt_status plan_print_json(const struct experiment_list *experiments, FILE *to)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *array = dt_json_array();
    for (int i = 0; i < experiments->count; i++)
        DT_TRY(add_experiment(&array, &experiments->all[i]));
    return dt_json_write(DT_PASSED_ON(array), to);
}

/* ---- `dtbench check --plan --times`: the times ---- */

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
        return dt_fail(DT_ERR_INVALID, "--times: \"%.*s\": expected forward=MS, backward_input=MS, backward_weight=MS, send=MS",
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
    for (int i = 0; i < TIMES - 1; i++) /* send is optional: messages then take no time */
        if (!given[i])
            return dt_fail(DT_ERR_INVALID, "--times: %s=MS is missing", time_names[i].name);
    if (!(out->forward > 0))
        return dt_fail(DT_ERR_INVALID, "--times: forward: expected more than 0 ms");
    return DT_OK;
}

/* ---- a pipeline with these times ---- */

/* The timing of a pipeline's step: how long each rank takes and waits, and what it keeps. */
struct timed_plan {
    char order[64];
    int stages, micro_batches;
    struct rank_time *ranks; /* [stages] */
    struct plan_kept *kept;  /* [stages] */
};

static void timed_plan_finish(struct timed_plan *t)
{
    free(t->ranks);
    free(t->kept);
}

dt_status plan_play_order(const struct experiment_order *order, struct rank_time *ranks, struct plan_kept *kept)
{
    int stages = order->shape.stages;
    struct plan *plans = calloc((size_t)stages, sizeof *plans);
    dt_status status = dt_allocated(plans, "no memory for the plans of %d ranks", stages);
    DT_THEN(status, plans_make(order->row, &order->shape, plans));
    DT_THEN(status, plan_time(plans, stages, &order->shape.times, ranks));
    for (int i = 0; status == DT_OK && i < stages; i++)
        kept[i] = plan_keeps(&plans[i]);
    plans_destroy(plans, stages);
    return status;
}

/* Errors: as plans_make (schedules/plan/plans.c); finish it also after a failure. */
static dt_status timed_plan_init(struct timed_plan *t, const struct experiment *e, const struct plan_times *times)
{
    DT_ENDED(experiment_order_finish) struct experiment_order order = {0};
    DT_TRY(experiment_order_init(&order, e));
    *t = (struct timed_plan){.stages = order.shape.stages, .micro_batches = order.shape.micro_batches};
    const char *name = e->strategy.has_order_file ? e->pipeline.order : order.row->name;
    snprintf(t->order, sizeof t->order, "%.63s", name);
    t->ranks = calloc((size_t)t->stages, sizeof *t->ranks);
    t->kept = calloc((size_t)t->stages, sizeof *t->kept);
    DT_TRY(dt_allocated(t->ranks && t->kept, "no memory for the plans of %d ranks", t->stages));
    order.shape.times = *times;
    return plan_play_order(&order, t->ranks, t->kept);
}

/* ---- as a table ---- */

static dt_status print_ranks(const struct timed_plan *t, FILE *to)
{
    double makespan = plan_makespan(t->ranks, t->stages);
    struct table *table = table_create();
    table_columns(table, TABLE_RIGHT | TABLE_STAYS, "rank", "begins\nms", "ends\nms", "busy\nms", "bubble", "micro-batches\nkept");
    for (int i = 0; i < t->stages; i++) {
        const struct rank_time *r = &t->ranks[i];
        table_cell(table, "%d", i);
        table_cell(table, "%.3f", r->begin);
        table_cell(table, "%.3f", r->end);
        table_cell(table, "%.3f", r->busy);
        table_cell(table, "%.4f", 1 - r->busy / makespan);
        table_cell(table, "%.4g", t->kept[i].activations);
    }
    return table_end(table, to);
}

dt_status plan_print_times(const struct experiment *e, const struct plan_times *times, FILE *to)
{
    DT_ENDED(timed_plan_finish) struct timed_plan t = {0};
    DT_TRY(timed_plan_init(&t, e, times));
    line_print(to,
               "%s: order %s, %d stages, %d micro-batches; forward %g ms, backward %g ms for inputs and %g ms for weights, messages %g ms",
               e->name, t.order, t.stages, t.micro_batches, times->forward, times->backward_input, times->backward_weight, times->send);
    fputc('\n', to);
    dt_status status = print_ranks(&t, to);
    fputc('\n', to);
    line_print(to, "makespan %.3f ms, bubble %.4f: of the rank that takes longest from its first pass to its last",
               plan_makespan(t.ranks, t.stages), plan_bubble(t.ranks, t.stages));
    line_print(to,
               "note: the times are for a micro-batch through all layers of a rank, and do not depend on the config's model and device");
    return status;
}

/* ---- as JSON ---- */

static dt_status timed_plan_as_json(const struct experiment *e, const struct plan_times *times, struct cJSON **out)
{
    DT_ENDED(timed_plan_finish) struct timed_plan t = {0};
    DT_TRY(timed_plan_init(&t, e, times));
    struct cJSON *ranks = dt_json_array();
    double makespan = plan_makespan(t.ranks, t.stages), bubble = plan_bubble(t.ranks, t.stages);
    for (int i = 0; i < t.stages; i++) {
        const struct rank_time *r = &t.ranks[i];
        dt_json_append(&ranks,
                       dt_json_object("rank: %d, begin_ms: %g, end_ms: %g, busy_ms: %g, bubble: %g, kept_micro_batches: %g, "
                                      "kept_weighted: %g",
                                      i, r->begin, r->end, r->busy, 1 - r->busy / makespan, t.kept[i].activations, t.kept[i].weighted));
    }
    *out = dt_json_object("name: %s, config_hash: %s, plan: {order: %s, stages: %d, micro_batches: %d, makespan_ms: %g, "
                          "bubble: %g, ranks: %p}",
                          e->name, e->hash, t.order, t.stages, t.micro_batches, makespan, bubble, ranks);
    return DT_OK;
}

dt_status plan_print_times_json(const struct experiment_list *experiments, const struct plan_times *times, FILE *to)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *array = dt_json_array();
    struct cJSON *plan;
    for (int i = 0; i < experiments->count; i++) {
        DT_TRY(timed_plan_as_json(&experiments->all[i], times, &plan));
        if (experiments->count == 1)
            return dt_json_write(plan, to);
        dt_json_append(&array, plan);
    }
    return dt_json_write(DT_PASSED_ON(array), to);
}

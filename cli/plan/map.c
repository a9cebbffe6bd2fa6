#include "cli/plan/planner.h"

#include "cli/text/text.h"
#include "lib/config/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the axes ---- */

static dt_status read_values(const char *axis, char *values, const char *all[MAP_VALUES], int *count)
{
    char *rest = NULL;
    for (char *value = strtok_r(values, ",", &rest); value; value = strtok_r(NULL, ",", &rest)) {
        if (*count == MAP_VALUES)
            return dt_fail(DT_ERR_INVALID, "--map %s: more than %d values", axis, MAP_VALUES);
        for (int i = 0; i < *count; i++)
            if (strcmp(all[i], value) == 0)
                return dt_fail(DT_ERR_INVALID, "--map %s: %.80s is given twice", axis, value);
        all[(*count)++] = value;
    }
    return *count > 0 ? DT_OK : dt_fail(DT_ERR_INVALID, "--map %s=: no value", axis);
}

static dt_status read_axis(char *text, struct map *m)
{
    if (strncmp(text, "model=", 6) == 0)
        return read_values("model", text + 6, m->models, &m->model_count);
    if (strncmp(text, "batch=", 6) == 0)
        return read_values("batch", text + 6, m->batches, &m->batch_count);
    return dt_fail(DT_ERR_INVALID, "--map %.80s: expected model=NAME,NAME,... and batch=N,N,...", text);
}

dt_status map_read(const struct option_list *texts, const struct planner_arguments *a, struct map *out)
{
    size_t used = 0;
    *out = (struct map){.model_count = 0};
    for (int i = 0; i < texts->count; i++) {
        size_t bytes = strlen(texts->items[i]) + 1;
        char *text = out->text + used, *rest = NULL;
        if (bytes > sizeof out->text - used)
            return dt_fail(DT_ERR_INVALID, "--map: more than %d bytes of values", MAP_TEXT_BYTES);
        memcpy(text, texts->items[i], bytes);
        used += bytes;
        for (char *axis = strtok_r(text, " ", &rest); axis; axis = strtok_r(NULL, " ", &rest))
            DT_TRY(read_axis(axis, out));
    }
    if (out->model_count > 0 && a->model)
        return dt_fail(DT_ERR_INVALID, "--model and --map model=... both choose models: give one of them");
    if (out->batch_count > 0 && a->global_batch)
        return dt_fail(DT_ERR_INVALID, "--global-batch and --map batch=... both choose batches: give one of them");
    if (out->model_count == 0)
        out->models[out->model_count++] = a->model;
    if (out->batch_count == 0)
        out->batches[out->batch_count++] = a->global_batch;
    return DT_OK;
}

/* ---- results ---- */

void map_fill(const struct planner *p, struct map_box *box)
{
    box->interrupted = p->result.interrupted && !p->result.best_proved;
    box->units_per_s = box->peak_bytes = NAN;
    box->unit = p->base.model.family->unit;
    *box->strategy = '\0';
    if (p->result.ranked == 0)
        return;
    struct experiment e = planner_candidate(p, 0);
    strategy_describe(&e, box->strategy);
    box->units_per_s = planner_outcome(p, 0)->units_per_s;
    box->peak_bytes = planner_outcome(p, 0)->peak_bytes;
}

static void rule_cells(struct table *t, const struct map_box *box, int rules)
{
    for (int i = 0; i < rules; i++) {
        const struct rule_result *rule = i < box->rules.count ? &box->rules.all[i] : NULL;
        if (!rule || isnan(rule->regret))
            table_cell(t, "–");
        else
            table_cell(t, "%.1f", 100 * rule->regret);
    }
}

/* Say whether the best plan depends on the software. */
static void say_profiles(const struct map_box *boxes, int count, FILE *to)
{
    int cells = 0, same = 0;
    for (int i = 0; i < count && boxes[0].profile; i++) {
        int rows = 0, equal = 0;
        bool first = true;
        for (int j = 0; j < count; j++) {
            if (boxes[j].model != boxes[i].model || boxes[j].batch != boxes[i].batch)
                continue;
            first &= j >= i; /* a cell counts at its first row */
            rows++;
            equal += strcmp(boxes[j].strategy, boxes[i].strategy) == 0;
        }
        cells += first;
        same += first && equal == rows;
    }
    if (cells == 0)
        return;
    fputc('\n', to);
    if (cells == 1)
        line_print(to, same ? "the same plan is best with each of these profiles"
                            : "the best plan depends on the profile: use that of your software");
    else
        line_print(to, "the same plan is best with each of these profiles in %d of %d boxes", same, cells);
}

dt_status map_print(const struct map_box *boxes, int count, FILE *to)
{
    char rate[FORMAT_BYTES];
    bool stopped = false;
    int with_rules = 0;
    const char *unit = NULL;
    struct table *t = table_create();
    for (int i = 0; i < count; i++)
        unit = unit_in_common(unit, boxes[i].unit);
    while (with_rules < count && boxes[with_rules].rules.count == 0)
        with_rules++;
    int rules = with_rules < count ? boxes[with_rules].rules.count : 0;
    if (count > 0 && boxes[0].profile)
        table_column(t, TABLE_LEFT | TABLE_STAYS, "profile");
    table_column(t, TABLE_LEFT, "model");
    table_column(t, TABLE_RIGHT, "batch");
    table_column(t, TABLE_LEFT, "best");
    table_column(t, TABLE_RIGHT | TABLE_STAYS, "%ss/s", unit ? unit : "token");
    table_column(t, TABLE_RIGHT, "GiB");
    for (int i = 0; i < rules; i++)
        table_column(t, TABLE_RIGHT, "%s", boxes[with_rules].rules.all[i].name);
    for (int i = 0; i < count; i++) {
        const struct map_box *box = &boxes[i];
        bool found = *box->strategy != '\0';
        stopped |= box->interrupted;
        if (box->profile)
            table_text(t, box->profile);
        table_cell(t, "%s", box->model ? box->model : "");
        table_cell(t, "%s", box->batch ? box->batch : "any");
        table_cell(t, "%s%s", found ? box->strategy : box->interrupted ? "not reached" : "nothing fits", box->interrupted ? "*" : "");
        table_cell(t, "%s", found ? format_number(box->units_per_s, rate) : "–");
        table_cell(t, found ? "%.1f" : "–", box->peak_bytes / 0x1p30);
        rule_cells(t, box, rules);
    }
    dt_status status = table_end(t, to);
    if (rules > 0) {
        fputc('\n', to);
        line_print(to, "rules of thumb: how much worse the best plan that follows them is, in %%");
    }
    if (stopped)
        fprintf(to, "\n*: stopped early, the best so far\n");
    say_profiles(boxes, count, to);
    return status;
}

/* ---- as JSON ---- */

dt_status map_add_json(struct cJSON **array, const struct map_box *box, const struct planner *p, const struct planner_reasons *reasons)
{
    struct cJSON *plan;
    DT_TRY(planner_to_json(p, reasons, NULL, &plan));
    dt_json_append(array, dt_json_object("model: %p, global_batch: %g, profile: %p, plan: %p", dt_json_text(box->model),
                                         box->batch ? atoi(box->batch) : NAN, dt_json_text(box->profile), plan));
    return DT_OK;
}

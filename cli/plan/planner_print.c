#include "cli/plan/planner.h"

#include "cli/text/text.h"
#include "schedules/config/parse.h"

#include <math.h>
#include <string.h>

static void print_heading(const struct planner *p, FILE *to)
{
    const struct experiment *e = &p->base;
    const struct dt_sim_cluster *c = &p->machine.cluster;
    const struct dt_profile *profile = &p->machine.profile;
    const struct search_result *r = &p->result;
    struct predictions predictions = {0};
    struct line line;
    char parameters[FORMAT_BYTES], all[FORMAT_BYTES], large[FORMAT_BYTES], simulated[FORMAT_BYTES], text[PREDICTIONS_BYTES], slow[64] = "";
    char optimizer[VALUE_BYTES];
    experiment_value(e, &experiment_table()->fields[dt_config_find(experiment_table(), "optimizer.name")], optimizer);
    format_count(dt_model_parameter_count(&e->model), parameters);
    line_print(to, "%s%s%s parameters; %s, %s, %s", e->model.preset, *e->model.preset ? ", " : "", parameters, optimizer,
               dt_dtype_name(e->model.dtype), dt_model_texts(&e->model).sample);
    line_begin(&line, to);
    if (c->gpu.architecture == DT_SIM_CPU)
        line_add(&line, "%d rank%s on %s", e->world_size, e->world_size > 1 ? "s" : "", c->gpu.name);
    else
        line_add(&line, "%d x %s", e->world_size, c->gpu.name);
    if (p->nodes > 1)
        line_add(&line, " on %d nodes, %d x %g Gbit/s each", p->nodes, c->nic.count, c->nic.label_gbit_per_s);
    predictions_add(&predictions, e);
    line_end(&line);
    line_begin(&line, to);
    line_add(&line, "%s", predictions_describe(&predictions, text));
    if (*profile->basis)
        line_add(&line, " (%s: %s)", profile->name, profile->basis);
    line_end(&line);
    if (r->states[SEARCH_TOO_SLOW] > 0)
        snprintf(slow, sizeof slow, "%s are too slow, ", format_count((uint64_t)r->states[SEARCH_TOO_SLOW], all));
    line_print(to, "%s candidates: %s do not fit, %s%s simulated, the others %s; %.1f s%s", format_count((uint64_t)r->count, all),
               format_count((uint64_t)(r->states[SEARCH_TOO_LARGE] + r->states[SEARCH_OUT_OF_MEMORY]), large), slow,
               format_count((uint64_t)(r->states[SEARCH_SIMULATED]), simulated),
               r->interrupted ? "were not reached, or cannot be better" : "cannot be better", r->seconds,
               !r->interrupted  ? ""
               : r->best_proved ? "; stopped early: the first is the best, the others are the best so far"
                                : "; stopped early: the best so far");
    fputc('\n', to);
}

/* ---- the table ---- */

static void margin_cell(struct table *t, const struct planner *p, int place)
{
    double margin = why_margin(p, 0, place);
    if (place == 0)
        table_cell(t, p->result.best_proved ? "best" : "best so far");
    else if (!why_margin_tells(p, 0, place))
        table_cell(t, "none (%.1f %%)", 100 * margin);
    else
        table_cell(t, "%.1f %%", 100 * margin);
}

/* The optional columns of the table. */
struct columns {
    bool gpus, host, cost, energy, duration, slow, alike;
    struct unit duration_unit;
};

/* The tokens for which costs and times are given: --tokens, or 1e9. A cheap plan may be slow, so
 * each row has both. */
static double trained_tokens(const struct planner *p)
{
    return isnan(p->tokens) ? 1e9 : p->tokens;
}

static struct columns choose_columns(const struct planner *p)
{
    struct columns c = {.gpus = p->request.any_nodes,
                        .cost = p->options.objective == SEARCH_COST || !isnan(p->price_per_hour),
                        .energy = p->options.objective == SEARCH_ENERGY,
                        .slow = p->equal_units_per_s != NULL};
    double shortest_s = INFINITY;
    c.duration = c.cost || c.energy || !isnan(p->tokens);
    for (int place = 0; place < planner_shown(p); place++) {
        c.host |= planner_outcome(p, place)->host_peak_bytes > 0;
        c.alike |= why_alike(p, place) > 0;
        shortest_s = fmin(shortest_s, planner_training_s(p, place, trained_tokens(p)));
    }
    c.duration_unit = unit_for_durations(shortest_s);
    return c;
}

static void cost_cells(struct table *t, const struct planner *p, int place, const struct columns *c, const struct experiment *e,
                       const struct search_outcome *o)
{
    double gpu_hours = e->world_size / o->units_per_s * 1e9 / 3600;
    if (c->cost)
        table_number(t, isnan(p->price_per_hour) ? gpu_hours : gpu_hours * p->price_per_hour);
    if (c->energy)
        table_number(t, planner_joules_per_token(p, place));
    if (c->duration)
        table_number(t, planner_training_s(p, place, trained_tokens(p)) / c->duration_unit.size);
}

static void name_columns(struct table *t, const struct planner *p, const struct columns *c)
{
    const char *unit = planner_unit(p), *counted = p->base.model.family->unit;
    table_column(t, TABLE_RIGHT, "");
    table_column(t, TABLE_LEFT, "strategy");
    if (c->gpus)
        table_column(t, TABLE_RIGHT, *unit == 'G' ? "GPUs" : "ranks");
    table_column(t, TABLE_RIGHT, "batch");
    table_column(t, TABLE_RIGHT | TABLE_STAYS, "%ss/s", counted);
    table_column(t, TABLE_RIGHT | TABLE_STAYS, "GiB of\n%.1f", p->result.capacity_bytes / 0x1p30);
    if (c->host)
        table_column(t, TABLE_RIGHT | TABLE_UNIT, "host\nGiB");
    table_columns(t, TABLE_RIGHT | TABLE_UNIT, "bubble\n%", "exposed\n%");
    if (c->cost)
        table_column(t, TABLE_RIGHT, "%s%s per\n1e9 %ss", isnan(p->price_per_hour) ? unit : "price", isnan(p->price_per_hour) ? " h" : "",
                     counted);
    if (c->energy)
        table_column(t, TABLE_RIGHT, "J per %s\nat most", counted);
    if (c->duration)
        table_column(t, TABLE_RIGHT, isnan(p->tokens) ? "%s per\n1e9 %ss" : "%s for\nall %ss", c->duration_unit.name, counted);
    if (c->slow)
        table_column(t, TABLE_RIGHT | TABLE_STAYS, "lost to\nslow %%");
    table_column(t, TABLE_RIGHT, "margin");
    if (c->alike)
        table_column(t, TABLE_RIGHT, "alike");
}

static void print_row(struct table *t, const struct planner *p, int place, const struct columns *c)
{
    const struct search_outcome *o = planner_outcome(p, place);
    char strategy[STRATEGY_BYTES];
    struct experiment e = planner_candidate(p, place);
    strategy_describe(&e, strategy);
    table_cell(t, "%d", place + 1);
    table_text(t, strategy);
    if (c->gpus)
        table_cell(t, "%d", e.world_size);
    table_cell(t, "%.4g", e.batch_size);
    table_number(t, o->units_per_s);
    table_number(t, o->peak_bytes / 0x1p30);
    if (c->host)
        table_number(t, o->host_peak_bytes / 0x1p30);
    table_cell(t, "%.0f", 100 * o->step.bubble_s / o->step_s);
    table_cell(t, "%.0f", 100 * o->step.exposed_comm_s / o->step_s);
    cost_cells(t, p, place, c, &e, o);
    if (c->slow)
        table_cell(t, "%.1f", 100 * planner_slow_cost(p, place));
    margin_cell(t, p, place);
    if (c->alike)
        table_cell(t, "%d", why_alike(p, place));
}

static dt_status print_table(const struct planner *p, FILE *to)
{
    struct columns columns = choose_columns(p);
    struct table *t = table_create();
    name_columns(t, p, &columns);
    for (int place = 0; place < planner_shown(p); place++)
        print_row(t, p, place, &columns);
    dt_status status = table_end(t, to);
    if (columns.alike) {
        fputc('\n', to);
        line_print(to, "alike: the number of others with this paradigm and these groups that were simulated and differ by less than the "
                       "predictions' error; --top N shows the first N of all");
    }
    return status;
}

/* Explain why a search has no result. */
static void print_none(const struct planner *p, FILE *to)
{
    char least[FORMAT_BYTES];
    double rate = why_too_slow(p, -1);
    struct unit unit = unit_for_durations(p->tokens / rate);
    if (p->result.interrupted)
        fprintf(to, "stopped before there was a result\n");
    else if (rate > 0 && !isnan(p->deadline_s))
        line_print(to, "nothing meets the deadline: no candidate needs less than %s %s for %g %ss",
                   format_number(p->tokens / rate / unit.size, least), unit.name, p->tokens, p->base.model.family->unit);
    else if (rate > 0)
        line_print(to, "nothing reaches the floor: no candidate exceeds %s %ss/s", format_number(rate, least), p->base.model.family->unit);
    else
        fprintf(to, "nothing fits\n");
}

static void print_lines(const char *title, const struct why *w, FILE *to)
{
    enum { INDENT = 4 };
    if (w->count == 0)
        return;
    fprintf(to, "\n%s\n", title);
    for (int i = 0; i < w->count; i++) {
        fprintf(to, "  - ");
        paragraph_print(w->lines[i], INDENT, to);
    }
}

static void print_rule(const struct rule_result *rule, const char *counted, FILE *to)
{
    enum { INDENT = 4 };
    char line[WHY_BYTES + STRATEGY_BYTES], rate[FORMAT_BYTES];
    const char *reached = rule->interrupted ? ", of the candidates that were reached" : "";
    if (*rule->strategy)
        snprintf(line, sizeof line, "%s: %s: %s %ss/s at best (%s, batch %d), %.0f %% %s than the plan%s", rule->name, rule->says,
                 format_number(rule->units_per_s, rate), counted, rule->strategy, rule->batch, fabs(100 * rule->regret),
                 rule->regret >= 0 ? "less" : "more", reached);
    else
        snprintf(line, sizeof line, "%s: %s: %s", rule->name, rule->says,
                 rule->left_out      ? "left out by --fix, --allow or --forbid"
                 : rule->interrupted ? "not reached before the search was stopped"
                                     : "nothing of it fits");
    fprintf(to, "  - ");
    paragraph_print(line, INDENT, to);
}

dt_status planner_print(const struct planner *p, const struct planner_reasons *r, FILE *to)
{
    print_heading(p, to);
    if (p->result.ranked == 0)
        print_none(p, to);
    else
        DT_TRY(print_table(p, to));
    print_lines("one part is slow", &r->slow, to);
    print_lines("why the first", &r->chosen, to);
    print_lines("why not the others", &r->not, to);
    print_lines("what would change it", &r->changes, to);
    if (r->rules.count > 0)
        fprintf(to, "\nrules of thumb\n");
    for (int i = 0; i < r->rules.count; i++)
        print_rule(&r->rules.all[i], p->base.model.family->unit, to);
    print_lines("how sure", &r->trusted, to);
    return DT_OK;
}

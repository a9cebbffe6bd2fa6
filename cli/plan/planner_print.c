#include "cli/plan/planner_print.h"

#include "cli/plan/strategy.h"
#include "cli/text/format.h"
#include "cli/text/paragraph.h"
#include "cli/text/table.h"

#include <math.h>
#include <string.h>

static void print_heading(const struct planner *p, FILE *to)
{
    const struct experiment *e = &p->base;
    const struct dt_sim_cluster *c = &p->machine.cluster;
    const struct search_result *r = &p->result;
    char parameters[FORMAT_BYTES], all[FORMAT_BYTES], large[FORMAT_BYTES], simulated[FORMAT_BYTES];
    format_count(dt_model_parameter_count(&e->model), parameters);
    fprintf(to, "%s%s%s parameters, %d x %s", e->model.preset, *e->model.preset ? ", " : "", parameters, e->world_size, c->gpu.name);
    if (p->nodes > 1)
        fprintf(to, " on %d nodes, %d x %g Gbit/s each", p->nodes, c->nic.count, c->nic.label_gbit_per_s);
    fprintf(to, "\n%s candidates: %s do not fit, %s simulated, the others %s; %.1f s%s\n\n", format_count((uint64_t)r->count, all),
            format_count((uint64_t)(r->states[SEARCH_TOO_LARGE] + r->states[SEARCH_OUT_OF_MEMORY]), large),
            format_count((uint64_t)(r->states[SEARCH_SIMULATED]), simulated),
            r->interrupted ? "were not reached, or cannot be better" : "cannot be better", r->seconds,
            r->interrupted ? "; stopped early: the best so far" : "");
}

static void margin_cell(struct table *t, const struct planner *p, int place)
{
    double margin = why_margin(p, place);
    if (place == 0)
        table_cell(t, p->result.interrupted ? "best so far" : "best");
    else if (!why_margin_tells(p, place))
        table_cell(t, "none (%.1f %%)", 100 * margin);
    else
        table_cell(t, "%.1f %%", 100 * margin);
}

static void cost_cells(struct table *t, const struct planner *p, const struct experiment *e, const struct search_outcome *o)
{
    char text[FORMAT_BYTES];
    double gpu_hours = e->world_size / o->tokens_per_s * 1e9 / 3600;
    if (p->options.objective == SEARCH_COST || !isnan(p->price_per_hour))
        table_cell(t, "%s", format_number(isnan(p->price_per_hour) ? gpu_hours : gpu_hours * p->price_per_hour, text));
    if (!isnan(p->tokens))
        table_cell(t, "%s", format_number(p->tokens / o->tokens_per_s / 3600, text));
}

static dt_status print_table(const struct planner *p, FILE *to)
{
    char title[64], strategy[STRATEGY_BYTES], rate[FORMAT_BYTES], memory[FORMAT_BYTES];
    struct table *t = table_create();
    bool hosts = false;
    if (!t)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a table");
    for (int place = 0; place < planner_shown(p); place++)
        hosts |= planner_outcome(p, place)->host_peak_bytes > 0;
    table_column(t, TABLE_RIGHT, "");
    table_column(t, TABLE_LEFT, "strategy");
    if (p->request.any_nodes)
        table_column(t, TABLE_RIGHT, "GPUs");
    table_column(t, TABLE_RIGHT, "batch");
    table_column(t, TABLE_RIGHT, "tokens/s");
    snprintf(title, sizeof title, "GiB of\n%.1f", p->result.capacity_bytes / 0x1p30);
    table_column(t, TABLE_RIGHT, title);
    if (hosts)
        table_column(t, TABLE_RIGHT, "host\nGiB");
    table_column(t, TABLE_RIGHT, "bubble\n%");
    table_column(t, TABLE_RIGHT, "exposed\n%");
    if (p->options.objective == SEARCH_COST || !isnan(p->price_per_hour))
        table_column(t, TABLE_RIGHT, isnan(p->price_per_hour) ? "GPU h per\n1e9 tokens" : "price per\n1e9 tokens");
    if (!isnan(p->tokens))
        table_column(t, TABLE_RIGHT, "hours");
    table_column(t, TABLE_RIGHT, "margin");
    for (int place = 0; place < planner_shown(p); place++) {
        const struct search_outcome *o = planner_outcome(p, place);
        struct experiment e;
        space_experiment(p->space, space_candidate(p->space, p->result.ranking[place]), &e);
        strategy_describe(&e, strategy);
        table_cell(t, "%d", place + 1);
        table_cell(t, "%s", strategy);
        if (p->request.any_nodes)
            table_cell(t, "%d", e.world_size);
        table_cell(t, "%d", e.batch_size);
        table_cell(t, "%s", format_number(o->tokens_per_s, rate));
        table_cell(t, "%s", format_number(o->peak_bytes / 0x1p30, memory));
        if (hosts)
            table_cell(t, "%s", format_number(o->host_peak_bytes / 0x1p30, memory));
        table_cell(t, "%.0f", 100 * o->step.bubble_s / o->step_s);
        table_cell(t, "%.0f", 100 * o->step.exposed_comm_s / o->step_s);
        cost_cells(t, p, &e, o);
        margin_cell(t, p, place);
    }
    dt_status status = table_print(t, to);
    table_destroy(t);
    return status;
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

dt_status planner_print(const struct planner *p, const struct planner_reasons *r, FILE *to)
{
    print_heading(p, to);
    if (p->result.ranked == 0)
        fprintf(to, p->result.interrupted ? "stopped before there was a result\n" : "nothing fits\n");
    else
        DT_TRY(print_table(p, to));
    print_lines("why the first", &r->chosen, to);
    print_lines("why not the others", &r->not, to);
    print_lines("what would change it", &r->changes, to);
    print_lines("how sure", &r->trusted, to);
    return DT_OK;
}

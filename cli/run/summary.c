#include "cli/run/run.h"

#include "cli/text/text.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- what would run ---- */

dt_status summary_print_planned(const struct sweep *s, FILE *to)
{
    struct table *t = table_create();
    struct experiment own;
    static const char *const titles[] = {"#", "name", "paradigm", "ranks", "batch", "model", "steps"};
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++)
        table_column(t, c == 1 || c == 2 || c == 5 ? TABLE_LEFT : TABLE_RIGHT, "%s", titles[c]);
    for (int c = 0; c < s->columns.count; c++)
        table_column(t, TABLE_RIGHT, "%s", experiment_column_title(s->columns.fields[c]));
    table_column(t, TABLE_LEFT, "config hash");
    table_column(t, TABLE_LEFT, "");
    for (int i = 0; i < s->count; i++) {
        const struct experiment *e = sweep_experiment(s, i, &own);
        if (s->outcomes[i].elsewhere)
            continue;
        table_cell(t, "%d", i + 1);
        table_text(t, e->name);
        table_text(t, paradigm_name(e->paradigm));
        table_cell(t, "%d", e->world_size);
        table_cell(t, "%d", e->batch_size);
        if (*e->model.preset)
            table_text(t, e->model.preset);
        else
            table_text(t, dt_model_texts(&e->model).label);
        if (e->steps.warmup_s > 0)
            table_cell(t, "%d, %g s+%d", e->steps.warmup, e->steps.warmup_s, e->steps.timed);
        else
            table_cell(t, "%d+%d", e->steps.warmup, e->steps.timed);
        experiment_value_cells(t, e, &s->columns);
        table_text(t, e->hash);
        table_text(t, s->outcomes[i].skipped ? "skipped: has a record" : "");
    }
    return table_end(t, to);
}

/* ---- what has run ---- */

/* The metrics that the table shows, in its order. */
#define AT(member) offsetof(struct dt_metrics, member)
static const struct column {
    const char *title;
    size_t offset; /* in struct dt_metrics */
    enum dt_metric_unit unit;
    bool if_any; /* a column only where some experiment has more than 0 of it */
    bool stays;  /* also where all have the same */
} columns[] = {
    {.title = "tokens\n/s", .offset = AT(tokens_per_s), .stays = true},
    {.title = "step", .offset = AT(step_s.median), .unit = DT_IN_SECONDS, .stays = true},
    {.title = "MFU", .offset = AT(mfu), .unit = DT_IN_FRACTION, .if_any = true},
    {.title = "scaling", .offset = AT(scaling_efficiency), .unit = DT_IN_FRACTION, .if_any = true},
    {.title = "cv", .offset = AT(step_s.cv), .unit = DT_IN_FRACTION},
    {.title = "peak", .offset = AT(peak_bytes.total), .unit = DT_IN_BYTES},
    {.title = "host", .offset = AT(host_peak_bytes.total), .unit = DT_IN_BYTES, .if_any = true},
    {.title = "comm", .offset = AT(step.comm_bytes), .unit = DT_IN_BYTES, .if_any = true},
    {.title = "bubble", .offset = AT(bubble), .unit = DT_IN_FRACTION, .if_any = true},
    {.title = "exposed", .offset = AT(step.exposed_comm_s), .unit = DT_IN_SECONDS},
    {.title = "ACO", .offset = AT(aco_ms_per_sample), .unit = DT_IN_MS_PER_SAMPLE},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* A column as it is printed: absent, or in this unit. */
struct scale {
    bool shown;
    struct unit unit;
};

static double value_of(const struct outcome *o, size_t offset)
{
    return o->run ? *(const double *)((const char *)&o->metrics + offset) : NAN;
}

static double largest(const struct sweep *s, size_t offset)
{
    double most = 0;
    for (int i = 0; i < s->count; i++)
        most = fmax(most, value_of(&s->outcomes[i], offset));
    return most;
}

static struct scale choose_scale(const struct sweep *s, const struct column *column)
{
    bool shown = !column->if_any || largest(s, column->offset) > 0;
    switch (column->unit) {
    case DT_IN_SECONDS: return (struct scale){shown, unit_for_seconds(largest(s, column->offset))};
    case DT_IN_BYTES: return (struct scale){shown, unit_for_bytes(largest(s, AT(peak_bytes.total)))}; /* both memories in one unit */
    case DT_IN_FRACTION: return (struct scale){shown, {"%", 0.01}};
    default: return (struct scale){shown, {dt_unit_name(column->unit), 1}};
    }
}

static void metric_column(struct table *table, const char *title, const char *unit, int flags)
{
    const char *per = strchr(unit, '/'); /* on a third line */
    int length = per ? (int)(per - unit) : (int)strlen(unit);
    table_column(table, TABLE_RIGHT | (*unit ? TABLE_UNIT : 0) | flags, "%s%s%.*s%s%s", title, *unit ? "\n" : "", length, unit,
                 per ? "\n" : "", per ? per : "");
}

/* A long name takes two lines, as its values are short: "parameter" over "offload". */
static void key_column(struct table *table, const struct dt_field *field)
{
    char title[64];
    snprintf(title, sizeof title, "%s", experiment_column_title(field));
    char *between = strrchr(title, '_');
    if (between && strlen(title) > 10)
        *between = '\n';
    table_column(table, TABLE_RIGHT | TABLE_KEY, "%s", title);
}

static void add_columns(struct table *t, const struct sweep *s, const struct scale scales[COLUMNS])
{
    if (s->columns.names_differ)
        table_column(t, TABLE_LEFT | TABLE_KEY, "name");
    table_column(t, TABLE_LEFT | TABLE_KEY, "paradigm");
    table_column(t, TABLE_RIGHT | TABLE_KEY, "ranks");
    table_column(t, TABLE_RIGHT | TABLE_KEY, "batch");
    for (int c = 0; c < s->columns.count; c++)
        key_column(t, s->columns.fields[c]);
    for (int c = 0; c < COLUMNS; c++)
        if (scales[c].shown)
            metric_column(t, columns[c].title, scales[c].unit.name, columns[c].stays ? TABLE_STAYS : 0);
    table_column(t, TABLE_RIGHT, "loss\nfirst");
    table_column(t, TABLE_RIGHT, "loss\nlast");
    if (s->verify)
        table_column(t, TABLE_RIGHT, "verified\nto");
    table_column(t, TABLE_LEFT, "status");
}

static void number_cell(struct table *table, double value)
{
    char text[FORMAT_BYTES];
    table_text(table, format_number(value, text));
}

static void loss_cell(struct table *table, double loss)
{
    if (isnan(loss))
        table_cell(table, "-");
    else if (fabs(loss) < 1e6)
        table_cell(table, "%.4f", loss);
    else
        table_cell(table, "%.4e", loss);
}

static void error_cell(struct table *table, double relative)
{
    if (isnan(relative))
        table_cell(table, "-");
    else
        table_cell(table, "%.1e", relative);
}

static const char *state_of(const struct outcome *o)
{
    return o->run ? report_status_name(o->status) : "skipped";
}

static enum colour colour_of(const struct outcome *o)
{
    if (!o->run)
        return COLOUR_YELLOW;
    if (o->status != DT_OK)
        return COLOUR_RED;
    return *o->doubts ? COLOUR_YELLOW : COLOUR_GREEN;
}

static void add_row(struct table *t, const struct sweep *s, int index, const struct scale scales[COLUMNS], bool colour)
{
    struct experiment own;
    const struct experiment *e = sweep_experiment(s, index, &own);
    const struct outcome *o = &s->outcomes[index];
    experiment_cells(t, e, &s->columns);
    for (int c = 0; c < COLUMNS; c++)
        if (scales[c].shown)
            number_cell(t, value_of(o, columns[c].offset) / scales[c].unit.size);
    loss_cell(t, o->run ? o->first_loss : NAN);
    loss_cell(t, o->run ? o->last_loss : NAN);
    if (s->verify)
        error_cell(t, o->verified ? o->verification_error : NAN);
    char state[32];
    snprintf(state, sizeof state, "%s%s", state_of(o), *o->doubts ? " (!)" : "");
    table_colour_cell(t, colour ? colour_of(o) : COLOUR_NONE, state);
}

/* What is predicted; what all rows have in common stands above them. */
static void print_heading(const struct sweep *s, struct table *t, FILE *to)
{
    struct experiment own;
    struct predictions predictions = {0};
    char parameters[FORMAT_BYTES], predicted[PREDICTIONS_BYTES];
    for (int i = 0; i < s->distinct; i++)
        if (!s->outcomes[i].elsewhere)
            predictions_add(&predictions, sweep_experiment(s, i, &own));
    const struct experiment *e = sweep_experiment(s, 0, &own);
    bool alike = !s->columns.models_differ && !s->columns.names_differ;
    format_count(dt_model_parameter_count(&e->model), parameters);
    if (*predictions_describe(&predictions, predicted))
        line_print(to, "%s", predicted);
    if (alike)
        table_heading(t, "%s: %s%s%s parameters, %s, %s", e->name, e->model.preset, *e->model.preset ? ", " : "", parameters,
                      dt_dtype_name(e->model.dtype), dt_model_texts(&e->model).sample);
}

/* By now all of the sweep has run, whatever came first. */
static void find_scaling(const struct sweep *s)
{
    struct experiment e;
    for (int i = 0; i < s->count; i++) {
        struct dt_metrics *m = &s->outcomes[i].metrics;
        double ranks = sweep_experiment(s, i, &e)->world_size;
        m->scaling_efficiency = s->outcomes[i].run ? m->tokens_per_s / ranks / sweep_scaling_reference(s, i) : NAN;
    }
}

/* Below the table, a line for each: why an experiment failed, and what speaks against what was measured. */
static void print_remarks(const struct sweep *s, FILE *to)
{
    struct experiment e;
    char label[LABEL_BYTES];
    bool first = true;
    for (int i = 0; i < s->count; i++) {
        const struct outcome *o = &s->outcomes[i];
        bool failed = o->run && o->status != DT_OK;
        if (!failed && !*o->doubts)
            continue;
        experiment_label(sweep_experiment(s, i, &e), &s->columns, label, sizeof label);
        fputs(first ? "\n" : "", to);
        if (failed)
            line_print(to, "%s: %s: %s", label, report_status_name(o->status), o->error);
        if (*o->doubts)
            line_print(to, "%s: (!) %s", label, o->doubts);
        first = false;
    }
}

dt_status summary_print(const struct sweep *s, FILE *to)
{
    find_scaling(s);
    struct scale scales[COLUMNS];
    struct table *table = table_create();
    for (int c = 0; c < COLUMNS; c++)
        scales[c] = choose_scale(s, &columns[c]);
    add_columns(table, s, scales);
    for (int i = 0; i < s->count; i++)
        if (s->outcomes[i].run || s->outcomes[i].skipped)
            add_row(table, s, i, scales, !s->inside && terminal_has_colour(to)); /* a launcher's terminal is not the user's */
    print_heading(s, table, to);
    dt_status status = table_end(table, to);
    print_remarks(s, to);
    return status;
}

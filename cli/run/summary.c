/* The table that a run ends with. */
#include "cli/run/sweep.h"
#include "cli/text/format.h"
#include "cli/text/table.h"
#include "cli/text/terminal.h"

#include <math.h>
#include <string.h>

enum { GREEN = 32, RED = 31, YELLOW = 33 };

struct units {
    struct unit step, exposed, bytes;
    bool host; /* some experiment has bytes in host memory: a column for them */
};

static struct units choose_units(const struct sweep *s)
{
    double step = 0, exposed = 0, bytes = 0, host = 0;
    for (int i = 0; i < s->count; i++) {
        if (!s->outcomes[i].run)
            continue;
        step = fmax(step, s->outcomes[i].metrics.step_s.median);
        exposed = fmax(exposed, s->outcomes[i].metrics.exposed_comm_s);
        bytes = fmax(bytes, s->outcomes[i].metrics.peak_bytes);
        host = fmax(host, s->outcomes[i].metrics.host_peak_bytes);
    }
    return (struct units){unit_for_seconds(step), unit_for_seconds(exposed), unit_for_bytes(bytes), host > 0};
}

static void unit_column(struct table *table, const char *what, const char *unit)
{
    char title[64];
    snprintf(title, sizeof title, "%s\n%s", what, unit);
    table_column(table, TABLE_RIGHT, title);
}

/* A long name takes two lines, as its values are short: "parameter" over "offload". */
static void key_column(struct table *table, const struct dt_field *field)
{
    char title[64];
    snprintf(title, sizeof title, "%s", experiment_column_title(field));
    char *between = strrchr(title, '_');
    if (between && strlen(title) > 10)
        *between = '\n';
    table_column(table, TABLE_RIGHT, title);
}

static void add_columns(struct table *t, const struct sweep *s, const struct units *units)
{
    if (s->columns.names_differ)
        table_column(t, TABLE_LEFT, "name");
    table_column(t, TABLE_LEFT, "paradigm");
    table_column(t, TABLE_RIGHT, "ranks");
    table_column(t, TABLE_RIGHT, "batch");
    for (int c = 0; c < s->columns.count; c++)
        key_column(t, s->columns.fields[c]);
    table_column(t, TABLE_RIGHT, "tokens/s");
    unit_column(t, "step", units->step.name);
    unit_column(t, "cv", "%");
    unit_column(t, "peak", units->bytes.name);
    if (units->host)
        unit_column(t, "host", units->bytes.name);
    unit_column(t, "exposed", units->exposed.name);
    unit_column(t, "ACO", "ms/sample");
    unit_column(t, "loss", "first");
    unit_column(t, "", "last");
    if (s->verify)
        unit_column(t, "verified", "to");
    table_column(t, TABLE_LEFT, "status");
}

static void number_cell(struct table *table, double value)
{
    char text[FORMAT_BYTES];
    table_cell(table, "%s", format_number(value, text));
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

static void add_row(struct table *t, const struct sweep *s, int index, const struct units *units, bool colour)
{
    const struct experiment *e = &s->experiments[index];
    const struct outcome *o = &s->outcomes[index];
    const struct report_metrics *m = &o->metrics;
    char value[VALUE_BYTES];
    double unknown = o->run ? 1 : NAN; /* times NaN: a dash */
    if (s->columns.names_differ)
        table_cell(t, "%s", e->name);
    table_cell(t, "%s", paradigm_name(e->paradigm));
    table_cell(t, "%d", e->world_size);
    table_cell(t, "%d", e->batch_size);
    for (int c = 0; c < s->columns.count; c++) {
        experiment_value(e, s->columns.fields[c], value);
        table_cell(t, "%s", value);
    }
    number_cell(t, m->tokens_per_s * unknown);
    number_cell(t, m->step_s.median / units->step.size * unknown);
    number_cell(t, m->step_s.cv * 100 * unknown);
    number_cell(t, m->peak_bytes / units->bytes.size * unknown);
    if (units->host)
        number_cell(t, m->host_peak_bytes / units->bytes.size * unknown);
    number_cell(t, m->exposed_comm_s / units->exposed.size * unknown);
    number_cell(t, m->aco_ms_per_sample * unknown);
    loss_cell(t, m->first_loss * unknown);
    loss_cell(t, m->last_loss * unknown);
    if (s->verify)
        error_cell(t, o->verified ? o->verification_error : NAN);
    const char *status = o->run ? report_status_name(o->status) : o->skipped ? "skipped" : o->late ? "later" : "not run";
    table_colour_cell(t, !colour ? 0 : !o->run ? YELLOW : o->status == DT_OK ? GREEN : RED, status);
}

/* What all rows have in common stands above them. */
static void print_heading(const struct sweep *s, FILE *to)
{
    const struct experiment *e = &s->experiments[0];
    char parameters[FORMAT_BYTES];
    if (s->columns.models_differ || s->columns.names_differ)
        return;
    format_count(gpt_parameter_count(&e->model), parameters);
    fprintf(to, "%s: %s%s%s parameters, %s, %d tokens a sample\n\n", e->name, e->model.preset, *e->model.preset ? ", " : "", parameters,
            dt_dtype_name(e->model.dtype), e->model.block_size);
}

dt_status summary_print(const struct sweep *s, FILE *to)
{
    struct units units = choose_units(s);
    struct table *table = table_create();
    char label[LABEL_BYTES];
    if (!table)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the table of results");
    add_columns(table, s, &units);
    for (int i = 0; i < s->count; i++)
        if (!s->outcomes[i].elsewhere)
            add_row(table, s, i, &units, !s->inside && terminal_has_colour(to)); /* a launcher's terminal is not the user's */
    print_heading(s, to);
    dt_status status = table_print(table, to);
    table_destroy(table);
    bool first = true;
    for (int i = 0; i < s->count; i++) {
        if (!s->outcomes[i].run || s->outcomes[i].status == DT_OK)
            continue;
        experiment_label(&s->experiments[i], &s->columns, label, sizeof label);
        fprintf(to, "%s%s: %s: %s\n", first ? "\n" : "", label, report_status_name(s->outcomes[i].status), s->outcomes[i].error);
        first = false;
    }
    return status;
}

/* The lines and columns of a show, as a table or for other programs. */
#include "cli/records/show_parts.h"

#include "lib/base/text.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns in which lines differ ---- */

bool show_differs(const struct show *s, int column)
{
    return result_lines_differ(&s->lines, column, false);
}

bool show_follows(const struct show *s, int column)
{
    for (int c = 0; c < results_columns(s->results); c++)
        if (results_part(s->results, c) == RESULT_OF_CONFIG && show_differs(s, c) &&
            experiment_field_follows(results_name(s->results, column), results_name(s->results, c)))
            return true;
    return false;
}

bool show_is_simulated(const struct show *s, int line)
{
    char number[32];
    return s->device >= 0 && dt_device_is_simulated(results_text(s->results, result_line_row(&s->lines, line), s->device, number));
}

/* ---- cells ---- */

enum { CELL_BYTES = 512 };

/* Describe the second fastest by the keys in which it differs from the fastest: "order zb_h1,
 * chunks 8". */
static void describe_next(const struct show *s, const struct shown *lead, char *text)
{
    int row = result_line_row(&s->lines, lead->line), next = result_line_row(&s->lines, lead->next);
    *text = 0;
    for (int c = 0; c < results_columns(s->results); c++) {
        char number[32], value[VALUE_BYTES];
        bool none = results_kind(s->results, next, c) == RESULT_NONE || results_kind(s->results, row, c) == RESULT_NONE;
        if (results_part(s->results, c) != RESULT_OF_CONFIG || none || results_same(s->results, row, next, c) || show_follows(s, c))
            continue;
        const char *name = results_name(s->results, c);
        experiment_text_shown(results_text(s->results, next, c, number), value);
        bool is_paradigm = strcmp(name, "paradigm") == 0;
        dt_append(text, CELL_BYTES, ", ", "%s%s%s", is_paradigm ? "" : experiment_key_title(name), is_paradigm ? "" : " ", value);
    }
}

/* "12.3 % (10.1 to 14.4)" */
static void describe_lead(const struct comparison *judged, char *text)
{
    const struct dt_ratio *ratio = &judged->ratio;
    bool interval = ratio->low < ratio->high;
    if (interval)
        snprintf(text, CELL_BYTES, "%.1f %% (%.1f to %.1f)%s", (ratio->ratio - 1) * 100, (ratio->low - 1) * 100, (ratio->high - 1) * 100,
                 judged->verdict == COMPARE_UNCLEAR ? " unclear" : "");
    else
        snprintf(text, CELL_BYTES, "%.1f %%%s", (ratio->ratio - 1) * 100, judged->verdict == COMPARE_UNCLEAR ? " unclear" : "");
}

static void describe_loss(double loss, char *text)
{
    if (!isnan(loss))
        snprintf(text, CELL_BYTES, fabs(loss) < 1e6 ? "%.4f" : "%.4e", loss);
}

/* A cell for people. */
static void describe(const struct show *s, int shown, const struct column *c, char text[CELL_BYTES])
{
    const struct shown *its = &s->shown[shown];
    int row = row_at(s, shown);
    char number[FORMAT_BYTES];
    *text = 0;
    switch (c->kind) {
    case CELL_VALUE:
        if (*c->metric.unit || results_part(s->results, c->column) == RESULT_OF_METRICS)
            format_number(result_line_number(&s->lines, its->line, c->column) / c->unit.size, text);
        else if (results_kind(s->results, row, c->column) != RESULT_NONE)
            experiment_text_shown(results_text(s->results, row, c->column, number), text);
        break;
    case CELL_LOSS: describe_loss(results_number(s->results, row, c->column), text); break;
    case CELL_DIFFERENCE:
        if (results_kind(s->results, row, c->column) == RESULT_NUMBER)
            snprintf(text, CELL_BYTES, "%.1e", results_number(s->results, row, c->column));
        break;
    case CELL_RUNS: snprintf(text, CELL_BYTES, "%d", s->lines.lines[its->line].runs); break;
    case CELL_SPREAD: format_number(result_line_spread(&s->lines, its->line) / c->unit.size, text); break;
    case CELL_LEAD:
        if (its->next >= 0)
            describe_lead(&its->judged, text);
        break;
    case CELL_NEXT:
        if (its->next >= 0)
            describe_next(s, its, text);
        break;
    case CELL_STATUS: snprintf(text, CELL_BYTES, "%s", results_text(s->results, row, c->column, number)); break;
    }
    if (!*text)
        strcpy(text, "-");
}

static const char *doubts_of(const struct show *s, int row)
{
    char number[32];
    return s->doubts < 0 ? "" : results_text(s->results, row, s->doubts, number);
}

/* ---- as a table ---- */

static void print_titles(const struct show *s, struct table *t)
{
    for (int i = 0; i < s->column_count; i++) {
        const struct column *c = &s->columns[i];
        bool is_metric = c->column >= 0 && results_part(s->results, c->column) == RESULT_OF_METRICS;
        const char *title = c->name, *unit = c->unit.name, *per = strchr(unit, '/'); /* the part of the unit after "/", on a third line */
        if (is_metric)
            title = c->metric.title;
        if ((c->flags & TABLE_KEY) && (strcmp(title, "name") == 0 || strcmp(title, "paradigm") == 0)) { /* aligned to the left */
            table_column(t, c->flags, "%s", title);
        } else if (c->flags & TABLE_KEY) {
            experiment_key_column(t, title);
        } else if (c->kind == CELL_LOSS) {
            table_column(t, c->flags, "loss\n%s", strrchr(title, '.') + 1);
        } else if (c->kind == CELL_DIFFERENCE) {
            table_column(t, c->flags, "verified\nto");
        } else if (!*title && per) { /* a rate */
            table_column(t, c->flags | TABLE_UNIT, "%.*s\n%s", (int)(per - unit), unit, per);
        } else {
            int length = per ? (int)(per - unit) : (int)strlen(unit);
            table_column(t, c->flags | (*unit ? TABLE_UNIT : 0), "%s%s%.*s%s%s", title, *unit ? "\n" : "", length, unit, per ? "\n" : "",
                         per ? per : "");
        }
    }
}

static enum colour colour_of(const struct show *s, int shown)
{
    if (!result_line_is_ok(&s->lines, s->shown[shown].line))
        return COLOUR_RED;
    return *doubts_of(s, row_at(s, shown)) ? COLOUR_YELLOW : COLOUR_GREEN;
}

static void print_row(const struct show *s, struct table *t, int shown)
{
    char text[CELL_BYTES];
    for (int i = 0; i < s->column_count; i++) {
        const struct column *c = &s->columns[i];
        describe(s, shown, c, text);
        if (c->kind == CELL_STATUS && *doubts_of(s, row_at(s, shown)))
            strncat(text, " (!)", sizeof text - strlen(text) - 1);
        table_colour_cell(t, c->kind == CELL_STATUS && s->options->colour ? colour_of(s, shown) : COLOUR_NONE, text);
    }
}

/* Describe a line by the keys that differ: "ddp, batch 8". */
static void describe_line(const struct show *s, int shown, char text[CELL_BYTES])
{
    *text = 0;
    for (int i = 0; i < s->column_count; i++) {
        const struct column *c = &s->columns[i];
        char cell[CELL_BYTES];
        bool is_paradigm = strcmp(c->name, "paradigm") == 0;
        if (!(c->flags & TABLE_KEY) || (!is_paradigm && !show_differs(s, c->column)))
            continue;
        describe(s, shown, c, cell);
        if (strcmp(cell, "-") != 0)
            dt_append(text, CELL_BYTES, ", ", "%s%s%.100s", is_paradigm ? "" : experiment_key_title(c->name), is_paradigm ? "" : " ", cell);
    }
}

/* Print a line below the table for each failed experiment, and for each doubt about a
 * measurement. */
static void print_remarks(const struct show *s, FILE *to)
{
    int error = results_find(s->results, "error");
    char label[CELL_BYTES], number[32];
    bool first = true;
    for (int i = 0; i < s->shown_count; i++) {
        int row = row_at(s, i);
        const char *doubts = doubts_of(s, row);
        bool failed = !result_line_is_ok(&s->lines, s->shown[i].line);
        if (!failed && !*doubts)
            continue;
        describe_line(s, i, label);
        fputs(first ? "\n" : "", to);
        if (failed)
            line_print(to, "%s: %s: %s", label, results_text(s->results, row, s->lines.status, number),
                       error < 0 ? "" : results_text(s->results, row, error, number));
        if (*doubts)
            line_print(to, "%s: (!) %s", label, doubts);
        first = false;
    }
}

/* Describe what is predicted; "" where nothing is. */
static const char *describe_predictions(const struct show *s, char text[PREDICTIONS_BYTES])
{
    struct predictions all = {0};
    char numbers[2][32];
    int cluster = results_find(s->results, "config.cluster"), profile = results_find(s->results, "config.profile"), last = -1;
    for (int i = 0; i < s->shown_count; i++) {
        int row = row_at(s, i);
        bool simulated = cluster >= 0 && profile >= 0 && show_is_simulated(s, s->shown[i].line);
        bool again = last >= 0 && results_same(s->results, row, last, cluster) && results_same(s->results, row, last, profile);
        if (simulated && !again)
            predictions_add_files(&all, results_text(s->results, row, cluster, numbers[0]),
                                  results_text(s->results, row, profile, numbers[1]));
        all.measured += !simulated;
        last = simulated ? row : last;
    }
    return predictions_describe(&all, text);
}

static dt_status print_table(const struct show *s, FILE *to)
{
    struct table *t = table_create();
    char predicted[PREDICTIONS_BYTES];
    print_titles(s, t);
    if (s->options->heading)
        table_heading(t, "%s", s->options->heading);
    for (int i = 0; i < s->shown_count; i++)
        print_row(s, t, i);
    if (*describe_predictions(s, predicted))
        line_print(to, "%s", predicted);
    dt_status status = table_end(t, to);
    print_remarks(s, to);
    return status;
}

/* ---- for other programs ---- */

static dt_status print_markdown(const struct show *s, FILE *to)
{
    char text[CELL_BYTES], predicted[PREDICTIONS_BYTES];
    for (int i = 0; i < s->column_count; i++) {
        const struct column *c = &s->columns[i];
        const char *title = *c->metric.title ? c->metric.title : *c->metric.unit ? "" : c->name;
        snprintf(text, sizeof text, "%s%s%s", title, *title && *c->unit.name ? ", " : "", c->unit.name);
        fputs("| ", to);
        text_print_markdown(text, to);
        fputs(" ", to);
    }
    fputs("|\n", to);
    for (int i = 0; i < s->column_count; i++)
        fputs(s->columns[i].flags & TABLE_RIGHT ? "|---:" : "|---", to);
    fputs("|\n", to);
    for (int row = 0; row < s->shown_count; row++) {
        for (int i = 0; i < s->column_count; i++) {
            describe(s, row, &s->columns[i], text);
            fputs("| ", to);
            text_print_markdown(text, to);
            fputs(" ", to);
        }
        fputs("|\n", to);
    }
    if (*describe_predictions(s, predicted)) {
        fputc('\n', to);
        text_print_markdown(predicted, to);
        fputc('\n', to);
    }
    return DT_OK;
}

/* A number or a text in the record's units; "" for none. */
static enum result_kind exact(const struct show *s, int shown, const struct column *c, char text[CELL_BYTES])
{
    const struct shown *its = &s->shown[shown];
    double value = NAN;
    char number[32];
    *text = 0;
    switch (c->kind) {
    case CELL_RUNS: value = s->lines.lines[its->line].runs; break;
    case CELL_SPREAD: value = result_line_spread(&s->lines, its->line); break;
    case CELL_LEAD: value = its->judged.ratio.ratio - 1; break;
    case CELL_NEXT:
        if (its->next >= 0)
            describe_next(s, its, text);
        return its->next >= 0 ? RESULT_TEXT : RESULT_NONE;
    case CELL_VALUE:
    case CELL_LOSS:
    case CELL_DIFFERENCE:
    case CELL_STATUS:
        if (results_part(s->results, c->column) != RESULT_OF_METRICS) {
            snprintf(text, CELL_BYTES, "%s", results_text(s->results, row_at(s, shown), c->column, number));
            return results_kind(s->results, row_at(s, shown), c->column);
        }
        value = result_line_number(&s->lines, its->line, c->column);
    }
    if (!isnan(value))
        dt_format_double(value, text, CELL_BYTES);
    return isnan(value) ? RESULT_NONE : RESULT_NUMBER;
}

/* RFC 4180: a field with a comma, a quote or a line end is quoted. */
static void put_csv(const char *text, FILE *to)
{
    bool quoted = strpbrk(text, ",\"\r\n");
    fputs(quoted ? "\"" : "", to);
    for (const char *c = text; *c; c++)
        fputs(*c == '"' ? "\"\"" : (char[]){*c, 0}, to);
    fputs(quoted ? "\"" : "", to);
}

static dt_status print_csv(const struct show *s, FILE *to)
{
    char text[CELL_BYTES];
    for (int i = 0; i < s->column_count; i++)
        fprintf(to, "%s%s", i ? "," : "", s->columns[i].name);
    fputs("\r\n", to);
    for (int row = 0; row < s->shown_count; row++) {
        for (int i = 0; i < s->column_count; i++) {
            exact(s, row, &s->columns[i], text);
            fputs(i ? "," : "", to);
            put_csv(text, to);
        }
        fputs("\r\n", to);
    }
    return DT_OK;
}

static struct cJSON *as_json(enum result_kind kind, const char *text)
{
    switch (kind) {
    case RESULT_NUMBER: return cJSON_CreateNumber(strtod(text, NULL));
    case RESULT_TRUTH: return dt_json_truth(*text == 't');
    case RESULT_TEXT: return dt_json_text(text);
    case RESULT_NONE: break;
    }
    return dt_json_text(NULL);
}

/* Print an array of objects; with --best also the lead's interval and verdict. */
static dt_status print_json(const struct show *s, FILE *to)
{
    struct cJSON *rows = dt_json_array();
    char text[CELL_BYTES];
    for (int i = 0; i < s->shown_count; i++) {
        struct cJSON *row = dt_json_object("");
        const struct comparison *judged = &s->shown[i].judged;
        for (int c = 0; c < s->column_count; c++) {
            enum result_kind kind = exact(s, i, &s->columns[c], text);
            dt_json_add(&row, "%s: %p", s->columns[c].name, as_json(kind, text));
        }
        if (s->options->best)
            dt_json_add(&row, "lead_interval: %p, verdict: %p, reason: %p",
                        dt_json_numbers((const double[]){judged->ratio.low - 1, judged->ratio.high - 1}, 2),
                        dt_json_text(s->shown[i].next >= 0 ? compare_verdict_name(judged->verdict) : NULL), dt_json_known(judged->reason));
        dt_json_append(&rows, row);
    }
    return dt_json_write(rows, to);
}

/* Print the log of the last run. */
static dt_status print_mllog(const struct show *s, FILE *to)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *record = NULL;
    if (s->shown_count != 1)
        return dt_fail(DT_ERR_INVALID, "MLPerf's log is for one experiment, not %d: choose one with --where", s->shown_count);
    DT_TRY(results_record(s->results, row_at(s, 0), &record));
    return mllog_print(record, to);
}

dt_status show_write(const struct show *s, FILE *to)
{
    static dt_status (*const print[])(const struct show *, FILE *) = {[SHOW_TABLE] = print_table,
                                                                      [SHOW_CSV] = print_csv,
                                                                      [SHOW_JSON] = print_json,
                                                                      [SHOW_MARKDOWN] = print_markdown,
                                                                      [SHOW_MLLOG] = print_mllog};
    return print[s->options->format](s, to);
}

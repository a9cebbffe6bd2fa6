#include "cli/records/records.h"

#include "cli/text/text.h"
#include "lib/base/text.h"
#include "lib/config/json.h"

#include <math.h>
#include <string.h>

/* Prints a comparison as text for a terminal, and as Markdown, with the same cells. */

enum { COLUMNS = 9, RATE = 1, PEAK = 5, CELL_BYTES = 256, TEXT_BYTES = 2048 };

struct cells {
    char text[COLUMNS][CELL_BYTES];
};

static const struct {
    const char *title;
    int flags;
} columns[COLUMNS] = {
    {"experiment", TABLE_LEFT},
    {"s/s\nbase", TABLE_RIGHT | TABLE_STAYS}, /* after the unit */
    {"\nnew", TABLE_RIGHT | TABLE_STAYS},
    {"\nratio", TABLE_RIGHT | TABLE_STAYS},
    {"\ninterval", TABLE_RIGHT | TABLE_STAYS},
    {"peak\nbase", TABLE_RIGHT | TABLE_STAYS},
    {"\nnew", TABLE_RIGHT | TABLE_STAYS},
    {"losses", TABLE_LEFT},
    {"verdict", TABLE_LEFT | TABLE_STAYS},
};

/* The unit that a record's model counts. */
static const char *unit_counted(const struct record_facts *record)
{
    return *record->metrics.unit ? record->metrics.unit : "token";
}

/* The unit that all records count; "unit" if they differ. */
static const char *unit_of_all(const struct compare *c)
{
    const char *unit = NULL;
    for (int i = 0; i < 2 * c->count; i++) {
        const struct record_facts *record = i % 2 ? c->rows[i / 2].new : c->rows[i / 2].base;
        unit = unit_in_common(unit, record ? unit_counted(record) : NULL);
    }
    return unit ? unit : "token";
}

static struct unit unit_of(const struct compare *c)
{
    double largest = 0;
    for (int i = 0; i < c->count; i++) {
        largest = c->rows[i].base ? fmax(largest, c->rows[i].base->metrics.peak_bytes.total) : largest;
        largest = c->rows[i].new ? fmax(largest, c->rows[i].new->metrics.peak_bytes.total) : largest;
    }
    return unit_for_bytes(largest);
}

static void number(char *cell, double value)
{
    char text[FORMAT_BYTES];
    snprintf(cell, CELL_BYTES, "%s", format_number(value, text));
}

static void fill(const struct comparison *row, const struct unit *bytes, struct cells *out)
{
    const struct dt_ratio *ratio = &row->ratio;
    snprintf(out->text[0], CELL_BYTES, "%s", row->label);
    number(out->text[1], row->base ? row->base_steps.units_per_s : NAN);
    number(out->text[2], row->new ? row->new_steps.units_per_s : NAN);
    snprintf(out->text[3], CELL_BYTES, "-");
    snprintf(out->text[4], CELL_BYTES, "-");
    if (!isnan(ratio->ratio))
        snprintf(out->text[3], CELL_BYTES, "%.3f", ratio->ratio);
    if (!isnan(ratio->low))
        snprintf(out->text[4], CELL_BYTES, "%.3f to %.3f", ratio->low, ratio->high);
    number(out->text[5], row->base ? row->base->metrics.peak_bytes.total / bytes->size : NAN);
    number(out->text[6], row->new ? row->new->metrics.peak_bytes.total / bytes->size : NAN);
    snprintf(out->text[7], CELL_BYTES, "%s", row->losses == LOSSES_UNKNOWN ? "-" : compare_losses_name(row->losses));
    snprintf(out->text[8], CELL_BYTES, "%s", compare_verdict_name(row->verdict));
}

/* "throughput, losses" */
static const char *gates_text(unsigned gates, char *text, size_t text_bytes)
{
    text[0] = 0;
    for (unsigned gate = 1; gate < GATE_ALL; gate <<= 1)
        if (gates & gate)
            dt_append(text, text_bytes, ", ", "%s", compare_gate_name((enum compare_gate)gate));
    return text;
}

static void add_counts(struct line *line, const struct compare *c, const struct compare_options *o)
{
    line_add(line, "%d %s%s:", c->count, o->by ? "pair" : "experiment", c->count == 1 ? "" : "s");
    const char *separator = " ";
    for (int v = 0; v < COMPARE_VERDICTS; v++) {
        if (c->counts[v] == 0)
            continue;
        line_add(line, "%s%d %s", separator, c->counts[v], compare_verdict_name((enum compare_verdict)v));
        separator = ", ";
    }
    if (c->alone > 0)
        line_add(line, "; %d experiment%s without a partner", c->alone, c->alone == 1 ? "" : "s");
}

static void add_method(struct line *line, const struct compare_options *o)
{
    line_add(line, "ratio: new throughput over base (%s) with its %.0f %% %sinterval; threshold %g %%",
             o->shortest ? "the shortest step of all runs" : "Hodges-Lehmann, all pairs of timed steps", DT_RATIO_CONFIDENCE * 100,
             o->shortest ? "" : "Mann-Whitney ", o->threshold * 100);
}

static enum colour colour_of(const struct comparison *row)
{
    if (row->regressions)
        return COLOUR_RED;
    bool good = row->verdict == COMPARE_SAME || row->verdict == COMPARE_FASTER || row->verdict == COMPARE_FIXED;
    return good ? COLOUR_GREEN : COLOUR_YELLOW;
}

dt_status compare_print_table(const struct compare *c, const struct compare_options *o, FILE *to)
{
    struct unit bytes = unit_of(c);
    struct table *table = table_create();
    struct cells cells;
    char gates[128], remark[TEXT_BYTES];
    struct line line;
    bool colour = terminal_has_colour(to);
    for (int i = 0; i < COLUMNS; i++)
        table_column(table, columns[i].flags, "%s%s%s%s", i == RATE ? unit_of_all(c) : "", i == PEAK ? "peak " : columns[i].title,
                     i == PEAK ? bytes.name : "", i == PEAK ? "\nbase" : "");
    for (int i = 0; i < c->count; i++) {
        const struct comparison *row = &c->rows[i];
        fill(row, &bytes, &cells);
        for (int j = 0; j < COLUMNS - 1; j++)
            table_text(table, cells.text[j]);
        table_colour_cell(table, colour ? colour_of(row) : COLOUR_NONE, cells.text[COLUMNS - 1]);
    }
    dt_status status = table_end(table, to);
    fputc('\n', to);
    for (int i = 0; i < c->count; i++) {
        const struct comparison *row = &c->rows[i];
        if (row->regressions)
            line_print(to, "REGRESSION %s (%s)%s%s", row->label, gates_text(row->regressions, gates, sizeof gates),
                       *row->reason ? ": " : "", row->reason);
        else if (*row->reason)
            line_print(to, "%s: %s", row->label, row->reason);
    }
    for (int i = 0; compare_remark(c, i, remark, sizeof remark); i++)
        if (*remark)
            line_print(to, "%s", remark);
    line_begin(&line, to);
    add_counts(&line, c, o);
    line_add(&line, "; %d regression%s", c->regressions, c->regressions == 1 ? "" : "s");
    line_end(&line);
    line_begin(&line, to);
    add_method(&line, o);
    line_end(&line);
    return status;
}

dt_status compare_print_markdown(const struct compare *c, const struct compare_options *o, FILE *to)
{
    struct unit bytes = unit_of(c);
    struct cells cells;
    struct line line;
    char gates[128], remark[TEXT_BYTES];
    fprintf(to, "### dtbench compare: %s\n\n", c->regressions ? "regression" : "no regression");
    const char *unit = unit_of_all(c);
    fprintf(to, "| experiment | base %ss/s | new %ss/s | ratio | interval | base peak %s | new peak %s | losses | verdict |\n", unit, unit,
            bytes.name, bytes.name);
    fprintf(to, "|---|---:|---:|---:|---:|---:|---:|---|---|\n");
    for (int i = 0; i < c->count; i++) {
        fill(&c->rows[i], &bytes, &cells);
        for (int j = 0; j < COLUMNS; j++) {
            fputs("| ", to);
            fputs(j == COLUMNS - 1 && c->rows[i].regressions ? "**" : "", to);
            text_print_markdown(cells.text[j], to);
            fputs(j == COLUMNS - 1 && c->rows[i].regressions ? "** " : " ", to);
        }
        fputs("|\n", to);
    }
    fputc('\n', to);
    for (int i = 0; i < c->count; i++) {
        const struct comparison *row = &c->rows[i];
        if (!row->regressions && !*row->reason)
            continue;
        fputs("- ", to);
        text_print_markdown(row->label, to);
        if (row->regressions)
            fprintf(to, ": **regression** in %s", gates_text(row->regressions, gates, sizeof gates));
        fputs(*row->reason ? ": " : "", to);
        text_print_markdown(row->reason, to);
        fputc('\n', to);
    }
    for (int i = 0; compare_remark(c, i, remark, sizeof remark); i++) {
        if (!*remark)
            continue;
        fputs("- ", to);
        text_print_markdown(remark, to);
        fputc('\n', to);
    }
    fputc('\n', to);
    line_begin(&line, to);
    add_counts(&line, c, o);
    line_add(&line, "; %d regression%s. ", c->regressions, c->regressions == 1 ? "" : "s");
    add_method(&line, o);
    line_add(&line, ".");
    line_end(&line);
    return DT_OK;
}

/* ---- as JSON ---- */

/* One side of a pair; null if it is missing. */
static struct cJSON *side_as_json(const struct record_facts *record, const struct compare_steps *steps)
{
    if (!record)
        return dt_json_text(NULL);
    char key[DT_RATE_KEY_BYTES];
    return dt_json_object("config_hash: %s, file: %s, status: %s, started: %p, %s: %g, step_s: %g, steps: %d, runs: %d, "
                          "peak_bytes: %g",
                          record->hash, record->file, record->status, dt_json_known(record->started),
                          dt_rate_key(unit_counted(record), key), steps->units_per_s, record->metrics.step_s.median, steps->count,
                          steps->runs, record->metrics.peak_bytes.total);
}

static struct cJSON *gates_as_json(unsigned gates)
{
    char text[128];
    return dt_json_words(gates_text(gates, text, sizeof text), ", ");
}

static struct cJSON *row_as_json(const struct comparison *row)
{
    const struct record_facts *record = row->new ? row->new : row->base;
    const struct dt_ratio *ratio = &row->ratio;
    return dt_json_object("experiment: %s, config_hash: %s, verdict: %s, regressions: %p, reason: %p, throughput_ratio: %g, interval: %p, "
                          "interval_widened: %g, slowdown_excluded: %p, peak_bytes_change: %g, losses: %s, "
                          "first_step_with_other_loss: %g, base: %p, new: %p",
                          row->label, record->hash, compare_verdict_name(row->verdict), gates_as_json(row->regressions),
                          dt_json_known(row->reason), ratio->ratio, dt_json_numbers((const double[]){ratio->low, ratio->high}, 2),
                          ratio->widened, isnan(ratio->ratio) ? dt_json_text(NULL) : dt_json_truth(row->no_slowdown), row->memory_bytes,
                          compare_losses_name(row->losses), row->loss_step >= 0 ? row->loss_step + 1.0 : NAN,
                          side_as_json(row->base, &row->base_steps), side_as_json(row->new, &row->new_steps));
}

dt_status compare_print_json(const struct compare *c, const struct compare_options *o, FILE *to)
{
    struct cJSON *counts = dt_json_object(""), *rows = dt_json_array();
    for (int v = 0; v < COMPARE_VERDICTS; v++)
        dt_json_add(&counts, "%s: %d", compare_verdict_name((enum compare_verdict)v), c->counts[v]);
    for (int i = 0; i < c->count; i++)
        dt_json_append(&rows, row_as_json(&c->rows[i]));
    return dt_json_write(
        dt_json_object("threshold: %g, gates: %p, confidence: %g, method: %s, different: %p, noted: %p, predicted: %p, by: %p, alone: %d, "
                       "regressions: %d, verdicts: %p, experiments: %p",
                       o->threshold, gates_as_json(o->gates), DT_RATIO_CONFIDENCE,
                       o->shortest ? "ratio of throughput by the shortest step of all runs, interval by the density of the shortest"
                                   : "Hodges-Lehmann ratio of throughput over all pairs of timed steps, Mann-Whitney interval",
                       dt_json_known(c->different), dt_json_known(c->noted), dt_json_known(c->predicted),
                       dt_json_text(o->by ? o->by->keys : NULL), c->alone, c->regressions, counts, rows),
        to);
}

/* ---- as JUnit's XML, which GitLab, Jenkins and others show as tests: an experiment is a test
 * case, a regression its failure ---- */

/* Write text of an element or attribute, UTF-8. XML 1.0 allows neither control characters, in
 * whatever form, nor U+FFFE and U+FFFF. */
static void put(const char *foreign, FILE *to)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%s", foreign);
    dt_printable(text);
    for (const char *at = text; *at; at++) {
        char c = *at;
        if (strncmp(at, "\xef\xbf\xbe", 3) == 0 || strncmp(at, "\xef\xbf\xbf", 3) == 0) {
            fputc('?', to);
            at += 2;
        } else if (c == '&')
            fputs("&amp;", to);
        else if (c == '<')
            fputs("&lt;", to);
        else if (c == '>')
            fputs("&gt;", to);
        else if (c == '"')
            fputs("&quot;", to);
        else
            fputc(c, to);
    }
}

static void put_details(const struct comparison *row, FILE *to)
{
    if (!isnan(row->ratio.low))
        fprintf(to, "throughput ratio %.4f, interval %.4f to %.4f\n", row->ratio.ratio, row->ratio.low, row->ratio.high);
    put(row->reason, to);
}

static void put_case(const struct comparison *row, FILE *to)
{
    const struct record_facts *record = row->new ? row->new : row->base;
    double seconds = 0;
    for (int i = 0; i < row->new_steps.count; i++)
        seconds += isfinite(row->new_steps.step_s[i]) ? row->new_steps.step_s[i] : 0;
    fputs("    <testcase classname=\"", to);
    put(record->experiment ? record->experiment->name : "dtbench", to);
    fputs("\" name=\"", to);
    put(row->label, to);
    fprintf(to, "\" time=\"%.6f\">\n", seconds);
    if (row->regressions) {
        fprintf(to, "      <failure type=\"%s\" message=\"%s", compare_verdict_name(row->verdict), compare_verdict_name(row->verdict));
        for (unsigned gate = 1; gate < GATE_ALL; gate <<= 1)
            if (row->regressions & gate)
                fprintf(to, ", regression in %s", compare_gate_name((enum compare_gate)gate));
        fputs("\">", to);
        put_details(row, to);
        fputs("</failure>\n", to);
    } else if (!row->new) {
        fputs("      <skipped message=\"missing\"/>\n", to);
    } else {
        fprintf(to, "      <system-out>%s\n", compare_verdict_name(row->verdict));
        put_details(row, to);
        fputs("</system-out>\n", to);
    }
    fputs("    </testcase>\n", to);
}

void compare_print_junit_error(const char *error, FILE *to)
{
    fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                "  <testsuite name=\"dtbench compare\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">\n"
                "    <testcase classname=\"dtbench\" name=\"compare\">\n      <error message=\"nothing was compared\">");
    put(error, to);
    fputs("</error>\n    </testcase>\n  </testsuite>\n</testsuites>\n", to);
}

dt_status compare_print_junit(const struct compare *c, const struct compare_options *o, FILE *to)
{
    int skipped = 0;
    (void)o;
    for (int i = 0; i < c->count; i++)
        skipped += !c->rows[i].new && !c->rows[i].regressions;
    fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    fprintf(to, "  <testsuite name=\"dtbench compare\" tests=\"%d\" failures=\"%d\" errors=\"0\" skipped=\"%d\">\n", c->count,
            c->regressions, skipped);
    if (*c->predicted) {
        fputs("    <properties><property name=\"predicted\" value=\"", to);
        put(c->predicted, to);
        fputs("\"/></properties>\n", to);
    }
    for (int i = 0; i < c->count; i++)
        put_case(&c->rows[i], to);
    fprintf(to, "  </testsuite>\n</testsuites>\n");
    return DT_OK;
}

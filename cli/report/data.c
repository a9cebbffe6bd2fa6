#include "cli/report/report.h"

#include "cli/text/text.h"
#include "lib/base/text.h"
#include "lib/record/metrics.h"
#include "lib/record/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANY_LINES = 2000 }; /* above this number of lines values have fewer digits (report.h) */

bool report_wish(const void *context, const char *name)
{
    static const char *const names[] = {"step_s.median", "step_s.cv",   "mfu",         "scaling_efficiency",
                                        "forward_s",     "backward_s",  "optimizer_s", "exposed_comm_s",
                                        "bubble_s",      "host_s",      "bubble",      "bubble_ideal",
                                        "comm_bytes",    "device_name", "processor",   "dtbench",
                                        "git_commit",    "driver",      "doubts",      "started"};
    bool wanted = dt_metric_named(name).is_rate || strncmp(name, "peak_bytes.", 11) == 0 || strcmp(name, "host_peak_bytes.total") == 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !wanted; i++)
        wanted = strcmp(name, names[i]) == 0;
    return wanted && !strstr(name, "by_ranks");
}

static void put_text(const char *text, FILE *to)
{
    fputc('"', to);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if ((unsigned char)*c < ' ')
            fprintf(to, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, to);
    }
    fputc('"', to);
}

static void put_value(const struct results *r, int row, int column, FILE *to)
{
    char number[32];
    const char *text = results_text(r, row, column, number);
    switch (results_kind(r, row, column)) {
    case RESULT_NONE: fputs("null", to); break;
    case RESULT_TEXT: put_text(text, to); break;
    case RESULT_NUMBER:
    case RESULT_TRUTH: fputs(text, to); break;
    }
}

/* ---- which columns ---- */

/* Write a key that is not a metric: its different values, and for each line the number of its
 * value. */
static dt_status put_key(const struct result_lines *l, int column, bool config, bool usual, const char *before, FILE *to)
{
    const struct results *r = l->results;
    const char *name = results_name(r, column);
    int values = 0; /* the number of each value among those of this key, from 1 */
    DT_FREED int *place = calloc((size_t)results_ids(r) + 1, sizeof *place);
    DT_TRY(dt_allocated(place, "no memory for a report"));
    fprintf(to, "%s{\"name\":\"%s\",\"title\":\"%s\",\"config\":%s,\"usual\":%s,\"values\":[", before, name,
            config ? experiment_key_title(name) : name, config ? "true" : "false", usual ? "true" : "false");
    for (int i = 0; i < l->count; i++) {
        int row = result_line_row(l, i), id = results_id(r, row, column);
        if (place[id])
            continue;
        place[id] = ++values;
        fputs(values > 1 ? "," : "", to);
        put_value(r, row, column, to);
    }
    fputs("],\"rows\":[", to);
    for (int i = 0; i < l->count; i++)
        fprintf(to, i ? ",%d" : "%d", place[results_id(r, result_line_row(l, i), column)] - 1);
    fputs("]}", to);
    return DT_OK;
}

static const char *kind_of(const struct dt_metric_name *metric)
{
    return metric->is_rate       ? "rate"
           : metric->is_fraction ? "fraction"
           : metric->is_seconds  ? "seconds"
           : metric->is_bytes    ? "bytes"
                                 : "number";
}

static void put_metric(const struct result_lines *l, int column, const char *before, FILE *to)
{
    const char *name = results_name(l->results, column);
    struct dt_metric_name metric = dt_metric_named(name);
    bool shown = (metric.is_rate && strcmp(name, "samples_per_s") != 0) ||
                 dt_is_one_of(name, "step_s.median mfu scaling_efficiency peak_bytes.total exposed_comm_s bubble");
    fprintf(to, "%s{\"name\":\"%s\",\"title\":\"%s\",\"unit\":\"%s\",\"kind\":\"%s\",\"usual\":%s,\"rows\":[", before, name, metric.title,
            metric.unit, kind_of(&metric), shown ? "true" : "false");
    for (int i = 0; i < l->count; i++) {
        double value = result_line_number(l, i, column);
        fputs(i ? "," : "", to);
        if (isnan(value))
            fputs("null", to);
        else
            fprintf(to, "%.*g", l->count <= MANY_LINES ? 6 : metric.is_rate ? 5 : 3, value);
    }
    fputs("]}", to);
}

/* ---- facts about all records ---- */

/* Write up to eight values of a fact, each with the number of lines that have it. */
static void put_provenance(const struct result_lines *l, const char *name, const char *before, FILE *to)
{
    enum { MOST = 8 };
    int column = results_find(l->results, name), rows[MOST], counts[MOST] = {0}, found = 0;
    for (int i = 0; i < l->count && column >= 0; i++) {
        int row = result_line_row(l, i), at = 0;
        while (at < found && !results_same(l->results, rows[at], row, column))
            at++;
        if (at == found && found < MOST)
            rows[found++] = row;
        if (at < found)
            counts[at]++;
    }
    fprintf(to, "%s{\"name\":\"%s\",\"values\":[", before, name);
    bool any = false;
    for (int i = 0; i < found; i++) {
        if (results_kind(l->results, rows[i], column) == RESULT_NONE)
            continue;
        fputs(any ? ",[" : "[", to);
        put_value(l->results, rows[i], column, to);
        fprintf(to, ",%d]", counts[i]);
        any = true;
    }
    fputs(any ? "]}" : "[\"unknown\",0]]}", to);
}

static void put_predicted(const struct result_lines *l, FILE *to)
{
    struct predictions all = {0};
    char text[PREDICTIONS_BYTES], numbers[3][32];
    int device = results_find(l->results, "config.device"), cluster = results_find(l->results, "config.cluster"),
        profile = results_find(l->results, "config.profile");
    for (int i = 0; i < l->count && device >= 0; i++) {
        int row = result_line_row(l, i);
        if (dt_device_is_simulated(results_text(l->results, row, device, numbers[0])) && cluster >= 0 && profile >= 0)
            predictions_add_files(&all, results_text(l->results, row, cluster, numbers[1]),
                                  results_text(l->results, row, profile, numbers[2]));
        else
            all.measured++;
    }
    put_text(predictions_describe(&all, text), to);
}

/* "orders: 35 experiments of dtbench 1.0.0" */
static void put_title(const struct result_lines *l, FILE *to)
{
    int name = results_find(l->results, "name");
    char number[32], text[256] = "dtbench report";
    if (name >= 0 && !result_lines_differ(l, name, false))
        snprintf(text, sizeof text, "%.200s", results_text(l->results, result_line_row(l, 0), name, number));
    fputs("\"title\":", to);
    put_text(text, to);
    int runs = 0;
    for (int i = 0; i < l->count; i++)
        runs += l->lines[i].runs;
    fprintf(to, ",\"about\":\"%d experiment%s", l->count, l->count == 1 ? "" : "s");
    if (runs > l->count)
        fprintf(to, " in %d runs: medians", runs);
    fprintf(to, "; written by dtbench %s (%s)\"", dt_version(), dt_git_commit());
}

static void put_constants(const struct result_lines *l, FILE *to)
{
    const struct results *r = l->results;
    const char *before = "";
    fputs(",\"constant\":{", to);
    for (int c = 0; c < results_columns(r); c++) {
        if (results_part(r, c) != RESULT_OF_CONFIG || !results_has_values(r, c) || result_lines_differ(l, c, true))
            continue;
        fprintf(to, "%s\"%s\":", before, results_name(r, c));
        put_value(r, result_line_row(l, 0), c, to);
        before = ",";
    }
    fputs("},\"order\":[", to);
    before = "";
    for (int c = 0; c < results_columns(r); c++) {
        if (results_part(r, c) != RESULT_OF_CONFIG || !results_has_values(r, c))
            continue;
        fprintf(to, "%s\"%s\"", before, results_name(r, c));
        before = ",";
    }
    fputs("]", to);
}

static void put_keys(const struct result_lines *l, FILE *to)
{
    const struct results *r = l->results;
    static const char *const others[] = {"status", "error", "doubts"};
    const char *before = "";
    enum { MOST = 64 };
    int paradigm = results_find(r, "paradigm"), shown[MOST], count = 0;
    for (int c = 0; c < results_columns(r) && count < MOST; c++)
        if (results_part(r, c) == RESULT_OF_CONFIG && results_has_values(r, c) && result_lines_differ(l, c, false))
            shown[count++] = c;
    fputs(",\"keys\":[", to);
    for (int c = 0; c < results_columns(r); c++) {
        if (results_part(r, c) != RESULT_OF_CONFIG || !results_has_values(r, c) || (!result_lines_differ(l, c, true) && c != paradigm))
            continue;
        bool differs = result_lines_differ(l, c, false), alone = !differs && result_lines_tell_apart(l, c, shown, count);
        if (alone && count < MOST)
            shown[count++] = c;
        (void)put_key(l, c, true, c == paradigm || differs || alone, before, to);
        before = ",";
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        int column = results_find(r, others[i]);
        if (column < 0 || !results_has_values(r, column))
            continue;
        (void)put_key(l, column, false, true, before, to);
        before = ",";
    }
    fputs("],\"metrics\":[", to);
    before = "";
    for (int c = 0; c < results_columns(r); c++) {
        if (results_part(r, c) != RESULT_OF_METRICS || !results_has_values(r, c))
            continue;
        put_metric(l, c, before, to);
        before = ",";
    }
    fputs("]", to);
}

void report_write_data(const struct result_lines *l, const struct report_parts *parts, FILE *to)
{
    static const char *const facts[] = {"device_name", "processor", "driver", "dtbench", "git_commit"};
    int rate = result_lines_rate(l);
    fputs("{", to);
    put_title(l, to);
    fputs(",\"predicted\":", to);
    put_predicted(l, to);
    fprintf(to, ",\"rows\":%d,\"rate\":", l->count);
    put_text(rate < 0 ? "" : results_name(l->results, rate), to);
    put_constants(l, to);
    put_keys(l, to);
    fputs(",\"provenance\":[", to);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        put_provenance(l, facts[i], i ? "," : "", to);
    fprintf(to, "],\"compare\":%s,\"plan\":%s,\"pipelines\":%s}", parts->compare ? parts->compare : "null",
            parts->plan ? parts->plan : "null", parts->pipelines ? parts->pipelines : "null");
}

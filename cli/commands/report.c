/* `dtbench report`: records as one page that opens offline. */
#include "cli/commands/commands.h"

#include "cli/predict/predict.h"
#include "cli/records/records.h"
#include "cli/report/report.h"
#include "cli/text/text.h"
#include "lib/base/output_file.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

struct command_options {
    struct option_list records, where;
    const char *output, *base, *plan;
};

#define DEFAULT_PAGE "report.html"
#define AT(member) offsetof(struct command_options, member)

static const struct option_row options[] = {
    {"output", 'o', OPTION_TEXT, AT(output), "FILE", NULL, "the page; default: report.html"},
    {"where", 'w', OPTION_LIST, AT(where), "KEY=VALUE", NULL,
     "only records that meet a condition, as in dtbench show; any number of times"},
    {"base", 'b', OPTION_TEXT, AT(base), "RECORDS", NULL, "also compare with these records, as dtbench compare does"},
    {"plan", 'p', OPTION_TEXT, AT(plan), "FILE", NULL, "also show the answer of dtbench plan --json, saved in FILE, with its reasons"},
    {0},
};

/* ---- pictures of pipelines ---- */

enum { PIPELINES = 8, PIPELINE_COLUMNS = 400 };

/* Add a picture from the text of `dtbench check --plan`: the first line is its title, each rank's
 * line has a letter for each pass, and the last line explains the letters. */
static dt_status add_pipeline(cJSON **pipelines, char *text)
{
    cJSON *lines = dt_json_array();
    char *title = strtok(text, "\n"), *legend = "";
    for (char *line = strtok(NULL, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "rank ", 5) == 0)
            dt_json_append(&lines, dt_json_text(line + 5 + strspn(line + 5, "0123456789 ")));
        else
            legend = line;
    }
    dt_json_append(pipelines, dt_json_object("title: %s, legend: %s, lines: %p", title ? title : "", legend, lines));
    return dt_allocated(*pipelines, "no memory for a report");
}

static dt_status draw_pipeline(const struct result_lines *l, int line, cJSON **pipelines)
{
    DT_DESTROYED(dt_json_destroy) cJSON *record = NULL;
    DT_FREED char *config = NULL, *text = NULL;
    DT_FREED struct experiment *experiment = NULL;
    size_t bytes;
    int count;
    DT_TRY(results_record(l->results, result_line_row(l, line), &record));
    DT_TRY(dt_json_print(cJSON_GetObjectItemCaseSensitive(record, "config"), DT_JSON_COMPACT, &config));
    if (experiments_parse(config, strlen(config), "a record's config", NULL, 0, &experiment, &count) < 0)
        return DT_OK; /* the config is another version's */
    FILE *stream = open_memstream(&text, &bytes);
    DT_TRY(dt_allocated(stream, "no memory for a report"));
    bool drawn = plan_print(experiment, PIPELINE_COLUMNS, stream) == DT_OK;
    fclose(stream);
    return drawn ? add_pipeline(pipelines, text) : DT_OK;
}

/* Draw the fastest experiment of each order. */
static dt_status draw_pipelines(const struct result_lines *l, char **out)
{
    const struct results *r = l->results;
    int order = results_find(r, "pipeline.order"), stages = results_find(r, "pipeline.stages"), rate = result_lines_rate(l);
    int best[PIPELINES], found = 0;
    for (int i = 0; i < l->count && order >= 0 && stages >= 0 && rate >= 0; i++) {
        int at = 0;
        if (!(results_number(r, result_line_row(l, i), stages) > 1) || !result_line_is_ok(l, i))
            continue;
        while (at < found && !results_same(r, result_line_row(l, best[at]), result_line_row(l, i), order))
            at++;
        if (at == PIPELINES)
            continue;
        if (at == found)
            best[found++] = i;
        else if (result_line_number(l, i, rate) > result_line_number(l, best[at], rate))
            best[at] = i;
    }
    DT_DESTROYED(dt_json_destroy) cJSON *pipelines = dt_json_array();
    for (int i = 0; i < found; i++)
        DT_TRY(draw_pipeline(l, best[i], &pipelines));
    return dt_json_print(pipelines, DT_JSON_COMPACT, out);
}

/* ---- the other parts ---- */

static dt_status compare_with(const struct command_options *o, char **out)
{
    const struct compare_options how = {.threshold = 0.05, .gates = GATE_ALL, .allow_different = true};
    DT_ENDED(record_set_finish) struct record_set base = {0}, new = {0};
    DT_ENDED(compare_finish) struct compare compare = {0};
    size_t bytes;
    DT_TRY(record_set_read(&base, "report", &o->base, 1));
    DT_TRY(record_set_read(&new, "report", o->records.items, o->records.count));
    DT_TRY(compare_records(&base, &new, &how, &compare));
    FILE *stream = open_memstream(out, &bytes);
    DT_TRY(dt_allocated(stream, "no memory for a report"));
    dt_status status = compare_print_json(&compare, &how, stream);
    fclose(stream);
    return status;
}

static dt_status read_plan(const char *path, char **out)
{
    DT_DESTROYED(dt_json_destroy) cJSON *plan = NULL;
    DT_TRY(dt_json_read(path, path, &plan));
    if (!cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(plan, "plans")))
        return dt_fail(DT_ERR_INVALID, "%s: expected what dtbench plan --json prints: an object with \"plans\"", path);
    return dt_json_print(plan, DT_JSON_COMPACT, out);
}

static dt_status spare(void *context, const char *path, const char *name)
{
    const struct command_options *o = context;
    return dt_output_spares("--output", o->output ? o->output : DEFAULT_PAGE, path);
}

/* The page never takes the place of what it is made from. */
static dt_status spare_all(struct command_options *o)
{
    DT_TRY(record_files_visit(o->records.items, o->records.count, spare, o));
    if (o->base)
        DT_TRY(record_files_visit(&o->base, 1, spare, o));
    return o->plan ? spare(o, o->plan, o->plan) : DT_OK;
}

static dt_status write_page(const struct command_options *o, const struct result_lines *lines, const struct report_parts *parts)
{
    struct dt_output_file file;
    DT_TRY(dt_output_open(o->output ? o->output : DEFAULT_PAGE, &file));
    dt_status status = report_write(lines, parts, file.stream), closed = dt_output_close(&file, status == DT_OK);
    return status < 0 ? status : closed;
}

static dt_status report_lines(const struct command_options *o, struct result_lines *lines)
{
    DT_FREED char *compare = NULL, *plan = NULL, *pipelines = NULL;
    dt_status status = DT_OK;
    for (int i = 0; i < o->where.count && status == DT_OK; i++)
        status = result_lines_keep(lines, o->where.items[i]);
    if (status == DT_OK && lines->count == 0)
        status = dt_fail(DT_ERR_INVALID, o->where.count > 0
                                             ? "no record meets the conditions of --where"
                                             : "there is no record; tables of measured runs are for dtbench validate --data FILE");
    if (status == DT_OK && o->base)
        status = compare_with(o, &compare);
    if (status == DT_OK && o->plan)
        status = read_plan(o->plan, &plan);
    DT_THEN(status, draw_pipelines(lines, &pipelines));
    return status == DT_OK ? write_page(o, lines, &(struct report_parts){compare, plan, pipelines}) : status;
}

static int run(int argc, char **argv)
{
    struct command_options o = {0};
    DT_DESTROYED(results_destroy) struct results *results = NULL;
    DT_ENDED(result_lines_finish) struct result_lines lines = {0};
    int code;
    if (!options_begin(&command_report, argc, argv, &o, NULL, &code))
        return code;
    dt_status status = results_create(report_wish, NULL, &results);
    DT_THEN(status, spare_all(&o));
    DT_THEN(status, results_read(results, "report", o.records.items, o.records.count));
    bool read = status == DT_OK;
    if (read)
        status = result_lines_find(results, &lines);
    DT_THEN(status, report_lines(&o, &lines));
    if (status == DT_OK)
        line_print(stderr, "dtbench: %d experiment%s in %s%s", lines.count, lines.count == 1 ? "" : "s", o.output ? o.output : DEFAULT_PAGE,
                   *report_chart_js
                       ? ""
                       : ", without charts: this dtbench was built without Chart.js (libjs-chart.js, which scripts/setup installs)");
    if (status == DT_OK)
        return EXIT_CODE_OK;
    return report_failure("report", status == DT_ERR_INVALID      ? EXIT_CODE_USAGE
                                    : status == DT_ERR_IO && read ? EXIT_CODE_OUTPUT
                                                                  : EXIT_CODE_CONFIG);
}

const struct command command_report = {
    .name = "report",
    .summary = "records as one page that opens offline: a table, charts, configs",
    .usage = "[OPTION]... RECORDS...",
    .description =
        "Writes one HTML file: a table of all experiments to sort and to filter, charts of any two keys, configs to copy, where the "
        "numbers come from, and pipelines as pictures; with --base a comparison, with --plan what dtbench plan advises and why. The page "
        "asks nothing of the network. Its charts are drawn by Chart.js, which is part of it.\n"
        "\n"
        "RECORDS are files, folders (all *.jsonl in them, sorted by name), quoted patterns, or '-' for standard input. Several runs of an "
        "experiment are one line, as for dtbench show.",
    .options = options,
    .argument = {"records", OPTION_LIST, AT(records), RECORDS_MISSING},
    .run = run,
};

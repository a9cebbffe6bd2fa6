/* `dtbench status`: how far a sweep is, from its records. */
#include "cli/commands/commands.h"

#include "cli/records/records.h"
#include "cli/text/text.h"

#include <math.h>
#include <stdlib.h>

struct command_options {
    struct option_list records;
    struct config_arguments config;
    bool all, json;
};

#define AT(member) offsetof(struct command_options, member)

static const struct option_row options[] = {
    {"config", 'c', OPTION_TEXT, AT(config.config), "FILE", NULL,
     "the sweep's config: names the missing experiments and forecasts their times"},
    {"set", 's', OPTION_LIST, AT(config.sets), "PATH=VALUE", NULL, "change the config as for the run; any number of times"},
    {"device", 'd', OPTION_TEXT, AT(config.device), "DEVICE", config_device_choice, "the same as --set device=DEVICE"},
    {"all", 'a', OPTION_FLAG, AT(all), NULL, NULL, "list the experiments that are done, too"},
    {"json", 'j', OPTION_FLAG, AT(json), NULL, NULL, "print JSON, with all experiments"},
    {0},
};

static dt_status check_options(void *options_read)
{
    struct command_options *o = options_read;
    if (!o->config.config && (o->config.sets.count > 0 || o->config.device))
        return dt_fail(DT_ERR_INVALID, "'%s' needs a config: --config FILE", o->config.device ? "--device" : "--set");
    return o->config.config ? config_arguments_check(&o->config) : DT_OK;
}

/* "4, 7 to 9": the places, from 1, of missing experiments without a name. */
static void print_unnamed(const struct sweep_status *sweep, FILE *to)
{
    const char *separator = "";
    struct line line;
    line_begin(&line, to);
    line_add(&line, "missing: ");
    for (int i = 0; i < sweep->count; i++) {
        if (sweep->items[i].record || sweep->items[i].experiment)
            continue;
        int last = i;
        while (last + 1 < sweep->count && !sweep->items[last + 1].record && !sweep->items[last + 1].experiment)
            last++;
        line_add(&line, last > i ? "%s%d to %d" : "%s%d", separator, i + 1, last + 1);
        separator = ", ";
        i = last;
    }
    line_add(&line, " of %d; --config FILE shows which these are", sweep->count);
    line_end(&line);
}

static void duration_cell(struct table *table, double seconds)
{
    char text[FORMAT_BYTES];
    table_text(table, isfinite(seconds) ? format_duration(seconds, text) : "-");
}

static dt_status print_items(const struct sweep_status *sweep, bool all, FILE *to)
{
    static const enum colour colours[STATE_COUNT] = {COLOUR_GREEN, COLOUR_RED, COLOUR_YELLOW, COLOUR_YELLOW};
    struct table *table = table_create();
    bool colour = terminal_has_colour(to), unnamed = false;
    int rows = 0;
    table_column(table, TABLE_RIGHT, "#");
    table_columns(table, TABLE_LEFT | TABLE_STAYS, "experiment", "state");
    table_columns(table, TABLE_RIGHT | TABLE_STAYS, "took", "expected");
    for (int i = 0; i < sweep->count; i++) {
        const struct sweep_item *item = &sweep->items[i];
        bool named = item->record || item->experiment;
        unnamed |= !named;
        if (!named || (item->state == STATE_DONE && !all))
            continue;
        table_cell(table, "%d", i + 1);
        table_text(table, item->label);
        table_colour_cell(table, colour ? colours[item->state] : COLOUR_NONE,
                          item->state == STATE_FAILED ? item->record->status : sweep_state_name(item->state));
        duration_cell(table, item->took_s);
        duration_cell(table, item->expected_s);
        rows++;
    }
    dt_status status = DT_OK;
    if (rows > 0) {
        fputc('\n', to);
        status = table_print(table, to);
    }
    table_destroy(table);
    if (unnamed || sweep->counts[STATE_FAILED] + sweep->counts[STATE_INTERRUPTED] > 0)
        fputc('\n', to);
    for (int i = 0; i < sweep->count; i++)
        if (sweep->items[i].state == STATE_FAILED || sweep->items[i].state == STATE_INTERRUPTED)
            line_print(to, "%s: %s: %s", sweep->items[i].label, sweep->items[i].record->status, sweep->items[i].record->error);
    if (unnamed)
        print_unnamed(sweep, to);
    return status;
}

static void print_summary(const struct sweep_status *sweep, FILE *to)
{
    char text[FORMAT_BYTES], predicted[PREDICTIONS_BYTES];
    struct predictions predictions = {0};
    struct line line;
    for (int i = 0; i < sweep->count; i++)
        if (sweep->items[i].experiment)
            predictions_add(&predictions, sweep->items[i].experiment);
    int left = sweep->counts[STATE_MISSING] + sweep->counts[STATE_INTERRUPTED], failed = sweep->counts[STATE_FAILED];
    line_begin(&line, to);
    if (*sweep->id)
        line_add(&line, "%s, sweep %s: %d experiment%s", *sweep->name ? sweep->name : "unnamed", sweep->id, sweep->count,
                 sweep->count == 1 ? "" : "s");
    else
        line_add(&line, "%s, outside of any sweep: %d experiment%s", *sweep->name ? sweep->name : "records", sweep->count,
                 sweep->count == 1 ? "" : "s");
    for (int s = 0; s < STATE_COUNT; s++)
        if (sweep->counts[s] > 0 || s == STATE_DONE)
            line_add(&line, "%s%d %s", s == STATE_DONE ? ": " : ", ", sweep->counts[s], sweep_state_name((enum sweep_state)s));
    line_end(&line);
    if (*predictions_describe(&predictions, predicted))
        line_print(to, "%s", predicted);
    if (left > 0 && isfinite(sweep->left_s))
        line_print(to, "time left: about %s, one experiment after another, estimated from those that are done",
                   format_duration(sweep->left_s, text));
    else if (left > 0)
        fprintf(to, "time left: unknown, because no experiment is done yet\n");
    if (failed > 0 && isfinite(sweep->failed_s))
        fprintf(to, "to run again what failed: about %s at most\n", format_duration(sweep->failed_s, text));
}

static dt_status print_text(const struct sweep_statuses *statuses, bool all, FILE *to)
{
    for (int s = 0; s < statuses->count; s++) {
        fputs(s > 0 ? "\n" : "", to);
        print_summary(&statuses->sweeps[s], to);
        DT_TRY(print_items(&statuses->sweeps[s], all, to));
    }
    if (statuses->count == 0)
        fprintf(to, "no records\n");
    if (statuses->others > 0) {
        fputc('\n', to);
        line_print(to, "%d record%s of experiments that are not in this config", statuses->others, statuses->others == 1 ? "" : "s");
    }
    return DT_OK;
}

static int print_statuses(const struct record_set *set, const struct experiment_list *experiments, const struct command_options *o)
{
    DT_ENDED(sweep_statuses_finish) struct sweep_statuses statuses = {0};
    dt_status status = sweep_statuses_find(set, experiments, &statuses);
    DT_THEN(status, o->json ? sweep_statuses_print_json(&statuses, stdout) : print_text(&statuses, o->all, stdout));
    return status == DT_OK ? EXIT_CODE_OK : report_failure("status", EXIT_CODE_OTHER);
}

static int run(int argc, char **argv)
{
    struct command_options o = {0};
    DT_ENDED(record_set_finish) struct record_set set = {0};
    DT_DESTROYED(experiment_list_destroy) struct experiment_list *experiments = NULL;
    int code;
    if (!options_begin(&command_status, argc, argv, &o, check_options, &code))
        return code;
    if (o.config.config && config_arguments_read(&o.config, &experiments) < 0)
        return report_failure("status", EXIT_CODE_CONFIG);
    if (experiments)
        config_note_left_out(experiments);
    code = record_arguments_read("status", o.records.items, o.records.count, true, &set);
    if (code == EXIT_CODE_OK)
        code = print_statuses(&set, experiments, &o);
    return code;
}

const struct command command_status = {
    .name = "status",
    .summary = "print how far a sweep has come, from its records",
    .usage = "[OPTION]... RECORDS...",
    .description = "Prints for each sweep in RECORDS what is done, what failed and why, what is missing, and how long the rest will "
                   "take, one experiment after another. A record names its sweep and its place in it, so the files of all jobs "
                   "together are enough.\n"
                   "\n" RECORD_ARGUMENTS_HELP,
    .options = options,
    .argument = {"records", OPTION_LIST, AT(records), RECORDS_MISSING},
    .run = run,
};

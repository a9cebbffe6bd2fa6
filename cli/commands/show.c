/* `dtbench show`: prints the table of records again, sorted and filtered, or the fastest
 * experiments. */
#include "cli/commands/commands.h"

#include "cli/records/show.h"
#include "cli/text/text.h"

struct command_options {
    struct option_list records;
    const char *format;
    struct show_options show;
};

#define AT(member) offsetof(struct command_options, member)

static const struct option_row options[] = {
    {"sort", 's', OPTION_TEXT, AT(show.sort), "KEY", NULL, "sort by this key, smallest first; -KEY: largest first"},
    {"where", 'w', OPTION_LIST, AT(show.where), "KEY=VALUE", NULL,
     "only records that meet this condition; also != < <= > >=. After = and != a list may stand, of which one must match: "
     "paradigm=ddp,fsdp. Any number of times"},
    {"columns", 'c', OPTION_TEXT, AT(show.columns), "KEYS", NULL, "these columns instead of the usual ones, comma-separated"},
    {"best", 'b', OPTION_TEXT, AT(show.best), "KEYS", NULL,
     "for each value of these keys, comma-separated: the fastest experiment that is ok, and its lead over the next"},
    {"format", 'f', OPTION_TEXT, AT(format), "FORMAT", show_format_name,
     "how the result is printed; default: table. mllog is MLPerf's log, for one run. The formats are"},
    {0},
};

static dt_status check_options(void *options_read)
{
    struct command_options *o = options_read;
    int format = SHOW_TABLE;
    DT_TRY(options_read_choice("format", o->format, show_format_name, &format));
    o->show.format = (enum show_format)format;
    return DT_OK;
}

static int run(int argc, char **argv)
{
    struct command_options o = {0};
    DT_DESTROYED(results_destroy) struct results *results = NULL;
    int code;
    if (!options_begin(&command_show, argc, argv, &o, check_options, &code))
        return code;
    o.show.colour = terminal_has_colour(stdout);
    dt_status status = results_create(show_wish, &o.show, &results);
    DT_THEN(status, results_read(results, "show", o.records.items, o.records.count));
    DT_THEN(status, show_print(results, &o.show, stdout));
    if (status == DT_OK)
        return EXIT_CODE_OK;
    return report_failure("show", status == DT_ERR_INVALID ? EXIT_CODE_USAGE : status == DT_ERR_IO ? EXIT_CODE_CONFIG : EXIT_CODE_OTHER);
}

const struct command command_show = {
    .name = "show",
    .summary = "print the table of a run again: sorted, filtered, or the fastest alone",
    .usage = "[OPTION]... RECORDS...",
    .description =
        "Prints the table that dtbench run ends with, from records. Keys are those of the config and of the record's metrics and "
        "provenance by their names: pipeline.order, tokens_per_s, step_s.p95, peak_bytes.activations, git_commit. Several runs of one "
        "experiment, by one build on one device, are one line: the medians of the ok ones, and by how much the slowest run's step is "
        "longer than the fastest one's.\n"
        "\n"
        "With --best the lead is computed as in dtbench compare, over all steps of both experiments, with its interval where both have "
        "enough steps. It is unclear where a side has fewer than three runs, or where the interval includes no lead. Times of device sim "
        "have no interval.\n"
        "\n"
        "RECORDS are files, folders (all *.jsonl in them, sorted by name), quoted patterns, or '-' for standard input.",
    .options = options,
    .argument = {"records", OPTION_LIST, AT(records), RECORDS_MISSING},
    .run = run,
};

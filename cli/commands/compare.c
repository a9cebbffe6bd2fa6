/* `dtbench compare`: is a newer version slower, larger or wrong? */
#include "cli/commands/commands.h"

#include "cli/records/records.h"
#include "cli/text/text.h"

#include <stdlib.h>
#include <string.h>

#define THRESHOLD "5%"

struct command_options {
    struct option_list records;
    const char *threshold, *format, *gate, *by;
    bool allow_different, single, shortest;
};

typedef dt_status print_function(const struct compare *, const struct compare_options *, FILE *);

static const struct {
    const char *name;
    print_function *print;
} formats[] = {
    {"table", compare_print_table},
    {"json", compare_print_json},
    {"junit", compare_print_junit},
    {"markdown", compare_print_markdown},
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

static const char *format_choice(int index)
{
    return index < FORMATS ? formats[index].name : NULL;
}

enum { GATES = 5 };

/* The gates, and last the word for no gate. */
static const char *gate_choice(int index)
{
    return index < GATES ? compare_gate_name((enum compare_gate)(1 << index)) : index == GATES ? "none" : NULL;
}

#define AT(member) offsetof(struct command_options, member)

static const struct option_row options[] = {
    {"threshold", 't', OPTION_TEXT, AT(threshold), "N%", NULL,
     "a loss of throughput or a growth of memory by more than this is a regression; default: " THRESHOLD},
    {"format", 'f', OPTION_TEXT, AT(format), "FORMAT", format_choice, "how the result is printed; default: table. The formats are"},
    {"gate", 'g', OPTION_TEXT, AT(gate), "LIST", gate_choice, "what counts as a regression, comma-separated; default: all. The words are"},
    {"by", 'b', OPTION_TEXT, AT(by), "KEYS", NULL,
     "pair experiments that differ only in these keys of the config, comma-separated, such as activation or pipeline.order; BASE alone is "
     "enough; without --gate nothing is then a regression"},
    {"allow-different", 'a', OPTION_FLAG, AT(allow_different), NULL, NULL,
     "compare although devices, drivers, library versions, threads or numbers of machines differ"},
    {"shortest", 0, OPTION_FLAG, AT(shortest), NULL, NULL,
     "compare the shortest step of each run, which other work on the machine lengthens least; for eight runs a side or more that were made "
     "in turn. slower and faster then mean that the whole interval is beyond the threshold"},
    {"single", 's', OPTION_FLAG, AT(single), NULL, NULL,
     "compare the newest run of each side alone, and call it slower or faster although one run is no evidence"},
    {0},
};

static dt_status check_options(void *options_read)
{
    struct command_options *o = options_read;
    if (o->single && o->shortest)
        return dt_fail(DT_ERR_INVALID, "--shortest needs several runs, and --single uses one: leave out one of them");
    if (o->by && o->records.count == 1)
        return DT_OK;
    if (o->records.count != 2)
        return dt_fail(DT_ERR_INVALID, "expected two arguments, BASE and NEW, not %d%s", o->records.count,
                       o->records.count > 2 ? "; put a pattern in quotes" : "");
    return DT_OK;
}

/* "5%": a bare number could be taken for a fraction. */
static dt_status parse_threshold(const char *text, double *out)
{
    char *end;
    double percent = strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent < 100))
        return dt_fail(DT_ERR_INVALID, "--threshold %s: expected a percentage from 0%% to below 100%%, such as 5%%", text);
    *out = percent / 100;
    return DT_OK;
}

static dt_status parse_gates(const char *text, unsigned *out)
{
    bool chosen[GATES + 1] = {false}; /* the last for the word "none" */
    *out = 0;
    DT_TRY(options_read_words("gate", text, gate_choice, chosen));
    for (int i = 0; i < GATES; i++)
        *out |= chosen[i] ? 1U << i : 0;
    return *out && chosen[GATES] ? dt_fail(DT_ERR_INVALID, "--gate %s: none stands alone", text) : DT_OK;
}

static dt_status read_options(const struct command_options *o, struct compare_options *how, struct pairing *by, print_function **print)
{
    int format = 0;
    *how = (struct compare_options){.gates = GATE_ALL, .allow_different = o->allow_different, .single = o->single, .shortest = o->shortest};
    DT_TRY(parse_threshold(o->threshold ? o->threshold : THRESHOLD, &how->threshold));
    if (o->by) {
        DT_TRY(pairing_parse(o->by, by));
        how->by = by;
        how->gates = 0;
    }
    if (o->gate)
        DT_TRY(parse_gates(o->gate, &how->gates));
    DT_TRY(options_read_choice("format", o->format, format_choice, &format));
    *print = formats[format].print;
    return DT_OK;
}

static int compare_and_print(const struct record_set *base, const struct record_set *new, const struct compare_options *how,
                             print_function *print)
{
    DT_ENDED(compare_finish) struct compare compare = {0};
    int code = EXIT_CODE_OK;
    dt_status status = compare_records(base, new, how, &compare);
    if (status < 0 && print == compare_print_junit)
        compare_print_junit_error(dt_error_message(), stdout);
    if (status < 0)
        code = report_failure("compare", status == DT_ERR_INVALID ? EXIT_CODE_INCOMPARABLE : EXIT_CODE_OTHER);
    else if (print(&compare, how, stdout) < 0)
        code = report_failure("compare", EXIT_CODE_OTHER);
    else if (compare.regressions > 0)
        code = EXIT_CODE_REGRESSION;
    return code;
}

static int run(int argc, char **argv)
{
    struct command_options o = {0};
    struct compare_options how;
    DT_ENDED(pairing_finish) struct pairing by = {0};
    DT_ENDED(record_set_finish) struct record_set base = {0}, new = {0};
    print_function *print = NULL;
    int code;
    if (!options_begin(&command_compare, argc, argv, &o, check_options, &code))
        return code;
    code = read_options(&o, &how, &by, &print) < 0 ? report_failure("compare", EXIT_CODE_USAGE) : EXIT_CODE_OK;
    if (code == EXIT_CODE_OK)
        code = record_arguments_read("compare", &o.records.items[0], 1, false, &base);
    if (code == EXIT_CODE_OK && o.records.count > 1)
        code = record_arguments_read("compare", &o.records.items[1], 1, false, &new);
    if (code == EXIT_CODE_OK)
        code = compare_and_print(&base, o.records.count > 1 ? &new : &base, &how, print);
    return code;
}

const struct command command_compare = {
    .name = "compare",
    .summary = "compare two sets of records: faster, slower, larger, wrong",
    .usage = "[OPTION]... BASE [NEW]",
    .description = "Pairs the records of the same experiment in BASE and NEW, and prints for each pair whether throughput, peak "
                   "memory and losses have changed. BASE and NEW are each a file of records, a folder (all *.jsonl in it), a quoted "
                   "pattern, or '-' for standard input. Where an experiment has several records, the newest with status ok counts; "
                   "throughput uses the steps of all its repeats (dtbench run --repeat) by the same build. A change of throughput also "
                   "needs three runs a side: the machine may have been busy during one of them. The ratio of throughput is the median over "
                   "all pairs of a base and a new step (Hodges-Lehmann), with the 90 % interval of the Mann-Whitney statistic. The "
                   "verdicts:\n"
                   "\n"
                   "  slower   the ratio is below 1 by more than the threshold, and the interval is below 1\n"
                   "  faster   the ratio is above 1 by more than the threshold, and the interval is above 1\n"
                   "  same     the whole interval is within the threshold\n"
                   "  unclear  the interval includes the threshold: no regression; more runs make it narrower\n"
                   "  failed   was ok, and is not\n"
                   "  fixed    was not ok, and is\n"
                   "  missing  only in BASE\n"
                   "  new      only in NEW\n"
                   "\n"
                   "--by compares two settings instead of two versions: each experiment is paired with the first one that differs from it "
                   "only in the named keys.\n"
                   "\n"
                   "On the same device and libraries losses must be equal bit by bit. The exit code is 8 after a regression.",
    .options = options,
    .argument = {"records", OPTION_LIST, AT(records), NULL},
    .run = run,
};

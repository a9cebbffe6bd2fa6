/* `dtbench compare`: has a newer version become slower, larger or wrong? */
#include "cli/commands/commands.h"

#include "cli/records/compare.h"
#include "cli/text/exit_code.h"
#include "cli/text/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define THRESHOLD "5%"

struct command_options {
    struct option_list records;
    const char *threshold, *format, *gate;
    bool allow_different, pool, help;
};

static dt_status parse_options(struct command_options *o, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"threshold", 't', OPTION_TEXT, &o->threshold, "N%", "what loss of throughput, or growth of memory, is one; without it " THRESHOLD},
        {"format", 'f', OPTION_TEXT, &o->format, "FORMAT", "table, json, junit or markdown"},
        {"gate", 'g', OPTION_TEXT, &o->gate, "LIST",
         "which of throughput,status,losses,memory,missing count as a regression;\nwithout it all, with 'none' none"},
        {"allow-different", 'a', OPTION_FLAG, &o->allow_different, NULL,
         "compare also what other devices, drivers, library versions,\nthreads or numbers of machines have measured"},
        {"pool", 'p', OPTION_FLAG, &o->pool, NULL,
         "count the steps of all ok records of an experiment, not only the\nnewest's: for repeated runs of BASE and NEW in turn"},
        {"help", 'h', OPTION_FLAG, &o->help, NULL, "print this"},
        {0},
    };
    const struct option_spec spec = {
        .rows = rows,
        .argument = "records",
        .arguments = &o->records,
        .help = &o->help,
        .usage =
            "Usage: dtbench compare [OPTION]... BASE NEW\n\n"
            "Pairs the records of the same experiment in BASE and NEW and tells of each whether it has become faster or slower, whether "
            "it\n"
            "needs more memory, and whether its losses are still the same. BASE and NEW are files of records, folders of them, or quoted\n"
            "patterns; of several records of an experiment the newest ok one counts. The ratio of throughput is the median over all pairs\n"
            "of a base and a new step (Hodges-Lehmann), its 90 % interval that of the Mann-Whitney statistic. The verdicts:\n\n"
            "  slower   the ratio is below 1 by more than the threshold, and the interval is below 1\n"
            "  faster   the same in the other direction\n"
            "  same     the whole interval is within the threshold\n"
            "  unclear  the interval spans the threshold: no regression; more timed steps tell more\n"
            "  failed   was ok, and is not; fixed: the other way round\n"
            "  missing  only in BASE; new: only in NEW\n\n"
            "On the same device and libraries losses must be equal bit by bit. The exit code is 8 for a regression, else 0.\n"};
    DT_TRY(options_parse(&spec, argc, argv));
    if (o->help)
        return DT_OK;
    if (o->records.count != 2)
        return dt_fail(DT_ERR_INVALID, "needs two files of records, BASE and NEW, and there %s %d%s", o->records.count == 1 ? "is" : "are",
                       o->records.count, o->records.count > 2 ? "; put a pattern in quotes" : "");
    return DT_OK;
}

/* "5%": a bare number could be taken for a fraction. */
static dt_status parse_threshold(const char *text, double *out)
{
    char *end;
    double percent = strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent < 100))
        return dt_fail(DT_ERR_INVALID, "--threshold %s: a percentage from 0%% to below 100%% is wanted, such as 5%%", text);
    *out = percent / 100;
    return DT_OK;
}

static dt_status parse_gates(const char *text, unsigned *out)
{
    *out = 0;
    if (strcmp(text, "none") == 0)
        return DT_OK;
    for (const char *part = text;; part++) {
        size_t length = strcspn(part, ",");
        unsigned found = 0;
        for (unsigned gate = 1; gate < GATE_ALL; gate <<= 1) {
            const char *name = compare_gate_name((enum compare_gate)gate);
            if (strlen(name) == length && strncmp(name, part, length) == 0)
                found = gate;
        }
        if (!found)
            return dt_fail(DT_ERR_INVALID, "--gate %s: '%.*s' is none of throughput, status, losses, memory, missing, none", text,
                           (int)length, part);
        *out |= found;
        part += length;
        if (!*part)
            return DT_OK;
    }
}

typedef dt_status print_function(const struct compare *, const struct compare_options *, FILE *);

static dt_status parse_format(const char *text, print_function **out)
{
    static const struct {
        const char *name;
        print_function *print;
    } formats[] = {
        {"table", compare_print_table}, {"json", compare_print_json}, {"junit", compare_print_junit}, {"markdown", compare_print_markdown}};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(text, formats[i].name) == 0) {
            *out = formats[i].print;
            return DT_OK;
        }
    }
    return dt_fail(DT_ERR_INVALID, "--format %s: table, json, junit or markdown is wanted", text);
}

int cmd_compare(int argc, char **argv)
{
    struct command_options o = {0};
    struct compare_options how = {0};
    struct record_set base = {0}, new = {0};
    struct compare compare = {0};
    print_function *print = NULL;
    if (parse_options(&o, argc, argv) < 0)
        return report_failure("compare", EXIT_CODE_USAGE);
    if (o.help)
        return EXIT_CODE_OK;
    how.gates = GATE_ALL;
    how.allow_different = o.allow_different;
    how.pool = o.pool;
    if (parse_threshold(o.threshold ? o.threshold : THRESHOLD, &how.threshold) < 0 || (o.gate && parse_gates(o.gate, &how.gates) < 0) ||
        parse_format(o.format ? o.format : "table", &print) < 0)
        return report_failure("compare", EXIT_CODE_USAGE);

    int code = EXIT_CODE_OK;
    dt_status status = record_set_read(&base, "compare", &o.records.items[0], 1);
    if (status == DT_OK)
        status = record_set_read(&new, "compare", &o.records.items[1], 1);
    if (status < 0)
        code = report_failure("compare", status == DT_ERR_IO ? EXIT_CODE_CONFIG : EXIT_CODE_OTHER);
    else if ((status = compare_records(&base, &new, &how, &compare)) < 0)
        code = report_failure("compare", status == DT_ERR_INVALID ? EXIT_CODE_INCOMPARABLE : EXIT_CODE_OTHER);
    else if (print(&compare, &how, stdout) < 0)
        code = report_failure("compare", EXIT_CODE_OTHER);
    else if (compare.regressions > 0)
        code = EXIT_CODE_REGRESSION;
    compare_finish(&compare);
    record_set_finish(&base);
    record_set_finish(&new);
    return code;
}

/* `dtbench trace`: what waits for what in a traced step. */
#include "cli/commands/commands.h"

#include "cli/records/trace_path.h"
#include "cli/text/text.h"

#include <stdlib.h>

struct command_options {
    const char *file, *rank;
    int number;
};

#define AT(member) offsetof(struct command_options, member)

static const struct option_row options[] = {
    {"rank", 'r', OPTION_TEXT, AT(rank), "N", NULL, "where the time of this rank goes, and what its computing waits for"},
    {0},
};

static dt_status check_options(void *options_read)
{
    struct command_options *o = options_read;
    char *end = NULL;
    o->number = o->rank ? (int)strtol(o->rank, &end, 10) : -1;
    return o->rank && (*end || end == o->rank || o->number < 0) ? dt_fail(DT_ERR_INVALID, "--rank %.40s: expected a number from 0", o->rank)
                                                                : DT_OK;
}

static int run(int argc, char **argv)
{
    struct command_options o = {0};
    DT_DESTROYED(trace_spans_destroy) struct trace_spans *spans = NULL;
    int code;
    if (!options_begin(&command_trace, argc, argv, &o, check_options, &code))
        return code;
    dt_status status = trace_spans_read(o.file, &spans);
    DT_THEN(status, o.number < 0 ? trace_path_print(spans, terminal_width(stdout), stdout) : trace_rank_print(spans, o.number, stdout));
    return status == DT_OK ? EXIT_CODE_OK : report_wrong("trace", status);
}

const struct command command_trace = {
    .name = "trace",
    .summary = "what waits for what in a traced step: the critical path",
    .usage = "[OPTION]... FILE",
    .description =
        "Reads a trace of dtbench run --trace, and prints its critical path: the chain of pieces, each waiting for the one before it, that "
        "is as long as the step, in words and as a picture. With --rank it prints what one rank computes and waits for.\n"
        "\n"
        "A received message waits for its sender, a collective for the rank that reached it last, and anything else for the last piece on "
        "its rank that ended before it began.",
    .options = options,
    .argument = {"trace", OPTION_TEXT, AT(file), "expected a trace: a file of dtbench run --trace FILE"},
    .run = run,
};

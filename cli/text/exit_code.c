#include "cli/text/exit_code.h"

#include <signal.h>
#include <string.h>

const struct exit_code_row *exit_code_table(void)
{
    static const struct exit_code_row rows[] = {
        {EXIT_CODE_OK, "all experiments ended well"},
        {EXIT_CODE_OTHER, "dtbench itself failed: it ran out of memory, for example"},
        {EXIT_CODE_USAGE, "the command line is wrong"},
        {EXIT_CODE_CONFIG, "the config is invalid, or needs what this machine does not have: nothing was run"},
        {EXIT_CODE_FAILED, "an experiment failed: crash, timeout, lost rank"},
        {EXIT_CODE_OOM, "an experiment ran out of memory, or by dtbench check would; all others ended well"},
        {EXIT_CODE_VERIFY, "an experiment's losses are not those of one device (--verify)"},
        {EXIT_CODE_OUTPUT, "the output cannot be written"},
        {EXIT_CODE_REGRESSION, "dtbench compare found a regression"},
        {EXIT_CODE_INCOMPARABLE, "dtbench compare: records of different machines or libraries, or without a common experiment"},
        {EXIT_CODE_LATER, "the time limit or SIGUSR1 left experiments for a later run: --resume runs them"},
        {EXIT_CODE_SIGNAL + SIGINT, "interrupted by SIGINT; finished experiments are kept"},
        {EXIT_CODE_SIGNAL + SIGTERM, "interrupted by SIGTERM; finished experiments are kept"},
        {0},
    };
    return rows;
}

void exit_codes_print(FILE *to)
{
    for (const struct exit_code_row *row = exit_code_table(); row->meaning; row++)
        fprintf(to, "  %-3d  %s\n", row->code, row->meaning);
}

int report_failure(const char *command, enum exit_code code)
{
    fflush(stdout);
    for (const char *line = dt_error_message(), *end; line; line = *end ? end + 1 : NULL) {
        end = line + strcspn(line, "\n");
        fprintf(stderr, "dtbench %s: %.*s\n", command, (int)(end - line), line);
    }
    if (code == EXIT_CODE_USAGE)
        fprintf(stderr, "Try 'dtbench %s --help'.\n", command);
    return code;
}

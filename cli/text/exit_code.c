#include "cli/text/exit_code.h"

void exit_codes_print(FILE *to)
{
    static const struct {
        const char *code, *meaning;
    } codes[] = {
        {"0", "all experiments ended well"},
        {"1", "dtbench itself ran out of memory, or the like"},
        {"2", "the command line is wrong"},
        {"3", "the config is invalid, or asks for what is not here: nothing was run"},
        {"4", "an experiment failed: crash, timeout, lost rank"},
        {"5", "an experiment ran out of memory; all others ended well"},
        {"6", "an experiment's losses are not those of one device (--verify)"},
        {"7", "the output cannot be written"},
        {"8", "dtbench compare: a regression"},
        {"9", "dtbench compare: measured on different machines or libraries, or nothing in common"},
        {"75", "the time does not suffice for all experiments; --resume goes on (SIGUSR1 too)"},
        {"130, 143", "interrupted by SIGINT, by SIGTERM; finished work is kept"},
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        fprintf(to, "  %-8s  %s\n", codes[i].code, codes[i].meaning);
}

int report_failure(const char *command, enum exit_code code)
{
    fflush(stdout);
    fprintf(stderr, "dtbench %s: %s\n", command, dt_error_message());
    if (code == EXIT_CODE_USAGE)
        fprintf(stderr, "Try 'dtbench %s --help'.\n", command);
    return code;
}

/* What `dtbench` returns, and how a command says that it failed. */
#ifndef CLI_TEXT_EXIT_CODE_H
#define CLI_TEXT_EXIT_CODE_H

#include "lib/base/status.h"

#include <stdio.h>

/* Where several apply to a sweep, the first of interrupted, output, later, verify, failed, oom does. */
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_OTHER = 1,
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_CONFIG = 3,
    EXIT_CODE_FAILED = 4,
    EXIT_CODE_OOM = 5,
    EXIT_CODE_VERIFY = 6,
    EXIT_CODE_OUTPUT = 7,
    EXIT_CODE_REGRESSION = 8,
    EXIT_CODE_INCOMPARABLE = 9,
    EXIT_CODE_LATER = 75,   /* sysexits.h calls it EX_TEMPFAIL: try again */
    EXIT_CODE_SIGNAL = 128, /* plus the signal's number: 130 for SIGINT, 143 for SIGTERM */
};

struct exit_code_row {
    int code;
    const char *meaning;
};

/* In the order of their numbers; the last row has a NULL meaning. The help, the manual page and the docs are made from it. */
const struct exit_code_row *exit_code_table(void);

void exit_codes_print(FILE *to);

/* Print "dtbench COMMAND: the last failure's text" to stderr and return `code`; after a usage error also where the help is. */
int report_failure(const char *command, enum exit_code code);

#endif

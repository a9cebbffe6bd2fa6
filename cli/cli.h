/* What the subcommands share: the table's row and the exit codes. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdio.h>

/* What `dtbench` returns. Where several apply to a sweep, the first of interrupted, output, later, verify, failed, oom does. */
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

struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
    bool hidden;                       /* not in the help: for dtbench itself */
};

/* The table in main.c; the last row has a NULL name. */
const struct command *command_table(void);

int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_calibrate_rank(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_validate(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_rank(int argc, char **argv);
int cmd_slurm(int argc, char **argv);

/* Print "dtbench COMMAND: the last failure's text" to stderr and return `code`; after a usage error also where the help is. */
int report_failure(const char *command, enum exit_code code);

void print_exit_codes(FILE *to);

#endif

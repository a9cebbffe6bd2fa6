/* Command-line options, by a table.
 *
 * "--name value" and "--name=value" mean the same, and so does "-n value" where there is a letter. Names are not abbreviated: a script that
 * works today works when another option comes. "--" ends the options; "-" alone is an argument. */
#ifndef CLI_TEXT_OPTIONS_H
#define CLI_TEXT_OPTIONS_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdio.h>

enum option_kind {
    OPTION_FLAG, /* bool * */
    OPTION_TEXT, /* const char **: at most once */
    OPTION_LIST, /* struct option_list *: any number of times */
};

enum { OPTION_LIST_MAX = 256 };

struct option_list {
    const char *items[OPTION_LIST_MAX];
    int count;
};

struct option_row {
    const char *name; /* without "--" */
    char letter;      /* 0: none */
    enum option_kind kind;
    void *target;
    const char *argument; /* "FILE", for the help; NULL for a flag */
    const char *help;     /* lines separated by newlines */
};

struct option_spec {
    const struct option_row *rows; /* the last has a NULL name */
    const char *argument;          /* the one positional argument's name; NULL: none is taken */
    const char **argument_target;
    struct option_list *arguments; /* instead of argument_target: takes any number */
    const char *usage;             /* what --help prints above the options, and the target of its row */
    const bool *help;
};

/* Read argv[1..argc). Strings stay argv's. With --help among them the help is printed, and the caller has nothing else to do.
 * Errors: DT_ERR_INVALID, one line. */
dt_status options_parse(const struct option_spec *spec, int argc, char **argv);

#endif

/* Commands and their options, as tables: the command line is read by them, and the help, the manual page and the completion are made from
 * them.
 *
 * "--name value" and "--name=value" mean the same, and so does "-n value" where there is a letter. Names are not abbreviated: a script that
 * works today works when another option comes. "--" ends the options; "-" alone is an argument. Every command has --help. */
#ifndef CLI_TEXT_OPTIONS_H
#define CLI_TEXT_OPTIONS_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum option_kind {
    OPTION_FLAG, /* bool */
    OPTION_TEXT, /* const char *: at most once */
    OPTION_LIST, /* struct option_list: any number of times */
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
    size_t offset;        /* of its value in the command's struct */
    const char *argument; /* "FILE", for the help; NULL for a flag. FILE and RECORDS are completed as files, DIR as a directory */
    const char *help;     /* a text, see cli/text/paragraph.h */
    const char *(*choice)(int index); /* the words that it takes, or a list of them; NULL after the last. NULL: anything */
};

struct command {
    const char *name;
    const char *summary;              /* in the list of commands */
    const char *usage;                /* "[OPTION]... FILE" */
    const char *description;          /* a text */
    const struct option_row *options; /* the last has a NULL name; --help is no row */
    struct {
        const char *name; /* of the positional argument; NULL: none is taken */
        enum option_kind kind;
        size_t offset;
    } argument;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
    bool exit_codes;                   /* the help ends with them */
    bool hidden;                       /* for dtbench itself: in no help */
};

/* Read argv[1..argc) into the command's struct `target`, which is zero. Strings stay argv's. With --help among them *help is true, the help
 * has been printed, and the caller has nothing else to do. Errors: DT_ERR_INVALID, one line. */
dt_status options_parse(const struct command *command, int argc, char **argv, void *target, bool *help);

/* The value of an option that takes a whole number from 1 to `most`. Errors: DT_ERR_INVALID. */
dt_status options_read_count(const char *option, const char *text, int most, int *out);

void options_print_help(const struct command *command, FILE *to);

/* The help of an option with the words that it takes, "...: table, json or markdown", in out[out_bytes]. */
void options_describe(const struct option_row *row, char *out, size_t out_bytes);

#endif

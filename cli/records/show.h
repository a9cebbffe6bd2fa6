/* `dtbench show`: the records of experiments as lines of a table, and the fastest of them. `dtbench
 * run` ends with such a table, too. */
#pragma once

#include "cli/records/records.h"
#include "cli/records/result_lines.h"
#include "cli/text/text.h"

#include <stdbool.h>
#include <stdio.h>

enum show_format { SHOW_TABLE, SHOW_CSV, SHOW_JSON, SHOW_MARKDOWN, SHOW_MLLOG, SHOW_FORMATS };
const char *show_format_name(int format); /* NULL past the last */

struct show_options {
    const char *columns; /* names, comma-separated; NULL: the keys that distinguish the experiments, and the columns of a run's table */
    const char *sort;    /* NULL: the order of reading */
    struct option_list where;
    const char *best; /* keys, comma-separated: of the lines with the same values of these keys, show only the fastest. NULL: all lines */
    enum show_format format;
    const char *heading; /* of the table; NULL: derived from the records */
    bool colour;
};

/* The values of records that a show with these options needs: a results_wish whose context is the
 * struct show_options. */
results_wish show_wish;

/* Print the results; below a table, print why experiments failed and the doubts about measurements.
 * Errors: DT_ERR_INVALID for keys that no record has, conditions that no line fulfils, and a log of
 * more than one experiment; DT_ERR_HOST_MEMORY; with `best` and for a log also those of
 * results_record. */
dt_status show_print(const struct results *results, const struct show_options *options, FILE *to);

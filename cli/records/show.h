/* `dtbench show`: the records of experiments as lines of a table, and who is the fastest. The end of `dtbench run` is such a table, too. */
#ifndef CLI_RECORDS_SHOW_H
#define CLI_RECORDS_SHOW_H

#include "cli/records/records.h"
#include "cli/records/result_lines.h"
#include "cli/text/text.h"

#include <stdbool.h>
#include <stdio.h>

enum show_format { SHOW_TABLE, SHOW_CSV, SHOW_JSON, SHOW_MARKDOWN, SHOW_MLLOG, SHOW_FORMATS };
const char *show_format_name(enum show_format format);

struct show_options {
    const char *columns; /* names, comma-separated; NULL: what tells the experiments apart, and what a run's table has */
    const char *sort;    /* NULL: the order of reading */
    struct option_list where;
    const char *best; /* keys, comma-separated: of the lines that have the same values of them only the fastest. NULL: all lines */
    enum show_format format;
    const char *heading; /* of the table; NULL: what is known from the records */
    bool colour;
};

/* What a show with these options needs of the records: a results_wish whose context is the struct show_options. */
results_wish show_wish;

/* Print the results, and below a table why experiments failed and what speaks against what was measured. Errors: DT_ERR_INVALID for keys that no
 * record has, conditions that nothing fulfils, and a log of more than one experiment; DT_ERR_HOST_MEMORY, and of `best` and a log those of
 * results_record. */
dt_status show_print(const struct results *results, const struct show_options *options, FILE *to);

#endif

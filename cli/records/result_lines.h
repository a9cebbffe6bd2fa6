/* The rows of results as lines: one for each experiment, however often it was run. */
#pragma once

#include "cli/records/results.h"
#include "lib/base/status.h"

#include <stdbool.h>

/* Runs of one experiment (config_hash) by one build on one device. If any of them ended well, only
 * those that did count as its runs. */
struct result_line {
    int begin, runs; /* its rows are lines.rows[begin .. begin + runs) in the order of reading */
};

struct result_lines {
    const struct results *results;
    int *rows;                 /* owned */
    struct result_line *lines; /* [count] owned */
    int count;
    int status; /* column */
};

/* The column of a key. Errors: DT_ERR_INVALID if no record has it, with the nearest name. */
dt_status results_find_named(const struct results *results, const char *key, int *column);

/* Owner of *out, also after a failure: the caller, result_lines_finish. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status result_lines_find(const struct results *results, struct result_lines *out);
void result_lines_finish(struct result_lines *lines);

/* The row that represents a line: the newest. */
int result_line_row(const struct result_lines *lines, int line);
bool result_line_is_ok(const struct result_lines *lines, int line);
/* The line's number: for a metric the median of the runs. */
double result_line_number(const struct result_lines *lines, int line, int column);
/* How much longer the slowest run's step took than the fastest one's, as a fraction; NaN for one
 * run. */
double result_line_spread(const struct result_lines *lines, int line);

/* Keep the lines for which "KEY=VALUE" holds: also != < <= > >=, and after = and != a list "a,b" of
 * which one must match. Errors: DT_ERR_INVALID for a text of another form, and for a key that no
 * record has. */
dt_status result_lines_keep(struct result_lines *lines, const char *condition);
/* Sort by a key, smallest first, or with "-" before the key largest first; lines without a value
 * come last, equal ones keep their order. Errors: as above. */
dt_status result_lines_sort(struct result_lines *lines, const char *key);
/* Do two lines differ in this column? Without with_none, lines without a value do not count. */
bool result_lines_differ(const struct result_lines *lines, int column, bool with_none);
/* Are two lines alike in all of columns [count], and not in `column`? A missing value then is a value:
 * none. Only lines near each other are compared: a sweep writes such lines so. */
bool result_lines_tell_apart(const struct result_lines *l, int column, const int *columns, int count);
/* The rate by which lines are compared: tokens or images per second, and samples where there are
 * several kinds. -1: no record has one. */
int result_lines_rate(const struct result_lines *lines);

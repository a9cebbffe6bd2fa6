/* A `dtbench show` under way: show.c chooses lines and columns, show_print.c writes them. */
#ifndef CLI_RECORDS_SHOW_PARTS_H
#define CLI_RECORDS_SHOW_PARTS_H

#include "cli/records/show.h"

enum cell_kind { CELL_VALUE, CELL_LOSS, CELL_DIFFERENCE, CELL_RUNS, CELL_SPREAD, CELL_LEAD, CELL_NEXT, CELL_STATUS };

struct column {
    enum cell_kind kind;
    int column;                   /* of the results; -1: none */
    const char *name;             /* in CSV and JSON */
    struct dt_metric_name metric; /* of a metric */
    struct unit unit;             /* in which a table shows it */
    int flags;
};

enum { SHOWN_MAX = 30 };

/* A line that is shown; of several that are compared the fastest, and how far it leads. */
struct shown {
    int line, next; /* next: the second; -1: it is alone */
    int first;      /* of the lines that are compared, the first */
    struct comparison judged;
};

struct show {
    const struct results *results;
    const struct show_options *options;
    struct result_lines lines;
    struct shown *shown; /* [shown_count] owned */
    int shown_count;
    struct column columns[SHOWN_MAX];
    int column_count;
    int device, doubts; /* columns of the results, which each line is asked for; -1: none */
    bool several_runs;
};

/* The results' row of a line that is shown. */
static inline int row_at(const struct show *s, int shown)
{
    return result_line_row(&s->lines, s->shown[shown].line);
}

/* Has one line another value than one before it, also of those that are not shown? Lines without a value have no part in that. */
bool show_differs(const struct show *s, int column);
/* Does its value follow from that of another key that differs, too: a model's sizes from its preset? */
bool show_follows(const struct show *s, int column);
bool show_is_simulated(const struct show *s, int line);

/* In the format of the options. Errors: as show_print. */
dt_status show_write(const struct show *s, FILE *to);

#endif

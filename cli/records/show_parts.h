/* The state that a `dtbench show` passes from show.c, which chooses lines and columns, to
 * show_print.c, which writes them. */
#pragma once

#include "cli/records/show.h"

enum cell_kind { CELL_VALUE, CELL_LOSS, CELL_DIFFERENCE, CELL_RUNS, CELL_SPREAD, CELL_LEAD, CELL_NEXT, CELL_STATUS };

struct column {
    enum cell_kind kind;
    int column;                   /* column of the results; -1: none */
    const char *name;             /* in CSV and JSON */
    struct dt_metric_name metric; /* the metric's names */
    struct unit unit;             /* unit in a table */
    int flags;
};

enum { SHOWN_MAX = 30 };

/* A line to show. With --best it is the fastest of its group, with its lead. */
struct shown {
    int line, next; /* next: the second fastest; -1: none */
    int first;      /* the group's first line */
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
    int device, doubts; /* columns of the results that the remarks below the table use; -1: none */
    bool several_runs;
};

/* The results' row of a shown line. */
static inline int row_at(const struct show *s, int shown)
{
    return result_line_row(&s->lines, s->shown[shown].line);
}

/* Do two lines differ in this column? Lines that are not shown count; lines without a value do
 * not. */
bool show_differs(const struct show *s, int column);
/* Does the column's value follow from another key that differs, as a model's sizes follow from its
 * preset? */
bool show_follows(const struct show *s, int column);
bool show_is_simulated(const struct show *s, int line);

/* Write the lines in the format of the options. Errors: as show_print. */
dt_status show_write(const struct show *s, FILE *to);

/* Print the log of a record (mllog.c). Errors: DT_ERR_INVALID for a record without a start time,
 * DT_ERR_HOST_MEMORY. */
dt_status mllog_print(const struct cJSON *record, FILE *to);

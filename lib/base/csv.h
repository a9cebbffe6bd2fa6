/* Tables as comma-separated text, as RFC 4180 has them, or with semicolons, tabs or bars, of which the one divides that makes the most fields
 * of the first line: fields in double quotes may hold delimiters, quotes (doubled) and line breaks; a line ends with LF, CRLF or CR. The
 * first record names the columns. The names must differ, but for empty ones. Spaces around a field are no part of it. A quote elsewhere
 * than the RFC allows one, or without its other one, is text. Passed over are blank lines, a byte order mark, comments (lines that begin
 * with '#' and have at most half as many fields as the table), and of tables in Markdown the bars at a line's ends and lines of dashes. A
 * record with another number of fields than there are columns is a row, too, whose `counts` say so: what it lacks is "", and what it has
 * more is left out.
 * Source  Shafranovich, "Common Format and MIME Type for CSV Files", RFC 4180, 2005. */
#pragma once

#include "lib/base/status.h"

#include <stddef.h>

struct dt_csv {
    char *text;    /* a copy of the input, cut into fields */
    char **names;  /* [column_count] */
    char **fields; /* [row_count][column_count] */
    int *lines;    /* [row_count] line on which a record begins; the first line is 1 */
    int *counts;   /* [row_count] fields that a record has */
    int column_count, row_count;
    char delimiter; /* ',', ';', tab or '|' */
};

/* Read text [length]. `source` names it in errors, "FILE:LINE: what is wrong". Owner: the caller, dt_csv_finish, also after a failure.
 * Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_csv_parse(const char *text, size_t length, const char *source, struct dt_csv *out);
void dt_csv_finish(struct dt_csv *csv); /* takes a zeroed one */

/* The number of the column with this name, or else with the same letters in another case; -1 when there is none. */
int dt_csv_column(const struct dt_csv *csv, const char *name);
/* A field of a record; "" if column is -1. */
const char *dt_csv_field(const struct dt_csv *csv, int row, int column);

/* Tables as comma-separated text as in RFC 4180, or with semicolons, tabs or bars; the separator is
 * the one that divides the first line into the most fields. If none does, blanks do: two or more
 * where the first line has two together. Fields in double quotes may contain separators, quotes
 * (doubled) and line breaks. A line ends with LF, CRLF or CR. The first record names the columns;
 * names must differ, except empty ones. Spaces around a field do not belong to it. A quote where the
 * RFC does not allow one, or without a second one, is text. Skipped are blank lines, a byte order
 * mark, comments (lines that begin with '#' and have at most half as many fields as the table),
 * Excel's "sep=;" before the names, and in tables of Markdown, RST and databases the bars at the
 * ends of lines and lines of dashes. A record with more or fewer fields than there are columns is a
 * row, too: missing fields are "", surplus ones are dropped, and `counts` has the number of fields
 * that the record had.
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

/* Read text [length]. `source` names it in errors, "FILE:LINE: what is wrong". Owner: the caller,
 * dt_csv_finish, also after a failure. Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_csv_parse(const char *text, size_t length, const char *source, struct dt_csv *out);
void dt_csv_finish(struct dt_csv *csv); /* takes a zeroed one */

/* The number of the column with this name, or else with the same letters in another case; -1 if
 * there is none. */
int dt_csv_column(const struct dt_csv *csv, const char *name);
/* A field of a record; "" if column is -1. */
const char *dt_csv_field(const struct dt_csv *csv, int row, int column);

/* Tables of text whose columns line up, whatever their content. */
#ifndef CLI_TEXT_TABLE_H
#define CLI_TEXT_TABLE_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct table;

/* How a column is printed; flags. */
enum table_column {
    TABLE_LEFT = 0,
    TABLE_RIGHT = 1,
    TABLE_UNIT = 2,  /* the title's last line is the unit */
    TABLE_STAYS = 4, /* also where it is equal in all rows */
    TABLE_KEY = 8,   /* tells one row from another, as the first column always does */
};

/* Owner: the caller. Running out of memory in any call shows in table_print. */
struct table *table_create(void);
void table_destroy(struct table *table); /* takes NULL */

/* All columns come before the first row. A title of two lines ("step\nms") takes two lines. */
void table_column(struct table *table, int flags, const char *title);
/* What is printed above the table. */
void table_heading(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next cell: row by row, all columns of each. Its text is made printable (lib/base/text.h). */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_text(struct table *table, const char *text); /* the same of a text as it is */
/* The same with the cell in a colour (an SGR number such as 31), which takes no width; 0: none. */
void table_colour_cell(struct table *table, int colour, const char *text);

/* No wider than the terminal, or 80 columns where there is none. What is equal in all of several rows goes into the heading, and a column
 * without any value is left out. What is still too wide has narrower gaps; then long words are broken in their cells; then the columns that
 * have no place follow in further tables, beside the keys.
 * Errors: DT_ERR_HOST_MEMORY, when a cell could not be kept; nothing is printed then. */
dt_status table_print(const struct table *table, FILE *to);

/* Characters of UTF-8 text, as a terminal counts them for letters and digits. */
int text_width(const char *text);

#endif

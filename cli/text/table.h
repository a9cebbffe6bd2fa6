/* Tables of text whose columns line up, whatever their content. */
#ifndef CLI_TEXT_TABLE_H
#define CLI_TEXT_TABLE_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct table;

enum table_align { TABLE_LEFT, TABLE_RIGHT };

/* Owner: the caller. Running out of memory in any call shows in table_print. */
struct table *table_create(void);
void table_destroy(struct table *table); /* takes NULL */

/* All columns come before the first row. A title of two lines ("step\nms") takes two lines. */
void table_column(struct table *table, enum table_align align, const char *title);
/* The next cell: row by row, all columns of each. Its text is made printable (lib/base/printable.h). */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_text(struct table *table, const char *text); /* the same of a text as it is */
/* The same with the cell in a colour (an SGR number such as 31), which takes no width; 0: none. */
void table_colour_cell(struct table *table, int colour, const char *text);

/* Errors: DT_ERR_HOST_MEMORY, when a cell could not be kept; nothing is printed then. */
dt_status table_print(const struct table *table, FILE *to);

/* Characters of UTF-8 text, as a terminal counts them for letters and digits. */
int text_width(const char *text);

#endif

#include "cli/text/table.h"

#include "lib/base/printable.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 32, MAX_TITLE_LINES = 3, GAP = 2 };

/* Cells' texts stand behind each other: a sweep's table has a million. */
struct cell {
    size_t text; /* where it begins in `texts` */
    int colour;
};

struct table {
    struct {
        char *title;
        enum table_align align;
    } columns[MAX_COLUMNS];
    int column_count;
    struct cell *cells;
    size_t cell_count, cell_capacity;
    char *texts;
    size_t text_bytes, text_capacity;
    bool failed;
};

struct table *table_create(void)
{
    return calloc(1, sizeof(struct table));
}

void table_destroy(struct table *table)
{
    if (!table)
        return;
    for (int c = 0; c < table->column_count; c++)
        free(table->columns[c].title);
    free(table->texts);
    free(table->cells);
    free(table);
}

void table_column(struct table *table, enum table_align align, const char *title)
{
    if (!table || table->column_count == MAX_COLUMNS)
        return;
    char *copy = strdup(title);
    table->failed |= !copy;
    table->columns[table->column_count].title = copy;
    table->columns[table->column_count++].align = align;
}

/* Room for one more cell with a text of so many bytes. */
static bool make_room(struct table *table, size_t bytes)
{
    if (table->cell_count == table->cell_capacity) {
        size_t capacity = 2 * table->cell_capacity + 64;
        struct cell *cells = realloc(table->cells, capacity * sizeof *cells);
        if (!cells)
            return false;
        table->cells = cells;
        table->cell_capacity = capacity;
    }
    if (table->text_capacity - table->text_bytes < bytes) {
        size_t capacity = 2 * table->text_capacity + bytes + 1024;
        char *texts = realloc(table->texts, capacity);
        if (!texts)
            return false;
        table->texts = texts;
        table->text_capacity = capacity;
    }
    return true;
}

void table_colour_cell(struct table *table, int colour, const char *text)
{
    if (!table || table->failed)
        return;
    size_t bytes = strlen(text) + 1;
    table->failed = !make_room(table, bytes);
    if (table->failed)
        return;
    char *copy = table->texts + table->text_bytes;
    memcpy(copy, text, bytes);
    dt_printable(copy);
    table->cells[table->cell_count++] = (struct cell){table->text_bytes, colour};
    table->text_bytes += bytes;
}

void table_text(struct table *table, const char *text)
{
    table_colour_cell(table, 0, text);
}

void table_cell(struct table *table, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    table_text(table, text);
}

static const char *text_of(const struct table *table, const struct cell *cell)
{
    return table->texts + cell->text;
}

int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* Line `index` of a title, counted from its last: titles stand on the table. */
static void title_line(const char *title, int from_last, char *out, size_t out_bytes)
{
    int lines = 1;
    for (const char *c = title; *c; c++)
        lines += *c == '\n';
    out[0] = 0;
    int wanted = lines - 1 - from_last;
    if (wanted < 0)
        return;
    for (; wanted > 0; wanted--)
        title = strchr(title, '\n') + 1;
    snprintf(out, out_bytes, "%.*s", (int)strcspn(title, "\n"), title);
}

struct line {
    FILE *to;
    int pending; /* blanks that are due before the next text: none is left at a line's end */
};

static void put_blanks(int count, FILE *to)
{
    static const char blanks[] = "                                                                ";
    for (int left = count; left > 0; left -= (int)sizeof blanks - 1)
        fwrite(blanks, 1, left < (int)sizeof blanks - 1 ? (size_t)left : sizeof blanks - 1, to);
}

static void put(struct line *line, const char *text, int colour, int width, enum table_align align)
{
    int blanks = width - text_width(text);
    int before = align == TABLE_RIGHT ? blanks : 0;
    if (!*text) {
        line->pending += blanks;
        return;
    }
    put_blanks(line->pending + before, line->to);
    if (colour)
        fprintf(line->to, "\033[%dm%s\033[0m", colour, text);
    else
        fputs(text, line->to);
    line->pending = blanks - before;
}

dt_status table_print(const struct table *table, FILE *to)
{
    int widths[MAX_COLUMNS] = {0}, title_lines = 1, total = 0;
    char text[128];
    if (!table || table->failed)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a table");
    int columns = table->column_count;
    size_t rows = columns ? table->cell_count / (size_t)columns : 0;
    for (int c = 0; c < columns; c++) {
        for (int l = 0; l < MAX_TITLE_LINES; l++) {
            title_line(table->columns[c].title, l, text, sizeof text);
            int width = text_width(text);
            widths[c] = width > widths[c] ? width : widths[c];
            title_lines = width && l + 1 > title_lines ? l + 1 : title_lines;
        }
        for (size_t r = 0; r < rows; r++) {
            int width = text_width(text_of(table, &table->cells[r * (size_t)columns + (size_t)c]));
            widths[c] = width > widths[c] ? width : widths[c];
        }
        total += widths[c] + (c ? GAP : 0);
    }
    for (int l = title_lines - 1; l >= 0; l--) {
        struct line line = {.to = to};
        for (int c = 0; c < columns; c++) {
            title_line(table->columns[c].title, l, text, sizeof text);
            put(&line, text, 0, widths[c], table->columns[c].align);
            line.pending += GAP;
        }
        fputc('\n', to);
    }
    for (int i = 0; i < total; i++)
        fputc('-', to);
    fputc('\n', to);
    for (size_t r = 0; r < rows; r++) {
        struct line line = {.to = to};
        for (int c = 0; c < columns; c++) {
            const struct cell *cell = &table->cells[r * (size_t)columns + (size_t)c];
            put(&line, text_of(table, cell), cell->colour, widths[c], table->columns[c].align);
            line.pending += GAP;
        }
        fputc('\n', to);
    }
    return DT_OK;
}

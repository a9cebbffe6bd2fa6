#include "cli/text/text.h"

#include "lib/base/grow.h"
#include "lib/base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_is_live(FILE *stream)
{
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_has_colour(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    return terminal_is_live(stream) && (!no_color || !*no_color);
}

void status_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

void status_clear(void)
{
    status_line("%s", "");
}

int terminal_width(FILE *stream)
{
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *told = getenv("COLUMNS"); /* POSIX: the width that the user prefers */
    int columns = told ? atoi(told) : 0;
    return columns >= 20 && columns <= 1000 ? columns : 80;
}

int terminal_columns(FILE *stream)
{
    return isatty(fileno(stream)) ? terminal_width(stream) : 0;
}

/* True for every UTF-8 byte except continuation bytes. */
static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += begins_character(*text);
    return width;
}

/* ---- tables ---- */

enum {
    MAX_COLUMNS = 32,
    MAX_TITLE_LINES = 3,
    GAP = 2,
    NARROW_GAP = 1,
    NARROWEST = 14, /* the least width of a column whose texts are broken into lines */
};

/* A cell. All texts are in one array, because a sweep's table has a million of them. */
struct cell {
    size_t text; /* where it begins in `texts` */
    int colour;
};

struct table {
    struct {
        char *title;
        int flags;
        int widest;   /* the widest cell */
        bool differs; /* some cell differs from the first one */
    } columns[MAX_COLUMNS];
    int column_count;
    char *heading;
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
    free(table->heading);
    free(table->texts);
    free(table->cells);
    free(table);
}

void table_column(struct table *table, int flags, const char *title, ...)
{
    char text[128];
    va_list arguments;
    if (!table || table->column_count == MAX_COLUMNS)
        return;
    va_start(arguments, title);
    vsnprintf(text, sizeof text, title, arguments);
    va_end(arguments);
    char *copy = strdup(text);
    table->failed |= !copy;
    table->columns[table->column_count].title = copy;
    table->columns[table->column_count++].flags = flags;
}

void table_columns_of(struct table *table, int flags, const char *const *titles)
{
    for (; *titles; titles++)
        table_column(table, flags, "%s", *titles);
}

void table_heading(struct table *table, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (!table)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dt_printable(text);
    free(table->heading);
    table->heading = strdup(text);
    table->failed |= !table->heading;
}

static const struct cell *cell_at(const struct table *table, size_t row, int column)
{
    return &table->cells[row * (size_t)table->column_count + (size_t)column];
}

static const char *text_at(const struct table *table, size_t row, int column)
{
    return table->texts + cell_at(table, row, column)->text;
}

void table_colour_cell(struct table *table, int colour, const char *text)
{
    if (!table || table->failed || table->column_count == 0)
        return;
    size_t bytes = strlen(text) + 1;
    table->failed = !DT_ROOM(table->cells, table->cell_count, table->cell_capacity) ||
                    !DT_ROOM_FOR(table->texts, table->text_bytes, table->text_capacity, bytes);
    if (table->failed)
        return;
    char *copy = table->texts + table->text_bytes;
    memcpy(copy, text, bytes);
    dt_printable(copy);
    table->cells[table->cell_count] = (struct cell){table->text_bytes, colour};
    table->text_bytes += bytes;
    int column = (int)(table->cell_count++ % (size_t)table->column_count), width = text_width(copy);
    if (width > table->columns[column].widest)
        table->columns[column].widest = width;
    table->columns[column].differs |= strcmp(copy, text_at(table, 0, column)) != 0;
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

/* A line of a title, counted from the last: titles are aligned at the bottom. */
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

struct table_line {
    FILE *to;
    int pending; /* blanks to write before the next text, so that no line ends with blanks */
};

static void put_blanks(int count, FILE *to)
{
    static const char blanks[] = "                                                                ";
    for (int left = count; left > 0; left -= (int)sizeof blanks - 1)
        fwrite_unlocked(blanks, 1, left < (int)sizeof blanks - 1 ? (size_t)left : sizeof blanks - 1, to);
}

static void put(struct table_line *line, const char *text, int bytes, int colour, int width, int flags)
{
    int blanks = width;
    for (int i = 0; i < bytes; i++)
        blanks -= begins_character(text[i]);
    int before = flags & TABLE_RIGHT ? blanks : 0;
    if (bytes == 0) {
        line->pending += blanks;
        return;
    }
    put_blanks(line->pending + before, line->to);
    if (colour)
        fprintf(line->to, "\033[%dm%.*s\033[0m", colour, bytes, text);
    else
        fwrite_unlocked(text, 1, (size_t)bytes, line->to); /* without locking: a sweep's table has millions of texts */
    line->pending = blanks - before;
}

/* The bytes of `text` that fit into `width`: up to a comma, an arrow or a blank if there is one,
 * never within a UTF-8 character. */
static int fitting(const char *text, int width)
{
    int at = 0, blank = 0, comma = 0, used = 0;
    for (; text[at]; at++) {
        used += begins_character(text[at]);
        if (used > width + (text[at] == ' ')) /* a blank may itself be beyond the width */
            return comma > at / 2 ? comma : blank ? blank : at;
        if (text[at] == ' ')
            blank = at;
        if (text[at] == ' ' && at > 0 && (text[at - 1] == ',' || strncmp(text + at + 1, "->", 2) == 0))
            comma = at;
    }
    return at;
}

/* ---- what is printed, and how wide ---- */

struct layout {
    const struct table *table;
    size_t rows;
    int width; /* of the terminal */
    int gap;
    int shown[MAX_COLUMNS], count; /* columns */
    int widths[MAX_COLUMNS];       /* widths of all columns of the table */
};

static bool has_value(const char *text)
{
    return *text && strcmp(text, "-") != 0;
}

static int natural_width(const struct table *table, int column)
{
    char text[128];
    int widest = table->columns[column].widest;
    for (int l = 0; l < MAX_TITLE_LINES; l++) {
        title_line(table->columns[column].title, l, text, sizeof text);
        int width = text_width(text);
        widest = width > widest ? width : widest;
    }
    return widest;
}

/* "peak 1.5 GiB": the title's words, the value, the unit. */
static size_t describe_equal(const struct table *table, int column, char *text, size_t text_bytes)
{
    char title[128], *unit = NULL;
    snprintf(title, sizeof title, "%s", table->columns[column].title);
    if (table->columns[column].flags & TABLE_UNIT)
        unit = strrchr(title, '\n');
    if (unit)
        *unit++ = 0;
    for (char *c = title; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    int used =
        snprintf(text, text_bytes, "%s%s%s%s%s", title, *title ? " " : "", text_at(table, 0, column), unit ? " " : "", unit ? unit : "");
    return used < (int)text_bytes ? (size_t)used : text_bytes - 1;
}

/* Choose the columns. Those with equal values in all rows become words of the heading. */
static void choose_columns(struct layout *l, char *equal, size_t equal_bytes)
{
    const struct table *table = l->table;
    size_t used = 0;
    equal[0] = 0;
    for (int c = 0; c < table->column_count; c++) {
        bool stays = (table->columns[c].flags & TABLE_STAYS) || table->columns[c].differs;
        bool empty = l->rows > 0 && !stays && !has_value(text_at(table, 0, c));
        if (stays || (l->rows < 2 && !empty)) {
            l->shown[l->count++] = c;
            l->widths[c] = natural_width(table, c);
        } else if (!empty && used + 4 < equal_bytes) {
            used += (size_t)snprintf(equal + used, equal_bytes - used, "%s", used ? ", " : "");
            used += describe_equal(table, c, equal + used, equal_bytes - used);
        }
    }
}

static int total_width(const struct layout *l)
{
    int total = l->count > 0 ? -l->gap : 0;
    for (int i = 0; i < l->count; i++)
        total += l->gap + l->widths[l->shown[i]];
    return total;
}

/* Narrow the columns of text, the widest one first. */
static void narrow(struct layout *l)
{
    for (int excess = total_width(l) - l->width; excess > 0; excess = total_width(l) - l->width) {
        int widest = -1;
        for (int i = 0; i < l->count; i++)
            if (!(l->table->columns[l->shown[i]].flags & TABLE_RIGHT) && (widest < 0 || l->widths[l->shown[i]] > l->widths[widest]))
                widest = l->shown[i];
        if (widest < 0 || l->widths[widest] <= NARROWEST)
            return;
        int narrower = l->widths[widest] - excess;
        l->widths[widest] = narrower > NARROWEST ? narrower : NARROWEST;
    }
}

/* ---- printing ---- */

/* Print the next line of the texts at `left`, and advance `left` to the rest. */
static void print_line(const struct layout *l, size_t row, const char *left[MAX_COLUMNS], FILE *to)
{
    struct table_line line = {.to = to};
    for (int i = 0; i < l->count; i++) {
        int c = l->shown[i], bytes = fitting(left[i], l->widths[c]);
        put(&line, left[i], bytes, cell_at(l->table, row, c)->colour, l->widths[c], l->table->columns[c].flags);
        left[i] += bytes;
        left[i] += strspn(left[i], " ");
        line.pending += l->gap;
    }
    fputc('\n', to);
}

static void print_row(const struct layout *l, size_t row, FILE *to)
{
    const char *left[MAX_COLUMNS];
    for (int i = 0; i < l->count; i++)
        left[i] = text_at(l->table, row, l->shown[i]);
    for (bool more = true; more;) {
        print_line(l, row, left, to);
        more = false;
        for (int i = 0; i < l->count; i++)
            more |= *left[i] != 0;
    }
}

static void print_titles(const struct layout *l, FILE *to)
{
    char text[128];
    bool begun = false;
    for (int t = MAX_TITLE_LINES - 1; t >= 0; t--) {
        struct table_line line = {.to = to};
        for (int i = 0; i < l->count; i++) {
            int c = l->shown[i];
            title_line(l->table->columns[c].title, t, text, sizeof text);
            begun |= *text != 0;
            put(&line, text, (int)strlen(text), 0, l->widths[c], l->table->columns[c].flags);
            line.pending += l->gap;
        }
        if (begun || t == 0)
            fputc('\n', to);
    }
    for (int i = total_width(l); i > 0; i--)
        fputc('-', to);
    fputc('\n', to);
}

/* Show as many columns as there is room for, after the first key and those other keys that fit into
 * half of the width. Returns the index in all->shown at which the next part begins. */
static int next_part(const struct layout *all, int from, struct layout *part)
{
    *part = *all;
    part->count = 0;
    for (int i = 0; i < from; i++) {
        if (i > 0 && !(all->table->columns[all->shown[i]].flags & TABLE_KEY))
            continue;
        part->shown[part->count++] = all->shown[i];
        if (i > 0 && total_width(part) > all->width / 2)
            part->count--;
    }
    int next = from;
    for (; next < all->count; next++) {
        part->shown[part->count++] = all->shown[next];
        if (next > from && total_width(part) > all->width) {
            part->count--;
            break;
        }
    }
    return next;
}

static void print_heading(const struct table *table, const char *equal, int width, FILE *to)
{
    char text[4096];
    const char *heading = table->heading ? table->heading : "";
    snprintf(text, sizeof text, "%s%s%s", heading, !*equal ? "" : *heading ? "; " : "all rows: ", equal);
    for (const char *left = text; *left; left += strspn(left, " ")) {
        int bytes = fitting(left, width);
        fprintf(to, "%.*s\n", bytes, left);
        left += bytes;
    }
    if (*text)
        fputc('\n', to);
}

dt_status table_print(const struct table *table, FILE *to)
{
    char equal[2048];
    if (!table || table->failed)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a table");
    struct layout all = {.table = table, .width = terminal_width(to), .gap = GAP}, part;
    all.rows = table->column_count ? table->cell_count / (size_t)table->column_count : 0;
    choose_columns(&all, equal, sizeof equal);
    if (total_width(&all) > all.width)
        all.gap = NARROW_GAP;
    narrow(&all);
    print_heading(table, equal, all.width, to);
    for (int from = 0; from < all.count; fputs(from < all.count ? "\n" : "", to)) {
        from = next_part(&all, from, &part);
        print_titles(&part, to);
        for (size_t r = 0; r < all.rows; r++)
            print_row(&part, r, to);
    }
    return DT_OK;
}

dt_status table_end(struct table *table, FILE *to)
{
    dt_status status = table_print(table, to);
    table_destroy(table);
    return status;
}

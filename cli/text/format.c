#include "cli/text/text.h"

#include "lib/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *format_count(uint64_t value, char text[FORMAT_BYTES])
{
    char digits[24]; /* last digit first */
    int count = 0, used = 0;
    for (; value > 0 || count == 0; value /= 10)
        digits[count++] = (char)('0' + value % 10);
    while (count > 0) {
        text[used++] = digits[--count];
        if (count > 0 && count % 3 == 0)
            text[used++] = ',';
    }
    text[used] = 0;
    return text;
}

/* Decimals for three significant digits. */
static int decimals_of(double size)
{
    if (size >= 99.95)
        return 0;
    if (size >= 9.995 || size == 0)
        return 1;
    return size >= 0.9995 ? 2 : 3;
}

/* Format a value < 100, rounded as printf does, in a tenth of printf's time: tables of sweeps have
 * a million numbers. */
static void put_decimals(double value, int decimals, char *text)
{
    static const int powers[] = {1, 10, 100, 1000};
    double scaled = value * powers[decimals], whole = floor(scaled);
    if (value < 0 || fabs(scaled - whole - 0.5) < 1e-6) { /* too close to the middle: let printf round */
        snprintf(text, FORMAT_BYTES, "%.*f", decimals, value);
        return;
    }
    int rounded = (int)whole + (scaled - whole > 0.5), left = rounded / powers[decimals];
    if (left >= 10)
        *text++ = (char)('0' + left / 10 % 10);
    *text++ = (char)('0' + left % 10);
    *text++ = '.';
    for (int i = decimals - 1; i >= 0; i--)
        *text++ = (char)('0' + rounded / powers[i] % 10);
    *text = 0;
}

const char *format_number(double value, char text[FORMAT_BYTES])
{
    double size = fabs(value);
    if (isnan(value))
        snprintf(text, FORMAT_BYTES, "-");
    else if (size >= 99.95 && size < 1e18 && value > 0)
        format_count((uint64_t)(value + 0.5), text);
    else if (size >= 1e6 || (size > 0 && size < 1e-3))
        snprintf(text, FORMAT_BYTES, "%.2e", value);
    else
        put_decimals(value, decimals_of(size), text);
    return text;
}

void table_number(struct table *table, double value)
{
    char text[FORMAT_BYTES];
    table_text(table, format_number(value, text));
}

const char *format_duration(double seconds, char text[FORMAT_BYTES])
{
    long s = isfinite(seconds) && seconds < 1e8 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, FORMAT_BYTES, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, FORMAT_BYTES, "%ld:%02ld", s / 60, s % 60);
    return text;
}

/* The largest unit that is not larger than `largest`; the first one if all are. */
static struct unit choose(const struct unit *units, int count, double largest)
{
    int chosen = 0;
    for (int i = 1; i < count; i++)
        if (largest >= units[i].size)
            chosen = i;
    return units[chosen];
}

struct unit unit_for_bytes(double largest)
{
    static const struct unit units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
    return choose(units, 3, largest);
}

struct unit unit_for_seconds(double largest)
{
    static const struct unit units[] = {{"ms", 1e-3}, {"s", 1}};
    return choose(units, 2, largest / 10);
}

struct unit unit_for_durations(double shortest_s)
{
    static const struct unit units[] = {{"hours", 3600}, {"days", 24 * 3600}, {"years", 365.25 * 24 * 3600}};
    return choose(units, 3, shortest_s / 2);
}

struct unit unit_for_flops(double largest)
{
    static const struct unit units[] = {{"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}, {"EFLOP", 1e18}};
    return choose(units, 5, largest);
}

void text_print_markdown(const char *foreign, FILE *to)
{
    char text[LINE_BYTES];
    snprintf(text, sizeof text, "%s", foreign);
    dt_printable(text);
    for (const char *c = text; *c; c++) {
        if (strchr("|\\`*_<>[]&~#$", *c))
            fputc('\\', to);
        fputc(*c, to);
    }
}

/* ---- lines ---- */

enum { LINE_INDENT = 2 }; /* indent of continued lines */

/* Print the completed word, on a new line where the current one has no room. */
static void put_word(struct line *l)
{
    int width = text_width(l->word);
    if (l->used == 0)
        return;
    if (l->width > 0 && l->column > LINE_INDENT && l->column + l->blanks + width > l->width) {
        fputc('\n', l->to);
        l->column = 0;
        l->blanks = LINE_INDENT;
    }
    fprintf(l->to, "%*s%s", l->blanks, "", l->word);
    l->column += l->blanks + width;
    l->blanks = 0;
    l->used = 0;
    l->word[0] = 0;
}

static void add(struct line *l, const char *format, va_list arguments)
{
    char text[LINE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    dt_printable(text);
    for (const char *c = text; *c; c++) {
        if (*c == ' ') {
            put_word(l);
            l->blanks++;
            continue;
        }
        if (l->used + 1 == sizeof l->word)
            put_word(l);
        l->word[l->used++] = *c;
        l->word[l->used] = 0;
    }
}

void line_begin(struct line *line, FILE *to)
{
    *line = (struct line){.to = to, .width = terminal_columns(to)};
}

void line_add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(line, format, arguments);
    va_end(arguments);
}

void line_end(struct line *line)
{
    put_word(line);
    fputc('\n', line->to);
}

void line_print(FILE *to, const char *format, ...)
{
    struct line line;
    va_list arguments;
    line_begin(&line, to);
    va_start(arguments, format);
    add(&line, format, arguments);
    va_end(arguments);
    line_end(&line);
}

/* ---- paragraphs ---- */

static int columns_of(FILE *to)
{
    int columns = terminal_columns(to);
    return columns > 0 && columns < PARAGRAPH_COLUMNS ? columns : PARAGRAPH_COLUMNS;
}

/* Print the words of line[length] from column `indent` on. */
static void print_words(const char *line, size_t length, int indent, FILE *to)
{
    int column = indent, columns = columns_of(to);
    for (size_t at = 0; at < length;) {
        int word = (int)strcspn(line + at, " \n");
        if (column > indent && column + 1 + word > columns) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(to, "%s%.*s", column > indent ? " " : "", word, line + at);
        at += (size_t)word + 1;
    }
}

/* Print line[length], a command, with the blanks before it. */
static void print_command(const char *line, size_t length, FILE *to)
{
    int column = 0, columns = columns_of(to), indent = (int)strspn(line, " ");
    for (size_t at = 0; at < length;) {
        int blanks = (int)strspn(line + at, " "), word = (int)strcspn(line + at + blanks, " \n");
        bool last = at + (size_t)(blanks + word) >= length;
        if (column > 0 && column + blanks + word + (last ? 0 : 2) > columns) {
            fputs(" \\\n", to);
            blanks = 2 * indent;
            column = 0;
        }
        column += fprintf(to, "%*s%.*s", blanks, "", word, line + at + strspn(line + at, " "));
        at += strspn(line + at, " ") + (size_t)word;
    }
}

void paragraph_print(const char *text, int indent, FILE *to)
{
    for (const char *line = text;; line++) {
        size_t length = strcspn(line, "\n");
        if (line > text && length > 0)
            fprintf(to, "%*s", indent, "");
        if (*line == ' ')
            print_command(line, length, to);
        else
            print_words(line, length, indent, to);
        fputc('\n', to);
        line += length;
        if (!*line)
            return;
    }
}

const char *unit_in_common(const char *all, const char *unit)
{
    if (!all || !unit)
        return all ? all : unit;
    return strcmp(all, unit) == 0 ? all : "unit";
}

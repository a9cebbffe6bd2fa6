#include "cli/text/text.h"

#include "lib/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *format_count(uint64_t value, char text[FORMAT_BYTES])
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, value), used = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
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
        snprintf(text, FORMAT_BYTES, "%.*f", decimals_of(size), value);
    return text;
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

/* The largest unit of which `largest` has at least one; the first for less. */
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

/* ---- lines ---- */

enum { LINE_BYTES = 4096 };

static void print(FILE *to, const char *format, va_list arguments)
{
    char text[LINE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    dt_printable(text);
    fputs(text, to);
}

void line_part(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print(to, format, arguments);
    va_end(arguments);
}

void line_print(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print(to, format, arguments);
    va_end(arguments);
    fputc('\n', to);
}

/* ---- paragraphs ---- */

/* Print the words of line[length] from column `indent` on. */
static void print_words(const char *line, size_t length, int indent, FILE *to)
{
    int column = indent;
    for (size_t at = 0; at < length;) {
        int word = (int)strcspn(line + at, " \n");
        if (column > indent && column + 1 + word > PARAGRAPH_COLUMNS) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(to, "%s%.*s", column > indent ? " " : "", word, line + at);
        at += (size_t)word + 1;
    }
}

void paragraph_print(const char *text, int indent, FILE *to)
{
    for (const char *line = text;; line++) {
        size_t length = strcspn(line, "\n");
        if (line > text && length > 0)
            fprintf(to, "%*s", indent, "");
        if (*line == ' ')
            fprintf(to, "%.*s", (int)length, line);
        else
            print_words(line, length, indent, to);
        fputc('\n', to);
        line += length;
        if (!*line)
            return;
    }
}

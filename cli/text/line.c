#include "cli/text/line.h"

#include "lib/base/text.h"

#include <stdarg.h>

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

#include "lib/base/append.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void dt_append(char *text, size_t bytes, const char *separator, const char *format, ...)
{
    va_list arguments;
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s", used ? separator : "");
    used += strlen(text + used);
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
}

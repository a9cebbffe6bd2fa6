#include "lib/base/status.h"

#include "lib/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_message[DT_ERROR_BYTES]; /* longer than one text of 1024, for failures that are reported together */

static void keep(const char *format, va_list arguments)
{
    /* Formatted into a second buffer, since callers wrap the last text ("%s: %s", where,
     * dt_error_message()). */
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    dt_printable(text); /* it may have names and values from files, and is printed */
    snprintf(last_message, sizeof last_message, "%s", text);
}

dt_status dt_fail(dt_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    keep(format, arguments);
    va_end(arguments);
    return status;
}

dt_status dt_allocated(bool memory, const char *format, ...)
{
    va_list arguments;
    if (memory)
        return DT_OK;
    va_start(arguments, format);
    keep(format, arguments);
    va_end(arguments);
    return DT_ERR_HOST_MEMORY;
}

const char *dt_error_message(void)
{
    return last_message;
}

void dt_failures_add(struct dt_failures *failures, dt_status status)
{
    size_t used = strlen(failures->text), bytes = strlen(last_message);
    if (status >= 0)
        return;
    if (failures->status == DT_OK)
        failures->status = status;
    if (used + bytes + 2 > sizeof failures->text) {
        failures->left_out++;
        return;
    }
    if (used > 0)
        failures->text[used++] = '\n';
    memcpy(failures->text + used, last_message, bytes + 1);
}

dt_status dt_failures_end(const struct dt_failures *failures)
{
    if (failures->status == DT_OK)
        return DT_OK;
    snprintf(last_message, sizeof last_message, "%s", failures->text);
    if (failures->left_out > 0) {
        size_t used = strlen(last_message);
        snprintf(last_message + used, sizeof last_message - used, "\nand %d more", failures->left_out);
    }
    return failures->status;
}

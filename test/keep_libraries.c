/* For test programs under the leak detector: memory that libraries allocate and never free must not
 * be reported as dtbench's leak. */
#include <sanitizer/lsan_interface.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Libraries stay loaded until the process ends. MPI unloads its plugins when it is finished, and
 * test/lsan.supp knows leaks by the name of the library. */
int dlclose(void *handle);

int dlclose(void *handle)
{
    return handle == NULL; /* success */
}

/* Only libraries call asprintf here (MPI does). The C library keeps no frame pointers, so the leak
 * detector cannot see who called it; what it allocates is therefore excused as a whole. The names
 * with _chk are those of callers compiled with _FORTIFY_SOURCE. */
int __vasprintf_chk(char **out, int flag, const char *format, va_list arguments);
int __asprintf_chk(char **out, int flag, const char *format, ...);

int vasprintf(char **out, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    __lsan_disable();
    *out = length < 0 ? NULL : malloc((size_t)length + 1);
    __lsan_enable();
    return *out ? vsnprintf(*out, (size_t)length + 1, format, arguments) : -1;
}

int asprintf(char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(out, format, arguments);
    va_end(arguments);
    return length;
}

int __vasprintf_chk(char **out, int flag, const char *format, va_list arguments)
{
    return vasprintf(out, format, arguments);
}

int __asprintf_chk(char **out, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(out, format, arguments);
    va_end(arguments);
    return length;
}

#include "cli/records/glob_pattern.h"

#include <stdlib.h>
#include <string.h>

char *glob_pattern(const char *name, const char *ending)
{
    char *pattern = malloc(2 * strlen(name) + strlen(ending) + 1), *end = pattern;
    if (!pattern)
        return NULL;
    for (; *name; name++) {
        if (strchr("*?[\\", *name))
            *end++ = '\\';
        *end++ = *name;
    }
    strcpy(end, ending);
    return pattern;
}

#include "lib/base/grow.h"

#include <stdlib.h>
#include <string.h>

bool dt_resize(void *items, size_t bytes)
{
    void *old, *new;
    memcpy(&old, items, sizeof old);
    new = realloc(old, bytes);
    if (new)
        memcpy(items, &new, sizeof new);
    return new;
}

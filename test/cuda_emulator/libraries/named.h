/* A library whose file the environment names, and which is not there: refused as the product's
 * loader does, although the emulated one is part of the program. */
#pragma once

extern "C" {
#include "lib/base/status.h"
}

#include <cstdlib>
#include <unistd.h>

static inline dt_status library_that_is_named(const char *library, const char *variable)
{
    const char *path = getenv(variable);
    if (!path || !*path || access(path, R_OK) == 0)
        return DT_OK;
    return dt_fail(DT_ERR_UNAVAILABLE, "%s cannot be loaded: %s is not there", library, path);
}

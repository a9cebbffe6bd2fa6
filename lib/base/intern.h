/* Interned strings: equal strings have one address, so that structs which hold them are small, own
 * nothing, and are copied and compared as bytes. */
#ifndef LIB_BASE_INTERN_H
#define LIB_BASE_INTERN_H

#include "lib/base/status.h"

/* Set *to to the one copy of `text`, which lives until the program ends. From any thread. Errors: DT_ERR_HOST_MEMORY, never for "". */
dt_status dt_intern_into(const char **to, const char *text);

#endif

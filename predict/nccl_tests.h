/* The output of nccl-tests, read as a table of collectives (predict/rates.h). */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>

/* Is the text output of nccl-tests? */
bool nccl_tests_printed(const char *text);

/* Convert it to a table (predict/rates.h), line by line. Owner of *out: the caller, free, also
 * after a failure. Errors: DT_ERR_INVALID if the text does not say which collective was run, or on
 * which hosts; DT_ERR_HOST_MEMORY. */
dt_status nccl_tests_as_table(const char *path, const char *text, char **out);

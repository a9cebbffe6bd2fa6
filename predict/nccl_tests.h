/* What nccl-tests prints, read as a table of collectives (predict/rates.h). */
#ifndef PREDICT_NCCL_TESTS_H
#define PREDICT_NCCL_TESTS_H

#include "lib/base/status.h"

#include <stdbool.h>

/* Is this what nccl-tests prints? */
bool nccl_tests_printed(const char *text);

/* The same as a table with the columns above, line for line. Owner of *out: the caller, free, also after a failure. Errors: DT_ERR_INVALID
 * where it does not say which collective was run, or on which hosts; DT_ERR_HOST_MEMORY. */
dt_status nccl_tests_as_table(const char *path, const char *text, char **out);

#endif

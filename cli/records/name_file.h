/* The last step of writing a file whole: the finished one, under a temporary name, gets its own. */
#ifndef CLI_RECORDS_NAME_FILE_H
#define CLI_RECORDS_NAME_FILE_H

#include "lib/base/status.h"

#include <stdbool.h>

/* Rename it. With `force` a file of that name is replaced; without, none is, not even one that was made since the caller looked, where the
 * file system can promise that. Errors: DT_ERR_IO; the temporary file then stays. */
dt_status name_file(const char *temporary, const char *path, bool force);

#endif

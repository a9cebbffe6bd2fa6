/* Finding the files that come with dtbench: clusters and profiles. */
#ifndef LIB_CONFIG_DATA_FILE_H
#define LIB_CONFIG_DATA_FILE_H

#include "lib/base/status.h"

#include <stddef.h>

/* The path of `name`, which exists, in `out`. An absolute name is itself. Others are looked for in `directory` (of the config that names
 * it; NULL or "": none), then where the program was started, then in dtbench's own configs: DTBENCH_CONFIGS if that variable is set, else
 * beside the program (../../configs in a build, ../share/dtbench/configs where it is installed). Errors: DT_ERR_IO, with all places in
 * which it was looked for. */
dt_status dt_find_data_file(const char *name, const char *directory, char *out, size_t out_bytes);

#endif

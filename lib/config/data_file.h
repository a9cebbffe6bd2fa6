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

/* The file that a name means: "gcp_a2" in folder "clusters" is clusters/gcp_a2.json; what has a slash or ends in .json is a file as it is.
 * A text that `out` has no room for is cut. */
void dt_data_file_name(const char *folder, const char *name, char *out, size_t out_bytes);

/* Names of the files in the folder that dt_find_data_file finds, without ".json", in order, with ", " between them; "" where there are
 * none. What `out` has no room for is left out. */
void dt_data_file_names(const char *folder, char *out, size_t out_bytes);

#endif

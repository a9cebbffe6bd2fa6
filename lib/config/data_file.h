/* Finding the files that come with dtbench: clusters and profiles. */
#pragma once

#include "lib/base/status.h"

#include <stddef.h>

/* The path of `name`, which exists, in `out`. An absolute name is the path. Others are looked for
 * in `directory` (that of the config with the name; NULL or "": none), then in the current
 * directory, then in dtbench's own configs: DTBENCH_CONFIGS if that variable is set, else relative
 * to the program (../../configs in a build, ../share/dtbench/configs in an installation). Errors:
 * DT_ERR_IO, with all places that were searched. */
dt_status dt_find_data_file(const char *name, const char *directory, char *out, size_t out_bytes);

/* The path of a script that comes with dtbench, in `out`: ../../scripts from the program in a
 * build, ../share/dtbench/scripts in an installation. No other places, because the script will be
 * executed. Errors: DT_ERR_IO, with both places. */
dt_status dt_find_script(const char *name, char *out, size_t out_bytes);

/* The file for a name: "gcp_a2" in folder "clusters" is clusters/gcp_a2.json; a name with a slash,
 * or that ends in .json, is already a file. Truncated if `out` has no room. */
void dt_data_file_name(const char *folder, const char *name, char *out, size_t out_bytes);

/* Names of the files in the folder that dt_find_data_file finds, without ".json", in order,
 * separated by ", "; "" if there are none. Names for which `out` has no room are left out. */
void dt_data_file_names(const char *folder, char *out, size_t out_bytes);

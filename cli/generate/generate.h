/* Makes files of the source tree, and parts of files, from dtbench's tables: schemas from the
 * tables of keys, the manual page from the table of commands, and the reference pages.
 * scripts/generate writes them; a test fails where one is stale. The build makes the commands' own
 * manual pages. Nothing at run time depends on these texts. */
#pragma once

#include "cli/text/text.h"

/* Write the file called `name` ("config-schema"). `commands` ends with NULL. Errors: DT_ERR_INVALID
 * where there is no such file, DT_ERR_HOST_MEMORY. */
dt_status generate(const char *name, const struct command *const *commands, FILE *to);

/* Write the manual page of each command that is not hidden: folder/dtbench-COMMAND.1, in mdoc(7).
 * `commands` ends with NULL. Errors: DT_ERR_IO. */
dt_status generate_pages(const char *folder, const struct command *const *commands);

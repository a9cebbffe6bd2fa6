/* The files of the source tree, and parts of them, that are made from dtbench's tables: schemas from those of keys, the manual page
 * from that of commands, the reference pages. scripts/generate writes them; a test fails where one is stale. The commands' own manual pages
 * are made by the build. Only texts are made here, and nothing at run time depends on them. */
#ifndef CLI_GENERATE_GENERATE_H
#define CLI_GENERATE_GENERATE_H

#include "cli/text/text.h"

/* Write the file called `name` ("config-schema"). `commands` ends with NULL. Errors: DT_ERR_INVALID where there is no such file,
 * DT_ERR_HOST_MEMORY. */
dt_status generate(const char *name, const struct command *const *commands, FILE *to);

/* Write the manual page of each command that is not hidden: folder/dtbench-COMMAND.1, in mdoc(7). `commands` ends with NULL.
 * Errors: DT_ERR_IO. */
dt_status generate_pages(const char *folder, const struct command *const *commands);

#endif

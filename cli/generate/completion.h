/* What cli/completion.bash must know of commands, options and keys, as bash functions. */
#ifndef CLI_GENERATE_COMPLETION_H
#define CLI_GENERATE_COMPLETION_H

#include "cli/generate/tables.h"

void completion_write(const struct generate_tables *tables, FILE *to);

#endif

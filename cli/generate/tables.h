/* What the texts are made from. */
#ifndef CLI_GENERATE_TABLES_H
#define CLI_GENERATE_TABLES_H

#include "cli/text/options.h"
#include "lib/config/config.h"

struct generate_tables {
    const struct command *const *commands; /* the last is NULL */
    const struct dt_table *keys;           /* of a config */
};

#endif

/* Parts of the manual page, in mdoc(7). */
#ifndef CLI_GENERATE_MANUAL_H
#define CLI_GENERATE_MANUAL_H

#include "cli/generate/tables.h"

void manual_synopsis(const struct generate_tables *tables, FILE *to);
/* A section for each command: what it does, and its options. */
void manual_commands(const struct generate_tables *tables, FILE *to);
void manual_keys(const struct generate_tables *tables, FILE *to);
void manual_exit_codes(const struct generate_tables *tables, FILE *to);

#endif

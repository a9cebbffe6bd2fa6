/* Tables of the pages in docs/. */
#ifndef CLI_GENERATE_MARKDOWN_H
#define CLI_GENERATE_MARKDOWN_H

#include "cli/generate/tables.h"

/* A heading and a table for each group of keys. */
void markdown_keys(const struct generate_tables *tables, FILE *to);
void markdown_metrics(const struct generate_tables *tables, FILE *to);
/* What each paradigm does, and what it holds; which keys it reads that others do not. */
void markdown_paradigms(const struct generate_tables *tables, FILE *to);
void markdown_paradigm_keys(const struct generate_tables *tables, FILE *to);
void markdown_exit_codes(const struct generate_tables *tables, FILE *to);

#endif

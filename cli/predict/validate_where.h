/* Which rows of a table count: conditions on its columns, such as "gpu=a100_80gb" and "tp<=8". */
#ifndef CLI_PREDICT_VALIDATE_WHERE_H
#define CLI_PREDICT_VALIDATE_WHERE_H

#include "lib/base/csv.h"
#include "lib/base/status.h"

/* Keep the rows that meet all conditions [count], "COLUMN OPERATOR VALUE" with one of = != < <= > >=. Two numbers are compared as numbers,
 * anything else as text. An empty field is no number. `path` names the table in errors.
 * Errors: DT_ERR_INVALID: a condition that is none, a column that is not there, "<" of a text, and no row left. */
dt_status validate_where(struct dt_csv *csv, const char *path, const char *const *conditions, int count);

#endif

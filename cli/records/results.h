/* Records as a table of values, for commands that read many of them: `dtbench show`, `dtbench
 * report`, and the end of a run.
 *
 * A sweep may have 100,000 records of 4 KB, which as trees of JSON take 5 GB. Here each line is
 * scanned once and dropped, and only the requested values are kept: one value for a key that is the
 * same in all records, one text for all records that share it. A whole record can be read again
 * from its place (results_record).
 *
 * Columns are named as in the record, without "config.", "metrics." and "provenance." before them:
 * "model.dtype", "tokens_per_s", "step_s.median", "git_commit". Of a list the first and the last
 * value are columns: "losses.first". */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;
struct results;

/* Is the metric or provenance fact of this name wanted? All other values are always kept. */
typedef bool results_wish(const void *context, const char *name);

/* Create results without rows. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status results_create(results_wish *wish, const void *context, struct results **out);
void results_destroy(struct results *results); /* takes NULL */
DT_DESTROYS(results_destroy, struct results)

/* Add the records of `arguments` as record_set_read does, with the same warnings about records that
 * are left out. Errors: those of record_set_read. */
dt_status results_read(struct results *results, const char *command, const char *const *arguments, int argument_count);
/* Add one record, a line. Only its values are kept: results_record cannot return it. *row: its row;
 * -1: it is not a record. Errors: DT_ERR_HOST_MEMORY. */
dt_status results_add(struct results *results, const char *line, int *row);

int results_count(const struct results *results); /* rows */

/* ---- columns: numbered from 0 in the order in which keys first occurred; an object's column has
 * no values, but its keys' columns have ---- */

enum result_part { RESULT_OF_CONFIG, RESULT_OF_METRICS, RESULT_OF_PROVENANCE, RESULT_OF_RECORD /* "status", "config_hash" */ };

int results_columns(const struct results *results);
const char *results_name(const struct results *results, int column);
enum result_part results_part(const struct results *results, int column);
/* The column of a name; "step_s" and "peak_bytes" are their median and total. -1: no record has
 * such a key. */
int results_find(const struct results *results, const char *name);
/* If there is no such column: the nearest name, for an error's text; NULL: none is near. */
const char *results_nearest(const struct results *results, const char *name);
/* Does the column have values that are not the same in all rows? A row without a value differs from
 * a row that has one. */
bool results_has_values(const struct results *results, int column);
bool results_differs(const struct results *results, int column);

/* ---- values ---- */

enum result_kind { RESULT_NONE /* null, or the record has no such key */, RESULT_NUMBER, RESULT_TEXT, RESULT_TRUTH };

enum result_kind results_kind(const struct results *results, int row, int column);
double results_number(const struct results *results, int row, int column); /* NaN if it is not a number */
/* The value as in the record, a text without quotes; "" if there is none. `number` is used for
 * values that are kept as numbers. */
const char *results_text(const struct results *results, int row, int column, char number[32]);
/* Of what is no metric: the number of its value, below results_ids(), the same for the same value;
 * 0: none. */
int results_id(const struct results *results, int row, int column);
int results_ids(const struct results *results);
/* Equal in both rows? */
bool results_same(const struct results *results, int left, int right, int column);

/* Replace a metric. Errors: DT_ERR_HOST_MEMORY. */
dt_status results_set(struct results *results, int row, int column, double value);

/* Read the whole record again. Owner of *out: the caller, dt_json_destroy. Errors: DT_ERR_IO,
 * DT_ERR_INVALID if the file has changed since, DT_ERR_HOST_MEMORY. */
dt_status results_record(const struct results *results, int row, struct cJSON **out);

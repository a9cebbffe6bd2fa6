/* Records: the results, one JSON object a line ("JSON lines").
 *
 * A line is appended with one write() and one fsync under an advisory lock, so that neither a crash nor a second writer can leave a mixture
 * of two lines. What a crash can leave is a torn last line: readers skip it, and the next append ends it with a newline first. */
#ifndef LIB_RECORD_RECORD_H
#define LIB_RECORD_RECORD_H

#include "lib/base/status.h"
#include "lib/record/metrics.h"

#include <stdbool.h>
#include <stddef.h>

struct cJSON;
struct dt_record_file;

enum { DT_RECORD_SCHEMA_VERSION = 1 };

/* One record before it is JSON. Unknown numbers are NaN, unknown pointers NULL: both become null. All of it is the caller's, and only
 * read. */
struct dt_record {
    const char *config_json; /* the resolved config, an object (experiment_to_json) */
    const char *config_hash;
    const char *sweep_id;         /* which sweep the experiment is part of; NULL: of none */
    int sweep_index, sweep_count; /* its place in it, from 0 */
    const char *status;           /* "ok", "oom", "invalid", "timeout", "failed", "interrupted" */
    const char *error;            /* one line; NULL when ok */
    const double *losses;         /* [loss_count] warm-up steps first */
    int loss_count;
    struct dt_metrics metrics;
    const double *step_s; /* [step_count] timed steps, seconds: metrics.step_s's list */
    int step_count;
    const struct dt_rank_memory *ranks; /* [rank_count] the lists of peak_bytes and host_peak_bytes */
    int rank_count;
    const char *verification;       /* "passed", "failed"; NULL: not asked for */
    double verification_error;      /* the largest relative difference between the losses */
    const struct cJSON *provenance; /* dt_provenance_collect */
};

/* A record with every number unknown, "failed". */
void dt_record_init(struct dt_record *record);

/* The record as one line without its newline. Owner: the caller, free. Errors: DT_ERR_INVALID for a config_json that is not JSON,
 * DT_ERR_HOST_MEMORY. */
dt_status dt_record_format(const struct dt_record *record, char **out_line);

/* Open `path` for appending ("-": standard output), creating it. Shows beforehand that lines can be written: the file must be writable and
 * its file system take a few blocks more; what was there stays as it is. Errors: DT_ERR_IO, naming path and cause. Owner: the caller. */
dt_status dt_record_open(const char *path, struct dt_record_file **out);
/* Append one line. Errors: DT_ERR_IO; a part that got written is taken back where the file allows it. */
dt_status dt_record_append(struct dt_record_file *file, const char *line);
void dt_record_close(struct dt_record_file *file); /* takes NULL */

/* All records of a file, as a JSON array; a file that does not exist has none. Lines that are not a JSON object (a torn tail, say) are
 * skipped and counted in *skipped. Owner: the caller, dt_json_destroy. Errors: DT_ERR_IO, also of a line past DT_RECORD_MAX_BYTES, which
 * is three times the record of 65,536 ranks; DT_ERR_HOST_MEMORY. */
enum { DT_RECORD_MAX_BYTES = 128 << 20 };
dt_status dt_records_read(const char *path, struct cJSON **out, int *skipped);
/* Does one of them have this hash and status "ok"? */
bool dt_records_have_ok(const struct cJSON *records, const char *config_hash);

#endif

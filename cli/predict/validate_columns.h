/* The columns of a table of measured runs, by any of the names that published tables give them, and their fields by type. */
#ifndef CLI_PREDICT_VALIDATE_COLUMNS_H
#define CLI_PREDICT_VALIDATE_COLUMNS_H

#include "lib/base/csv.h"
#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum measured_column {
    COLUMN_GPUS,
    COLUMN_GPUS_PER_NODE,
    COLUMN_MODEL,
    COLUMN_STEP_S,
    COLUMN_STEP_MS,
    COLUMN_PEAK_MB,
    COLUMN_PEAK_GIB,
    COLUMN_STATUS,
    COLUMN_NOTES,
    COLUMN_ACTIVATION,
    COLUMN_SHARD_SIZE,
    /* of the study's table */
    COLUMN_PARADIGM,
    COLUMN_BATCH_PER_REPLICA,
    COLUMN_STAGES,
    COLUMN_CHUNKS,
    COLUMN_FSDP_WRAP,
    COLUMN_PARAMETER_OFFLOAD,
    /* of tables of meshes */
    COLUMN_LAYERS,
    COLUMN_HIDDEN,
    COLUMN_HEADS,
    COLUMN_VOCAB,
    COLUMN_SEQUENCE,
    COLUMN_DTYPE,
    COLUMN_FFN,
    COLUMN_KV_HEADS,
    COLUMN_TIED,
    COLUMN_TENSOR,
    COLUMN_PIPELINE,
    COLUMN_DATA,
    COLUMN_CONTEXT,
    COLUMN_ZERO,
    COLUMN_VIRTUAL_STAGES,
    COLUMN_ORDER,
    COLUMN_MICRO_BATCH,
    COLUMN_GLOBAL_BATCH,
    COLUMN_RECOMPUTE,
    COLUMN_SEQUENCE_PARALLEL,
    MEASURED_COLUMNS
};

struct measured_table {
    const char *path; /* lent */
    struct dt_csv csv;
    int columns[MEASURED_COLUMNS]; /* where each stands in the file; -1: it does not */
    bool is_study;                 /* has a column "paradigm" */
};

/* Owner: the caller, measured_table_finish, also after a failure.
 * Errors: DT_ERR_IO; DT_ERR_INVALID when a column that is needed is not there, or there are no rows; DT_ERR_HOST_MEMORY. */
dt_status measured_table_read(const char *path, struct measured_table *out);
void measured_table_finish(struct measured_table *table); /* takes a zeroed one */

/* The columns that nothing is made of, but for those known to be said for people ("notes"), with commas, and for each the nearest known
 * name; "" without any. */
void measured_table_unused(const struct measured_table *table, char *text, size_t text_bytes);

bool measured_has(const struct measured_table *table, enum measured_column column);
const char *measured_text(const struct measured_table *table, int row, enum measured_column column); /* "" where there is none */

/* Fields of a row. Errors, "FILE:LINE: COLUMN: ...": DT_ERR_INVALID. */
/* A count of at least 1; `missing` where the field is empty, 0 for none that may be. */
dt_status measured_count(const struct measured_table *table, int row, enum measured_column column, int missing, int *out);
/* A number above 0; NAN where the field is empty. */
dt_status measured_amount(const struct measured_table *table, int row, enum measured_column column, double *out);
/* The field's place among `names`, which a comma divides; -1 where it is empty. */
dt_status measured_choice(const struct measured_table *table, int row, enum measured_column column, const char *names, int *out);
dt_status measured_wrong(const struct measured_table *table, int row, enum measured_column column, const char *expected);

#endif

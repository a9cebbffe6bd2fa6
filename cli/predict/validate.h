/* `dtbench validate`: predictions of the simulated cluster beside what was measured. The parts of cmd_validate.c. */
#ifndef CLI_PREDICT_VALIDATE_H
#define CLI_PREDICT_VALIDATE_H

#include "schedules/config/experiment.h"

#include <stdbool.h>
#include <stdio.h>

enum validate_outcome {
    VALIDATE_PREDICTED,
    VALIDATE_OUT_OF_MEMORY, /* its bytes are predicted, its time is not */
    VALIDATE_REFUSED,       /* the profile's framework does not run it: `reason` says why */
    VALIDATE_SKIPPED,       /* not an experiment of this version: `reason` says why */
};

enum validate_fit { VALIDATE_FIT_UNKNOWN, VALIDATE_FIT, VALIDATE_FIT_NOT };

/* One measured run. */
struct validate_row {
    int line;                     /* of the file; of records their number, from 1 */
    char recorded_hash[17];       /* of records, their config_hash */
    struct experiment experiment; /* not of skipped rows, but for paradigm, world_size, batch_size and activation */
    char model[32];               /* preset, or the table's name of it */
    int model_order;              /* of groups by model: presets as in their table, other names as the rows come */
    int gpus_per_node, stages, tensor;
    double measured_s, measured_bytes;   /* NAN: not told */
    enum validate_fit measured_fit;      /* in memory, where the table has its status */
    double predicted_s, predicted_bytes; /* NAN: not known */
    double batch_per_gpu;
    enum validate_outcome outcome;
    char reason[256];
};

struct validate_rows {
    struct validate_row *rows; /* [count] */
    int count;
    bool records;     /* they come from dtbench's own records, not from a table */
    char unused[512]; /* columns that nothing is made of; "": none */
};

/* What the rows do not tell. */
struct validate_system {
    const char *cluster, *profile; /* files; NULL only where records follow, which are then refused */
    const char *const *sets;       /* [set_count] "path=value", changes to every experiment */
    int set_count;
    const char *const *where; /* [where_count] conditions on a table's rows (validate_where.h) */
    int where_count;
};

/* Are these records: a folder, or a file that begins with a JSON object? Never standard input ("-"), which could not be read again. */
bool validate_is_records(const char *path);

/* Read a table with a column "paradigm" (results/study/README.md), one of meshes (results/validation/README.md), or measured records of
 * dtbench. Owner: the caller, validate_rows_finish, also after a failure.
 * Errors, "FILE:LINE: ...": DT_ERR_IO, DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status validate_rows_read(const char *path, const struct validate_system *system, struct validate_rows *out);
void validate_rows_finish(struct validate_rows *rows); /* takes a zeroed one */

/* Predict every row; equal experiments once. stop: asked between them; may be NULL.
 * Errors: of cluster and profile files; DT_ERR_INTERRUPTED; DT_ERR_HOST_MEMORY. */
dt_status validate_predict(struct validate_rows *rows, bool (*stop)(void *context), void *context);

/* Errors: DT_ERR_INVALID where nothing was predicted, with the reason of the first row. */
dt_status validate_rows_check(const struct validate_rows *rows);

/* ---- what comes out ---- */

/* Of |predicted - measured| / measured; bias: the median of (predicted - measured) / measured. NAN without rows. */
struct validate_error {
    int rows;
    double median, p90, bias;
};

/* Rows with something in common. */
struct validate_group {
    char key[16], value[24]; /* "paradigm", "ddp" */
    int rows, out_of_memory, skipped;
    struct validate_error time, memory;
};

/* Cells: the rows with the same model, GPUs, GPUs per node and batch per GPU, of two paradigms or more; of each the fastest run counts. */
struct validate_winners {
    int cells, right;             /* all */
    int clear_cells, clear_right; /* those where the two best differ by more than VALIDATE_CLEAR */
};
#define VALIDATE_CLEAR 0.15

/* Cells: the rows with the same model, sequence, GPUs and samples a step, of two configurations or more that have a measured time. Right:
 * the configuration that is predicted fastest was measured no more than VALIDATE_NEAR slower than the fastest. */
struct validate_choices {
    int cells, right;
};
#define VALIDATE_NEAR 0.08

/* Rows whose table says whether memory sufficed. [measured][predicted], 1: it did not. */
struct validate_fits {
    int rows[2][2];
};

struct validate_summary {
    struct validate_group *groups; /* [group_count] by key, the last is all rows */
    int group_count;
    struct validate_winners winners;
    struct validate_choices choices;
    struct validate_fits fits;
};

dt_status validate_summarize(const struct validate_rows *rows, struct validate_summary *out);
void validate_summary_finish(struct validate_summary *summary);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status validate_print(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to);
dt_status validate_print_json(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to);

#endif

/* `dtbench validate`: predictions of the simulated cluster beside what was measured. The parts of cmd_validate.c. */
#ifndef CLI_PREDICT_VALIDATE_H
#define CLI_PREDICT_VALIDATE_H

#include "schedules/config/experiment.h"

#include <stdbool.h>
#include <stdio.h>

enum validate_outcome {
    VALIDATE_PREDICTED,
    VALIDATE_OUT_OF_MEMORY, /* its bytes are predicted, its time is not */
    VALIDATE_SKIPPED,       /* not an experiment of this version: `reason` says why */
};

/* One measured run. */
struct validate_row {
    int line;                     /* of the file */
    struct experiment experiment; /* not of skipped rows, but for paradigm, world_size, batch_size and activation */
    char model[32];               /* preset */
    int gpus_per_node;
    double measured_s, measured_bytes;   /* NAN: not told */
    double predicted_s, predicted_bytes; /* NAN: not known */
    double batch_per_gpu;
    enum validate_outcome outcome;
    char reason[256];
};

struct validate_rows {
    struct validate_row *rows; /* [count] */
    int count;
};

/* What the rows do not tell. */
struct validate_system {
    const char *cluster, *profile; /* files */
    const char *const *sets;       /* [set_count] "path=value", changes to every experiment */
    int set_count;
};

/* Read a file with the columns of results/study/measured.csv (results/study/README.md): paradigm, model, gpus, batch_per_replica; and
 * gpus_per_node, stages, chunks, activation, fsdp_wrap, parameter_offload, step_s, peak_mb, placement_known, step_s_stdev, source_file where
 * they are there. Owner: the caller, validate_rows_finish, also after a failure.
 * Errors, "FILE:LINE: ...": DT_ERR_IO, DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status validate_rows_read(const char *path, const struct validate_system *system, struct validate_rows *out);
void validate_rows_finish(struct validate_rows *rows); /* takes a zeroed one */

/* Predict every row; equal experiments once. stop: asked between them; may be NULL.
 * Errors: of cluster and profile files; DT_ERR_INTERRUPTED; DT_ERR_HOST_MEMORY. */
dt_status validate_predict(struct validate_rows *rows, bool (*stop)(void *context), void *context);

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

struct validate_summary {
    struct validate_group *groups; /* [group_count] by key, the last is all rows */
    int group_count;
    struct validate_winners winners;
};

dt_status validate_summarize(const struct validate_rows *rows, struct validate_summary *out);
void validate_summary_finish(struct validate_summary *summary);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status validate_print(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to);
dt_status validate_print_json(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to);

#endif

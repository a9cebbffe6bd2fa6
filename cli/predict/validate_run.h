/* One measured run as a table tells it, and as the experiment that it is. */
#ifndef CLI_PREDICT_VALIDATE_RUN_H
#define CLI_PREDICT_VALIDATE_RUN_H

#include "cli/predict/validate.h"
#include "cli/predict/validate_columns.h"

struct measured_run {
    enum paradigm_kind paradigm;
    const struct dt_model_preset *preset; /* NULL: the sizes below */
    const struct dt_model_family *family;
    int layers, hidden, heads, vocab, sequence; /* vocab, sequence 0: as the config's defaults have them */
    int ffn, kv_heads;
    bool tied;
    const char *dtype, *attention, *loss, *optimizer;
    int gpus, gpus_per_node;   /* gpus_per_node 0: not told */
    int samples;               /* of a step and replica */
    int tensor, stages;        /* GPUs of a replica are tensor * stages */
    int chunks, micro_batches; /* parts that go through a pipeline; parts without one */
    int virtual_stages;
    int shard_size; /* of hsdp; 0: not told */
    enum {
        SPLIT_BALANCED,
        SPLIT_BY_PARAMETERS,
        SPLIT_EQUAL_BLOCKS,
        SPLIT_EQUAL_BUT_ENDS
    } split;           /* the last: one block fewer at both ends */
    const char *order; /* of a pipeline; NULL: the config's default */
    enum activation_kind activation;
    int wrap, offload; /* -1: not told */
    bool sequence_parallel, sequence_parallel_told;
    char reason[256]; /* why no experiment can be made of it; "": one can */
};

/* Row i. What cannot be an experiment of any version gets a reason; what is no number is an error.
 * Errors, "FILE:LINE: COLUMN: ...": DT_ERR_INVALID. */
dt_status measured_run_of_study(const struct measured_table *table, int i, struct measured_run *out);
dt_status measured_run_of_mesh(const struct measured_table *table, int i, struct measured_run *out);

/* The row's experiment, from the text of a config and the system's changes to it. A row whose config this version refuses is skipped with
 * the reason. `where` names the row in errors. Errors: DT_ERR_INVALID where the changes make several experiments of it; DT_ERR_IO,
 * DT_ERR_HOST_MEMORY. */
dt_status validate_row_experiment(const char *text, const char *where, const struct validate_system *system, struct validate_row *row);
void validate_row_skip(struct validate_row *row, const char *reason);

/* The rows of all records of a file or folder. Errors: DT_ERR_IO, DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status validate_records_read(const char *path, const struct validate_system *system, struct validate_rows *out);

#endif

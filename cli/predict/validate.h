#pragma once

#include "lib/base/csv.h"
#include "lib/base/status.h"
#include "lib/sim/program.h"
#include "schedules/config/experiment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- `dtbench validate`: predictions of the simulated cluster, compared with measured runs
 * ---- */

enum validate_outcome {
    VALIDATE_PREDICTED,
    VALIDATE_OUT_OF_MEMORY, /* its bytes are predicted, but not its time */
    VALIDATE_REFUSED,       /* the profile's framework cannot run it: `reason` says why */
    VALIDATE_SKIPPED,       /* not an experiment of this version: `reason` says why; world_size is 0 if it could not be read */
};

enum validate_fit { VALIDATE_FIT_UNKNOWN, VALIDATE_FIT, VALIDATE_FIT_NOT };

/* What a run computes in one kernel each, or in separate operations of PyTorch, according to its
 * table: flags of RMS norms, attention's softmax, SwiGLU and rope, and Adam; and whose products. */
enum measured_kernels {
    NORM_IN_KERNEL = 1,
    NORM_IN_OPERATIONS = 2,
    SOFTMAX_IN_OPERATIONS = 4,
    GATE_AND_ROPE_IN_OPERATIONS = 8,
    ADAM_IN_OPERATIONS = 16,
    OLDER_PRODUCTS = 32
};

/* One measured run. */
struct validate_row {
    int line;                     /* line in the file; for records their number, from 1 */
    char recorded_hash[17];       /* for records, their config_hash */
    struct experiment experiment; /* for skipped rows only paradigm, world_size, batch_size and activation are set */
    char model[32];               /* preset, or the table's name of the model */
    int model_order;              /* order of groups by model: presets as in their table, other names in the order of rows */
    int gpus_per_node, stages, tensor;
    double measured_s, measured_bytes; /* NAN: not in the table */
    enum validate_fit measured_fit;    /* in memory: by its status, or because it has a time */
    unsigned kernels;                  /* enum measured_kernels: take the place of the profile's; 0: the table does not say */
    double attention_rate;             /* of the kernel that the row names, where the profile's is 1; 0: it names none */
    bool whole_gpu;                    /* measured_bytes are nvidia-smi's, not the tensors' alone */
    bool sequence_parallel_open;       /* neither table nor --set gives tensor.sequence_parallel: the default is used */
    bool recompute_open;               /* nor what is recomputed: nothing is */
    bool fp8_open;                     /* in FP8, and nor whether parameters are kept in FP8 alone: in 16 bits, too */
    bool reduction_open; /* accumulates gradients that ranks share, and --set does not say that each part is reduced: the last is */
    bool sharing_open;   /* neither table nor --set says how replicas share the model: each has it whole */
    bool fit_undecided;  /* sequence_parallel_open, and it decides whether memory suffices; only found with whole steps */
    double predicted_s, predicted_bytes; /* NAN: not known */
    double step_error;                   /* the profile's bound on the error of eight of ten predictions; NAN: it has none */
    double peak_tflops;                  /* of a GPU of the cluster, in the run's numbers; 0: unknown */
    double batch_per_gpu;
    enum validate_outcome outcome;
    char reason[256];
    char note[192]; /* what was assumed for the row; "": nothing */
};

struct validate_rows {
    struct validate_row *rows; /* [count] */
    int count;
    enum {
        VALIDATE_WHOLE,
        VALIDATE_BRIEF,  /* long steps are predicted from short ones (simulation_run_brief) */
        VALIDATE_COARSE, /* from still shorter ones, which only show how a step changes (simulation_run_coarse); memory is not checked */
    } steps;             /* the reader sets it */
    bool records;        /* rows are dtbench's own records, not a table's */
    char unused[512];    /* columns that are not used; "": none */
};

/* Settings that the rows do not have. */
struct validate_system {
    const char *cluster, *profile; /* files; NULL: records are refused, and for tables the cluster's own profile is used */
    const char *const
        *sets; /* [set_count] "path=value", changes to every experiment; tensor.sequence_parallel: only for rows that do not have it */
    int set_count;
    const char *const *where; /* [where_count] conditions on a table's rows (validate_where) */
    int where_count;
};

/* Whether the path has records: a folder, or a file that begins with a JSON object. Never standard
 * input ("-"), which could not be read again. */
bool validate_is_records(const char *path);

/* Read a table with a column "paradigm" (results/study/README.md), one of meshes
 * (results/validation/README.md), or measured records of dtbench. A row that lacks a value, or has
 * an unknown name, is skipped with its reason. Owner: the caller, validate_rows_finish, also after
 * a failure. Errors, "FILE:LINE: ...": DT_ERR_IO, DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status validate_rows_read(const char *path, const struct validate_system *system, struct validate_rows *out);
void validate_rows_finish(struct validate_rows *rows); /* takes zeroed rows */

/* Predict every row, on all processors; equal experiments once. stop: called between rows by any
 * thread; may be NULL. Errors: of cluster and profile files; DT_ERR_INTERRUPTED;
 * DT_ERR_HOST_MEMORY. */
dt_status validate_predict(struct validate_rows *rows, bool (*stop)(void *context));

/* Errors: DT_ERR_INVALID if nothing was predicted, with the reason of the first row. */
dt_status validate_rows_check(const struct validate_rows *rows);

/* ---- results ---- */

/* Statistics of |predicted - measured| / measured; bias: the median of (predicted - measured) /
 * measured. NAN without rows. */
struct validate_error {
    int rows;
    double median, p90, bias;
};
/* Compute the statistics of ratios [count], each predicted / measured - 1. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status validate_error_of(const double *ratios, int count, struct validate_error *out);

/* Rows with a common property. */
struct validate_group {
    char key[16], value[24]; /* "paradigm", "ddp" */
    int rows, out_of_memory, skipped;
    struct validate_error time, memory;
};

/* Cells: rows with equal model, GPUs, GPUs per node and batch per GPU, and at least two paradigms;
 * the fastest run of each paradigm counts. */
struct validate_winners {
    int cells, right;             /* all */
    int clear_cells, clear_right; /* those where the two best differ by more than VALIDATE_CLEAR */
};
#define VALIDATE_CLEAR 0.15

/* Cells: rows with equal model, sequence, GPUs and samples per step, and at least two
 * configurations with a measured time. Right: the measured time of the configuration that is
 * predicted fastest is at most VALIDATE_NEAR above the best one. */
struct validate_choices {
    int cells, right;
};
#define VALIDATE_NEAR 0.08

/* Rows whose table says whether memory sufficed. [measured][predicted], 1: it did not suffice.
 * undecided: not counted there, since the result depends on settings that the table does not
 * have. sharing_open: of those that ran and are predicted not to fit, the ones of which nothing says
 * how ranks share the model; recompute_open, fp8_open, reduction_open: likewise. */
struct validate_fits {
    int rows[2][2], undecided, sharing_open, recompute_open, fp8_open, reduction_open;
};

/* Rows whose step time is predicted with an error limit for eight of ten, and those whose error is
 * within it. */
struct validate_intervals {
    int rows, within;
};

/* Two runs of one config, the fastest and the slowest, whose times differ by more than
 * VALIDATE_CONTRADICTS: their numbers among the rows, in the table's order. */
struct validate_contradiction {
    int first, second;
};
#define VALIDATE_CONTRADICTS 0.1

struct validate_summary {
    struct validate_group *groups; /* [group_count] by key, the last is all rows */
    int group_count;
    struct validate_contradiction *contradictions; /* [contradiction_count] */
    int contradiction_count;
    struct validate_winners winners;
    struct validate_choices choices;
    struct validate_fits fits;
    struct validate_intervals intervals;
};

dt_status validate_summarize(const struct validate_rows *rows, struct validate_summary *out);
void validate_summary_finish(struct validate_summary *summary);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status validate_print(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to);
dt_status validate_print_json(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to);

/* ---- columns of a table of measured runs, by the names that published tables use, and reading
 * their fields by type ---- */

/* Columns that are read by name; the others only have a row of the table in validate_table.c. */
enum measured_column {
    COLUMN_GPUS,
    COLUMN_GPU, /* the GPU's name */
    COLUMN_EXPERT_RANKS,
    COLUMN_MODEL,
    COLUMN_STEP_S,
    COLUMN_STEP_MS,
    COLUMN_TOKENS,     /* of one GPU a second */
    COLUMN_ALL_TOKENS, /* of all GPUs a second */
    COLUMN_SAMPLES,    /* of all GPUs a second */
    COLUMN_PEAK_MB,
    COLUMN_PEAK_GB,
    COLUMN_PEAK_GIB,
    COLUMN_STATUS,
    COLUMN_NOTES,
    COLUMN_ACTIVATION,
    COLUMN_PARADIGM,
    COLUMN_FSDP_WRAP,
    COLUMN_FSDP_GATHER,
    COLUMN_PARAMETER_OFFLOAD,
    COLUMN_VOCAB,
    COLUMN_DTYPE,
    COLUMN_TIED,
    COLUMN_CONTEXT_COMM,
    COLUMN_ZERO,
    COLUMN_ORDER,
    COLUMN_RECOMPUTE,
    COLUMN_SEQUENCE_PARALLEL,
    COLUMN_GLOBAL_BATCH,
    COLUMN_ACCUMULATED, /* micro-batches of a replica's step */
    COLUMN_LOCAL_BATCH,
    COLUMN_DISTRIBUTED_OPTIMIZER, /* yes: ZeRO-1, where no other column says how replicas share the model */
    COLUMN_BF16,                  /* yes, where no other column says a type */
    COLUMN_SEQUENCE,              /* not of models of images */
};
enum { MEASURED_COLUMNS = 53 };

struct measured_run;
struct measured_table {
    const char *path; /* owned by the caller */
    struct dt_csv csv;
    int columns[MEASURED_COLUMNS]; /* index of each in the file; -1: missing */
    bool is_study;                 /* it has a column "paradigm" */
    bool profile_sums;             /* the profile has sums of gradients in fp32 already, so that a row's own are not added */
    const char *paradigm;          /* of all rows of a table of meshes, from --set; NULL: as each row says */
    bool has_decimal_comma;        /* an amount has one that cannot be anything else */
};

/* The text of dt_error_message() without "PATH:LINE: ", so that equal reasons of rows are equal
 * texts. */
void validate_reason(const char *path, int line, char *text, size_t text_bytes);

/* Owner: the caller, measured_table_finish, also after a failure.
 * Errors: DT_ERR_IO; DT_ERR_INVALID if a required column is missing, or there are no rows;
 * DT_ERR_HOST_MEMORY. */
dt_status measured_table_read(const char *path, struct measured_table *out);
void measured_table_finish(struct measured_table *table); /* takes a zeroed one */

/* The unused columns, except those that are only for people ("notes"), separated by commas, each
 * with the nearest known name; "": none. */
void measured_table_unused(const struct measured_table *table, char *text, size_t text_bytes);

const char *measured_text(const struct measured_table *table, int row, int column); /* "" if the field is empty */

/* Reading fields as people and programs write them. Whether the field is empty: "", -, n/a, NaN,
 * null. */
bool validate_is_missing(const char *text);
/* Leave out what stands around numbers in texts: marks of footnotes, ~, and an error after ±; blanks
 * and apostrophes of typographers become plain ones. In place. */
void validate_plain(char *text);
/* Leave out points between thousands, where it is known that the decimal mark is a comma. */
void validate_drop_points(char *text);
/* A number, perhaps with thousands separators (of one kind, in groups of three) and with a unit,
 * which is converted into `unit` ("": no unit). A single comma separates thousands if possible;
 * with comma_is_decimal never. NAN: not such a number. */
double validate_number(const char *text, const char *unit, bool comma_is_decimal);
bool validate_is_unit(const char *text);
bool validate_is_unit_of(const char *text, const char *unit); /* of what `unit` measures */
/* Whether a column's name has a unit among its words, "Peak Mem (MiB)"; then the unit, and `rest`,
 * the name without it. */
bool validate_unit_in(const char *name, char *unit, size_t unit_bytes, char *rest, size_t rest_bytes);
const char *validate_unit_after(const char *text); /* what follows a number */
/* A comma that separates no thousands: "31,50". */
bool validate_has_decimal_comma(const char *text);
/* A comma that could be a decimal one, too: "1,234". */
bool validate_is_ambiguous(const char *text);

/* Fields of a row. Errors, "FILE:LINE: COLUMN: ...": DT_ERR_INVALID. */
const char *measured_name(const struct measured_table *table, int column);                      /* as the table has it */
bool measured_is_oom(const struct measured_table *table, int row, enum measured_column column); /* the field is "OOM" instead of a number */
dt_status measured_wrong(const struct measured_table *table, int row, int column, const char *expected);
double measured_number(const struct measured_table *table, int row, int column);             /* NAN: not a number */
dt_status measured_count(const struct measured_table *table, int row, int column, int *out); /* at least 1 */
/* A number above 0; NAN where the field is empty. */
dt_status measured_amount(const struct measured_table *table, int row, enum measured_column column, double *out);

/* The field's index among `choices`, which are separated by commas; -1: the field is empty. */
dt_status measured_choice(const struct measured_table *table, int row, enum measured_column column, const char *choices, int *out);
/* Yes or no, perhaps with words after it. `told` is false where the field is empty. */
dt_status measured_yes(const struct measured_table *table, int row, enum measured_column column, bool *told, bool *yes);
bool measured_begins_with(const char *text, const char *name); /* in any letters; name may be NULL */
/* Whether a column of this name has a number of experts, or says whether there are any. */
bool measured_is_of_experts(const char *name);
bool measured_has_degrees(const struct measured_table *table); /* a column of dp, tp, pp or cp */
/* All counts of a row of this kind of table; and whether none of a model's sizes is missing. */
dt_status measured_counts(const struct measured_table *table, int row, struct measured_run *run);
dt_status measured_has_sizes(const struct measured_table *table, int row, const struct measured_run *run);

/* ---- one measured run of a table, and its conversion to an experiment ---- */

/* What a model's name says of its layers: values of the config's keys. */
struct measured_architecture {
    const char *word; /* in the name */
    const char *mlp, *norm, *position, *bias;
    double ffn; /* for each of the hidden size, where the table does not say it */
};

struct measured_run {
    enum paradigm_kind paradigm;
    const struct dt_model_preset *preset;             /* NULL: the sizes below are used */
    const struct measured_architecture *architecture; /* of a model that is no preset; NULL: the config's defaults */
    const struct dt_model_family *family;
    int layers, hidden, heads, vocab, sequence; /* vocab, sequence 0: the config's defaults */
    int ffn, kv_heads;
    bool tied;
    bool of_images;  /* a model of images: samples have no sequence */
    char sharing[8]; /* how replicas share the model, from a text of degrees; degrees_told: there is one */
    bool degrees_told;
    bool sharing_told; /* a column or --set says how replicas share the model */
    const char *dtype, *attention, *loss, *optimizer;
    bool wide_gradients; /* in fp32 whatever dtype is */
    enum dt_fp8 fp8;
    bool fp8_gather;
    int gpus, gpus_per_node, nodes;             /* gpus_per_node, nodes 0: unknown */
    int samples;                                /* of a step and replica */
    int data;                                   /* data-parallel ranks, from a table of meshes */
    int global_batch, micro_batch, local_batch; /* local: a replica's batch before accumulation; 0: not in the table */
    int tensor, stages;                         /* tensor * stages GPUs, times contexts, work on the same samples */
    int contexts;                               /* ranks that share each sample */
    const char *comm_type;                      /* how they communicate; NULL: the config's default */
    int chunks, micro_batches;                  /* micro-batches of a pipeline; micro-batches without one */
    int virtual_stages;
    int shard_size; /* of hsdp; 0: unknown */
    enum {
        SPLIT_BALANCED,
        SPLIT_BY_PARAMETERS,
        SPLIT_EQUAL_BLOCKS,
        SPLIT_EQUAL_BUT_ENDS, /* one block fewer at both ends */
        SPLIT_FILLED          /* equal stages as far as there are blocks; the last has the rest */
    } split;
    const char *order; /* of the pipeline; NULL: the config's default */
    enum activation_kind activation;
    int activation_every;      /* 0: unknown */
    int wrap, gather, offload; /* -1: unknown */
    bool sequence_parallel, sequence_parallel_told;
    unsigned kernels;      /* enum measured_kernels */
    double attention_rate; /* as in struct validate_row */
    char reason[256];      /* why it cannot be an experiment; "": it can */
    char note[96];         /* becomes the row's note */
};

/* Read row i. A run that cannot be an experiment of any version gets a reason; a missing or wrong
 * value is an error of that row. Errors, "FILE:LINE: COLUMN: ...": DT_ERR_INVALID. */
dt_status measured_run_of_study(const struct measured_table *table, int i, struct measured_run *out);
dt_status measured_run_of_mesh(const struct measured_table *table, int i, struct measured_run *out);
/* Whether the column of ZeRO and FSDP can have this name. */
bool measured_is_sharding(const char *name);

/* ---- selecting rows of a table: conditions on its columns, such as "gpu=a100_80gb" and "tp<=8"
 * ---- */

/* Keep the rows that meet all conditions [count], "COLUMN OPERATOR VALUE" with one of = != < <= >
 * >=. Two numbers are compared as numbers, anything else as text. An empty field is not a number.
 * `path` names the table in errors. Errors: DT_ERR_INVALID: not a condition, a missing column, "<"
 * with a text, or no row left. */
dt_status validate_where(struct dt_csv *csv, const char *path, const char *const *conditions, int count);

/* `dtbench validate` on a table of collectives that were timed alone, as by nccl-tests: columns
 * collective, size, gpus, busbw_GB_s (or busbw_GB_s_mean), and nodes or gpus_per_node. Needs a
 * cluster only. */

struct validate_collective {
    int line; /* of the file */
    enum dt_sim_collective kind;
    int gpus, nodes;
    double bytes;               /* bytes of a rank's whole buffer, as nccl-tests counts them */
    double measured, predicted; /* GB/s of the bus: bytes over time, times 2 (n - 1) / n of an all-reduce, (n - 1) / n of an all_gather or
                                         reduce_scatter, 1 of the others. Source  NVIDIA/nccl-tests, doc/PERFORMANCE.md */
    bool skipped;
    char reason[256];
};

struct validate_collectives {
    struct validate_collective *rows; /* [count] */
    int count;
    char unused[512]; /* columns that are not used; "": none */
};

/* Is the file such a table? Never for standard input ("-"), which could not be read again. Errors:
 * DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status validate_is_collectives(const char *path, bool *out);

/* Read and predict the rows that meet all conditions where [where_count] (validate_where). Rows for
 * which the cluster is too small are skipped. Owner: the caller, validate_collectives_finish, also
 * after a failure. Errors, "FILE:LINE: COLUMN: ...": DT_ERR_INVALID; DT_ERR_IO, DT_ERR_HOST_MEMORY;
 * DT_ERR_INVALID where nothing was predicted. */
dt_status validate_collectives_predict(const char *path, const char *cluster, const char *const *where, int where_count,
                                       struct validate_collectives *out);
void validate_collectives_finish(struct validate_collectives *collectives); /* takes a zeroed one */

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status validate_collectives_print(const struct validate_collectives *collectives, FILE *to);
dt_status validate_collectives_print_json(const struct validate_collectives *collectives, FILE *to);

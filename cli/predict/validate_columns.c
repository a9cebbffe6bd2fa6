#include "cli/predict/validate_columns.h"

#include "lib/base/text.h"
#include "lib/config/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 3, MISTYPED = 3 };

static const char *const names[MEASURED_COLUMNS][NAMES] = {
    [COLUMN_GPUS] = {"gpus", "# GPUs"},
    [COLUMN_GPUS_PER_NODE] = {"gpus_per_node"},
    [COLUMN_MODEL] = {"model"},
    [COLUMN_STEP_S] = {"step_s"},
    [COLUMN_STEP_MS] = {"step_ms", "iteration time (ms)"},
    [COLUMN_PEAK_MB] = {"peak_mb"},
    [COLUMN_PEAK_GIB] = {"peak_mem_gib"},
    [COLUMN_STATUS] = {"status"},
    [COLUMN_NOTES] = {"notes"},
    [COLUMN_ACTIVATION] = {"activation"},
    [COLUMN_SHARD_SIZE] = {"shard_size", "dp_shard"},
    [COLUMN_PARADIGM] = {"paradigm"},
    [COLUMN_BATCH_PER_REPLICA] = {"batch_per_replica"},
    [COLUMN_STAGES] = {"stages"},
    [COLUMN_CHUNKS] = {"chunks"},
    [COLUMN_FSDP_WRAP] = {"fsdp_wrap"},
    [COLUMN_PARAMETER_OFFLOAD] = {"parameter_offload"},
    [COLUMN_LAYERS] = {"layers", "# layers"},
    [COLUMN_HIDDEN] = {"hidden", "hidden size"},
    [COLUMN_HEADS] = {"heads", "attention heads"},
    [COLUMN_VOCAB] = {"vocab"},
    [COLUMN_SEQUENCE] = {"seq", "sequence length"},
    [COLUMN_DTYPE] = {"dtype"},
    [COLUMN_FFN] = {"ffn"},
    [COLUMN_KV_HEADS] = {"kv_heads"},
    [COLUMN_TIED] = {"tied", "tied_emb"},
    [COLUMN_TENSOR] = {"tp", "tensor parallelism"},
    [COLUMN_PIPELINE] = {"pp", "pipeline parallelism"},
    [COLUMN_DATA] = {"dp", "data parallelism"},
    [COLUMN_CONTEXT] = {"cp"},
    [COLUMN_ZERO] = {"zero/fsdp", "zero"},
    [COLUMN_VIRTUAL_STAGES] = {"vpp"},
    [COLUMN_ORDER] = {"schedule"},
    [COLUMN_MICRO_BATCH] = {"micro_batch", "micro batch"},
    [COLUMN_GLOBAL_BATCH] = {"global_batch", "global batch"},
    [COLUMN_RECOMPUTE] = {"recompute"},
    [COLUMN_SEQUENCE_PARALLEL] = {"seq_parallel"},
};

/* Said for people, or following from others. */
static const char *const for_people[] = {
    "placement_known", "step_s_stdev",         "source_file",         "source", "gpu", "network", "tflops_per_gpu", "grad_acc",
    "mfu_pct",         "tokens_per_s_per_gpu", "Parameters (billion)"};

static const enum measured_column study_needs[] = {COLUMN_PARADIGM, COLUMN_MODEL, COLUMN_GPUS, COLUMN_BATCH_PER_REPLICA};
static const enum measured_column mesh_needs[] = {COLUMN_GPUS,     COLUMN_LAYERS, COLUMN_HIDDEN,      COLUMN_HEADS,
                                                  COLUMN_SEQUENCE, COLUMN_DATA,   COLUMN_MICRO_BATCH, COLUMN_GLOBAL_BATCH};

/* ---- columns ---- */

static bool is_column(enum measured_column column, const char *name)
{
    for (int i = 0; i < NAMES && names[column][i]; i++)
        if (strcmp(names[column][i], name) == 0)
            return true;
    return false;
}

static bool is_for_people(const char *name)
{
    for (size_t i = 0; i < sizeof for_people / sizeof *for_people; i++)
        if (strcmp(for_people[i], name) == 0)
            return true;
    return false;
}

static void find_columns(struct measured_table *t)
{
    for (int c = 0; c < MEASURED_COLUMNS; c++) {
        t->columns[c] = -1;
        for (int i = 0; i < t->csv.column_count && t->columns[c] < 0; i++)
            if (is_column((enum measured_column)c, t->csv.names[i]))
                t->columns[c] = i;
    }
    t->is_study = measured_has(t, COLUMN_PARADIGM);
}

/* The table's name of a column, or the one it would be looked for by. */
static const char *column_name(const struct measured_table *t, enum measured_column column)
{
    return t->columns[column] >= 0 ? t->csv.names[t->columns[column]] : names[column][0];
}

static bool is_known(const char *name)
{
    bool known = is_for_people(name);
    for (int c = 0; c < MEASURED_COLUMNS; c++)
        known |= is_column((enum measured_column)c, name);
    return known;
}

void measured_table_unused(const struct measured_table *t, char *text, size_t text_bytes)
{
    *text = 0;
    size_t used = 0;
    for (int i = 0; i < t->csv.column_count && used + 1 < text_bytes; i++) {
        const char *name = t->csv.names[i], *nearest = NULL;
        if (is_known(name))
            continue;
        for (int c = 0; c < MEASURED_COLUMNS; c++)
            if (t->columns[c] < 0 && (!nearest || dt_edit_distance(name, names[c][0]) < dt_edit_distance(name, nearest)))
                nearest = names[c][0];
        bool near = nearest && dt_edit_distance(name, nearest) <= MISTYPED;
        snprintf(text + used, text_bytes - used, "%s%.64s%s%s%s", used ? ", " : "", name, near ? " (did you mean " : "",
                 near ? nearest : "", near ? "?)" : "");
        used = strlen(text);
    }
}

static dt_status check_columns(const struct measured_table *t)
{
    const enum measured_column *needs = t->is_study ? study_needs : mesh_needs;
    size_t count = t->is_study ? sizeof study_needs / sizeof *study_needs : sizeof mesh_needs / sizeof *mesh_needs;
    char unused[512];
    measured_table_unused(t, unused, sizeof unused);
    for (size_t i = 0; i < count; i++)
        if (!measured_has(t, needs[i]))
            return dt_fail(DT_ERR_INVALID, "%s:1: there is no column %s%s%s", t->path, names[needs[i]][0], *unused ? "; not used: " : "",
                           unused);
    return t->csv.row_count ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: no rows", t->path);
}

dt_status measured_table_read(const char *path, struct measured_table *out)
{
    char *text;
    size_t length;
    *out = (struct measured_table){.path = path};
    DT_TRY(dt_read_file(path, &text, &length));
    dt_status status = dt_csv_parse(text, length, path, &out->csv);
    free(text);
    DT_TRY(status);
    find_columns(out);
    return check_columns(out);
}

void measured_table_finish(struct measured_table *t)
{
    dt_csv_finish(&t->csv);
}

/* ---- fields ---- */

bool measured_has(const struct measured_table *t, enum measured_column column)
{
    return t->columns[column] >= 0;
}

const char *measured_text(const struct measured_table *t, int row, enum measured_column column)
{
    return dt_csv_field(&t->csv, row, t->columns[column]);
}

dt_status measured_wrong(const struct measured_table *t, int row, enum measured_column column, const char *expected)
{
    return dt_fail(DT_ERR_INVALID, "%s:%d: %s: \"%.64s\" is not %s", t->path, t->csv.lines[row], column_name(t, column),
                   measured_text(t, row, column), expected);
}

dt_status measured_count(const struct measured_table *t, int row, enum measured_column column, int missing, int *out)
{
    const char *text = measured_text(t, row, column);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!*text && missing) {
        *out = missing;
        return DT_OK;
    }
    if (!*text || *end || errno || value < 1 || value > 1 << 24)
        return measured_wrong(t, row, column, "a whole number from 1");
    *out = (int)value;
    return DT_OK;
}

dt_status measured_amount(const struct measured_table *t, int row, enum measured_column column, double *out)
{
    const char *text = measured_text(t, row, column);
    char *end;
    double value = strtod(text, &end);
    *out = NAN;
    if (!*text)
        return DT_OK;
    if (*end || !isfinite(value) || value <= 0)
        return measured_wrong(t, row, column, "a number above 0");
    *out = value;
    return DT_OK;
}

dt_status measured_choice(const struct measured_table *t, int row, enum measured_column column, const char *choices, int *out)
{
    const char *text = measured_text(t, row, column);
    size_t length = strlen(text);
    char expected[160];
    *out = 0;
    for (const char *name = choices; *text; name += strcspn(name, ",") + 1, ++*out) {
        size_t name_length = strcspn(name, ",");
        if (name_length == length && memcmp(name, text, length) == 0)
            return DT_OK;
        if (!name[name_length]) {
            snprintf(expected, sizeof expected, "one of %s", choices);
            return measured_wrong(t, row, column, expected);
        }
    }
    *out = -1;
    return DT_OK;
}

/* Measured runs, as a file tells them, become experiments of the device sim. */
#include "cli/predict/validate.h"

#include "lib/base/csv.h"
#include "lib/base/edit_distance.h"
#include "lib/config/json.h"
#include "schedules/config/families.h"
#include "schedules/config/parse.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum column {
    PARADIGM,
    MODEL,
    GPUS,
    BATCH_PER_REPLICA, /* these must be there */
    GPUS_PER_NODE,
    STAGES,
    CHUNKS,
    ACTIVATION,
    FSDP_WRAP,
    PARAMETER_OFFLOAD,
    STEP_S,
    PEAK_MB,
    PLACEMENT_KNOWN,
    STEP_S_STDEV,
    SOURCE_FILE, /* said for people: not used */
    COLUMNS
};
enum { REQUIRED_COLUMNS = 4 };

static const char *const column_names[COLUMNS] = {
    [PARADIGM] = "paradigm",
    [MODEL] = "model",
    [GPUS] = "gpus",
    [BATCH_PER_REPLICA] = "batch_per_replica",
    [GPUS_PER_NODE] = "gpus_per_node",
    [STAGES] = "stages",
    [CHUNKS] = "chunks",
    [ACTIVATION] = "activation",
    [FSDP_WRAP] = "fsdp_wrap",
    [PARAMETER_OFFLOAD] = "parameter_offload",
    [STEP_S] = "step_s",
    [PEAK_MB] = "peak_mb",
    [PLACEMENT_KNOWN] = "placement_known",
    [STEP_S_STDEV] = "step_s_stdev",
    [SOURCE_FILE] = "source_file",
};

struct reader {
    const char *path;
    const struct validate_system *system;
    struct dt_csv csv;
    int columns[COLUMNS]; /* where each stands in the file; -1: it does not */
};

/* ---- columns ---- */

static dt_status find_columns(struct reader *r)
{
    for (int c = 0; c < COLUMNS; c++)
        r->columns[c] = dt_csv_column(&r->csv, column_names[c]);
    for (int i = 0; i < r->csv.column_count; i++) {
        const char *name = r->csv.names[i], *nearest = NULL;
        int known = 0;
        for (; known < COLUMNS && strcmp(name, column_names[known]) != 0; known++)
            if (!nearest || dt_edit_distance(name, column_names[known]) < dt_edit_distance(name, nearest))
                nearest = column_names[known];
        if (known == COLUMNS)
            return dt_fail(DT_ERR_INVALID, "%s:1: unknown column %.64s; did you mean %s?", r->path, name, nearest);
    }
    for (int c = 0; c < REQUIRED_COLUMNS; c++)
        if (r->columns[c] < 0)
            return dt_fail(DT_ERR_INVALID, "%s:1: there is no column %s", r->path, column_names[c]);
    return DT_OK;
}

static const char *text_of(const struct reader *r, int row, enum column column)
{
    return dt_csv_field(&r->csv, row, r->columns[column]);
}

static dt_status wrong(const struct reader *r, int row, enum column column, const char *expected)
{
    return dt_fail(DT_ERR_INVALID, "%s:%d: %s: \"%.64s\" is not %s", r->path, r->csv.lines[row], column_names[column],
                   text_of(r, row, column), expected);
}

/* A count of at least 1; `missing` where the field is empty, 0 for none that may be. */
static dt_status count_of(const struct reader *r, int row, enum column column, int missing, int *out)
{
    const char *text = text_of(r, row, column);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!*text && missing) {
        *out = missing;
        return DT_OK;
    }
    if (!*text || *end || errno || value < 1 || value > 1 << 24)
        return wrong(r, row, column, "a whole number from 1");
    *out = (int)value;
    return DT_OK;
}

static dt_status amount_of(const struct reader *r, int row, enum column column, double *out)
{
    const char *text = text_of(r, row, column);
    char *end;
    double value = strtod(text, &end);
    *out = NAN;
    if (!*text)
        return DT_OK;
    if (*end || !isfinite(value) || value <= 0)
        return wrong(r, row, column, "a number above 0");
    *out = value;
    return DT_OK;
}

/* The field's place among `names`, which a comma divides; -1 where it is empty. */
static dt_status choice_of(const struct reader *r, int row, enum column column, const char *names, int *out)
{
    const char *text = text_of(r, row, column);
    size_t length = strlen(text);
    char expected[160];
    *out = 0;
    for (const char *name = names; *text; name += strcspn(name, ",") + 1, ++*out) {
        size_t name_length = strcspn(name, ",");
        if (name_length == length && memcmp(name, text, length) == 0)
            return DT_OK;
        if (!name[name_length]) {
            snprintf(expected, sizeof expected, "one of %s", names);
            return wrong(r, row, column, expected);
        }
    }
    *out = -1;
    return DT_OK;
}

/* One of those that the study has measured. */
static dt_status measured_paradigm(const struct reader *r, int row, enum paradigm_kind *out)
{
    static const enum paradigm_kind measured[] = {PARADIGM_NONE, PARADIGM_DDP, PARADIGM_PDP, PARADIGM_FSDP};
    char expected[160] = "one of ";
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const char *name = paradigm_name(measured[i]);
        size_t used = strlen(expected);
        *out = measured[i];
        if (strcmp(text_of(r, row, PARADIGM), name) == 0)
            return DT_OK;
        snprintf(expected + used, sizeof expected - used, "%s%s", i ? "," : "", name);
    }
    return wrong(r, row, PARADIGM, expected);
}

static dt_status model_of(const struct reader *r, int row, const struct dt_model_preset **out, const struct dt_model_family **family)
{
    const char *text = text_of(r, row, MODEL), *nearest = model_preset(0, family)->name;
    for (int i = 0; (*out = model_preset(i, family)); i++) {
        if (strcmp((*out)->name, text) == 0)
            return DT_OK;
        if (dt_edit_distance(text, (*out)->name) < dt_edit_distance(text, nearest))
            nearest = (*out)->name;
    }
    return dt_fail(DT_ERR_INVALID, "%s:%d: model: there is no %.64s; did you mean %s?", r->path, r->csv.lines[row], text, nearest);
}

/* ---- one row ---- */

struct run {
    enum paradigm_kind paradigm;
    int gpus, batch, gpus_per_node, stages, chunks, activation, wrap, offload;
    const struct dt_model_preset *model;
    const struct dt_model_family *family;
};

static bool has_stages(const struct run *run)
{
    return paradigm_of(run->paradigm)->axes & MESH_ON_PIPELINE;
}

/* The files do not say whether parameters were offloaded, but the memory does: what a rank shares of parameters and gradients is always
 * there unless it lives on the host. */
static bool parameters_offloaded(const struct run *run, double peak_bytes)
{
    enum { FP16_PARAMETER_AND_GRADIENT_BYTES = 4 };
    struct dt_model model = model_of_preset(run->model, run->family);
    if (run->offload >= 0)
        return run->offload == 1;
    return paradigm_of(run->paradigm)->mode == DP_FSDP &&
           peak_bytes < FP16_PARAMETER_AND_GRADIENT_BYTES * (double)dt_model_parameter_count(&model) / run->gpus;
}

/* The study's workload with what the row says. Owner: the caller, free. */
static char *config_text(const struct reader *r, const struct run *run, double peak_bytes)
{
    static const char *const policies[] = {"keep", "checkpoint", "offload"};
    cJSON *config = cJSON_CreateObject(), *part;
    char *text = NULL;
    cJSON_AddStringToObject(config, "name", "measured");
    cJSON_AddStringToObject(config, "device", "sim");
    cJSON_AddStringToObject(config, "cluster", r->system->cluster);
    cJSON_AddStringToObject(config, "profile", r->system->profile);
    cJSON_AddNumberToObject(config, "world_size", run->gpus);
    if (run->gpus_per_node)
        cJSON_AddNumberToObject(config, "gpus_per_node", run->gpus_per_node);
    cJSON_AddStringToObject(config, "paradigm", paradigm_name(run->paradigm));
    cJSON_AddNumberToObject(config, "batch_size", run->batch / run->stages);
    cJSON_AddStringToObject(config, "loss", "sum");
    cJSON_AddStringToObject(config, "activation", policies[run->activation]);
    part = cJSON_AddObjectToObject(config, "model");
    cJSON_AddStringToObject(part, "preset", run->model->name);
    cJSON_AddStringToObject(part, "dtype", "fp16");
    cJSON_AddStringToObject(part, "attention", "unfused");
    if (has_stages(run)) {
        part = cJSON_AddObjectToObject(config, "pipeline");
        cJSON_AddNumberToObject(part, "stages", run->stages);
        cJSON_AddNumberToObject(part, "chunks", run->chunks);
    }
    if (run->wrap == 0 || run->wrap == 1)
        cJSON_AddStringToObject(cJSON_AddObjectToObject(config, "fsdp"), "unit", run->wrap ? "linear" : "block");
    if (parameters_offloaded(run, peak_bytes))
        cJSON_AddTrueToObject(config, "parameter_offload");
    if (dt_json_print(config, DT_JSON_COMPACT, &text) < 0)
        text = NULL;
    cJSON_Delete(config);
    return text;
}

/* The row as an experiment; what this version's configs refuse is skipped, not an error. */
static dt_status make_experiment(const struct reader *r, const struct run *run, struct validate_row *row)
{
    char where[512];
    struct experiment *experiments;
    int count;
    snprintf(where, sizeof where, "%.400s:%d", r->path, row->line);
    if (run->batch % run->stages) {
        row->outcome = VALIDATE_SKIPPED;
        snprintf(row->reason, sizeof row->reason, "batch_per_replica %d is no multiple of %d stages", run->batch, run->stages);
        return DT_OK;
    }
    char *text = config_text(r, run, row->measured_bytes);
    if (!text)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: no memory for its experiment", where);
    dt_status status = experiments_parse(text, strlen(text), where, r->system->sets, r->system->set_count, &experiments, &count);
    free(text);
    if (status == DT_ERR_INVALID) {
        row->outcome = VALIDATE_SKIPPED;
        snprintf(row->reason, sizeof row->reason, "%.255s", dt_error_message());
        return DT_OK;
    }
    DT_TRY(status);
    row->experiment = experiments[0];
    free(experiments);
    return count == 1 ? DT_OK : dt_fail(DT_ERR_INVALID, "--set: a row is one experiment, and this makes %d of it", count);
}

static dt_status read_row(const struct reader *r, int i, struct validate_row *row)
{
    struct run run = {0};
    double peak_mb;
    DT_TRY(measured_paradigm(r, i, &run.paradigm));
    DT_TRY(model_of(r, i, &run.model, &run.family));
    DT_TRY(count_of(r, i, GPUS, 0, &run.gpus));
    DT_TRY(count_of(r, i, BATCH_PER_REPLICA, 0, &run.batch));
    if (*text_of(r, i, GPUS_PER_NODE))
        DT_TRY(count_of(r, i, GPUS_PER_NODE, 1, &run.gpus_per_node));
    DT_TRY(count_of(r, i, STAGES, 1, &run.stages));
    DT_TRY(count_of(r, i, CHUNKS, 1, &run.chunks));
    DT_TRY(choice_of(r, i, ACTIVATION, "keep,checkpoint,offload", &run.activation));
    run.activation = run.activation < 0 ? 0 : run.activation;
    DT_TRY(choice_of(r, i, FSDP_WRAP, "block,linear,unknown", &run.wrap));
    DT_TRY(choice_of(r, i, PARAMETER_OFFLOAD, "0,1", &run.offload));
    DT_TRY(amount_of(r, i, STEP_S, &row->measured_s));
    DT_TRY(amount_of(r, i, PEAK_MB, &peak_mb));
    if (run.stages > 1 && !has_stages(&run))
        return dt_fail(DT_ERR_INVALID, "%s:%d: stages: %d, and only pdp has any", r->path, r->csv.lines[i], run.stages);
    if (run.gpus_per_node > run.gpus)
        return dt_fail(DT_ERR_INVALID, "%s:%d: gpus_per_node: %d of %d gpus", r->path, r->csv.lines[i], run.gpus_per_node, run.gpus);

    row->line = r->csv.lines[i];
    row->measured_bytes = peak_mb * 1e6;
    row->predicted_s = row->predicted_bytes = NAN;
    row->batch_per_gpu = (double)run.batch / run.stages;
    row->gpus_per_node = run.gpus_per_node;
    snprintf(row->model, sizeof row->model, "%s", run.model->name);
    row->experiment.paradigm = run.paradigm;
    row->experiment.world_size = run.gpus;
    row->experiment.activation = (enum activation_kind)run.activation;
    return make_experiment(r, &run, row);
}

dt_status validate_rows_read(const char *path, const struct validate_system *system, struct validate_rows *out)
{
    struct reader r = {.path = path, .system = system};
    char *text;
    size_t length;
    *out = (struct validate_rows){0};
    DT_TRY(dt_read_file(path, &text, &length));
    dt_status status = dt_csv_parse(text, length, path, &r.csv);
    free(text);
    if (status == DT_OK)
        status = find_columns(&r);
    if (status == DT_OK && r.csv.row_count == 0)
        status = dt_fail(DT_ERR_INVALID, "%s: no rows", path);
    if (status == DT_OK) {
        out->rows = calloc((size_t)r.csv.row_count, sizeof *out->rows);
        out->count = r.csv.row_count;
        if (!out->rows)
            status = dt_fail(DT_ERR_HOST_MEMORY, "%s: no memory for %d rows", path, r.csv.row_count);
    }
    for (int i = 0; status == DT_OK && i < r.csv.row_count; i++)
        status = read_row(&r, i, &out->rows[i]);
    dt_csv_finish(&r.csv);
    return status;
}

void validate_rows_finish(struct validate_rows *rows)
{
    free(rows->rows);
    *rows = (struct validate_rows){0};
}

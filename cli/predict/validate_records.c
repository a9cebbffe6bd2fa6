/* Records of dtbench as measured runs: a record's config says what was run, and the cluster and profile to predict it with come from outside. */
#include "cli/predict/validate_run.h"
#include "cli/records/record_set.h"
#include "cli/text/line.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool validate_is_records(const char *path)
{
    struct stat facts;
    if (strcmp(path, "-") == 0 || stat(path, &facts) < 0)
        return false;
    FILE *file = S_ISREG(facts.st_mode) ? fopen(path, "r") : NULL;
    if (!file)
        return S_ISDIR(facts.st_mode);
    int first = fgetc(file);
    while (isspace(first))
        first = fgetc(file);
    fclose(file);
    return first == '{';
}

/* The record's config on device sim. Owner of the text: the caller, free; NULL: no memory. */
static char *simulated_text(const struct record_facts *record, const struct validate_system *system)
{
    const struct {
        const char *key, *value;
    } changes[] = {{"device", "sim"}, {"cluster", system->cluster}, {"profile", system->profile}};
    char *text = NULL;
    cJSON *config = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(record->json, "config"), true);
    bool complete = config != NULL;
    for (size_t i = 0; complete && i < sizeof changes / sizeof *changes; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, changes[i].key);
        complete = cJSON_AddStringToObject(config, changes[i].key, changes[i].value) != NULL;
    }
    if (complete && dt_json_print(config, DT_JSON_COMPACT, &text) < 0)
        text = NULL;
    cJSON_Delete(config);
    return text;
}

/* What of a record is no measured run: its reason; "" where it is one. Memory that did not suffice is a result. */
static void reason_to_skip(const struct record_facts *record, char *text, size_t text_bytes)
{
    *text = '\0';
    if (experiment_is_simulated(record->experiment))
        snprintf(text, text_bytes, "the record is a prediction itself (device sim)");
    else if (!record_is_ok(record) && strcmp(record->status, "oom") != 0)
        snprintf(text, text_bytes, "the record's status is \"%.32s\"", record->status);
}

static dt_status read_row(const struct record_facts *record, const struct validate_system *system, int number, struct validate_row *row)
{
    char where[512], reason[128];
    const struct experiment *e = record->experiment;
    bool ok = record_is_ok(record);
    *row = (struct validate_row){.line = number,
                                 .experiment = *e,
                                 .stages = e->strategy.stages,
                                 .tensor = e->tensor.size,
                                 .measured_s = ok ? record->metrics.step_s.median : NAN,
                                 .measured_bytes = ok ? record->metrics.peak_bytes.total : NAN,
                                 .measured_fit = ok ? VALIDATE_FIT : VALIDATE_FIT_NOT,
                                 .predicted_s = NAN,
                                 .predicted_bytes = NAN,
                                 .batch_per_gpu = e->batch_size};
    snprintf(row->recorded_hash, sizeof row->recorded_hash, "%.16s", record->hash);
    if (*e->model.preset)
        snprintf(row->model, sizeof row->model, "%.31s", e->model.preset);
    else
        snprintf(row->model, sizeof row->model, "%d x %d", e->model.layers, e->model.hidden);
    reason_to_skip(record, reason, sizeof reason);
    if (*reason) {
        validate_row_skip(row, reason);
        return DT_OK;
    }
    char *text = simulated_text(record, system);
    if (!text)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the config of a record");
    snprintf(where, sizeof where, "%.400s: record %d", record->file, number);
    dt_status status = validate_row_experiment(text, where, system, row);
    free(text);
    return status;
}

static dt_status read_rows(const struct record_set *set, const char *path, const struct validate_system *system, struct validate_rows *out)
{
    out->rows = calloc((size_t)set->count + 1, sizeof *out->rows);
    if (!out->rows)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: no memory for %d records", path, set->count);
    for (int i = 0; i < set->count; i++)
        if (set->records[i].experiment)
            DT_TRY(read_row(&set->records[i], system, i + 1, &out->rows[out->count++]));
    if (out->count < set->count)
        line_print(stderr, "dtbench validate: %s: %d of %d records left out: this version does not know their configs", path,
                   set->count - out->count, set->count);
    return out->count ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: no records", path);
}

dt_status validate_records_read(const char *path, const struct validate_system *system, struct validate_rows *out)
{
    struct record_set set = {0};
    if (!system->cluster || !system->profile)
        return dt_fail(DT_ERR_INVALID,
                       "%s has records: expected --cluster FILE and --profile FILE, which they are predicted with; dtbench calibrate "
                       "writes those of this machine",
                       path);
    if (system->where_count > 0)
        return dt_fail(DT_ERR_INVALID, "--where %.64s: conditions are on the columns of a table, and %s has records", system->where[0],
                       path);
    dt_status status = record_set_read(&set, "validate", &path, 1);
    if (status == DT_OK)
        status = read_rows(&set, path, system, out);
    record_set_finish(&set);
    return status;
}

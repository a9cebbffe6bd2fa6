/* What validate found, as JSON. */
#include "cli/predict/validate.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

static const char *const outcomes[] = {[VALIDATE_PREDICTED] = "ok", [VALIDATE_OUT_OF_MEMORY] = "oom", [VALIDATE_SKIPPED] = "skipped"};

static void add_amount(cJSON *object, const char *key, double amount)
{
    if (isfinite(amount))
        cJSON_AddNumberToObject(object, key, amount);
    else
        cJSON_AddNullToObject(object, key);
}

static void add_error(cJSON *object, const char *key, const struct validate_error *error)
{
    cJSON *part = cJSON_AddObjectToObject(object, key);
    cJSON_AddNumberToObject(part, "rows", error->rows);
    add_amount(part, "median", error->median);
    add_amount(part, "p90", error->p90);
    add_amount(part, "bias", error->bias);
}

static void add_groups(cJSON *top, const struct validate_summary *summary)
{
    cJSON *groups = cJSON_AddArrayToObject(top, "groups");
    for (int g = 0; g < summary->group_count; g++) {
        const struct validate_group *group = &summary->groups[g];
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToArray(groups, object);
        cJSON_AddStringToObject(object, "key", group->key);
        cJSON_AddStringToObject(object, "value", group->value);
        cJSON_AddNumberToObject(object, "rows", group->rows);
        cJSON_AddNumberToObject(object, "out_of_memory", group->out_of_memory);
        cJSON_AddNumberToObject(object, "skipped", group->skipped);
        add_error(object, "step_time", &group->time);
        add_error(object, "peak_memory", &group->memory);
    }
}

static void add_winners(cJSON *top, const struct validate_winners *w)
{
    cJSON *object = cJSON_AddObjectToObject(top, "fastest_paradigm");
    cJSON_AddNumberToObject(object, "cells", w->cells);
    cJSON_AddNumberToObject(object, "right", w->right);
    cJSON_AddNumberToObject(object, "clear_margin", VALIDATE_CLEAR);
    cJSON_AddNumberToObject(object, "clear_cells", w->clear_cells);
    cJSON_AddNumberToObject(object, "clear_right", w->clear_right);
}

static void add_rows(cJSON *top, const struct validate_rows *rows)
{
    cJSON *array = cJSON_AddArrayToObject(top, "rows");
    for (int i = 0; i < rows->count; i++) {
        const struct validate_row *row = &rows->rows[i];
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToArray(array, object);
        cJSON_AddNumberToObject(object, "line", row->line);
        cJSON_AddStringToObject(object, "paradigm", paradigm_name(row->experiment.paradigm));
        cJSON_AddStringToObject(object, "model", row->model);
        cJSON_AddNumberToObject(object, "gpus", row->experiment.world_size);
        cJSON_AddNumberToObject(object, "batch_per_gpu", row->batch_per_gpu);
        cJSON_AddStringToObject(object, "status", outcomes[row->outcome]);
        if (row->outcome == VALIDATE_SKIPPED)
            cJSON_AddStringToObject(object, "reason", row->reason);
        add_amount(object, "measured_step_s", row->measured_s);
        add_amount(object, "predicted_step_s", row->predicted_s);
        add_amount(object, "measured_peak_bytes", row->measured_bytes);
        add_amount(object, "predicted_peak_bytes", row->predicted_bytes);
    }
}

dt_status validate_print_json(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to)
{
    cJSON *top = cJSON_CreateObject();
    char *text;
    add_groups(top, summary);
    add_winners(top, &summary->winners);
    add_rows(top, rows);
    dt_status status = top ? dt_json_print(top, DT_JSON_INDENT, &text) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for JSON");
    cJSON_Delete(top);
    DT_TRY(status);
    fprintf(to, "%s\n", text);
    free(text);
    return DT_OK;
}

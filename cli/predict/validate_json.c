/* What validate found, as JSON. */
#include "cli/predict/validate.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

static const char *const outcomes[] = {
    [VALIDATE_PREDICTED] = "ok", [VALIDATE_OUT_OF_MEMORY] = "oom", [VALIDATE_REFUSED] = "refused", [VALIDATE_SKIPPED] = "skipped"};

/* Every function returns false when there is no memory. */

static bool add_amount(cJSON *object, const char *key, double amount)
{
    if (!isfinite(amount))
        return cJSON_AddNullToObject(object, key) != NULL;
    return cJSON_AddNumberToObject(object, key, amount) != NULL;
}

/* A new object at the end of `array`; NULL when there is no memory. */
static cJSON *add_object(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    if (cJSON_AddItemToArray(array, object))
        return object;
    cJSON_Delete(object);
    return NULL;
}

static bool add_error(cJSON *object, const char *key, const struct validate_error *error)
{
    cJSON *part = cJSON_AddObjectToObject(object, key);
    return part && cJSON_AddNumberToObject(part, "rows", error->rows) && add_amount(part, "median", error->median) &&
           add_amount(part, "p90", error->p90) && add_amount(part, "bias", error->bias);
}

static bool add_group(cJSON *array, const struct validate_group *group)
{
    cJSON *object = add_object(array);
    return object && cJSON_AddStringToObject(object, "key", group->key) && cJSON_AddStringToObject(object, "value", group->value) &&
           cJSON_AddNumberToObject(object, "rows", group->rows) && cJSON_AddNumberToObject(object, "out_of_memory", group->out_of_memory) &&
           cJSON_AddNumberToObject(object, "skipped", group->skipped) && add_error(object, "step_time", &group->time) &&
           add_error(object, "peak_memory", &group->memory);
}

static bool add_winners(cJSON *top, const struct validate_winners *w)
{
    cJSON *object = cJSON_AddObjectToObject(top, "fastest_paradigm");
    return object && cJSON_AddNumberToObject(object, "cells", w->cells) && cJSON_AddNumberToObject(object, "right", w->right) &&
           cJSON_AddNumberToObject(object, "clear_margin", VALIDATE_CLEAR) &&
           cJSON_AddNumberToObject(object, "clear_cells", w->clear_cells) && cJSON_AddNumberToObject(object, "clear_right", w->clear_right);
}

static bool add_choices(cJSON *top, const struct validate_choices *c)
{
    cJSON *object = cJSON_AddObjectToObject(top, "fastest_configuration");
    return object && cJSON_AddNumberToObject(object, "cells", c->cells) && cJSON_AddNumberToObject(object, "right", c->right) &&
           cJSON_AddNumberToObject(object, "near", VALIDATE_NEAR);
}

static bool add_fits(cJSON *top, const struct validate_fits *f)
{
    cJSON *object = cJSON_AddObjectToObject(top, "memory_suffices");
    return object && cJSON_AddNumberToObject(object, "measured_yes_predicted_yes", f->rows[0][0]) &&
           cJSON_AddNumberToObject(object, "measured_yes_predicted_no", f->rows[0][1]) &&
           cJSON_AddNumberToObject(object, "measured_no_predicted_yes", f->rows[1][0]) &&
           cJSON_AddNumberToObject(object, "measured_no_predicted_no", f->rows[1][1]);
}

static bool add_row(cJSON *array, const struct validate_row *row, bool is_record)
{
    cJSON *object = add_object(array);
    bool complete = object && cJSON_AddNumberToObject(object, is_record ? "record" : "line", row->line) &&
                    cJSON_AddStringToObject(object, "paradigm", paradigm_name(row->experiment.paradigm)) &&
                    cJSON_AddStringToObject(object, "model", row->model) &&
                    cJSON_AddNumberToObject(object, "gpus", row->experiment.world_size) &&
                    cJSON_AddNumberToObject(object, "batch_per_gpu", row->batch_per_gpu) &&
                    cJSON_AddStringToObject(object, "status", outcomes[row->outcome]);
    if (complete && is_record)
        complete = cJSON_AddStringToObject(object, "config_hash", row->recorded_hash) != NULL;
    if (complete && (row->outcome == VALIDATE_SKIPPED || row->outcome == VALIDATE_REFUSED))
        complete = cJSON_AddStringToObject(object, "reason", row->reason) != NULL;
    return complete && add_amount(object, "measured_step_s", row->measured_s) && add_amount(object, "predicted_step_s", row->predicted_s) &&
           add_amount(object, "measured_peak_bytes", row->measured_bytes) &&
           add_amount(object, "predicted_peak_bytes", row->predicted_bytes);
}

static bool add_all(cJSON *top, const struct validate_rows *rows, const struct validate_summary *summary)
{
    cJSON *groups = cJSON_AddArrayToObject(top, "groups");
    bool complete = groups != NULL;
    for (int g = 0; complete && g < summary->group_count; g++)
        complete = add_group(groups, &summary->groups[g]);
    complete = complete && add_winners(top, &summary->winners) && add_choices(top, &summary->choices) && add_fits(top, &summary->fits) &&
               cJSON_AddStringToObject(top, "columns_not_used", rows->unused);
    cJSON *array = complete ? cJSON_AddArrayToObject(top, "rows") : NULL;
    complete = array != NULL;
    for (int i = 0; complete && i < rows->count; i++)
        complete = add_row(array, &rows->rows[i], rows->records);
    return complete;
}

dt_status validate_print_json(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to)
{
    cJSON *top = cJSON_CreateObject();
    char *text;
    dt_status status =
        add_all(top, rows, summary) ? dt_json_print(top, DT_JSON_INDENT, &text) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for JSON");
    cJSON_Delete(top);
    DT_TRY(status);
    fprintf(to, "%s\n", text);
    free(text);
    return DT_OK;
}

/* A sweep's progress as JSON. */
#include "cli/records/sweep_status.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

static bool add_text(cJSON *object, const char *key, const char *text)
{
    return text && *text ? cJSON_AddStringToObject(object, key, text) : cJSON_AddNullToObject(object, key);
}

static const char *hash_of(const struct experiment *experiment)
{
    return experiment ? experiment->hash : NULL;
}

static bool add_item(cJSON *array, const struct sweep_item *item, int index)
{
    const struct record_facts *record = item->record;
    cJSON *object = cJSON_CreateObject();
    if (!object)
        return false;
    cJSON_AddItemToArray(array, object);
    return cJSON_AddNumberToObject(object, "index", index) && add_text(object, "experiment", item->label) &&
           add_text(object, "config_hash", record ? record->hash : hash_of(item->experiment)) &&
           add_text(object, "state", sweep_state_name(item->state)) && add_text(object, "status", record ? record->status : NULL) &&
           add_text(object, "error", record ? record->error : NULL) && add_text(object, "file", record ? record->file : NULL) &&
           cJSON_AddNumberToObject(object, "took_s", item->took_s) && cJSON_AddNumberToObject(object, "expected_s", item->expected_s);
}

static bool add_sweep(cJSON *array, const struct sweep_status *sweep)
{
    cJSON *object = cJSON_CreateObject();
    if (!object)
        return false;
    cJSON_AddItemToArray(array, object);
    bool done = add_text(object, "id", sweep->id) && add_text(object, "name", sweep->name) &&
                cJSON_AddNumberToObject(object, "experiments", sweep->count);
    for (int s = 0; done && s < STATE_COUNT; s++)
        done = cJSON_AddNumberToObject(object, sweep_state_name((enum sweep_state)s), sweep->counts[s]);
    done = done && cJSON_AddNumberToObject(object, "time_left_s", sweep->left_s) &&
           cJSON_AddNumberToObject(object, "time_of_failed_s", sweep->failed_s);
    cJSON *items = done ? cJSON_AddArrayToObject(object, "items") : NULL;
    for (int i = 0; items && i < sweep->count; i++)
        if (!add_item(items, &sweep->items[i], i))
            return false;
    return items;
}

dt_status sweep_statuses_print_json(const struct sweep_statuses *statuses, FILE *to)
{
    cJSON *root = cJSON_CreateObject(), *sweeps = root ? cJSON_AddArrayToObject(root, "sweeps") : NULL;
    char *text = NULL;
    bool done = sweeps && cJSON_AddNumberToObject(root, "other_records", statuses->others);
    for (int s = 0; done && s < statuses->count; s++)
        done = add_sweep(sweeps, &statuses->sweeps[s]);
    dt_status status = done ? dt_json_print(root, DT_JSON_INDENT, &text) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the status as JSON");
    cJSON_Delete(root);
    DT_TRY(status);
    fprintf(to, "%s\n", text);
    free(text);
    return DT_OK;
}

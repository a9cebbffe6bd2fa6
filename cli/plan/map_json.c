#include "cli/plan/map_json.h"

#include "cli/plan/planner_json.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a map's JSON");
}

cJSON *map_json_create(void)
{
    return cJSON_CreateArray();
}

void map_json_destroy(cJSON *array)
{
    cJSON_Delete(array);
}

dt_status map_add_json(cJSON *array, const struct map_box *box, const struct planner *p, const struct planner_reasons *reasons)
{
    cJSON *object = cJSON_CreateObject(), *plan;
    if (!cJSON_AddItemToArray(array, object))
        return no_memory();
    bool named =
        (box->model ? cJSON_AddStringToObject(object, "model", box->model) : cJSON_AddNullToObject(object, "model")) &&
        (box->batch ? cJSON_AddNumberToObject(object, "global_batch", atoi(box->batch)) : cJSON_AddNullToObject(object, "global_batch"));
    if (!named)
        return no_memory();
    DT_TRY(planner_to_json(p, reasons, NULL, &plan));
    return cJSON_AddItemToObject(object, "plan", plan) ? DT_OK : no_memory();
}

dt_status map_print_json(cJSON *array, FILE *to)
{
    cJSON *top = cJSON_CreateObject();
    char *text = NULL;
    dt_status status = DT_OK;
    if (!top || !cJSON_AddItemToObject(top, "boxes", array)) {
        cJSON_Delete(array);
        status = no_memory();
    }
    if (status == DT_OK)
        status = dt_json_print(top, DT_JSON_INDENT, &text);
    if (status == DT_OK)
        fprintf(to, "%s\n", text);
    free(text);
    cJSON_Delete(top);
    return status;
}

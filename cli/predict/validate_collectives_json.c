/* What validate found of collectives that were timed alone, as JSON. */
#include "cli/predict/validate_collectives.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

/* False when there is no memory. */
static bool add_row(cJSON *array, const struct validate_collective *row)
{
    cJSON *object = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(array, object)) {
        cJSON_Delete(object);
        return false;
    }
    bool complete = cJSON_AddNumberToObject(object, "line", row->line) &&
                    cJSON_AddStringToObject(object, "collective", dt_sim_collective_name(row->kind)) &&
                    cJSON_AddNumberToObject(object, "bytes", row->bytes) && cJSON_AddNumberToObject(object, "nodes", row->nodes) &&
                    cJSON_AddNumberToObject(object, "gpus", row->gpus) &&
                    cJSON_AddNumberToObject(object, "measured_gb_per_s", row->measured);
    if (row->skipped)
        return complete && cJSON_AddStringToObject(object, "skipped", row->reason);
    return complete && cJSON_AddNumberToObject(object, "predicted_gb_per_s", row->predicted);
}

static bool add_summary(cJSON *top, int kind, const struct validate_collectives_summary *s)
{
    cJSON *object = s->rows ? cJSON_AddObjectToObject(top, validate_collectives_summary_name(kind)) : NULL;
    return !s->rows ||
           (object && cJSON_AddNumberToObject(object, "rows", s->rows) && cJSON_AddNumberToObject(object, "median", s->median) &&
            cJSON_AddNumberToObject(object, "p90", s->p90) && cJSON_AddNumberToObject(object, "bias", s->bias));
}

dt_status validate_collectives_print_json(const struct validate_collectives *c, FILE *to)
{
    cJSON *top = cJSON_CreateObject(), *bus = cJSON_AddObjectToObject(top, "bus_bandwidth"), *rows = cJSON_AddArrayToObject(top, "rows");
    bool complete = bus && rows;
    char *text = NULL;
    dt_status status = DT_OK;
    for (int kind = 0; kind < VALIDATE_COLLECTIVES_SUMMARIES && status == DT_OK; kind++) {
        struct validate_collectives_summary s;
        status = validate_collectives_summarize(c, kind, &s);
        complete = complete && status == DT_OK && add_summary(bus, kind, &s);
    }
    for (int i = 0; i < c->count; i++)
        complete = complete && add_row(rows, &c->rows[i]);
    if (status == DT_OK)
        status = complete ? dt_json_print(top, DT_JSON_INDENT, &text) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the JSON");
    if (status == DT_OK)
        fprintf(to, "%s\n", text);
    free(text);
    cJSON_Delete(top);
    return status;
}
